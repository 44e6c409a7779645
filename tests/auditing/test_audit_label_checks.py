"""Labels that may be a mistake give a notice; what cannot be classes is refused; every accepted type is exact."""

from __future__ import annotations

import re
import unicodedata
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import table

from rockafellian.auditing.data.labels import Labels, read_labels, read_labels_like, relabel
from rockafellian.auditing.data.reading import Source, read
from rockafellian.auditing.data.settings import Settings
from rockafellian.auditing.model.problem import prepare

NFC, NFD = unicodedata.normalize("NFC", "café"), unicodedata.normalize("NFD", "café")


def source_of(cells: Any, kind: pa.DataType | None = None) -> Source:
    cells = cells if isinstance(cells, pa.Array | pa.ChunkedArray) else pa.array(cells, kind)
    return Source(pa.table({"x": range(len(cells)), "y": cells}), "frame")


def labels_of(cells: Any, separator: str | None = None) -> Labels:
    return read_labels(source_of(cells), ("y",), separator)


@pytest.mark.parametrize(
    ("names", "notice"),
    [
        (
            ["adelie", "ADELIE", "Adelie", "gentoo"],
            "3 classes .*: 'ADELIE' and 'Adelie' and 'adelie'; write them alike",
        ),
        (["New York", "new  york", "Bonn"], "2 classes .*: 'New York' and 'new  york'; "),
        (["New York", "New\u00a0York", "Bonn"], r"2 classes .*: 'New York' and 'New\\xa0York'; "),
        ([NFC, NFD, "tea"], r"2 classes .*: 'cafe\\u0301' and 'café'; "),
        (["a\u200bb", "ab", "c"], r"2 classes .*: 'ab' and 'a\\u200bb'; "),
        (["1", "1.0", "2"], "2 classes .*: '1' and '1.0'; "),
        (["Straße", "STRASSE", "Weg"], "2 classes .*: 'STRASSE' and 'Straße'; "),
    ],
)
def test_labels_that_differ_only_in_case_spacing_or_encoding_are_told_and_stay_apart(
    names: list[str], notice: str
) -> None:
    found = labels_of(names * 10)
    assert found.names == sorted(names)
    assert len(found.notices) == 1
    assert re.match(notice, found.notices[0])
    assert found.notices[0].endswith("; write them alike if they are the same")
    assert "\n" not in found.notices[0]


def test_labels_with_and_without_surrounding_spaces_are_one_class_and_that_is_told() -> None:
    found = labels_of(["cat", " cat", "dog ", "dog "] * 10)
    assert found.names == ["cat", "dog"]
    assert found.notices == ("labels with spaces around them are read without: ' cat'",)


@pytest.mark.parametrize("cells", [["cat", "dog"], ["a", "b", "c", "New York"], [1, 2], [0.5, 1.0], [True, False]])
def test_ordinary_labels_give_no_notice(cells: list[Any]) -> None:
    assert labels_of(cells * 20).notices == ()


@pytest.mark.parametrize(
    "cells",
    [
        [round(9 + 0.1 * step, 1) for step in range(129)] * 3,
        [f"{9 + step / 10}" for step in range(40)] * 100,
        [f"{9 + step / 10}".replace(".", ",") for step in range(40)] * 3,
        [step / 2 for step in range(21)] * 50,
        list(range(51)) * 9,
        [str(number) for number in range(-100, 200)] * 3,
        [Decimal(step) / 4 for step in range(30)] * 4,
        np.array([step / 7 for step in range(60)] * 4, np.float32),
    ],
)
def test_a_number_to_predict_is_refused(cells: Any) -> None:
    with pytest.raises(ValueError, match=r"^need classes, .* looks like a number to predict; name another .*class-14$"):
        labels_of(cells)


