"""The commands audit (or train), show, predict, apply and export, from a file of a user to the files of a run."""

from __future__ import annotations

import csv
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from samples import command, f1, image_folder, table, texts

from rockafellian.auditing.commands import outputs
from rockafellian.auditing.report.page import render
from rockafellian.training import stopping

EPOCHS = ("--epochs", 12)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame, np.ndarray]:
    """A finished run on a table with some labels missing and some rows that contradict each other."""
    folder = tmp_path_factory.mktemp("table")
    frame, wrong = table()
    frame.loc[[5, 17], "label"] = None
    again = frame.iloc[[20, 21]].assign(id=["again-0", "again-1"])
    again["label"] = again["label"].map({"cat": "dog", "dog": "cat"})
    frame = pd.concat([frame, again], ignore_index=True)
    frame.to_csv(folder / "data.csv", index=False)
    patch = pytest.MonkeyPatch()
    assert command(patch, "train", folder / "data.csv", "--label", "label", "--crisp", "--out", folder / "run") == 0
    patch.undo()
    return folder / "run", frame, np.append(wrong, [True, True])


def test_findings_have_every_row_in_order_with_its_id(run: tuple[Path, pd.DataFrame, np.ndarray]) -> None:
    folder, frame, _ = run
    found = pd.read_parquet(folder / "findings.parquet")
    assert found["index"].tolist() == list(range(len(frame)))
    assert found["id"].tolist() == frame["id"].tolist()
    assert found["given_label"].fillna("").tolist() == frame["label"].fillna("").tolist()
    as_csv = pd.read_csv(folder / "findings.csv")
    assert as_csv.columns.tolist() == found.columns.tolist()
    assert as_csv["id"].tolist() == found["id"].tolist()
    assert as_csv["is_label_issue"].tolist() == found["is_label_issue"].tolist()


def test_mislabeled_rows_are_found_without_knowing_the_noise_rate(run: tuple[Path, pd.DataFrame, np.ndarray]) -> None:
    folder, frame, wrong = run
    flagged = pd.read_parquet(folder / "findings.parquet")["is_label_issue"].to_numpy()
    known = frame["label"].notna().to_numpy()
    assert f1(flagged[known], wrong[known]) > 0.8


def test_cleaned_data_lack_the_flagged_rows_and_keep_every_cell(run: tuple[Path, pd.DataFrame, np.ndarray]) -> None:
    folder, _, _ = run
    flagged = pd.read_parquet(folder / "findings.parquet")["is_label_issue"].to_numpy()
    lines = (folder.parent / "data.csv").read_text().splitlines()
    kept = [lines[0], *(line for line, out in zip(lines[1:], flagged, strict=True) if not out)]
    assert (folder / "cleaned.csv").read_text().splitlines() == kept


def test_relabeled_data_differ_only_in_the_labels_of_flagged_rows(run: tuple[Path, pd.DataFrame, np.ndarray]) -> None:
    folder, _, _ = run
    found = pd.read_parquet(folder / "findings.parquet")
    before, after = (pd.read_csv(path, dtype=str) for path in (folder.parent / "data.csv", folder / "relabeled.csv"))
    pd.testing.assert_frame_equal(before.drop(columns="label"), after.drop(columns="label"))
    wanted = before["label"].where(~found["is_label_issue"], found["predicted_label"])
    assert after["label"].fillna("").tolist() == wanted.fillna("").tolist()


def test_rows_without_a_label_are_set_aside_and_get_a_suggestion(run: tuple[Path, pd.DataFrame, np.ndarray]) -> None:
    folder, _, _ = run
    aside = pd.read_csv(folder / "set_aside.csv")
    assert aside["index"].tolist() == [5, 17]
    assert set(aside["predicted_label"]) <= {"cat", "dog"}
    assert (
        len(pd.read_csv(folder / "cleaned.csv")) + json.loads((folder / "summary.json").read_text())["flagged_rows"]
        == json.loads((folder / "summary.json").read_text())["rows"]
    )


