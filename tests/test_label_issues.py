import csv
import re
import sys
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import rockafellian as rk
from rockafellian._internal.extras import install_command
from rockafellian._internal.files import unescape_formula
from rockafellian.label_issues import COLUMNS, Findings, findings

LABELS = torch.tensor([0, 1, 2, 0])
LOGITS = torch.tensor([[4.0, 0, 0], [3.0, 0, 0], [0, 0, 1.0], [0, 2.0, 0]])  # disagrees with rows 1 and 3, most with 1
LOSSES = torch.tensor([0.1, 5.0, 0.3, 0.4])


def seen(logits: torch.Tensor = LOGITS, labels: torch.Tensor = LABELS, losses: torch.Tensor = LOSSES):
    """Weights after one epoch of a loop that passed logits and labels; a quarter of the rows is removed."""
    weights = rk.SampleWeights(len(labels), rk.RRM(contamination=0.25), class_limit=1)  # some classes have one row
    weights.reduce(losses, torch.arange(len(labels)), logits=logits, labels=labels)
    weights.step()
    return weights


def seen_losses_only(losses: torch.Tensor = LOSSES) -> rk.SampleWeights:
    weights = rk.SampleWeights(len(losses), rk.RRM(contamination=0.25))
    weights.reduce(losses, torch.arange(len(losses)))
    weights.step()
    return weights


def test_rows_come_in_the_order_of_the_data_with_all_that_is_known_of_them() -> None:
    found = findings(seen(), ids=["a", "b", "c", "d"], names=["ant", "bee", "cat"])
    assert found.index.tolist() == [0, 1, 2, 3]
    assert found.id.tolist() == ["a", "b", "c", "d"]
    row = found[1]
    assert list(row) == COLUMNS
    assert (row["index"], row["id"]) == (1, "b")
    assert (row["given_label"], row["predicted_label"]) == ("bee", "ant")
    assert row["predicted_probability"] == pytest.approx(LOGITS[1].softmax(0)[0].item())
    assert row["label_quality"] == pytest.approx(torch.tensor(-3.0).sigmoid().item())
    assert row["is_label_issue"] is True
    assert (row["average_loss"], row["average_margin"]) == (5.0, -3.0)
    assert (row["weight"], row["last_removed_round"]) == (0.0, 1)
    assert row["reason"] == "predicted ant (91 %), labeled bee; average margin -3.0; removed in round 1"


def test_rows_without_ids_have_their_index_as_id() -> None:
    found = findings(seen())
    assert found.id.tolist() == found.index.tolist() == [0, 1, 2, 3]


def test_rows_held_by_one_process_have_their_index_in_the_whole_data() -> None:
    weights = seen()
    weights.rows = range(10, 14)  # as in the second of several processes
    assert findings(weights).index.tolist() == [10, 11, 12, 13]


def test_reasons_tell_agreement_from_disagreement_and_the_removed_from_the_kept() -> None:
    weights = seen()
    weights.reduce(LOSSES.flip(0), torch.arange(4), logits=LOGITS.flip(0) * 0.5, labels=LABELS)
    weights.step()
    assert findings(weights).reason.tolist() == [
        "predicted class 1 (58 %), labeled class 0; average margin 1.5; kept",
        "predicted class 2 (45 %), labeled class 1; average margin -1.8; kept, last removed in round 1",
        "predicted class 0 (69 %), labeled class 2; average margin -0.2; removed in round 2",
        "predicted class 0 (79 %), as labeled; average margin 0.0; kept",
    ]


def test_a_removed_row_whose_label_is_predicted_is_no_label_issue() -> None:
    found = findings(seen(losses=torch.tensor([5.0, 0.1, 0.3, 0.4])))
    assert found.removed.tolist() == [True, False, False, False]
    assert found.is_label_issue.tolist() == [False] * 4
    assert len(found.issues) == 0
    row = found[0]
    assert (row["weight"], row["last_removed_round"]) == (0.0, 1)
    assert row["reason"] == (
        "predicted class 0 (96 %), as labeled; average margin 4.0; removed in round 1, but no other label is predicted"
    )


