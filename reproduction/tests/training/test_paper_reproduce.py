"""`rockafellian reproduce`: jobs found by name, trained once, recorded, resumed after a kill."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock
from tiny import record, write_record

from rockafellian_reproduction.tables import TABLES, TRIAL
from rockafellian_reproduction.training import jobs, reproduce
from rockafellian_reproduction.training.jobs import Job, describe_jobs, expected_seconds, find_jobs, load_records
from rockafellian_reproduction.training.records import add_record, read_records
from rockafellian_reproduction.training.reproduce import run


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    """No training is started."""
    monkeypatch.setattr(reproduce, "train_cell", lambda *_, **__: pytest.fail("trained again"))


def test_cells_are_found_by_key_and_value() -> None:
    found = find_jobs("3", "paper", ["loss=cce", "contamination=0.55"], seeds=2)
    assert [(job.cell["method"], job.seed) for job in found] == [("ERM", 0), ("RRM", 0), ("ERM", 1), ("RRM", 1)]
    assert [job.cell for job in find_jobs("5", "network")] == [{"method": "A-RRM", "contamination": 0.2}]
    assert len(find_jobs("tissue", "features")) == 2


def test_several_values_of_one_key_are_alternatives() -> None:
    found = find_jobs("3", None, ["loss=cce", "contamination=0.55", "contamination=0.6"])
    assert {job.cell["contamination"] for job in found} == {0.55, 0.6}
    assert {job.scale for job in found} == {"paper"}
    assert {job.scale for job in find_jobs("1")} == {"features"}


def test_a_reading_gives_the_cells_that_it_changes_and_settings_of_their_own() -> None:
    found = find_jobs("3", variant={"elr-beta": "0.9", "reweighted-by": "cce"})
    assert len(found) == 15
    plain = [job for job in found if job.cell["method"] == "ERM"]
    assert {(job.cell["loss"], *job.variant) for job in plain} == {("elr", "elr-beta")}
    assert {tuple(job.variant) for job in found if job.cell["loss"] == "mae"} == {("reweighted-by",)}
    printed = find_jobs("3")
    assert find_jobs("3", variant={"elr-beta": "0.7"}) == printed
    assert not {job.settings for job in found} & {job.settings for job in printed}
    assert {job.cell["method"] for job in find_jobs("1", variant={"ours": "yes"})} == {"RRM"}


def test_records_under_a_reading_say_so_and_are_read_back(tmp_path: Path) -> None:
    job = find_jobs("3", None, ["loss=elr"], variant={"elr-beta": "0.9"})[0]
    made = record(job.cell, settings=job.settings, variant=job.variant)
    add_record(job.file(tmp_path), made)
    assert job.find(load_records(TABLES[3], "paper", tmp_path)) == made
    assert find_jobs("3", None, ["loss=elr"])[0].find([made]) is None
    add_record(job.file(tmp_path), made | {"variant": {"elr-beta": "0.8"}})
    assert load_records(TABLES[3], "paper", tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("3", None, (), 1, {"beta": "1"}), "need a reading of table 3, one of elr-beta=0.7, .*; got beta=1"),
        (("3", None, ["loss=cce"], 1, {"elr-beta": "0.9"}), "need readings that change a cell of table 3"),
        (("6", "network"), "need a table of 1, 2, 3, 4, 7, 8, 9, 10, digits, 5, tissue, necrosis; got '6'"),
        (("3", "large"), "need a scale of table 3, paper; got 'large'"),
        (("3", "paper", ["loss"]), "need KEY=VALUE, such as contamination=0.2; got 'loss'"),
        (("3", "paper", ["loss=gce"]), "need cells of table 3 by loss of elr, cce, mae, mse; .*; got loss=gce"),
        (("3", "paper", ["eps=1"]), "got eps=1"),
        (("3", "paper", (), 0), "need at least one seed, got 0"),
    ],
)
def test_what_does_not_exist_is_an_error_that_says_what_does(arguments, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_jobs(*arguments)


def test_a_name_tells_settings_apart() -> None:
    every = [
        job for number in TABLES for scale in TABLES[number].scales for job in find_jobs(str(number), scale, seeds=2)
    ]
    names = [job.name for job in every if not (job.number == 7 and job.cell["contamination"] == 0)]
    assert len(set(names)) == len(names)
    assert all("/" not in name for name in names)


def test_without_noise_tables_4_and_7_are_the_same_training() -> None:
    for plain, kernel in zip(find_jobs("4", "network"), find_jobs("7", "network"), strict=True):
        assert (plain.settings == kernel.settings) == (plain.cell["contamination"] == 0)


def test_a_cell_is_recorded_once_and_its_checkpoint_removed(tmp_path: Path, monkeypatch) -> None:
    (job, _) = find_jobs("digits")
    made = run(job, tmp_path / "results", tmp_path / "work")
    assert read_records(tmp_path / "results" / "table-0-paper.json") == [made]
    assert not [path for path in (tmp_path / "work").iterdir() if path.is_dir()]
    monkeypatch.setattr(reproduce, "train_cell", lambda *_, **__: pytest.fail("trained again"))
    assert run(job, tmp_path / "results", tmp_path / "work") == made


@pytest.mark.usefixtures("untrained")
def test_the_same_settings_in_another_table_are_not_trained_again(tmp_path: Path) -> None:
    four, seven = find_jobs("4", "network")[0], find_jobs("7", "network")[0]
    assert four.cell["contamination"] == 0
    made = write_record(tmp_path, 4, "network", record(four.cell, results={"eps 0": 1.0}, table=4))
    assert run(seven, tmp_path, tmp_path / "work") == made | {"table": 7}
    assert read_records(seven.file(tmp_path)) == [made | {"table": 7}]
    assert read_records(four.file(tmp_path)) == [made]


def test_several_processes_give_what_one_gives_and_recorded_cells_are_skipped(tmp_path: Path, capfd) -> None:
    found = find_jobs("digits")
    reproduce.reproduce(found, at_once=2, results=tmp_path / "two", work=tmp_path / "work")
    assert "2 left" in capfd.readouterr().err
    alone = run(found[-1], tmp_path / "one", tmp_path / "work")
    two = read_records(found[-1].file(tmp_path / "two"))
    assert [one["cell"]["method"] for one in two] == ["ERM", "RRM"]
    assert two[-1]["results"] == alone["results"]
    reproduce.reproduce(found, at_once=2, results=tmp_path / "two", work=tmp_path / "work")
    assert "2 of 2 cells are recorded" in capfd.readouterr().err


def test_a_result_is_printed_beside_the_papers_figure(tmp_path: Path, capsys) -> None:
    (job,) = find_jobs("3", None, ["loss=cce", "method=RRM", "contamination=0.6"])
    write_record(tmp_path, 3, "paper", record(job.cell, results={"test accuracy": 97.25}, seconds=61.0))
    reproduce.reproduce([job], results=tmp_path, work=tmp_path)
    assert "cce RRM 60%, seed 0: test accuracy 97.25 (paper 96); 61 s\n" in capsys.readouterr().err
    assert reproduce.describe(job, {"diverged": "inf"}) == "diverged: inf"
    trial = find_jobs("digits")[0]
    assert reproduce.describe(trial, {"results": {"test accuracy": 90.0}, "seconds": 2.0}) == "test accuracy 90; 2 s"


def test_the_command_killed_in_the_middle_ends_its_processes_and_resumes(tmp_path: Path) -> None:
    code = "from rockafellian.cli.main import main; main()"
    command = [sys.executable, "-c", code, "reproduce", "digits", "--results", str(tmp_path / "results")]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    while process.poll() is None and not list((tmp_path / "runs").rglob("checkpoint.safetensors")):
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    for lock in (tmp_path / "runs").rglob("*.lock"):  # held by a process as long as it trains
        with FileLock(lock, timeout=30):
            pass
    assert not load_records(TRIAL, "paper", tmp_path / "results")
    reproduce.reproduce(find_jobs("digits"), results=tmp_path / "results", work=tmp_path / reproduce.WORK)
    records = load_records(TRIAL, "paper", tmp_path / "results")
    assert [one["cell"]["method"] for one in records] == ["ERM", "RRM"]
    assert not list((tmp_path / "results").rglob("*.partial"))


def test_the_list_says_what_is_done_how_long_the_rest_takes_and_what_is_smaller(tmp_path: Path) -> None:
    found = find_jobs("9", "features", ["contamination=0.4"])
    made = write_record(tmp_path, 9, "features", record(found[0].cell, seconds=7200))
    assert expected_seconds(found[0], [made]) == 7200
    assert expected_seconds(found[1], [made]) == TABLES[9].minutes["features"] * 60
    first, second, *rest = describe_jobs(found, tmp_path).splitlines()
    assert first == "done    120.0 min  table 9, features: ERM 40%, seed 0"
    assert second.startswith("open")
    assert "  tokens: 512 -> 256" in rest
    assert rest[-1] == "0.1 hours of one core left"
    assert " -> " not in describe_jobs(find_jobs("3", "paper"), tmp_path)


def test_records_of_other_settings_are_kept_but_not_read(tmp_path: Path, monkeypatch) -> None:
    job = Job(0, "paper", TRIAL.cells[0], 3)
    made = write_record(tmp_path, 0, "paper", record(job.cell, 3))
    assert load_records(TRIAL, "paper", tmp_path) == [made]
    changed = replace(TRIAL, scales={"paper": replace(TRIAL.paper, epochs=99)})
    monkeypatch.setitem(jobs.ALL_TABLES, 0, changed)
    assert load_records(changed, "paper", tmp_path) == []
    newer = write_record(tmp_path, 0, "paper", record(job.cell, 3))
    assert load_records(changed, "paper", tmp_path) == [newer]
    assert len(read_records(job.file(tmp_path))) == 2


def test_a_process_that_is_killed_from_outside_is_one_line(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(reproduce, "run", _die)
    with pytest.raises(OSError, match="a training process was killed; run the same command again to resume"):
        reproduce.reproduce(find_jobs("digits"), results=tmp_path, work=tmp_path)


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_no_job_at_a_time_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="need at least one job at a time, got 0"):
        reproduce.reproduce(find_jobs("digits"), at_once=0, results=tmp_path, work=tmp_path)


@pytest.mark.parametrize(("checkout", "folder"), [(True, "reproduction/results"), (False, "results")])
def test_records_go_to_the_checkout_if_there_is_one(
    tmp_path: Path, monkeypatch, capsys, checkout: bool, folder: str
) -> None:
    if checkout:
        (tmp_path / "reproduction" / "results").mkdir(parents=True)
    write_record(tmp_path / folder, 0, "paper", record(TRIAL.cells[0], seconds=60))
    monkeypatch.chdir(tmp_path)
    assert _command(monkeypatch, "reproduce", "digits", "--list") == 0
    assert "done      1.0 min  table 0, paper: ERM 40%, seed 0" in capsys.readouterr().out
    assert _command(monkeypatch, "compare", "3") == 2
    assert f"found none in {folder};" in capsys.readouterr().err


def test_the_help_says_where_records_go(monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    for command in ("reproduce", "compare"):
        assert _command(monkeypatch, command, "--help") == 0
        assert "reproduction/results if the present folder has it" in capsys.readouterr().out


def _command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    from rockafellian.cli.main import main

    monkeypatch.setattr(sys, "argv", ["rockafellian", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0
