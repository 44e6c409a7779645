import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from rockafellian_reproduction.tables import TABLES, TRIAL
from rockafellian_reproduction.training import cells, reproduce
from rockafellian_reproduction.training.reproduce import (
    Job,
    describe_jobs,
    expected_seconds,
    find_jobs,
    load_records,
    run,
)


def test_cells_are_found_by_key_and_value() -> None:
    jobs = find_jobs("3", "paper", ["loss=cce", "contamination=0.55"], seeds=2)
    assert [(job.cell["method"], job.seed) for job in jobs] == [("ERM", 0), ("RRM", 0), ("ERM", 1), ("RRM", 1)]
    assert [job.cell for job in find_jobs("5", "small")] == [{"method": "A-RRM", "contamination": 0.2}]
    assert len(find_jobs("tissue", "small")) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("6", "small"), "need a table of 1, 2, 3, 4, 7, 8, 9, 10, digits, 5, tissue, necrosis; got '6'"),
        (("3", "large"), "need a scale of paper or small, got 'large'"),
        (("3", "paper", ["loss"]), "need a cell as KEY=VALUE, such as contamination=0.2; got 'loss'"),
        (("3", "paper", ["loss=gce"]), "need cells of table 3 by loss of elr, cce, mae, mse; .*; got loss=gce"),
        (("3", "paper", ["eps=1"]), "got eps=1"),
        (("3", "paper", (), 0), "need at least one seed, got 0"),
    ],
)
def test_what_does_not_exist_is_an_error_that_says_what_does(arguments, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_jobs(*arguments)


def test_a_name_tells_settings_apart() -> None:
    jobs = [job for number in TABLES for scale in ("paper", "small") for job in find_jobs(str(number), scale, seeds=2)]
    names = [job.name for job in jobs if not (job.number == 7 and job.cell["contamination"] == 0)]
    assert len(set(names)) == len(names)
    assert all("/" not in name for name in names)


def test_without_wrong_labels_tables_4_and_7_are_the_same_training() -> None:
    for plain, kernel in zip(find_jobs("4", "small"), find_jobs("7", "small"), strict=True):
        assert (plain.name == kernel.name) == (plain.cell["contamination"] == 0)


def test_a_record_is_made_once_and_its_state_is_cleared_away(tmp_path, monkeypatch) -> None:
    (job, _) = find_jobs("digits", "small")
    made = run(job, tmp_path / "results", tmp_path / "work")
    assert made == json.loads(job.path(tmp_path / "results").read_text())
    assert not [path for path in (tmp_path / "work").iterdir() if path.is_dir()]
    monkeypatch.setattr(cells, "train_cell", lambda *_, **__: pytest.fail("trained again"))
    assert run(job, tmp_path / "results", tmp_path / "work") == made


def test_the_same_settings_in_another_table_are_not_trained_again(tmp_path, monkeypatch) -> None:
    four, seven = find_jobs("4", "small")[0], find_jobs("7", "small")[0]
    assert four.cell["contamination"] == 0
    path = four.path(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"table": 4, "cell": four.cell, "seed": 0, "results": {"eps 0": 1.0}}))
    monkeypatch.setattr(cells, "train_cell", lambda *_, **__: pytest.fail("trained again"))
    assert run(seven, tmp_path, tmp_path / "work") == json.loads(path.read_text()) | {"table": 7}


def test_several_processes_give_what_one_gives_and_finished_cells_are_left_alone(tmp_path, capfd) -> None:
    jobs = find_jobs("digits", "small")
    reproduce.reproduce(jobs, at_once=2, results=tmp_path / "two", work=tmp_path / "work")
    assert "2 to go" in capfd.readouterr().err
    alone = run(jobs[-1], tmp_path / "one", tmp_path / "work")
    assert json.loads(jobs[-1].path(tmp_path / "two").read_text())["results"] == alone["results"]
    reproduce.reproduce(jobs, at_once=2, results=tmp_path / "two", work=tmp_path / "work")
    assert "2 of 2 cells are recorded" in capfd.readouterr().err


def test_the_command_killed_in_the_middle_goes_on(tmp_path) -> None:
    code = "from rockafellian.cli.main import main; main()"
    command = [sys.executable, "-c", code, "reproduce", "digits", "--results", str(tmp_path / "results")]
    process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True, stderr=subprocess.DEVNULL)
    while process.poll() is None and not list((tmp_path / "runs").rglob("checkpoint.safetensors")):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not list((tmp_path / "results").rglob("*method=RRM*.json"))
    reproduce.reproduce(find_jobs("digits", "small"), results=tmp_path / "results", work=tmp_path / reproduce.WORK)
    records = load_records(TRIAL, "small", tmp_path / "results")
    assert {record["cell"]["method"] for record in records} == {"ERM", "RRM"}
    assert not list((tmp_path / "results").rglob("*.partial"))


def test_the_list_says_what_is_done_how_long_the_rest_takes_and_what_is_smaller(tmp_path) -> None:
    jobs = find_jobs("3", "small", ["loss=cce", "contamination=0.6"])
    path = jobs[0].path(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"seconds": 7200}))
    assert expected_seconds(jobs[0], tmp_path) == 7200
    assert expected_seconds(jobs[1], tmp_path) == TABLES[3].minutes[1] * 60
    first, second, *rest = describe_jobs(jobs, tmp_path).splitlines()
    assert first == "done    120.0 min  table 3, small: cce ERM 60%, seed 0"
    assert second.startswith("open")
    assert "  epochs: 100 -> 30" in rest
    assert "small" not in describe_jobs(find_jobs("3", "paper"), tmp_path).splitlines()[-1]


def test_records_of_other_settings_are_not_read(tmp_path, monkeypatch) -> None:
    job = Job(0, "small", TRIAL.cells[0], 3)
    path = job.path(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text('{"seed": 3}')
    assert load_records(TRIAL, "small", tmp_path) == [{"seed": 3}]
    changed = replace(TRIAL, small=replace(TRIAL.small, epochs=99))
    monkeypatch.setitem(reproduce.EVERY, 0, changed)
    assert load_records(changed, "small", tmp_path) == []


def test_a_process_that_is_ended_from_outside_is_said_in_one_line(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(reproduce, "run", _die)
    with pytest.raises(OSError, match="a training process was ended from outside; the same command goes on"):
        reproduce.reproduce(find_jobs("digits", "small"), results=tmp_path, work=tmp_path)


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_no_job_at_a_time_is_an_error(tmp_path) -> None:
    with pytest.raises(ValueError, match="need at least one job at a time, got 0"):
        reproduce.reproduce(find_jobs("digits", "small"), at_once=0, results=tmp_path, work=tmp_path)
