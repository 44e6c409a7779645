"""From decisions to corrected data and a better model: apply, retrain and check; alone, and by several people."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from samples import command, image_folder, table

import rockafellian as rk
from rockafellian.auditing.commands import retrain, run
from rockafellian.auditing.commands.audit import Audited
from rockafellian.auditing.model.problem import Review, prepare
from rockafellian.auditing.review.decisions import Decision, read_decisions

Made = tuple[Audited, pd.DataFrame, np.ndarray]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A finished run on 600 rows, the clean labels, and which rows are wrong."""
    folder = tmp_path_factory.mktemp("decisions")
    frame, wrong = table(600)
    frame.to_csv(folder / "data.csv", index=False)
    found = rk.audit(folder / "data.csv", "label", crisp=True, epochs=15, out=folder / "run", progress="quiet")
    return found, frame, wrong


def decide(frame: pd.DataFrame, wrong: np.ndarray, rows: list[int]) -> pd.DataFrame:
    """What a person who is always right decides about these rows."""
    other = frame["label"].map({"cat": "dog", "dog": "cat"})
    words = ["relabel" if wrong[row] else "keep" for row in rows]
    labels = [other[row] if wrong[row] else None for row in rows]
    return pd.DataFrame({"index": rows, "id": frame["id"][rows], "decision": words, "label": labels})


def sampled(found: Audited, n: int) -> list[int]:
    return [int(found.plan.rows[drawn.place]) for drawn in found.plan.sample[:n]]


def test_a_run_plans_its_review(made: Made) -> None:
    found, _, wrong = made
    summary = json.loads((found.folder / "summary.json").read_text())
    assert sum(band["rows"] for band in summary["review"]["bands"]) == 600
    assert [row for row, _ in summary["review"]["sample"]] == sampled(found, 100)
    assert summary["doubts"] == [] or {each["check"] for each in summary["doubts"]} == {"wide gap"}
    first = found.plan.rows[: found.plan.bands[0].rows]
    assert wrong[first].mean() > 0.8
    flagged = found.flagged[found.plan.rows]
    assert (np.diff(flagged.astype(int)) <= 0).all()  # flagged rows come first


def test_thirty_decisions_tell_the_noise_rate(made: Made) -> None:
    found, frame, wrong = made
    reviewed = found.review(decide(frame, wrong, sampled(found, 30)))
    rate, low, high = reviewed.noise_rate
    assert low <= wrong.mean() <= high
    assert abs(rate - wrong.mean()) < 0.1
    assert high - low < 0.3


def test_applied_decisions_change_these_rows_and_no_others(made: Made) -> None:
    found, frame, wrong = made
    rows = sorted(sampled(found, 40))
    after = found.apply(decide(frame, wrong, rows))
    changed = np.flatnonzero(after["label"].to_numpy() != frame["label"].to_numpy())
    assert changed.tolist() == [row for row in rows if wrong[row]]


def test_training_again_trusts_the_decisions(made: Made) -> None:
    found, frame, wrong = made
    rows = sampled(found, 100)
    again = found.retrain(decide(frame, wrong, rows), progress="quiet")
    assert not again.flagged[rows].any()
    true = frame["label"].where(~wrong, frame["label"].map({"cat": "dog", "dog": "cat"}))
    corrected = again.findings["given_label"][rows]
    assert corrected.tolist() == true[rows].tolist()
    new, _ = table(500, share=0.0, seed=5)
    accuracies = [
        (each.predict(new.drop(columns=["label"])).idxmax(axis=1) == new["label"]).mean() for each in (found, again)
    ]
    assert accuracies[1] >= accuracies[0] - 0.01


