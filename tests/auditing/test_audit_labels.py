"""Which classes there are, which each row was given, and how others are put there."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rockafellian.auditing.data.labels import Labels, read_labels, read_labels_like, relabel
from rockafellian.auditing.data.reading import Source, read


def source(**columns: Any) -> Source:
    return read(
        pa.table(
            {name: column if isinstance(column, pa.Array) else pa.array(column) for name, column in columns.items()}
        )
    )


def labels_of(column: Any, separator: str | None = None) -> Labels:
    return read_labels(source(y=column), ("y",), separator)


@pytest.mark.parametrize(
    ("column", "names"),
    [
        ([" cat", "cat ", "dog\t", "dog"], ["cat", "dog"]),
        ([-1, 1, 1, -1], ["-1", "1"]),
        ([True, False, True, False], ["false", "true"]),
        ([1.0, 0.0, 1.0, 0.0], ["0", "1"]),
        ([0.5, 1.0, 1.0, 0.5], ["0.5", "1"]),
        ([10, 9, 10, 9], ["9", "10"]),
        (["10", "9", "-2.5", "10"], ["-2.5", "9", "10"]),
        ([1e30, 2.0, 1e30, 2.0], ["2", "1e+30"]),
        (pa.array(np.array([1, 2, 1, 2], np.float16)), ["1", "2"]),
        ([Decimal("1.5"), Decimal("2.5")] * 2, ["1.5", "2.5"]),
        (["<b>x</b>", "=1+1", "<b>x</b>", "=1+1"], ["<b>x</b>", "=1+1"]),
        (pa.array(["b", "a", "b", "a"]).dictionary_encode(), ["a", "b"]),
    ],
)
def test_labels_of_any_kind_are_classes_in_order(column: Any, names: list[str]) -> None:
    column = pa.concat_arrays([column] * 6) if isinstance(column, pa.Array) else column * 6
    found = labels_of(column)
    assert found.names == names
    assert found.known.all()
    assert not found.multilabel
    assert set(found.given.tolist()) == set(range(len(names)))


@pytest.mark.parametrize(
    "column",
    [
        ["a", None, "b", ""] * 10,
        ["a", "  ", "b", "\t"] * 10,
        [1.0, np.nan, 2.0, np.inf] * 10,
        [1, None, 2, None] * 10,
        [True, None, False, None] * 10,
    ],
)
def test_a_cell_with_nothing_in_it_is_no_label(column: list[Any]) -> None:
    found = labels_of(column)
    assert found.known.tolist() == [True, False, True, False] * 10
    assert (found.given >= 0).tolist() == [True, False, True, False] * 10
    assert len(found.targets()) == 20
    assert found.as_text(found.given)[1] is None


def test_missing_labels_of_a_pandas_frame_leave_whole_numbers_whole() -> None:
    frame = pd.DataFrame({"y": [0.0, 1.0, None, 1.0] * 10})
    assert read_labels(read(frame), ("y",)).names == ["0", "1"]


def test_a_separator_or_lists_give_several_labels_a_row() -> None:
    text = labels_of(["a; b", "b", "", "c ;a;"] * 10, ";")
    lists = labels_of([["a", "b"], ["b"], None, ["c", "a", None, ""]] * 10)
    for found in (text, lists):
        assert found.multilabel
        assert found.names == ["a", "b", "c"]
        assert found.given[:4].tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 0], [1, 0, 1]]
        assert found.known[:4].tolist() == [True, True, False, True]
    assert text.as_text(text.given)[[0, 3]].tolist() == ["a;b", "a;c"]
    assert lists.as_text(lists.given)[[0, 3]].tolist() == ["a | b", "a | c"]


def test_an_empty_list_is_a_row_with_none_of_the_labels() -> None:
    found = labels_of([["a"], [], ["b"], []] * 10)
    assert found.known.all()
    assert found.given[1].tolist() == [False, False]


@pytest.mark.parametrize(
    ("yes", "no"), [(1, 0), (True, False), (1.0, 0.0), ("yes", "no"), ("Y", "N"), (" x ", "0"), ("TRUE", "FALSE")]
)
def test_columns_of_yes_and_no_are_a_label_each(yes: Any, no: Any) -> None:
    found = read_labels(source(p=[yes, no] * 10, q=[yes, yes] * 10), ("p", "q"))
    assert found.names == ["p", "q"]
    assert found.given[:2].tolist() == [[True, True], [False, True]]
    assert found.targets()[:2].tolist() == [[1.0, 1.0], [0.0, 1.0]]


def test_a_row_of_which_one_label_is_missing_is_not_known() -> None:
    found = read_labels(source(p=[1, None] * 20, q=[0, 1] * 20), ("p", "q"))
    assert found.known.tolist() == [True, False] * 20


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([b"\xff", b"a"] * 20, "need labels that are text or numbers, got a column of binary"),
        ([{"a": 1}, {"a": 2}] * 20, "need labels that are text or numbers, got a column of struct"),
        ([None] * 40, "need labels, got none in column 'y'"),
        (["a"] * 40, "need at least two classes, got only 'a'"),
        (list(range(40)), "looks like an id or a number to predict"),
        (["a", "b"] * 5, "need at least 20 rows with a label, got 10"),
    ],
)
def test_what_cannot_be_labels_is_refused(column: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        labels_of(column)


def test_other_data_are_read_in_the_classes_of_the_training() -> None:
    trained = labels_of(["a", "b", "c", "d"] * 10)
    assert read_labels_like(source(y=["d", None, "b"]), trained).given.tolist() == [3, -1, 1]
    with pytest.raises(ValueError, match="need a class of the training data, got 'z'"):
        read_labels_like(source(y=["z"]), trained)
    several = labels_of([["a", "b"], ["c"]] * 10)
    assert read_labels_like(source(y=[["c", "a"], []]), several).given.tolist() == [[True, False, True], [False] * 3]


KINDS = {
    "text": ["a", "b", None, " a"],
    "integers": [-1, 1, None, 1],
    "floats": [0.0, 1.0, None, 1.0],
    "truths": [True, False, None, True],
    "fractions": [0.5, 1.5, None, 0.5],
    "lists": [["a"], ["b", "a"], None, []],
    "lists of numbers": [[1], [2, 1], None, []],
}


@given(st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_only_marked_rows_get_other_labels_and_read_back_as_these(kind: str, data: st.DataObject) -> None:
    cells = data.draw(st.lists(st.sampled_from(KINDS[kind]), max_size=12)) + KINDS[kind] * 10
    n = len(cells)
    before = source(x=list(range(n)), y=cells, z=["q"] * n)
    labels = read_labels(before, ("y",))
    marked = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    shape = (n, len(labels.names))
    random = np.random.default_rng(data.draw(st.integers(0, 9)))
    new = random.random(shape) < 0.5 if labels.multilabel else random.integers(0, shape[1], n)
    table = relabel(before, labels, marked, new)
    assert table.schema == before.table.schema
    assert table.select(["x", "z"]).equals(before.table.select(["x", "z"]))
    after = table.column("y").to_pylist()
    assert [after[row] for row in np.flatnonzero(~marked)] == [cells[row] for row in np.flatnonzero(~marked)]
    again = read_labels_like(Source(table, "frame"), labels)
    np.testing.assert_array_equal(again.given[marked], new[marked])
    assert again.known[marked].all()


def test_columns_of_yes_and_no_are_relabeled_in_their_own_words() -> None:
    before = source(p=["yes", "no"] * 10, q=[1, 0] * 10, r=[True, False] * 10)
    labels = read_labels(before, ("p", "q", "r"))
    marked = np.zeros(20, bool)
    marked[[0, 1]] = True
    table = relabel(before, labels, marked, ~labels.given)
    assert table.slice(0, 3).to_pydict() == {"p": ["no", "yes", "yes"], "q": [0, 1, 1], "r": [False, True, True]}


def test_lists_of_a_fixed_size_may_get_another() -> None:
    before = source(y=pa.array([["a", "b"], ["b", "c"]] * 10, pa.list_(pa.string(), 2)))
    labels = read_labels(before, ("y",))
    marked = np.arange(20) == 0
    table = relabel(before, labels, marked, np.tile([True, False, False], (20, 1)))
    assert table.column("y").to_pylist()[:2] == [["a"], ["b", "c"]]


def test_a_separator_is_written_between_new_labels_too() -> None:
    before = source(y=["a;b", "c"] * 10)
    labels = read_labels(before, ("y",), ";")
    table = relabel(before, labels, np.arange(20) == 1, np.tile([True, False, True], (20, 1)))
    assert table.column("y").to_pylist()[:3] == ["a;b", "a;c", "a;b"]