def test_a_reason_is_one_line_whatever_the_classes_are_called() -> None:
    reasons = findings(seen(), names=["an\nant", "a\r\tbee", "cat"]).reason
    assert all(len(reason.splitlines()) == 1 for reason in reasons)
    assert "an ant" in reasons[1]


@given(st.data(), st.integers(1, 30), st.integers(2, 5), st.booleans())
def test_a_table_has_the_order_of_the_data_and_worst_has_rising_quality(data, n, classes: int, logits_too) -> None:
    numbers = st.integers(-200, 200).map(float)  # wide enough for qualities to saturate, and for ties
    losses = torch.tensor(data.draw(st.lists(numbers, min_size=n, max_size=n)))
    labels = torch.tensor(data.draw(st.lists(st.integers(0, classes - 1), min_size=n, max_size=n)))
    logits = torch.tensor(data.draw(st.lists(numbers, min_size=n * classes, max_size=n * classes))).reshape(n, classes)
    weights = seen(logits, labels, losses) if logits_too else seen_losses_only(losses)
    found = findings(weights, labels)
    assert found.index.tolist() == list(range(n))
    assert ((found.label_quality >= 0) & (found.label_quality <= 1)).all()
    for name, column in (("given_label", labels), ("weight", weights.values), ("removed", weights.removed)):
        assert np.array_equal(getattr(found, name), column.numpy())
    expected = weights.removed & weights.predictions.disagrees if logits_too else weights.removed
    assert np.array_equal(found.is_label_issue, expected.numpy())

    worst = found.worst()
    assert sorted(worst.index.tolist()) == list(range(n))
    assert (np.diff(worst.label_quality) >= 0).all()
    doubt = worst.average_margin if logits_too else -worst.average_loss
    assert (np.diff(doubt) >= 0).all()
    assert (np.diff(worst.index)[np.diff(doubt) == 0] > 0).all()
    assert found.worst(3).index.tolist() == worst.index[:3].tolist()


def test_worst_needs_a_number_of_rows() -> None:
    assert len(findings(seen()).worst(0)) == 0
    assert len(findings(seen()).worst(9)) == 4
    with pytest.raises(ValueError, match="need a number of rows k >= 0, got -1"):
        findings(seen()).worst(-1)


def test_without_logits_rows_are_ranked_by_loss_and_nothing_is_predicted() -> None:
    found = findings(seen_losses_only(), LABELS, names=["ant", "bee", "cat"])
    assert found.worst().index.tolist() == [1, 3, 2, 0]
    assert found.label_quality == pytest.approx(1 / (1 + found.average_loss))
    assert found.given_label.tolist() == ["ant", "bee", "cat", "ant"]
    assert found.predicted_label.tolist() == [None] * 4
    assert found.is_label_issue.tolist() == [False, True, False, False]
    assert np.isnan(found.predicted_probability).all()
    assert found.reason[1] == "average loss 5; removed in round 1"


def test_an_infinite_loss_is_the_worst_and_losses_below_0_are_ranked_too() -> None:
    found = findings(seen_losses_only(torch.tensor([-2.0, torch.inf, 0.0, -1.0])))
    assert found.worst().index.tolist() == [1, 2, 3, 0]
    assert found.label_quality == pytest.approx([1, 0, 1 / 3, 1 / 2])


def test_rows_of_unknown_quality_are_the_last_of_the_worst_and_say_why() -> None:
    weights = rk.SampleWeights(4, rk.RRM(contamination=0.25))
    weights.reduce(LOSSES[[2, 1]], torch.tensor([2, 1]), logits=LOGITS[[2, 1]], labels=LABELS[[2, 1]])
    weights.reduce(LOSSES[[3]], torch.tensor([3]))
    found = findings(weights, LABELS)
    assert found.worst().index.tolist()[:2] == [1, 2]
    assert found.given_label.tolist() == [0, 1, 2, 0]
    assert found.predicted_label.tolist() == [-1, 0, 2, -1]
    assert np.isnan(found.label_quality).tolist() == [True, False, False, True]
    assert found.reason[[0, 3]].tolist() == [
        "not seen in training",
        "seen in training, but its logits were missing or NaN",
    ]


