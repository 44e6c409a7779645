"""`rk.audit`: frames in, frames of the same kind out, and nothing else touched."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from samples import f1, image_folder, table, texts

import rockafellian as rk
from rockafellian.auditing.commands.audit import Audited

QUICK: dict[str, Any] = {"epochs": 10, "contamination": 0.2, "progress": "quiet"}


def flagged(audited: Audited) -> np.ndarray:
    marked: np.ndarray = audited.findings["is_label_issue"].to_numpy()
    return marked


def wanted(audited: Audited, before: list[Any]) -> list[str]:
    """The labels after relabelling, by the findings."""
    found = audited.findings
    return [
        new if out else str(old)
        for old, new, out in zip(before, found["predicted_label"], flagged(audited), strict=True)
    ]


def test_mislabeled_rows_are_found_without_knowing_the_noise_rate() -> None:
    frame, wrong = table(400)
    audited = rk.audit(frame, "label", crisp=True, progress="quiet")
    assert f1(flagged(audited), wrong) > 0.8
    assert audited.estimate is not None
    assert audited.estimate.floor.low <= 0.2 <= audited.estimate.ceiling.high
    assert repr(audited) == f"Audited(400 rows, {flagged(audited).sum()} label issues)"
    assert audited.folder is None
    assert len(audited.history.epochs) >= 10


def test_a_pandas_frame_keeps_its_index_its_kinds_of_columns_and_itself() -> None:
    frame, _ = table(100)
    frame.index = pd.Index([f"key {i % 60}" for i in range(100)], name="key")  # some come twice
    frame = frame.astype({"label": "category", "colour": "category"}).assign(count=pd.array([1, None] * 50, "Int64"))
    before = frame.copy(deep=True)
    audited = rk.audit(frame, "label", **QUICK)
    pd.testing.assert_frame_equal(frame, before)
    pd.testing.assert_frame_equal(audited.cleaned, before[~flagged(audited)])
    after = audited.relabeled
    pd.testing.assert_frame_equal(after.drop(columns="label"), before.drop(columns="label"))
    assert after["label"].dtype == before["label"].dtype
    assert after["label"].tolist() == wanted(audited, before["label"].tolist())
    assert (after["label"] != before["label"]).any()


@pytest.mark.parametrize(
    "labels",
    [
        np.array([-1, 1]),
        np.array([False, True]),
        np.array([0.0, 1.0]),
        np.array([0, 1], np.uint8),
        pd.array([3, 7], "Int16"),
        pd.array([True, False], "boolean"),
        pd.array(["a", "b"], "string[python]"),
        pd.Categorical([10, 2]),
        pd.Categorical(["lo", "hi"], ["lo", "hi"], ordered=True),
        np.array(["a", "b"], object),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_labels_keep_their_kind_when_they_are_changed(labels: Any) -> None:
    frame, _ = table(60)
    frame["label"] = (
        pd.Series(labels).take((frame["label"] == "dog").astype(int)).to_numpy()
        if isinstance(labels, np.ndarray)
        else labels.take((frame["label"] == "dog").to_numpy().astype(int))
    )
    audited = rk.audit(frame, "label", **QUICK)
    after = audited.relabeled["label"]
    assert after.dtype == frame["label"].dtype
    assert after.isna().sum() == 0
    kept = ~flagged(audited)
    assert after[kept].tolist() == frame["label"][kept].tolist()
    assert set(after.unique()) == set(frame["label"].unique())
    assert (after != frame["label"]).any()


def test_missing_labels_stay_missing() -> None:
    frame, _ = table(100)
    frame["label"] = (frame["label"] == "dog").astype(float)
    frame.loc[[4, 9], "label"] = np.nan
    audited = rk.audit(frame, "label", **QUICK)
    assert audited.relabeled["label"].isna().to_numpy().nonzero()[0].tolist() == [4, 9]
    assert audited.relabeled["label"].dtype == float
    assert set(audited.relabeled["label"].dropna()) == {0.0, 1.0}
    assert audited.findings["predicted_label"].notna().all()
    assert audited.findings["reason"][4] == "no label given"
    assert audited.cleaned["label"].isna().sum() == 2


def test_a_category_with_blanks_gives_way_to_text_rather_than_lose_labels() -> None:
    frame, _ = table(60)
    frame["label"] = pd.Categorical(frame["label"].map({"cat": " cat", "dog": "dog "}))
    after = rk.audit(frame, "label", **QUICK).relabeled["label"]
    assert after.notna().all()
    assert set(after.str.strip()) == {"cat", "dog"}


def test_columns_may_be_named_by_numbers() -> None:
    frame = table(60)[0].drop(columns="id")
    frame.columns = pd.Index(range(5))
    audited = rk.audit(frame, "4", **QUICK)
    assert audited.relabeled.columns.tolist() == list(range(5))
    assert audited.relabeled[4].tolist() == wanted(audited, frame[4].tolist())


def test_a_polars_frame_comes_back_as_one_with_its_schema() -> None:
    frame = pl.from_pandas(table(60)[0]).with_columns(pl.col("label").cast(pl.Enum(["dog", "cat"])))
    frame = frame.with_columns(pl.col("colour").cast(pl.Categorical))
    audited = rk.audit(frame, "label", **QUICK)
    assert audited.cleaned.equals(frame.filter(~flagged(audited)))
    after = audited.relabeled
    assert after.schema == frame.schema
    assert after.drop("label").equals(frame.drop("label"))
    assert after["label"].to_list() == wanted(audited, frame["label"].to_list())


def test_a_pyarrow_table_comes_back_as_one_with_its_schema() -> None:
    frame = pa.Table.from_pandas(table(60)[0].astype({"label": "category"}), preserve_index=False)
    audited = rk.audit(frame, "label", **QUICK)
    assert audited.cleaned.equals(frame.filter(pa.array(~flagged(audited))))
    assert audited.relabeled.schema.types == frame.schema.types
    assert audited.relabeled.drop(["label"]).equals(frame.drop(["label"]))
    assert audited.relabeled.column("label").to_pylist() == wanted(audited, frame.column("label").to_pylist())


def test_frames_of_all_kinds_and_files_are_audited_alike(tmp_path: Path) -> None:
    frame, _ = table(60)
    frame.to_parquet(tmp_path / "data.parquet")
    frame.to_csv(tmp_path / "data.csv", index=False)
    kinds = [pl.from_pandas(frame), pa.Table.from_pandas(frame), tmp_path / "data.parquet", str(tmp_path / "data.csv")]
    expected = rk.audit(frame, "label", **QUICK).findings
    for each in kinds:
        pd.testing.assert_frame_equal(rk.audit(each, "label", **QUICK).findings, expected)


def test_of_a_file_cleaned_is_a_pandas_frame_of_what_is_written(tmp_path: Path) -> None:
    table(60)[0].to_csv(tmp_path / "data.csv", index=False)
    audited = rk.audit(tmp_path / "data.csv", "label", out=tmp_path / "run", **QUICK)
    written = pd.read_csv(tmp_path / "run" / "cleaned.csv", dtype=str)
    pd.testing.assert_frame_equal(audited.cleaned, written, check_dtype=False)


def test_predictions_have_the_index_of_the_frame_and_the_classes_as_columns() -> None:
    audited = rk.audit(table(200)[0], "label", **QUICK)
    new = table(50, share=0.0, seed=9)[0].set_index("id", drop=False)
    predicted = audited.predict(new.drop(columns="label"))
    assert predicted.index.equals(new.index)
    assert predicted.columns.tolist() == ["cat", "dog"]
    assert (predicted.idxmax(axis=1) == new["label"]).mean() > 0.9
    np.testing.assert_allclose(predicted.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(audited.predict(pl.from_pandas(new)).to_numpy(), predicted.to_numpy())


def test_a_folder_and_a_page_are_written_on_request_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    audited = rk.audit(table(60)[0], "label", **QUICK)
    assert list(tmp_path.iterdir()) == []
    audited.report(tmp_path / "page.html")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert "</html>" in (tmp_path / "page.html").read_text(encoding="utf-8")
    written = rk.audit(table(60)[0], "label", out="run", **QUICK)
    assert written.folder == Path("run")
    assert {"DONE", "data.parquet", "findings.csv", "cleaned.parquet", "report.html", "model"} <= {
        path.name for path in (tmp_path / "run").iterdir()
    }
    pd.testing.assert_frame_equal(pd.read_parquet("run/findings.parquet"), audited.findings, check_dtype=False)


def test_decisions_can_be_applied_to_a_frame_that_was_audited(tmp_path: Path) -> None:
    from rockafellian.auditing.commands.apply import apply

    frame, _ = table(60)
    rk.audit(frame, "label", out=tmp_path / "run", **QUICK)
    (tmp_path / "decisions.csv").write_text("index,id,decision,label\n0,row-0000,drop,\n1,row-0001,relabel,dog\n")
    made = apply(tmp_path / "run", [tmp_path / "decisions.csv"], tmp_path / "new.parquet")
    assert (made.rows, made.relabeled, made.dropped) == (59, 1, 1)
    after = pd.read_parquet(tmp_path / "new.parquet")
    assert after["id"].tolist() == frame["id"].tolist()[1:]
    assert after["label"].tolist() == ["dog", *frame["label"][2:]]


def test_equal_seeds_give_equal_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        rk.audit(table(60)[0], "label", out=tmp_path / name, seed=3, epochs=10, progress="quiet")
    for file in (
        "findings.csv",
        "cleaned.parquet",
        "relabeled.parquet",
        "model/model.json",
        "model/model.safetensors",
    ):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file
    other = rk.audit(table(60)[0], "label", seed=4, epochs=10, progress="quiet")
    first = pd.read_parquet(tmp_path / "one" / "findings.parquet")
    assert not np.array_equal(first["predicted_probability"], other.findings["predicted_probability"])


@pytest.mark.parametrize("share", ["auto", 0.2])
def test_random_numbers_and_threads_are_left_as_they_were(share: Any) -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        rk.audit(table(60)[0], "label", contamination=share, epochs=10, progress="quiet")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(before[0], torch.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002
    assert random.getstate() == before[2]


def test_names_of_classes_that_are_html_are_shown_as_text(tmp_path: Path) -> None:
    frame, _ = table(60)
    hostile = "<script>window.hacked=1</script>"
    frame["label"] = frame["label"].map({"cat": hostile, "dog": "=HYPERLINK(1)"})
    audited = rk.audit(frame, "label", out=tmp_path / "run", **QUICK)
    assert hostile not in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert '"=HYPERLINK' not in (tmp_path / "run" / "findings.csv").read_text()
    assert set(audited.relabeled["label"]) == {hostile, "=HYPERLINK(1)"}


def test_a_rare_class_is_not_taken_for_an_error() -> None:
    random_numbers = np.random.default_rng(0)
    rare = np.arange(400) % 33 == 0
    frame = pd.DataFrame({"x": rare * 6 + random_numbers.normal(size=400), "z": random_numbers.normal(size=400)})
    frame["label"] = np.where(rare, "rare", "usual")
    found = rk.audit(frame, "label", progress="quiet").findings
    assert found["is_label_issue"][rare].mean() < 0.3
    assert found["is_label_issue"].mean() < 0.03


def test_three_classes_with_missing_cells_in_parquet(tmp_path: Path) -> None:
    random_numbers = np.random.default_rng(0)
    true = random_numbers.integers(0, 3, 300)
    wrong = random_numbers.random(300) < 0.2
    given = np.where(wrong, (true + 1 + random_numbers.integers(0, 2, 300)) % 3, true)
    x = np.eye(3)[true] * 4 + random_numbers.normal(size=(300, 3))
    x[random_numbers.random(x.shape) < 0.03] = np.nan
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(label=pd.Series(given).map({0: "p", 1: "q", 2: "r"}))
    frame.loc[::50, "label"] = None
    frame.to_parquet(tmp_path / "data.parquet")
    audited = rk.audit(tmp_path / "data.parquet", "label", crisp=True, progress="quiet")
    known = frame["label"].notna().to_numpy()
    assert f1(flagged(audited)[known], wrong[known]) > 0.75
    assert not flagged(audited)[~known].any()


@pytest.mark.parametrize("options", [{"loss": "elr"}, {"loss": "mae"}, {"attack": "pgd", "eps": 0.05}])
def test_other_losses_and_attacks_find_most_mislabeled_rows_too(options: dict[str, Any]) -> None:
    frame, wrong = table(200)
    assert f1(flagged(rk.audit(frame, "label", **QUICK, **options)), wrong) > 0.7


@pytest.mark.parametrize(
    "made", [lambda codes: pd.cut(codes, [-1, 0, 1]), lambda codes: pd.PeriodIndex.from_ordinals(codes, freq="M")]
)
def test_labels_that_are_intervals_or_periods_are_called_as_they_print(made: Any) -> None:
    frame, _ = table(60)
    frame["label"] = made((frame["label"] == "dog").to_numpy().astype(int))
    audited = rk.audit(frame, "label", **QUICK)
    printed = frame["label"].astype(str).tolist()
    assert audited.findings["given_label"].tolist() == printed
    assert audited.relabeled["label"].astype(str).tolist() == wanted(audited, printed)


def test_findings_have_one_schema_in_memory_and_in_files(tmp_path: Path) -> None:
    found = rk.audit(table(60)[0], "label", out=tmp_path / "run", **QUICK).findings
    assert found.columns.tolist() == [
        *("index", "id", "given_label", "predicted_label", "predicted_probability", "label_quality", "is_label_issue"),
        *("average_loss", "average_margin", "weight", "last_removed_round", "reason"),
    ]
    assert found["index"].tolist() == list(range(60))
    for other in (
        pd.read_csv(tmp_path / "run" / "findings.csv"),
        pd.read_parquet(tmp_path / "run" / "findings.parquet"),
    ):
        assert other.columns.tolist() == found.columns.tolist()
        assert other["index"].tolist() == found["index"].tolist()


def test_a_label_issue_has_another_label_predicted() -> None:
    frame, _ = table(200)
    audited = rk.audit(frame, "label", epochs=10, contamination=0.5, progress="quiet")
    found = audited.findings
    assert (found["weight"] == 0).sum() > found["is_label_issue"].sum() > 0  # the method removed more than it flags
    assert (found["given_label"] != found["predicted_label"])[found["is_label_issue"]].all()
    changed = audited.relabeled["label"].to_numpy() != frame["label"].to_numpy()
    np.testing.assert_array_equal(changed, flagged(audited))


def test_a_notebook_shows_the_worst_label_issues_as_text() -> None:
    frame, _ = table(60)
    frame["label"] = frame["label"].map({"cat": "<b>cat</b>", "dog": "dog"})
    audited = rk.audit(frame, "label", **QUICK)
    shown = audited._repr_html_()
    found = audited.findings
    assert found["id"][found["label_quality"].where(flagged(audited)).idxmin()] in shown
    assert "<b>" not in shown


def test_tables_may_be_ambiguous_by_default_and_texts_and_images_have_one_right_answer(tmp_path: Path) -> None:
    frame, _ = table(60)
    assert rk.audit(frame, "label", **QUICK).problem.crisp is False
    assert rk.audit(frame, "label", crisp=True, **QUICK).problem.crisp is True
    assert rk.audit(texts(60)[0], "label", text="review", **QUICK).problem.crisp is True
    image_folder(tmp_path / "images", 30)
    assert rk.audit(tmp_path / "images", **QUICK).problem.crisp is True
    with pytest.raises(ValueError, match="need crisp to be True, False or None, got 1"):
        rk.audit(frame, "label", crisp=1, **QUICK)


def test_ambiguous_labels_are_flagged_by_what_the_floor_is_sure_of_and_crisp_ones_up_to_the_ceiling() -> None:
    frame, wrong = table(400)
    ambiguous, crisp = (rk.audit(frame, "label", epochs=15, crisp=each, progress="quiet") for each in (False, True))
    assert ambiguous.estimate == crisp.estimate is not None
    assert flagged(ambiguous).sum() <= ambiguous.estimate.floor.low * 400 + 1
    assert flagged(ambiguous).sum() < flagged(crisp).sum()
    assert wrong[flagged(ambiguous)].mean() >= 0.9
