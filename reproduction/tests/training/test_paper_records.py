"""Records in one file per table and scale: one a line, common parts once, safe for several processes."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import permutations
from pathlib import Path

import pytest

from rockafellian_reproduction.training.records import add_record, read_records, record_file, write_records

SCRIPT = """
import sys
from pathlib import Path
from rockafellian_reproduction.training.records import add_record
number, path = int(sys.argv[1]), Path(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for seed in range(int(sys.argv[3])):
    cell = {"method": f"{number:02}", "contamination": 0.1}
    add_record(path, {"cell": cell, "seed": seed, "settings": f"{number:08x}", "results": {"x": [0.5] * 200}})
"""


def made(cell: dict[str, object], seed: int, **more: object) -> dict[str, object]:
    settings = json.dumps(cell)
    return {
        "table": 3,
        "scale": "paper",
        "date": "2026-11-16",
        "cell": cell,
        "seed": seed,
        "settings": settings,
        **more,
    }


ONE = made({"loss": "cce", "contamination": 0.1}, 2, results={"test accuracy": 0.1 + 0.2}, recipe={"epochs": 3})
TWO = made({"loss": "cce", "contamination": 0.1}, 10, results={"test accuracy": 1e-17}, recipe={"epochs": 3})
THREE = made({"loss": "cce", "contamination": 0.05}, 0, results={}, recipe={"epochs": 4}, diverged="a loss is inf")
LATER = made({"loss": "mse", "contamination": 0.05}, 0, results={}, recipe={"epochs": 4}) | {"date": "2026-12-01"}


def start(number: int, path: Path, records: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, str(number), str(path), str(records)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_what_is_written_is_read_unchanged_and_in_order_of_cell_and_seed(tmp_path: Path) -> None:
    path = record_file(tmp_path / "results", 3, "paper")
    assert path.name == "table-3-paper.json"
    assert read_records(path) == []
    contents = set()
    for order in permutations([ONE, TWO, THREE, LATER]):
        path.unlink(missing_ok=True)
        for one in order:
            add_record(path, one)
        assert read_records(path) == [THREE, ONE, TWO, LATER]
        contents.add(path.read_text())
    assert len(contents) == 1


def test_a_file_has_one_line_per_record_and_common_parts_once(tmp_path: Path) -> None:
    path = tmp_path / "table-3-paper.json"
    write_records(path, [ONE, TWO])
    head, common, opening, first, second, *end = path.read_text().splitlines()
    assert [head, opening, *end] == ["{", '"records": [', "]", "}"]
    assert json.loads("{" + common.rstrip(",") + "}") == {
        "common": {"table": 3, "scale": "paper", "date": "2026-11-16", "recipe": {"epochs": 3}}
    }
    for line, one in ((first.rstrip(","), ONE), (second, TWO)):
        assert list(json.loads(line)) == ["cell", "seed", "settings", "results"]
        assert json.loads(line)["results"] == one["results"]
    add_record(path, LATER)
    content = json.loads(path.read_text())
    assert content["common"] == {"table": 3, "scale": "paper"}
    assert [record["date"] for record in content["records"]] == ["2026-11-16"] * 2 + ["2026-12-01"]


def test_a_record_with_the_same_settings_and_seed_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "table-3-paper.json"
    for one in (ONE, TWO, ONE | {"results": {"test accuracy": 9.0}}):
        add_record(path, one)
    assert [(one["seed"], one["results"]) for one in read_records(path)] == [
        (2, {"test accuracy": 9.0}),
        (10, {"test accuracy": 1e-17}),
    ]


def test_several_processes_lose_no_record(tmp_path: Path) -> None:
    path = tmp_path / "table-3-paper.json"
    processes = [start(number, path, 20) for number in range(3)]
    for process in processes:
        process.stdout.readline()
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=120)
        assert process.returncode == 0
    found = [(one["cell"]["method"], one["seed"]) for one in read_records(path)]
    assert found == [(f"{number:02}", seed) for number in range(3) for seed in range(20)]


def test_a_kill_in_the_middle_leaves_whole_records_and_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "table-3-paper.json"
    with start(0, path, 100_000) as process:
        process.stdin.write("\n")
        process.stdin.flush()
        while not path.exists() or len(read_records(path)) < 20:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    before = read_records(path)
    assert [one["seed"] for one in before] == list(range(len(before)))
    add_record(path, ONE)
    assert len(read_records(path)) == len(before) + 1


@pytest.mark.parametrize("content", ["", "<<<<<<< ours", "[]", '{"records": []}', '{"common": {}, "records": 3}'])
def test_a_damaged_file_is_named_with_the_fix_and_not_overwritten(tmp_path: Path, content: str) -> None:
    path = tmp_path / "table-3-paper.json"
    path.write_text(content)
    with pytest.raises(
        ValueError, match=r'need JSON with "common" and "records" in .*table-3-paper.json.*; restore it'
    ):
        add_record(path, ONE)
    assert path.read_text() == content


def test_the_records_in_the_repository_are_written_as_they_would_be_again(tmp_path: Path) -> None:
    folder = Path(__file__).parents[2] / "results"
    files = sorted(folder.glob("*.json"))
    assert files
    for file in files:
        records = read_records(file)
        write_records(tmp_path / file.name, records)
        assert (tmp_path / file.name).read_text() == file.read_text()
        assert os.path.getsize(file) < 1_000_000
        assert {f"table-{one['table']}-{one['scale']}.json" for one in records} == {file.name}