def test_what_was_seen_since_the_last_step_counts() -> None:
    weights = rk.SampleWeights(4, rk.RRM(contamination=0.25))
    weights.reduce(LOSSES, torch.arange(4), logits=LOGITS, labels=LABELS)
    assert findings(weights).average_margin.tolist() == [4, -3, 1, -2]


def test_later_training_leaves_a_table_as_it_was() -> None:
    weights = seen()
    found = findings(weights)
    before = found.to_frame()
    weights.reduce(LOSSES.flip(0), torch.arange(4), logits=LOGITS.flip(0), labels=LABELS)
    weights.step()
    pd.testing.assert_frame_equal(found.to_frame(), before)


def test_issues_slices_masks_and_arrays_are_tables_and_a_position_is_a_row() -> None:
    found = findings(seen())
    assert repr(found) == "Findings(4 rows, 1 label issues)"
    assert (len(found), len(found.issues), len(found[1:])) == (4, 1, 3)
    assert found.issues.index.tolist() == [1]
    assert found[found.average_margin > 0].index.tolist() == [0, 2]
    for which in ([3, 1], np.array([3, 1]), torch.tensor([3, 1])):
        assert found[which].index.tolist() == [3, 1]
    for mask in ([False, True, False, True], torch.tensor([False, True, False, True])):
        assert found[mask].index.tolist() == [1, 3]
    assert len(found[[]]) == 0
    assert [row["index"] for row in found] == [0, 1, 2, 3]
    assert found[-1] == found[3] == found[np.int64(3)]
    with pytest.raises(IndexError):
        found[4]


def test_a_name_gives_a_column() -> None:
    found = findings(seen(), names=["ant", "bee", "cat"])
    for name in COLUMNS:
        assert found[name].tolist() == getattr(found, name).tolist()
    with pytest.raises(KeyError, match=r"need a column of index, id, given_label.*got 'quality'"):
        found["quality"]


def test_a_notebook_shows_the_worst_rows_with_all_text_escaped() -> None:
    labels = torch.arange(20) % 3
    weights = seen(torch.randn(20, 3), labels, torch.rand(20))
    evil = "<script>alert('x')</script>"
    found = findings(weights, ids=[f'<b id="{row}">' for row in range(20)], names=[evil, "bee & co", "cat"])
    page = found._repr_html_()
    assert not re.search("<(script|b )", page)
    assert page.count("<tr>") == 11
    assert "Findings(20 rows, " in page
    first = found.worst(1)[0]
    row = page.split("<tr>")[2]
    cells = [unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)]
    assert cells[:4] == [str(first["index"]), first["id"], first["given_label"], first["predicted_label"]]
    assert cells[4:6] == [f"{first['predicted_probability']:.3g}", f"{first['label_quality']:.3g}"]


def test_a_notebook_shows_unknown_values_as_empty_cells() -> None:
    page = findings(rk.SampleWeights(1, rk.RRM(contamination=0.25)))._repr_html_()
    assert "nan" not in page
    assert "None" not in page
    assert ">-1<" not in page
    assert "not seen in training" in page


@pytest.mark.parametrize("names", [["ant", "bee", "cat"], {2: "cat", 0: "ant", 1: "bee", 9: "unused"}])
@pytest.mark.parametrize("ids", [[30, 10, 0, -7], np.array([30, 10, 0, -7]), torch.tensor([30, 10, 0, -7])])
def test_ids_and_names_come_in_any_container(ids, names) -> None:
    found = findings(seen(), LABELS.tolist(), ids=ids, names=names)
    assert found.id.tolist() == [30, 10, 0, -7]
    assert found.given_label.tolist() == ["ant", "bee", "cat", "ant"]


