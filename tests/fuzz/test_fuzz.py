"""A fixed part of the hostile cases; `make fuzz` runs fresh ones. And whether the harness would notice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cases import judge, tree
from oracle import agree
from sandbox import Outcome

HERE = Path(__file__).parent
GOOD = Outcome(code=0, out="fine\n", err="", bytes=10**8, seconds=1.0, hung=False)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_hostile_input_ends_well_or_in_one_line(seed: int, tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    code = [sys.executable, str(HERE / "fuzz.py"), "--cases", "50", "--seed", str(seed), "--json", str(figures)]
    ended = subprocess.run(code, capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = json.loads(figures.read_text())
    assert found["cases"] == 50
    assert found["problems"] == []
    assert found["exit codes"].keys() == {"0", "2"}


def test_killed_and_competing_runs_lose_and_mix_nothing(tmp_path: Path) -> None:
    code = [sys.executable, str(HERE / "kills.py"), "--trials", "2", "--kills", "2", "--seed", "0"]
    ended = subprocess.run(code, capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("outcome", "problem"),
    [
        (GOOD, None),
        (GOOD._replace(code=2, err="epoch 1\nerror: need x, got y\n"), None),
        (GOOD._replace(hung=True), "hangs"),
        (GOOD._replace(code=2, err="Traceback (most recent call last):\nerror: x\n"), "traceback"),
        (GOOD._replace(code=1, err="error: a fault\n"), "exit code 1"),
        (GOOD._replace(code=-9), "exit code -9"),
        (GOOD._replace(bytes=3 * 10**9), "3.0 GB of memory"),
        (GOOD._replace(out="\x1b[2J"), "control characters on the terminal"),
        (GOOD._replace(code=2, err=""), "0 lines of error"),
        (GOOD._replace(code=2, err="error: x\nerror: y\n"), "2 lines of error"),
        (GOOD._replace(code=2, err="error: x\nand more\n"), "1 lines of error"),
    ],
)
def test_what_breaks_the_rule_is_noticed(outcome: Outcome, problem: str | None, tmp_path: Path) -> None:
    assert judge(outcome, tree(tmp_path), tmp_path) == problem


def test_what_is_left_behind_by_a_command_that_failed_is_noticed(tmp_path: Path) -> None:
    before = tree(tmp_path)
    (tmp_path / "run").mkdir()
    refused = GOOD._replace(code=2, err="error: need x\n")
    assert "left behind" in str(judge(refused, before, tmp_path))
    assert judge(GOOD._replace(code=2, err="error: stopped; pass --resume\n"), before, tmp_path) is None


def test_a_changed_cell_a_lost_row_and_another_label_are_noticed(tmp_path: Path) -> None:
    before, after = tmp_path / "before.csv", tmp_path / "after.csv"
    before.write_text('a,label\n1,x\n"2\n2",y\n3,x\n')
    after.write_text('a,label\r\n1,x\r\n"2\n2",y\r\n')
    assert agree(before, after, [True, True, False], None, "label")
    assert not agree(before, after, [True, True, True], None, "label")
    assert not agree(before, after, [True, False, True], None, "label")
    assert not agree(before, after, [True, True, False], {0: "y"}, "label")
    after.write_text('a,label\n1,y\n"2\n2",y\n3,x\n')
    assert agree(before, after, [True] * 3, {0: "y"}, "label")
    after.write_text('a,label\n1,x\n"2\n 2",y\n3,x\n')
    assert not agree(before, after, [True] * 3, None, "label")