def test_the_commands_apply_and_retrain_report_what_is_known_now(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found, frame, wrong = made
    decisions = tmp_path / "decisions.csv"
    decide(frame, wrong, sampled(found, 60)).to_csv(decisions, index=False)
    assert command(monkeypatch, "apply", found.folder, decisions, "--out", tmp_path / "better.csv") == 0
    shown = capsys.readouterr().out
    assert "by review, " in shown
    assert "90 % interval" in shown
    assert command(monkeypatch, "retrain", found.folder, decisions, "--out", tmp_path / "again", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert 0.5 < result["compared"]["before"] <= 1
    assert 0.5 < result["compared"]["after"] <= 1
    assert result["reviewed"]["found"] == wrong[sampled(found, 60)].sum()
    settings = json.loads((tmp_path / "again" / "settings.json").read_text())
    assert settings["decisions"] is not None
    summary = json.loads((tmp_path / "again" / "summary.json").read_text())
    assert summary["noise_rate"]["floor"]["rate"] == pytest.approx(
        wrong.mean() - result["reviewed"]["found"] / 600, abs=0.1
    )
    assert command(monkeypatch, "show", tmp_path / "again", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 600


def test_retrain_prepares_the_data_once_and_resumes_after_it_was_stopped(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found, frame, wrong = made
    decisions, prepared = tmp_path / "decisions.csv", []
    decide(frame, wrong, sampled(found, 60)).to_csv(decisions, index=False)
    monkeypatch.setattr(retrain, "prepare", lambda *given, **more: prepared.append(1) or prepare(*given, **more))
    arguments = ("retrain", found.folder, decisions, "--out")
    assert command(monkeypatch, *arguments, tmp_path / "whole") == 0
    assert len(prepared) == 1
    with monkeypatch.context() as stopping:
        stopping.setattr(run, "write_all", Mock(side_effect=KeyboardInterrupt))
        assert command(monkeypatch, *arguments, tmp_path / "run") == 2
    assert f"resume with --resume --out {tmp_path / 'run'}" in capsys.readouterr().err
    other = tmp_path / "other.csv"
    decide(frame, wrong, sampled(found, 30)).to_csv(other, index=False)
    assert command(monkeypatch, "retrain", found.folder, other, "--out", tmp_path / "run", "--resume") == 2
    assert "the decisions" in capsys.readouterr().err
    assert command(monkeypatch, *arguments, tmp_path / "run", "--resume") == 0
    resumed, whole = (pd.read_parquet(tmp_path / name / "findings.parquet") for name in ("run", "whole"))
    pd.testing.assert_frame_equal(resumed, whole)


def test_decisions_are_added_to_those_before(made: Made) -> None:
    found, frame, _ = made
    problem, rows = found.problem, sampled(found, 20)
    decisions = {row: Decision("relabel", str(frame["label"][row])) for row in rows}
    first = problem.with_review(Review(decisions, None))
    both = first.with_review(Review({rows[0]: Decision("drop")}, None))
    assert both.trusted is not None
    assert set(both.rows[both.trusted]) == set(rows[1:])
    assert rows[0] not in both.rows
    assert not both.labels.known[rows[0]]
    assert len(both.inputs) == len(both.targets) == len(both.rows) == len(frame) - 1


def test_several_people_are_joined_and_disputes_stay_as_they_are(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found, frame, _ = made
    head = "index,id,decision,label\n"
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text(head + "0,row-0000,keep,\n1,row-0001,drop,\n2,row-0002,skip,\n")
    two.write_text(head + "1,row-0001,keep,\n2,row-0002,drop,\n")
    joined = read_decisions([one, two], frame["id"].tolist())
    assert joined.agreed == {0: Decision("keep"), 2: Decision("drop")}
    assert joined.disputed == {1: [Decision("drop"), Decision("keep")]}
    assert command(monkeypatch, "apply", found.folder, one, two, "--out", tmp_path / "out.csv") == 0
    assert "1 rows are in dispute and stay as they are: 1 (drop, keep)" in capsys.readouterr().out
    assert pd.read_csv(tmp_path / "out.csv")["id"].tolist() == frame["id"].drop(2).tolist()


def test_a_folder_of_images_becomes_a_corrected_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image_folder(tmp_path / "images", 40)
    found = rk.audit(tmp_path / "images", epochs=10, out=tmp_path / "run", progress="quiet")
    files = found.findings["id"].tolist()
    kinds = sorted({Path(file).parts[0] for file in files})
    moved, dropped = files[0], files[1]
    target = next(kind for kind in kinds if kind != Path(moved).parts[0])
    (tmp_path / "decisions.csv").write_text(f"index,id,decision,label\n0,{moved},relabel,{target}\n1,{dropped},drop,\n")
    out = tmp_path / "corrected"
    assert command(monkeypatch, "apply", tmp_path / "run", tmp_path / "decisions.csv", "--out", out) == 0
    written = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    assert len(written) == len(files) - 1
    assert not (out / moved).exists()
    assert not (out / dropped).exists()
    same = [
        path for path in (out / target).iterdir() if path.read_bytes() == (tmp_path / "images" / moved).read_bytes()
    ]
    assert len(same) == 1
    assert (tmp_path / "images" / dropped).exists()
    assert command(monkeypatch, "apply", tmp_path / "run", tmp_path / "decisions.csv", "--out", out) == 2  # it exists
    assert not [path for path in tmp_path.iterdir() if "partial" in path.name]


def test_a_check_fails_only_if_there_are_surely_too_many_errors(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _, _ = made
    data = found.folder.parent / "data.csv"
    arguments = ("check", data, "--label", "label", "--epochs", 15)
    assert command(monkeypatch, *arguments, "--max-noise", 0.01, "--json") == 3
    result = json.loads(capsys.readouterr().out)
    assert result["passed"] is False
    assert result["noise_rate"]["floor"]["low"] > 0.01
    assert command(monkeypatch, *arguments, "--max-noise", 0.9, "--baseline", found.folder) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("passed: at least ")
    assert "no more than in the baseline" in shown
    assert command(monkeypatch, *arguments, "--max-noise", 5) == 2
    assert command(monkeypatch, "check", data, "--label", "nothing") == 2


def test_a_column_that_copies_the_label_is_called_a_leak() -> None:
    frame, _ = table(400)
    frame["copy"] = frame["label"].map({"cat": 0, "dog": 1})
    found = rk.audit(frame, "label", epochs=10, progress="quiet")
    [leak] = [each for each in found.doubts if each.check == "leak"]
    assert "column copy alone determines the label" in str(leak)
    honest = rk.audit(frame.drop(columns="copy"), "label", epochs=10, progress="quiet")
    assert not [each for each in honest.doubts if each.check == "leak"]


def test_random_labels_make_a_weak_model_and_few_rows_are_few() -> None:
    frame, _ = table(150)
    frame["label"] = np.random.default_rng(99).choice(["cat", "dog"], 150)
    checks = {each.check for each in rk.audit(frame, "label", epochs=10, progress="quiet").doubts}
    assert "weak model" in checks
    assert "few rows" in checks
    assert "wide gap" in checks
    # With a noise rate that is set nothing is held out, so the labels that were trained on have to do.
    little = frame[["colour", "label"]]
    told = rk.audit(little, "label", epochs=10, contamination=0.1, progress="quiet")
    assert "weak model" in {each.check for each in told.doubts}


def test_groups_say_where_the_label_issues_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    frame, wrong = table(400)
    frame["annotator"] = np.where(wrong, "tired", "awake")  # all errors are of one person
    frame.to_csv(tmp_path / "data.csv", index=False)
    found = rk.audit(
        tmp_path / "data.csv", "label", contamination=0.2, epochs=12, out=tmp_path / "run", progress="quiet"
    )
    decide(frame, wrong, sampled(found, 30)).to_csv(tmp_path / "decisions.csv", index=False)
    arguments = ("show", tmp_path / "run", "--group", "annotator", "--decisions", tmp_path / "decisions.csv")
    assert command(monkeypatch, *arguments, "--json") == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["name"], second["name"]) == ("tired", "awake")
    assert first["rows"] == wrong.sum()
    assert first["flagged"] / first["rows"] > 0.5 > second["flagged"] / second["rows"]
    assert first["wrong"] == first["checked"] > 0 == second["wrong"]
    assert first["checked"] + second["checked"] == 30
    assert command(monkeypatch, *arguments) == 0
    assert "tired" in capsys.readouterr().out
    assert command(monkeypatch, "show", tmp_path / "run", "--group", "nothing") == 2
