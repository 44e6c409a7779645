"""Rows with several labels, in columns of 0 and 1, with a separator or as lists: from the data to corrected data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from samples import command, f1, flips

import rockafellian as rk

NAMES = ["fog", "sea", "sun"]
GIVEN_RATE = ("--contamination", "0.15", "--epochs", 12)


class Made(NamedTuple):
    x: NDArray[np.float64]
    true: NDArray[np.bool_]
    given: NDArray[np.bool_]
    wrong: NDArray[np.bool_]


def make(n: int = 300, share: float = 0.15, seed: int = 0) -> Made:
    """Three numbers that tell three labels; in some rows one label is flipped."""
    random = np.random.default_rng(seed)
    true = random.random((n, 3)) < 0.5
    x = np.where(true, 2.0, -2.0) + 0.7 * random.normal(size=(n, 3))
    wrong, given = flips(n, share, seed), true.copy()
    rows = np.flatnonzero(wrong)
    given[rows, random.integers(0, 3, len(rows))] ^= True
    return Made(x, true, given, wrong)


def sets(has: NDArray[np.bool_]) -> list[list[str]]:
    return [[name for name, own in zip(NAMES, row, strict=True) if own] for row in has]


def frame_of(made: Made, form: str) -> pd.DataFrame:
    frame = pd.DataFrame(made.x, columns=["p", "q", "r"])
    if form == "columns":
        return frame.assign(**{name: made.given[:, i].astype(int) for i, name in enumerate(NAMES)})
    # A cell with nothing in it is no label; so that every row has one, "any" comes with all.
    tagged = [["any", *each] for each in sets(made.given)]
    return frame.assign(tags=[";".join(each) for each in tagged] if form == "separator" else tagged)


def write(folder: Path, made: Made, form: str) -> tuple[Path, list[object]]:
    """The file, and what to say of its labels."""
    frame = frame_of(made, form)
    if form == "lists":
        frame.to_parquet(folder / "data.parquet")
        return folder / "data.parquet", ["--label", "tags"]
    frame.to_csv(folder / "data.csv", index=False)
    if form == "separator":
        return folder / "data.csv", ["--label", "tags", "--separator", ";"]
    return folder / "data.csv", [each for name in NAMES for each in ("--label", name)]


def labels_in(path: Path, form: str) -> NDArray[np.bool_]:
    """The labels in a file that was written, as a mask."""
    frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    if form == "columns":
        return frame[NAMES].to_numpy(bool)
    tags = frame["tags"].str.split(";") if form == "separator" else frame["tags"]
    return np.array([[name in row for name in NAMES] for row in tags])


class Run(NamedTuple):
    folder: Path
    form: str
    made: Made
    found: pd.DataFrame

    @property
    def flagged(self) -> NDArray[np.bool_]:
        return self.found["is_label_issue"].to_numpy()

    def copy(self, name: str) -> Path:
        return self.folder / f"{name}{'.parquet' if self.form == 'lists' else '.csv'}"


@pytest.fixture(scope="module", params=["columns", "separator", "lists"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder, made = tmp_path_factory.mktemp(request.param), make()
    data, predicted = write(folder, made, request.param)
    patch = pytest.MonkeyPatch()
    assert command(patch, "train", data, *predicted, *GIVEN_RATE, "--out", folder / "run") == 0
    patch.undo()
    found = pd.read_parquet(folder / "run" / "findings.parquet")
    return Run(folder / "run", request.param, made, found)


def test_rows_with_a_wrong_label_are_found(run: Run) -> None:
    assert f1(run.flagged, run.made.wrong) > 0.9


@pytest.mark.parametrize(
    ("n", "seed"),
    [(1500, 0), (500, 1), (800, 0)],
)
def test_rows_with_a_wrong_label_are_found_without_knowing_the_noise_rate(
    n: int, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(n, seed=seed)
    data, predicted = write(tmp_path, made, "columns")
    assert command(monkeypatch, "train", data, *predicted, "--crisp", "--epochs", 12, "--out", tmp_path / "run") == 0
    found = pd.read_parquet(tmp_path / "run" / "findings.parquet")
    assert f1(found["is_label_issue"].to_numpy(), made.wrong) >= 0.6


def test_nothing_is_flagged_in_clean_data() -> None:
    audited = rk.audit(frame_of(make(share=0.0), "columns"), NAMES, epochs=12, progress="quiet")
    assert audited.flagged.sum() == 0


def test_labels_are_named_as_a_person_reads_them(run: Run) -> None:
    joint = ";" if run.form == "separator" else " | "
    first = [] if run.form == "columns" else ["any"]
    assert run.found["given_label"].tolist() == [joint.join([*first, *each]) for each in sets(run.made.given)]
    assert run.found["predicted_probability"].between(0, 1).all()
    predicted = np.array([[name in text for name in NAMES] for text in run.found["predicted_label"]])
    assert (predicted == run.made.true).all(1).mean() > 0.9


def test_cleaned_data_lack_the_flagged_rows(run: Run) -> None:
    np.testing.assert_array_equal(labels_in(run.copy("cleaned"), run.form), run.made.given[~run.flagged])


def test_relabeled_data_have_other_labels_in_flagged_rows_only(run: Run) -> None:
    new = labels_in(run.copy("relabeled"), run.form)
    np.testing.assert_array_equal(new[~run.flagged], run.made.given[~run.flagged])
    assert (new == run.made.true).all(1).mean() > 0.97 > (run.made.given == run.made.true).all(1).mean()


def test_the_page_lists_the_label_issues_with_all_their_labels(run: Run) -> None:
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    worst = run.found[run.found["is_label_issue"]].sort_values("label_quality").iloc[0]
    assert page.rstrip().endswith("</html>")
    assert worst["given_label"] in page
    assert all(name in page for name in NAMES)


def test_the_summary_counts_every_label(run: Run) -> None:
    summary = json.loads((run.folder / "summary.json").read_text())
    assert summary["flagged_rows"] == run.flagged.sum() == 45
    assert {name: summary["classes"][name]["rows"] for name in NAMES} == dict(
        zip(NAMES, run.made.given.sum(0).tolist(), strict=True)
    )


def test_decisions_are_applied_to_sets_of_labels(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    joint = ";" if run.form == "separator" else " | "
    first = "" if run.form == "columns" else f"any{joint}"
    lines = ["index,id,decision,label", "0,0,drop,", f"1,1,relabel,{first}fog{joint}sun", "2,2,keep,", "3,3,skip,"]
    (tmp_path / "decisions.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path / run.copy("new").name
    assert command(monkeypatch, "apply", run.folder, tmp_path / "decisions.csv", "--out", out) == 0
    wanted = run.made.given.copy()
    wanted[1] = [True, False, True]
    np.testing.assert_array_equal(labels_in(out, run.form), wanted[1:])


def test_a_decision_for_a_label_that_is_none_is_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    joint = ";" if run.form == "separator" else " | "
    (tmp_path / "decisions.csv").write_text(f"index,id,decision,label\n1,1,relabel,fog{joint}snow\n")
    arguments = ("apply", run.folder, tmp_path / "decisions.csv", "--out", tmp_path / run.copy("new").name)
    assert command(monkeypatch, *arguments) == 2
    assert "'snow'" in capsys.readouterr().err


def test_label_studio_gets_a_choice_for_each_label(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command(monkeypatch, "export", run.folder, "--out", tmp_path / "tasks.json") == 0
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert {task["data"]["index"] for task in tasks} == set(np.flatnonzero(run.flagged).tolist())
    choices = ElementTree.parse(tmp_path / "tasks.xml").find(".//Choices")
    assert choices is not None
    assert choices.get("choice") == "multiple"
    offered = {each.get("value") for each in choices}
    chosen = [
        made["value"]["choices"] for task in tasks for each in task.get("predictions", ()) for made in each["result"]
    ]
    assert chosen
    assert all(set(each) <= offered for each in chosen)


def test_predictions_name_the_labels_and_how_likely_each_is(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = make(50, seed=7)
    pd.DataFrame(new.x, columns=["p", "q", "r"]).to_csv(tmp_path / "new.csv", index=False)
    assert command(monkeypatch, "predict", run.folder, tmp_path / "new.csv", "--out", tmp_path / "predicted.csv") == 0
    predicted = pd.read_csv(tmp_path / "predicted.csv")
    likely = predicted[[f"probability_{name}" for name in NAMES]].to_numpy() > 0.5
    assert (likely == new.true).mean() > 0.95
    named = np.array([[name in text for name in NAMES] for text in predicted["predicted_label"].fillna("")])
    np.testing.assert_array_equal(named, likely)


def test_a_mask_in_an_npz_file_is_several_labels_and_is_written_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make()
    np.savez(tmp_path / "data.npz", X=made.x, y=made.given.astype(int))
    assert command(monkeypatch, "train", tmp_path / "data.npz", *GIVEN_RATE, "--out", tmp_path / "run") == 0
    flagged = pd.read_parquet(tmp_path / "run" / "findings.parquet")["is_label_issue"].to_numpy()
    assert f1(flagged, made.wrong) > 0.9
    with np.load(tmp_path / "run" / "relabeled.npz") as new:
        assert new["y"].shape == (300, 3)
        assert (new["y"] == made.true).all(1).mean() > 0.97


@pytest.mark.parametrize("form", ["columns", "lists"])
def test_a_frame_with_several_labels_comes_back_with_its_kinds_of_columns(form: str) -> None:
    made = make()
    frame = frame_of(made, form)
    label = NAMES if form == "columns" else "tags"
    audited = rk.audit(frame, label, contamination=0.15, epochs=12, progress="quiet")
    after = audited.relabeled
    assert after.dtypes.tolist() == frame.dtypes.tolist()
    mask: Any = after[NAMES] if form == "columns" else [[name in row for name in NAMES] for row in after["tags"]]
    assert (np.asarray(mask, bool) == made.true).all(1).mean() > 0.97
    pd.testing.assert_frame_equal(audited.cleaned, frame[~audited.flagged])


def test_rows_without_labels_are_set_aside_and_get_a_suggestion() -> None:
    made = make()
    frame = frame_of(made, "lists")
    frame.loc[[3, 5], "tags"] = None
    audited = rk.audit(frame, "tags", contamination=0.15, epochs=12, progress="quiet")
    found = audited.findings
    assert found["reason"][[3, 5]].tolist() == ["no label given"] * 2
    assert not found["is_label_issue"][[3, 5]].any()
    assert found["predicted_label"][[3, 5]].str.startswith("any").all()
    assert audited.relabeled["tags"][[3, 5]].isna().all()