def test_labels_that_are_floats_or_columns_are_the_same_labels() -> None:
    for labels in (LABELS.double(), LABELS[:, None], LABELS.numpy().astype(np.uint8)):
        assert findings(seen(), labels).given_label.tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": torch.ones(4)}, "need SampleWeights, got Tensor"),
        ({"labels": [0, 1, 2, 1]}, r"need the labels used in training, got others in 1 rows \(row 3: 1, in training 0"),
        ({"labels": [0, 1, 2]}, r"need 4 labels, one per row.*got shape \(3,\)"),
        ({"labels": [0, 1, 2, -1]}, "need 4 labels, one per row, integers >= 0"),
        ({"labels": [0, 1, 2, 0.5]}, "integers >= 0"),
        ({"labels": [0, 1, 2, np.inf]}, "integers >= 0"),
        ({"labels": [0, 1, 2, np.nan]}, "integers >= 0"),
        ({"labels": ["a", "b", "c", "a"]}, "encode the classes as 0, 1, 2, ... and pass their names as names"),
        ({"ids": ["a", "b", "c"]}, "need 4 different ids.*got 3, 3 of them different, of type str"),
        ({"ids": ["a", "b", "c", "a"]}, "got 4, 3 of them different"),
        ({"ids": ["a", "b", "c", 4]}, "all strings or all integers.*of type int, str"),
        ({"ids": [0.5, 1.5, 2.5, 3.5]}, "of type float"),
        ({"ids": [["a"], ["b"], ["c"], ["d"]]}, "of type list"),
        ({"ids": "abcd"}, "need 4 different ids"),
        ({"ids": range(3)}, "need 4 different ids"),
        ({"ids": [1, 2, 3, 2**63]}, "64 bits"),
        ({"ids": ["a", "b", "c", "\udc80"]}, "Unicode text"),
        ({"names": ["ant", "bee"]}, r"need a name for every class.*none for \[2\]"),
        ({"names": {"0": "ant"}}, r"none for \[0, 1, 2\]"),
        ({"names": "abc"}, "need a name for every class, got 'abc'"),
    ],
)
def test_what_does_not_fit_is_an_error_that_says_what_to_pass(changes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        findings(**{"weights": seen(), **changes})


def test_a_frame_has_the_columns_in_order_and_numbers_as_numbers() -> None:
    frame = findings(seen()).to_frame()
    assert list(frame) == COLUMNS
    assert [frame[name].dtype.kind for name in COLUMNS[:-1]] == list("iiiiffbfffi")
    assert frame["index"].tolist() == [0, 1, 2, 3]


def read(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_a_csv_holds_the_frame_and_leaves_no_other_file(tmp_path) -> None:
    weights = rk.SampleWeights(5, rk.RRM(contamination=0.25))
    weights.reduce(LOSSES, torch.arange(4), logits=LOGITS, labels=LABELS)  # row 4 is not seen
    weights.step()
    found = findings(weights)
    found.to_csv(tmp_path / "found.csv")
    found.to_csv(str(tmp_path / "found.csv"))
    assert [path.name for path in tmp_path.iterdir()] == ["found.csv"]
    again, frame = pd.read_csv(tmp_path / "found.csv"), found.to_frame().replace(-1, np.nan)
    pd.testing.assert_frame_equal(again, frame, check_dtype=False, rtol=1e-6)
    last = dict(zip(COLUMNS, read(tmp_path / "found.csv")[-1], strict=True))
    empty = ("given_label", "predicted_label", "predicted_probability", "label_quality", "average_loss")
    assert {last[name] for name in empty} == {""}


hostile = st.text(max_size=6) | st.text("=+-@\t\r\n'\"; ,a", max_size=4) | st.just("=HYPERLINK(1)")


@given(st.lists(hostile, min_size=4, max_size=4, unique=True), st.lists(hostile, min_size=3, max_size=3))
def test_no_text_of_a_csv_is_a_formula_and_all_of_it_comes_back(tmp_path_factory, ids, names) -> None:
    path = tmp_path_factory.mktemp("csv") / "found.csv"
    found = findings(seen(), ids=ids, names=names)
    found.to_csv(path)
    rows = read(path)[1:]
    for place, name in ((1, "id"), (2, "given_label"), (3, "predicted_label"), (-1, "reason")):
        cells = [row[place] for row in rows]
        assert not any(cell.lstrip(" ").startswith(tuple("=+-@\t\r\n")) for cell in cells)
        assert [unescape_formula(cell) for cell in cells] == getattr(found, name).tolist()


def test_numbers_below_0_are_numbers_in_a_csv(tmp_path) -> None:
    findings(seen(), ids=[-1, -2, -3, -4]).to_csv(tmp_path / "found.csv")
    assert (tmp_path / "found.csv").read_text().splitlines()[2].startswith("1,-2,1,0,0.909")
    assert float(read(tmp_path / "found.csv")[2][COLUMNS.index("average_margin")]) == -3


def test_a_spreadsheet_that_splits_at_semicolons_finds_no_formula_either(tmp_path) -> None:
    findings(seen(), ids=["a", "b;=1+1", "c", "d"]).to_csv(tmp_path / "found.csv")
    assert (tmp_path / "found.csv").read_text().splitlines()[2].startswith('1,"b;=1+1",')


def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path, monkeypatch) -> None:
    path = tmp_path / "found.csv"
    path.write_text("old")
    monkeypatch.setattr(Findings, "reason", property(lambda _: 1 / 0))
    for write in (Findings.to_csv, Findings.to_parquet):
        with pytest.raises(ZeroDivisionError):
            write(findings(seen()), path)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("found.csv", "old")]