@pytest.mark.parametrize(
    "cells",
    [
        list(range(1, 11)) * 2,
        [1 + step / 2 for step in range(9)] * 3,
        [f"{1 + step / 2}" for step in range(9)] * 3,
        [f"{1 + step / 2}".replace(".", ",") for step in range(9)] * 3,
        list(range(1950, 2020)) * 10,
        [str(year) for year in range(1950, 2020)] * 10,
        list(range(100)) * 10,
        list(range(50)) * 3,
        [float(number) for number in range(100)] * 10,
        [f"class-{number / 10}" for number in range(300)] * 3,
        [date(2020, 1, 1 + day) for day in range(30)] * 3,
    ],
)
def test_ratings_years_and_numbered_classes_are_classes(cells: list[Any]) -> None:
    found = labels_of(cells)
    assert len(found.names) == len(set(cells))
    assert found.notices == ()


@pytest.mark.parametrize(
    ("names", "separator"),
    [
        (["rock", "live", "jazz", "rock;live", "rock;jazz", "live;jazz"], ";"),
        (["any", "any|fog", "any|sea", "any|fog|sea", "any|fog|sun", "any|sun", "any|sea|sun"], "|"),
        (["a, b", "b, a", "a, c", "c", "b", "a"], ","),
        (["x/y", "x", "y", "y/z", "z", "x/z"], "/"),
        (["red+blue", "red", "blue", "green+red", "green"], "+"),
        (["1,2,5", "1,2", "2,5", "5", "1", "2"], ","),
        (["a;b", "b;c", "c;a", "d;a", "b;d", "c;d"], ";"),
    ],
)
def test_several_labels_in_a_cell_are_told_with_the_option(names: list[str], separator: str) -> None:
    found = labels_of(names * 10)
    [notice] = found.notices
    assert notice.endswith(f"look like several in one cell; if so, pass --separator '{separator}'")
    assert not found.multilabel
    again = labels_of(names * 10, separator)
    assert again.multilabel
    assert again.notices == ()


@pytest.mark.parametrize(
    "names",
    [
        ["New York, NY", "Buffalo, NY", "Albany, NY", "Austin, TX", "Dallas, TX"],
        ["male/young", "male/old", "female/young", "female/old"],
        [f"{year}/{month:02d}" for year in (2020, 2021, 2022) for month in range(1, 13)],
        ["6+", "12+", "16+", "18+", "6", "12"],
        ["n/a?", "yes", "no"],
        ["1,5", "2", "2,5", "3", "3,5", "4"],
        ["C", "C++", "C#", "C+"],
        ["a;b", "a", "b"],
        ["TCP/IP", "HTTP", "AC/DC", "IP"],
        [";", "a", ";;", "b"],
    ],
)
def test_labels_whose_parts_do_not_recur_give_no_hint(names: list[str]) -> None:
    assert labels_of(names * 10).notices == ()


@pytest.mark.parametrize("word", ["nan", "NaN", "null", "NULL", "<NA>", "#N/A", "NaT", " nan "])
def test_words_of_programs_for_nothing_are_no_label_and_are_told(word: str) -> None:
    found = labels_of(["a", word, "b", "a"] * 10)
    assert found.names == ["a", "b"]
    assert found.known.tolist() == [True, False, True, True] * 10
    shown = repr(word.strip())
    assert found.notices == (f"10 labels {shown} are read as no label; write another word if it is a class",)


@pytest.mark.parametrize("word", ["NA", "N/A", "None", "none", "?", "-"])
def test_words_of_people_for_nothing_are_a_class_and_are_told(word: str) -> None:
    found = labels_of(["a", word, "b", "a"] * 10)
    assert found.names == sorted(["a", "b", word])
    assert found.notices == (f"{word!r} is read as a class; leave the cell empty if it means none",)


def test_infinite_labels_are_no_label_and_are_told() -> None:
    found = labels_of([1.0, 2.0, np.inf, np.nan] * 10)
    assert found.known.tolist() == [True, True, False, False] * 10
    assert found.notices == ("10 labels 'inf' are read as no label; write another word if it is a class",)


def test_cells_of_rows_without_a_label_stay_as_they_were() -> None:
    cells = ["a", "nan", " null ", "", None, "b", " a"] * 10
    source = source_of(cells)
    labels = read_labels(source, ("y",))
    marked = labels.known.copy()
    new = relabel(source, labels, marked, 1 - np.abs(labels.given))
    assert new.column("y").to_pylist()[:7] == ["b", "nan", " null ", "", None, "a", "b"]