def test_equal_rows_with_different_labels_are_listed_by_group(run: tuple[Path, pd.DataFrame, np.ndarray]) -> None:
    folder, frame, _ = run
    groups = pd.read_csv(folder / "conflicts.csv").groupby("group")["index"].apply(list).tolist()
    assert groups == [[20, len(frame) - 2], [21, len(frame) - 1]]


def test_the_folder_says_done_and_keeps_no_checkpoint(run: tuple[Path, pd.DataFrame, np.ndarray]) -> None:
    folder, _, _ = run
    assert {path.name for path in folder.iterdir()} == {
        "DONE",
        "cleaned.csv",
        "conflicts.csv",
        "findings.csv",
        "findings.parquet",
        "history.json",
        "model",
        "relabeled.csv",
        "report.html",
        "set_aside.csv",
        "settings.json",
        "summary.json",
    }


def test_show_prints_the_summary(
    run: tuple[Path, pd.DataFrame, np.ndarray], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _, _ = run
    assert command(monkeypatch, "show", folder) == 0
    shown = capsys.readouterr().out
    flagged = json.loads((folder / "summary.json").read_text())["flagged_rows"]
    assert f"{flagged} of 300 rows look mislabeled" in shown
    assert "noise rate: " in shown
    assert "2 of 302 rows have no label" in shown
    assert "cat" in shown


def test_predictions_come_beside_the_data_with_probabilities(
    run: tuple[Path, pd.DataFrame, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _, _ = run
    new, _ = table(50, share=0.0, seed=9)
    new.drop(columns=["label", "id"]).to_csv(tmp_path / "new.csv", index=False)
    assert command(monkeypatch, "predict", folder, tmp_path / "new.csv", "--out", tmp_path / "predicted.csv") == 0
    predicted = pd.read_csv(tmp_path / "predicted.csv")
    assert (predicted["predicted_label"] == new["label"]).mean() > 0.9
    both = predicted[["probability_cat", "probability_dog"]]
    np.testing.assert_allclose(both.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(predicted["predicted_probability"], both.max(axis=1))
    assert command(monkeypatch, "predict", folder, tmp_path / "new.csv", "--out", tmp_path / "predicted.csv") == 2


def test_decisions_become_a_corrected_data_set(
    run: tuple[Path, pd.DataFrame, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, frame, _ = run
    decisions = tmp_path / "decisions.csv"
    lines = ["index,id,decision,label", "0,row-0000,keep,", "1,row-0001,relabel,cat", "2,row-0002,relabel,dog"]
    decisions.write_text("\n".join([*lines, "3,row-0003,drop,", "4,row-0004,skip,"]) + "\n")
    assert command(monkeypatch, "apply", folder, decisions, "--out", tmp_path / "cleaned.csv") == 0
    after = pd.read_csv(tmp_path / "cleaned.csv")
    assert after["label"].tolist()[:4] == [frame["label"][0], "cat", "dog", frame["label"][4]]
    assert after["id"].tolist() == frame["id"].drop(3).tolist()
    assert command(monkeypatch, "apply", folder, decisions, "--out", tmp_path / "cleaned.csv") == 2


@pytest.mark.parametrize(
    ("line", "predicted"),
    [
        ("0,row-0000,burn,", "'burn'"),
        ("0,row-0001,keep,", "another run"),
        ("9999,row-9999,keep,", "another run"),
        ("x,row-0000,keep,", "another run"),
        ("0,row-0000,relabel,cow", "'cow'"),
        ("0,row-0000,relabel,", "one of 'cat', 'dog'"),
        ("0,row-0000,keep,\n0,row-0000,drop,", "two for row 0"),
    ],
)
def test_decisions_that_do_not_fit_are_refused(
    line: str,
    predicted: str,
    run: tuple[Path, pd.DataFrame, np.ndarray],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "decisions.csv").write_text(f"index,id,decision,label\n{line}\n")
    assert command(monkeypatch, "apply", run[0], tmp_path / "decisions.csv", "--out", tmp_path / "out.csv") == 2
    shown = capsys.readouterr().err
    assert predicted in shown
    assert shown.count("\n") == 1
    assert not (tmp_path / "out.csv").exists()


def test_label_studio_gets_the_label_issues_with_predictions(
    run: tuple[Path, pd.DataFrame, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _, _ = run
    assert command(monkeypatch, "export", folder, "--out", tmp_path / "tasks.json") == 0
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    found = pd.read_parquet(folder / "findings.parquet").set_index("index")
    assert {task["data"]["index"] for task in tasks} == set(found.index[found["is_label_issue"]])
    first = tasks[0]
    assert first["data"]["values"]["colour"] in ("red", "green", "blue")
    [made] = first["predictions"][0]["result"]
    assert made["value"]["choices"] == [found["predicted_label"][first["data"]["index"]]]
    page = ElementTree.parse(tmp_path / "tasks.xml")
    assert [each.get("value") for each in page.iter("Choice")] == ["cat", "dog"]
    assert made["from_name"] == page.find(".//Choices").get("name")
    assert made["to_name"] == page.find("Table").get("name")
    assert command(monkeypatch, "export", folder, "--out", tmp_path / "tasks.json") == 2  # it exists


def test_a_folder_that_holds_a_run_is_refused_without_force(
    run: tuple[Path, pd.DataFrame, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(60)[0].to_csv(tmp_path / "data.csv", index=False)
    arguments = ("train", tmp_path / "data.csv", "--label", "label", "--out", tmp_path / "run", *EPOCHS)
    assert command(monkeypatch, *arguments) == 0
    before = (tmp_path / "run" / "settings.json").read_text()
    assert command(monkeypatch, *arguments, "--seed", 1) == 2
    assert (tmp_path / "run" / "settings.json").read_text() == before
    assert command(monkeypatch, *arguments, "--resume") == 2  # it is finished
    (tmp_path / "run" / "mine.txt").write_text("mine")
    assert command(monkeypatch, *arguments, "--seed", 1, "--force") == 0
    assert json.loads((tmp_path / "run" / "settings.json").read_text())["settings"]["seed"] == 1
    assert (tmp_path / "run" / "mine.txt").exists()


def test_a_run_without_a_name_gets_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table(60)[0].to_csv(tmp_path / "data.csv", index=False)
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        assert command(monkeypatch, "train", "data.csv", "--label", "label", *EPOCHS) == 0
        assert (tmp_path / "runs" / f"data-{number}" / "DONE").exists()
    first, second = (pd.read_parquet(tmp_path / "runs" / f"data-{i}" / "findings.parquet") for i in (1, 2))
    pd.testing.assert_frame_equal(first, second)  # equal seeds, equal results


NEVER = 1_000_000  # epochs


def _start(folder: Path, *more: str) -> subprocess.Popen[str]:
    """Train for 150 epochs, however early the run settles, so that there is time to interrupt it."""
    # A shell that starts the tests in the background has them ignore SIGINT.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += "import torch; torch.set_num_threads(1); from rockafellian.training import stopping; "
    code += f"stopping.PATIENCE = {NEVER}; from rockafellian.cli.main import main; main()"
    arguments = ["train", str(folder / "data.csv"), "--label", "label", "--out", str(folder / "run"), "--epochs", "150"]
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments, *more], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_ctrl_c_keeps_what_is_done_and_resume_ends_as_if_nothing_had_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "PATIENCE", NEVER)
    table(200)[0].to_csv(tmp_path / "data.csv", index=False)
    process = _start(tmp_path)
    deadline = time.monotonic() + 60
    while not (tmp_path / "run" / "checkpoint" / "checkpoint.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    _, shown = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "--resume" in shown.splitlines()[-1]
    assert "Traceback" not in shown
    assert not (tmp_path / "run" / "DONE").exists()
    assert command(monkeypatch, "show", tmp_path / "run") == 2
    arguments = ("train", tmp_path / "data.csv", "--label", "label", "--epochs", 150)
    assert command(monkeypatch, *arguments, "--out", tmp_path / "run", "--seed", 3, "--resume") == 2  # another run
    assert command(monkeypatch, *arguments, "--out", tmp_path / "run", "--resume") == 0
    assert command(monkeypatch, *arguments, "--out", tmp_path / "whole") == 0
    resumed, whole = (pd.read_parquet(tmp_path / name / "findings.parquet") for name in ("run", "whole"))
    pd.testing.assert_frame_equal(resumed, whole)


def test_a_full_disk_is_one_line_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table(200)[0].to_csv(tmp_path / "data.csv", index=False)
    arguments = ["train", tmp_path / "data.csv", "--label", "label", "--out", tmp_path / "run", *EPOCHS]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, before[1]))
    try:
        with monkeypatch.context() as patched:
            patched.setattr(outputs, "render", lambda report: render(report).ljust(2_000_000))
            assert command(patched, *arguments) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    shown = capsys.readouterr().err
    assert shown.splitlines()[-1].startswith("error: need more space on the disk")
    assert "Traceback" not in shown
    assert not (tmp_path / "run" / "DONE").exists()
    assert not list(tmp_path.rglob("*.partial"))
    assert command(monkeypatch, *arguments, "--resume") == 0
    assert (tmp_path / "run" / "DONE").exists()


def test_texts_are_detected_and_their_mislabeled_rows_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    frame, wrong = texts(800)
    frame.to_csv(tmp_path / "reviews.tsv", index=False, sep="\t")
    arguments = ("train", tmp_path / "reviews.tsv", "--label", "label", "--encoder", "none", "--out", tmp_path / "run")
    assert command(monkeypatch, *arguments) == 0
    assert "texts in column 'review'" in capsys.readouterr().out
    assert f1(pd.read_parquet(tmp_path / "run" / "findings.parquet")["is_label_issue"].to_numpy(), wrong) > 0.8
    assert (tmp_path / "run" / "cleaned.tsv").read_text().startswith("review\tlabel\n")


def test_a_folder_of_classes_is_detected_and_its_mislabeled_files_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = image_folder(tmp_path / "images", 400)
    assert command(monkeypatch, "train", tmp_path / "images", "--out", tmp_path / "run") == 0
    assert "images by the paths in column 'file'" in capsys.readouterr().out
    found = pd.read_parquet(tmp_path / "run" / "findings.parquet")
    assert found["id"].tolist() == sorted(wrong)
    assert f1(found["is_label_issue"].to_numpy(), np.array([wrong[file] for file in found["id"]])) > 0.8
    arguments = ("predict", tmp_path / "run", tmp_path / "images", "--out", tmp_path / "predicted.csv")
    assert command(monkeypatch, *arguments) == 0
    assert len(pd.read_csv(tmp_path / "predicted.csv")) == len(wrong)
    assert command(monkeypatch, "export", tmp_path / "run", "--out", tmp_path / "tasks.json") == 0
    [first, *_] = json.loads((tmp_path / "tasks.json").read_text())
    assert first["data"]["image"] == f"/data/local-files/?d={first['data']['id']}"


def test_images_by_path_in_a_csv_give_what_the_folder_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = sorted(image_folder(tmp_path / "images", 60))
    pd.DataFrame({"path": files, "kind": [file.split("/")[0] for file in files]}).to_csv(
        tmp_path / "images" / "list.csv", index=False
    )
    arguments = ("train", tmp_path / "images" / "list.csv", "--label", "kind", "--image", "path", *EPOCHS)
    assert command(monkeypatch, *arguments, "--out", tmp_path / "by-path") == 0
    (tmp_path / "images" / "list.csv").rename(tmp_path / "list.csv")
    assert command(monkeypatch, "train", tmp_path / "images", "--out", tmp_path / "by-folder", *EPOCHS) == 0
    by_path, by_folder = (pd.read_parquet(tmp_path / each / "findings.parquet") for each in ("by-path", "by-folder"))
    pd.testing.assert_frame_equal(by_path.drop(columns="id"), by_folder.drop(columns="id"))


def test_arrays_of_numbers_and_of_images_are_read_and_written_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 80)
    for name, x in {
        "numbers": random.normal(size=(80, 3)) + 3 * y[:, None],
        "images": random.integers(0, 90, (80, 9, 9), dtype=np.uint8) + (120 * y[:, None, None]).astype(np.uint8),
    }.items():
        np.savez(tmp_path / f"{name}.npz", X=x, y=y)
        assert command(monkeypatch, "train", tmp_path / f"{name}.npz", "--out", tmp_path / name, *EPOCHS) == 0
        flagged = pd.read_parquet(tmp_path / name / "findings.parquet")["is_label_issue"].to_numpy()
        with np.load(tmp_path / name / "cleaned.npz") as cleaned:
            np.testing.assert_array_equal(cleaned["X"], x[~flagged])
            np.testing.assert_array_equal(cleaned["y"], y[~flagged])
        np.savez(tmp_path / "new.npz", X=x[:5])
        out = tmp_path / f"{name}.csv"
        assert command(monkeypatch, "predict", tmp_path / name, tmp_path / "new.npz", "--out", out) == 0
        assert len(pd.read_csv(out)) == 5


def test_text_for_people_is_safe_in_a_spreadsheet_and_data_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, _ = table(80)
    frame["id"] = [f"=cmd|'/c calc'!A{i}" for i in range(80)]
    frame["label"] = frame["label"].map({"cat": "@evil", "dog": "-1"})
    frame.to_csv(tmp_path / "data.csv", index=False)
    arguments = (
        "train",
        tmp_path / "data.csv",
        "--label",
        "label",
        "--out",
        tmp_path / "run",
        "--contamination",
        "0.2",
    )
    assert command(monkeypatch, *arguments, *EPOCHS) == 0
    with (tmp_path / "run" / "findings.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [f"'{name}" for name in frame["id"]]
    assert {row["given_label"] for row in rows} == {"'@evil", "-1"}
    assert pd.read_csv(tmp_path / "run" / "relabeled.csv")["id"].tolist() == frame["id"].tolist()
    chosen = f"index,id,decision,label\n0,\"'{frame['id'][0]}\",relabel,'@evil\n"
    (tmp_path / "decisions.csv").write_text(chosen)
    assert command(monkeypatch, "apply", tmp_path / "run", tmp_path / "decisions.csv", "--out", tmp_path / "o.csv") == 0
    assert pd.read_csv(tmp_path / "o.csv")["label"][0] == "@evil"


def test_data_that_changed_since_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    frame, _ = table(60)
    frame.to_csv(tmp_path / "data.csv", index=False)
    assert (
        command(monkeypatch, "train", tmp_path / "data.csv", "--label", "label", "--out", tmp_path / "run", *EPOCHS)
        == 0
    )
    (tmp_path / "decisions.csv").write_text("index,id,decision,label\n0,row-0000,drop,\n")
    frame[::-1].to_csv(tmp_path / "data.csv", index=False)
    arguments = ("apply", tmp_path / "run", tmp_path / "decisions.csv", "--out", tmp_path / "out.csv")
    assert command(monkeypatch, *arguments) == 2
    assert "has changed since" in capsys.readouterr().err
    frame.to_csv(tmp_path / "moved.csv", index=False)
    assert command(monkeypatch, *arguments, "--data", tmp_path / "moved.csv") == 0
    assert len(pd.read_csv(tmp_path / "out.csv")) == 59


def test_an_attack_a_loss_and_a_validation_set_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table(150)[0].to_csv(tmp_path / "data.csv", index=False)
    table(60, share=0.0, seed=5)[0].to_parquet(tmp_path / "valid.parquet")
    arguments = ("train", tmp_path / "data.csv", "--label", "label", "--valid", tmp_path / "valid.parquet")
    arguments += ("--attack", "fgsm", "--eps", "0.1", "--loss", "mse", "--contamination", "0.2")
    assert command(monkeypatch, *arguments, "--out", tmp_path / "run") == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["validation_accuracy"] > 0.9
    assert summary["flagged_rows"] == 30
    assert summary["noise_rate"] is None