def test_a_parquet_file_gives_the_same_frame(tmp_path) -> None:
    pytest.importorskip("pyarrow")
    found = findings(seen(), ids=["=a", "b", "c", "d"], names=["ant", "bee", "cat"])
    found.to_parquet(tmp_path / "found.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "found.parquet"), found.to_frame())
    assert [path.name for path in tmp_path.iterdir()] == ["found.parquet"]


@pytest.mark.parametrize(
    ("missing", "call"),
    [("pandas", "to_frame"), ("pandas", "to_cleanlab"), ("pandas", "to_datalab"), ("pyarrow", "to_parquet")],
)
def test_a_missing_library_is_an_error_that_names_the_extra(missing: str, call: str, monkeypatch, tmp_path) -> None:
    found, path = findings(seen()), [tmp_path / "found"] if call == "to_parquet" else []
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=re.escape(f"need {missing} for {call}; {install_command('frames')}")):
        getattr(found, call)(*path)
    assert list(tmp_path.iterdir()) == []


def noisy() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels of which six are wrong, and probabilities of a network that is not fooled."""
    random = np.random.default_rng(0)
    truth = np.arange(90) % 3
    features = 4 * np.eye(3)[truth] + random.normal(size=(90, 3))
    labels = np.where(np.arange(90) < 6, (truth + 1) % 3, truth)
    return features, labels, torch.tensor(features).softmax(1).numpy()


def found_in(labels: np.ndarray, probabilities: np.ndarray, **options) -> Findings:
    logits, given = torch.tensor(probabilities).log().float(), torch.tensor(labels)
    losses = torch.nn.functional.cross_entropy(logits, given, reduction="none")
    return findings(seen(logits, given, losses), **options)


def same_shape(ours: pd.DataFrame, theirs: pd.DataFrame) -> None:
    assert dict(ours.dtypes) == dict(theirs.dtypes)
    assert list(ours) == list(theirs)
    pd.testing.assert_index_equal(ours.index, theirs.index, exact=True)
    for name in ("given_label", "predicted_label"):
        pd.testing.assert_series_equal(ours[name], theirs[name])


def test_a_cleanlab_frame_is_like_that_of_clean_learning_and_trains_it() -> None:
    classification = pytest.importorskip("cleanlab.classification")
    from sklearn.linear_model import LogisticRegression

    features, labels, probabilities = noisy()
    ours = found_in(labels, probabilities).to_cleanlab()
    learning = classification.CleanLearning(LogisticRegression())
    theirs = learning.find_label_issues(labels=labels, pred_probs=probabilities)
    same_shape(ours, theirs)
    assert set(ours.nsmallest(6, "label_quality").index) == set(range(6))
    learning.fit(features, labels, label_issues=ours)
    assert learning.get_label_issues()["is_label_issue"].tolist() == ours["is_label_issue"].tolist()


@pytest.mark.parametrize("names", [None, ["ant", "bee", "cat"]])
def test_a_datalab_frame_is_like_that_of_datalab(names) -> None:
    cleanlab = pytest.importorskip("cleanlab")
    pytest.importorskip("datasets")
    _, labels, probabilities = noisy()
    shown = labels if names is None else np.array(names)[labels]
    lab = cleanlab.Datalab({"label": shown}, label_name="label", verbosity=0)
    lab.find_issues(pred_probs=probabilities, issue_types={"label": {}})
    theirs = lab.get_issues("label")
    ours = found_in(labels, probabilities, names=names).to_datalab()
    same_shape(ours, theirs)
    again = Findings.from_cleanlab(theirs)
    assert again.is_label_issue.sum() == theirs["is_label_issue"].sum()
    pd.testing.assert_frame_equal(again.to_datalab(), theirs)


@pytest.mark.parametrize("names", [None, ["ant", "bee", "cat"]])
@pytest.mark.parametrize("convert", ["to_cleanlab", "to_datalab"])
def test_what_goes_to_cleanlab_comes_back_the_same(convert: str, names) -> None:
    found = found_in(*noisy()[1:], names=names)
    frame = getattr(found, convert)()
    again = Findings.from_cleanlab(frame)
    pd.testing.assert_frame_equal(getattr(again, convert)(), frame)
    assert np.isnan(again.average_loss).all()
    assert again.last_removed_round.tolist() == [0] * 90
    pd.testing.assert_frame_equal(getattr(found.worst(), convert)(), frame)
    part = getattr(found.worst(5), convert)()
    assert part.index.tolist() == sorted(found.worst(5).index.tolist())
    pd.testing.assert_frame_equal(getattr(Findings.from_cleanlab(part), convert)(), part)


def test_a_frame_of_cleanlab_may_have_other_ids_and_no_labels() -> None:
    frame = pd.DataFrame({"is_label_issue": [False, True], "label_quality": [0.9, 0.1]}, index=["x", "y"])
    found = Findings.from_cleanlab(frame)
    assert (found.index.tolist(), found.id.tolist()) == ([0, 1], ["x", "y"])
    assert found.worst(1).id.tolist() == ["y"]
    assert found.given_label.tolist() == [-1, -1]
    assert found.reason.tolist() == ["label quality 0.9; kept", "label quality 0.1; flagged"]
    labeled = Findings.from_cleanlab(frame.assign(given_label=["b", "a"], predicted_label=["b", "c"]))
    assert labeled.reason.tolist() == ["predicted b, as labeled; kept", "predicted c, labeled a; flagged"]
    only_given = Findings.from_cleanlab(frame.assign(given_label=["b", "a"]))
    assert (only_given.given_label.tolist(), only_given.predicted_label.tolist()) == (["b", "a"], [None, None])
    assert len(Findings.from_cleanlab(frame[:0])) == 0
    gaps = frame.assign(is_label_issue=[None, True])
    assert Findings.from_cleanlab(gaps.astype({"is_label_issue": "boolean"})).issues.id.tolist() == ["y"]


def test_a_row_that_cleanlab_flags_without_another_label_is_no_label_issue() -> None:
    labels = {"given_label": ["a", "a"], "predicted_label": ["a", "b"]}
    frame = pd.DataFrame({"is_label_issue": [True, True], "label_quality": [0.2, 0.1], **labels})
    found = Findings.from_cleanlab(frame)
    assert found.is_label_issue.tolist() == [False, True]
    assert found.reason[0] == "predicted a, as labeled; flagged, but no other label is predicted"


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"label_quality": [0.5]}, "need columns is_label_issue and label_quality or label_score, got label_quality"),
        ({"is_label_issue": [True], "quality": [0.5]}, "got is_label_issue, quality"),
        (
            {"is_label_issue": [True], "label_score": [0.5], "given_label": [1.5], "predicted_label": [0.7]},
            "need labels that are classes",
        ),
    ],
)
def test_a_frame_that_is_not_of_label_issues_is_an_error(frame, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Findings.from_cleanlab(pd.DataFrame(frame))