def test_notices_of_labels_reach_the_problem() -> None:
    frame, _ = table(60)
    frame["label"] = frame["label"].where(frame.index % 5 > 0, frame["label"].str.upper())
    frame.loc[7, "label"] = "nan"
    first, second, third, *_ = prepare(frame, Settings(label=("label",))).notices
    assert first == "1 label 'nan' is read as no label; write another word if it is a class"
    assert second.startswith("4 classes differ only in case, spacing or the like: 'CAT' and 'cat'; 'DOG' and 'dog';")
    assert third.startswith("1 of 60 rows have no label")


def test_hostile_labels_are_shown_short_and_escaped() -> None:
    found = labels_of(["\x1b[31mA", "\x1b[31ma", "b" * 10**6, "B" * 10**6] * 10)
    [notice] = found.notices
    assert notice.isprintable()
    assert len(notice) < 400
    with pytest.raises(ValueError, match="got only 'bbb") as error:
        labels_of(["b" * 10**6] * 30)
    assert len(str(error.value)) < 200


ACCEPTED: dict[str, pa.Array] = {
    "text": pa.array(["a", "b ", "c"]),
    "large text": pa.array(["a", "b", "c"], pa.large_string()),
    "views of text": pa.array(["a", "b", "c"], pa.string_view()),
    "bytes that are text": pa.array([b"a", b"b", b"c"]),
    "large bytes that are text": pa.array([b"a", b"b", b"c"], pa.large_binary()),
    "categories": pa.array(["a", "b", "c"]).dictionary_encode(),
    "truth values": pa.array([True, False, True]),
    "small integers": pa.array([-128, 0, 127], pa.int8()),
    "huge integers": pa.array([2**63 + 1, 2**64 - 1, 2**63 + 2], pa.uint64()),
    "floats": pa.array([0.1, 1e20, -0.0]),
    "floats with zeros": pa.array([0.0, -0.0, 0.5]),
    "whole floats": pa.array([1.0, 2.0, -0.0]),
    "neighboring floats": pa.array([0.1, np.nextafter(0.1, 1), 0.3]),
    "floats beyond integers": pa.array([2.0**53, 2.0**53 + 2, 1.0]),
    "single floats": pa.array([0.1, 1e20, 3.0], pa.float32()),
    "half floats": pa.array(np.array([0.1, 2.5, -0.0], np.float16)),
    "decimals": pa.array([Decimal("1.50"), Decimal("2.25"), Decimal("-0.01")]),
    "wide decimals": pa.array([Decimal("9" * 40), Decimal(1), Decimal(2)], pa.decimal256(60, 2)),
    "dates": pa.array([date(2020, 1, 1), date(1, 1, 1), date(9999, 12, 31)]),
    "dates of 64 bits": pa.array([date(2020, 1, 1), date(2020, 1, 2), date(2020, 1, 3)], pa.date64()),
    "times of day": pa.array([time(12), time(0), time(23, 59)]),
    "times in nanoseconds": pa.array([1, 2, 3], pa.time64("ns")),
    "timestamps": pa.array([datetime(2020, 1, 1), datetime(2020, 1, 1, 0, 0, 0, 1), datetime(1900, 1, 1)]),
    "timestamps in nanoseconds": pa.array([1, 2, 3], pa.timestamp("ns")),
    "timestamps in a zone": pa.array([1, 2, 3], pa.timestamp("ns", "Europe/Berlin")),
    "timestamps in an unknown zone": pa.array([1, 2, 3], pa.timestamp("us", "Mars/Base")),
    "timestamps far away": pa.array([2**62, -(2**62), 0], pa.timestamp("s")),
    "lists of text": pa.array([["a", "b"], [], ["c", "c", " a"]]),
    "large lists": pa.array([["a", "b"], [], ["c"]], pa.large_list(pa.large_string())),
    "lists with a named item": pa.array([["a", "b"], [], ["c"]], pa.list_(pa.field("element", pa.string(), False))),
    "lists of integers": pa.array([[1, 2], [], [3]], pa.list_(pa.uint8())),
    "lists of floats": pa.array([[0.1, 1e20], [], [-0.0, 0.5]]),
    "lists of timestamps": pa.array([[1, 2], [], [3]], pa.list_(pa.timestamp("ns", "Mars/Base"))),
    "lists of categories": pa.array([["a", "b"], [], ["c"]], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
}


@pytest.mark.parametrize("kind", ACCEPTED)
def test_the_same_classes_give_the_same_table(kind: str) -> None:
    source = source_of(pa.chunked_array([ACCEPTED[kind]] * 10 + [pa.nulls(2, ACCEPTED[kind].type)]))
    labels = read_labels(source, ("y",))
    again = relabel(source, labels, labels.known, labels.given)
    assert again.schema == source.table.schema
    assert again.equals(source.table)


@pytest.mark.parametrize("kind", ACCEPTED)
def test_other_classes_read_back_exactly_from_a_column_of_the_same_type(kind: str) -> None:
    source = source_of(pa.chunked_array([ACCEPTED[kind]] * 10 + [pa.nulls(2, ACCEPTED[kind].type)]))
    labels = read_labels(source, ("y",))
    random, n = np.random.default_rng(0), len(source)
    shape = (n, len(labels.names))
    new = random.random(shape) < 0.5 if labels.multilabel else random.integers(0, shape[1], n)
    again = relabel(source, labels, np.arange(n) != 3, new)
    assert again.schema == source.table.schema
    assert again.slice(3, 1).equals(source.table.slice(3, 1))
    read_again = read_labels_like(Source(again, "frame"), labels)
    expected = new.copy()
    expected[3] = labels.given[3]
    np.testing.assert_array_equal(read_again.given, expected)
    assert read_again.known.all()


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([1, 2], pa.duration("s")),
        pa.array([b"ab", b"cd"], pa.binary(2)),
        pa.array([b"a", b"\xff"]),
        pa.array([b"a", b"b"], pa.binary_view()),
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"a" * 16, b"b" * 16], pa.binary(16))),
        pa.array([pa.MonthDayNano([1, 2, 3]), pa.MonthDayNano([1, 2, 4])]),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
        pa.array([[["a"]], [["b"]]]),
        pa.array([[{"a": 1}], []]),
        pa.array([[b"\xff"], []]),
        pa.array([["a"], ["b"]], pa.list_view(pa.string())),
        pa.array([["a"], ["b"]], pa.list_(pa.string_view())),
        pa.RunEndEncodedArray.from_arrays([1, 2], ["a", "b"]),
    ],
    ids=lambda cells: str(cells.type),
)
def test_types_that_cannot_be_labels_are_refused_in_one_line(cells: pa.Array) -> None:
    with pytest.raises(
        ValueError, match=r"^need labels that are text or numbers, got a column of .*; convert it to text$"
    ):
        read_labels(source_of(pa.chunked_array([cells] * 20)), ("y",))


FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(FLOATS, min_size=2, max_size=20, unique=True), st.randoms(use_true_random=False))
def test_any_floats_are_classes_that_read_back_exactly(values: list[float], random: Any) -> None:
    cells = [*values, *values] * 12
    source = source_of(cells)
    labels = read_labels(source, ("y",))
    assert [float(name) for name in labels.names] == sorted(set(values))
    new = labels.given.copy()
    random.shuffle(new)
    after = relabel(source, labels, np.ones(len(cells), bool), new).column("y").to_pylist()
    assert after == [float(labels.names[each]) for each in new]


@pytest.mark.parametrize(
    ("cells", "separator", "expected"),
    [
        (["a;b", "b"], ";", [["a", "b"], ["b"]]),
        ([" a ; b;", ";;b;;"], ";", [["a", "b"], ["b"]]),
        (["a;a;b", "b;b"], ";", [["a", "b"], ["b"]]),
        (["a | ", " | b"], " | ", [["a"], ["b"]]),
        (["a b", "b  c"], " ", [["a", "b"], ["b", "c"]]),
        (["a;nan", "nan", "b;null;a"], ";", [["a"], None, ["a", "b"]]),
        (["a.b", "b.*"], ".", [["a", "b"], ["*", "b"]]),
        (["a;b", "; ;", " "], ";", [["a", "b"], [], None]),
    ],
)
def test_parts_of_a_cell_are_read_exactly(cells: list[str], separator: str, expected: list[list[str] | None]) -> None:
    found = labels_of(cells * 20, separator)
    rows = zip(found.given, found.known, strict=True)
    named = [
        [name for name, has in zip(found.names, row, strict=True) if has] if known else None for row, known in rows
    ]
    assert named[: len(cells)] == expected


@pytest.mark.parametrize("label", ["a | b", "a |"])
def test_a_label_that_would_be_split_once_it_is_joined_is_refused(label: str) -> None:
    with pytest.raises(ValueError, match=r"need labels without ' \| ', .* got 'a \|.*'; rename it"):
        labels_of([[label, "c"], ["c"]] * 20)


LABEL = st.text(st.sampled_from("ab|; "), min_size=1, max_size=4)


@given(st.lists(st.lists(LABEL, max_size=3), min_size=1, max_size=4), st.sampled_from([" | ", ";", "||", "; "]))
def test_joined_labels_split_into_the_same_labels(rows: list[list[str]], separator: str) -> None:
    source = source_of(pa.array(rows * 20, pa.list_(pa.string())))
    try:
        labels = read_labels(source, ("y",), separator)
    except ValueError:
        return
    for text, row in zip(labels.as_text(labels.given), rows, strict=False):
        assert {part.strip() for part in text.split(separator)} - {""} == {each.strip() for each in row} - {""}


def test_a_row_with_none_of_the_labels_reads_back_as_such() -> None:
    source = source_of(["a;b", "b", "a"] * 10)
    labels = read_labels(source, ("y",), ";")
    again = relabel(source, labels, np.arange(30) == 0, np.zeros((30, 2), bool))
    assert again.column("y")[0].as_py() == ";"
    read_again = read_labels_like(Source(again, "frame"), labels)
    assert read_again.known.all()
    assert read_again.given[0].tolist() == [False, False]


def test_lists_may_be_shown_with_a_separator() -> None:
    source = source_of([["a", "b"], ["b"]] * 10)
    labels = read_labels(source, ("y",), ";")
    assert labels.as_text(labels.given)[0] == "a;b"
    again = relabel(source, labels, np.arange(20) == 1, np.ones((20, 2), bool))
    assert again.column("y").to_pylist()[:2] == [["a", "b"], ["a", "b"]]


def test_lists_in_which_no_row_has_a_label_are_refused() -> None:
    with pytest.raises(ValueError, match="need labels, got none in column 'y'"):
        labels_of(pa.array([[]] * 40, pa.list_(pa.string())))


def test_other_data_must_have_labels_in_the_form_of_the_training() -> None:
    lists, plain = source_of([["a"], ["b", "a"]] * 20), source_of(["a", "b"] * 20)
    with pytest.raises(ValueError, match="need lists in column 'y', as in training, got no lists; convert it"):
        read_labels_like(plain, read_labels(lists, ("y",)))
    with pytest.raises(ValueError, match="need one label a cell in column 'y', as in training, got lists; convert it"):
        read_labels_like(lists, read_labels(plain, ("y",)))


def test_numbers_are_not_split() -> None:
    with pytest.raises(ValueError, match="need text in column 'y' to split at ';', got int64; leave out the separator"):
        labels_of([1, 2] * 20, ";")


def test_a_mask_too_large_for_memory_is_refused() -> None:
    words = [f"w{row} v{row}" for row in range(40_000)]
    with pytest.raises(ValueError, match=r"need fewer different labels, got 80,000 in 40,000 rows of column 'y'"):
        labels_of(words, " ")


def test_nan_in_columns_of_yes_and_no_is_no_label() -> None:
    source = read(pd.DataFrame({"p": ["yes", "nan"] * 20, "q": ["no", "yes"] * 20}))
    found = read_labels(source, ("p", "q"))
    assert found.known.tolist() == [True, False] * 20
    assert found.notices == ("20 labels 'nan' are read as no label; write another word if it is a class",)
