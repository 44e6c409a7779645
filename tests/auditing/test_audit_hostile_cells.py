"""Cells of every type and of every odd content become inputs, are left out with a reason, or raise one line."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from rockafellian.auditing.data.settings import Settings
from rockafellian.auditing.features.tables import TableFeatures
from rockafellian.auditing.features.texts import TextFeatures
from rockafellian.auditing.model.problem import prepare

pytestmark = pytest.mark.filterwarnings("error")

CELLS: dict[str, tuple[pa.Array, str]] = {
    "largest numbers": (pa.array(["1e308", "-1e308"]), "number"),
    "smallest numbers": (pa.array(["1e-308", "5e-324"]), "number"),
    "smallest typed numbers": (pa.array([1e-308, 5e-324]), "number"),
    "infinite in part": (pa.array(["1e-308", "inf"]), "number"),
    "nothing but nan and inf": (pa.array(["nan", "-inf"]), "left out"),
    "40 digits": (pa.array(["1" * 40, "2" * 40]), "number"),
    "a megabyte": (pa.array(["x" * 10**6, "y"]), "category"),
    "control characters": (pa.array(["a\x00\x01b", "\x1b[31m"]), "category"),
    "line ends": (pa.array(["a\nb", "a\r\nc"]), "category"),
    "year 0": (pa.array(["0000-01-01", "0001-01-01"]), "date"),
    "year 9999999": (pa.array(["9999999-01-01", "2020-01-01"]), "category"),
    "years apart": (pa.array(["9999-12-31", "0000-01-01 00:00"]), "date"),
    "time zones": (pa.array(["2020-01-01T00:00:00+05:00", "2020-01-01T00:00:00Z"]), "date"),
    "a time zone and none": (pa.array(["2020-01-01T00:00:00+05:00", "2020-01-01T00:00:00"]), "category"),
    "one cell": (pa.array(["a", None]), "category"),
    "zeros with signs": (pa.array(["-0.0", "0"]), "left out"),
    "blank": (pa.array(["", "  "]), "left out"),
    "views of text": (pa.array(["a", "b"], pa.string_view()), "category"),
    "views of bytes": (pa.array([b"a", b"b"], pa.binary_view()), "left out"),
    "bytes of a fixed size": (pa.array([b"ab", b"cd"], pa.binary(2)), "left out"),
    "uuids": (pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"a" * 16, b"b" * 16], pa.binary(16))), "left out"),
    "times": (pa.array([1, 2], pa.time32("s")), "category"),
    "durations": (pa.array([1, 2], pa.duration("s")), "number"),
    "wide decimals": (pa.array([Decimal("1.5"), Decimal("9" * 40)], pa.decimal256(60, 2)), "number"),
    "unknown time zone": (pa.array([1, 2 * 10**18], pa.timestamp("ns", "Mars/Base")), "date"),
    "far times": (pa.array([-(2**62), 2**62], pa.timestamp("s")), "date"),
    "farthest times": (pa.array([-(2**63) + 1, 2**63 - 1], pa.timestamp("us")), "date"),
    "far dates": (pa.array([-(2**31), 2**31 - 1], pa.int32()).cast(pa.date32()), "date"),
    "half floats": (pa.array(np.array([1.5, 0.1], np.float16)), "number"),
    "integers above 2^63": (pa.array([2**63 + 1, 2**64 - 1], pa.uint64()), "number"),
    "intervals": (pa.array([pa.MonthDayNano([1, 2, 3]), pa.MonthDayNano([1, 2, 4])]), "left out"),
    "lists": (pa.array([[1], [2]]), "left out"),
    "views of lists": (pa.array([["a"], ["b"]], pa.list_view(pa.string())), "left out"),
    "maps": (pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())), "left out"),
    "structs": (pa.array([{"a": 1}, {"a": 2}]), "left out"),
    "nulls": (pa.nulls(2), "left out"),
    "categories": (pa.array(["a", "b"]).dictionary_encode(), "category"),
    "categories that are dates": (pa.array([date(2020, 1, 1), date(2020, 1, 5)]).dictionary_encode(), "date"),
}
#: Refused when data are read.
NO_DATES = ["far times", "farthest times", "far dates"]
NO_TEXTS = ["views of bytes", "bytes of a fixed size", "durations", "lists", "views of lists"]
NO_TEXTS += ["maps", "structs", "nulls"]


def table_with(cells: pa.Array, name: str = "x") -> pa.Table:
    """Forty rows of these two cells beside a column to learn from, and labels."""
    other = np.random.default_rng(0).normal(size=40)
    return pa.table({name: pa.chunked_array([cells] * 20), "other": other, "y": ["p", "q"] * 20})


@pytest.mark.parametrize("case", CELLS)
def test_a_column_is_learned_from_or_left_out(case: str) -> None:
    cells, kind = CELLS[case]
    table = table_with(cells)
    features, inputs = TableFeatures.fit_transform(table.select(["x", "other"]))
    assert torch.isfinite(inputs).all()
    torch.testing.assert_close(features(table), inputs, atol=1e-5, rtol=0)
    assert features.describe().startswith("2 numbers" if kind == "number" else "1 number")
    assert kind in features.describe()


@pytest.mark.parametrize("case", NO_DATES)
def test_dates_that_no_calendar_has_are_refused(case: str) -> None:
    with pytest.raises(ValueError, match="need dates of the years 1 to 9999, got others in column 'x'"):
        prepare(table_with(CELLS[case][0]), Settings(label=("y",)))


@pytest.mark.parametrize("case", [case for case in CELLS if case not in NO_DATES])
def test_a_row_with_such_cells_is_shown(case: str) -> None:
    problem = prepare(table_with(CELLS[case][0]), Settings(label=("y",)))
    for row in (0, 1):
        values = problem.kind.preview(problem.source, row)["values"]
        assert set(values) == {"x", "other"}
        assert all(len(each) <= 300 for each in values.values())


@pytest.mark.parametrize("case", [case for case in CELLS if case not in NO_TEXTS + NO_DATES])
def test_such_cells_can_be_texts(case: str) -> None:
    problem = prepare(table_with(CELLS[case][0]), Settings(label=("y",), text="x", encoder="none"))
    assert torch.isfinite(problem.inputs).all()
    assert len(problem.kind.preview(problem.source, 0)["text"]) <= 5000


@pytest.mark.parametrize("case", NO_TEXTS)
def test_cells_without_text_are_no_texts(case: str) -> None:
    with pytest.raises(ValueError, match=r"^need texts [^\n]*; name another column[^\n]*$"):
        prepare(table_with(CELLS[case][0]), Settings(label=("y",), text="x", encoder="none"))


@pytest.mark.parametrize(
    ("ids", "named"),
    [
        (pa.array(range(40), pa.timestamp("ns", "Mars/Base")), True),
        (pa.array(range(40), pa.time32("s")), True),
        (pa.array([f"r{row}" for row in range(40)], pa.string_view()), True),
        (pa.array(range(40), pa.duration("s")), False),
        (pa.array([[row] for row in range(40)], pa.list_view(pa.int64())), False),
        (pa.nulls(40), False),
    ],
)
def test_ids_of_any_type_are_text_or_no_ids(ids: pa.Array, named: bool) -> None:
    table = pa.table({"id": ids, "other": np.random.default_rng(0).normal(size=40), "y": ["p", "q"] * 20})
    problem = prepare(table, Settings(label=("y",)))
    assert (problem.ids is not None) == named
    assert problem.ids is None or len(set(problem.ids.to_pylist())) == 40


@pytest.mark.parametrize(
    ("texts", "width"),
    [
        (["!!! ???", "..."] * 30, 15),
        (["a\x00b \x00\x00", "\x00"] * 30, 3),
        (["a \ud800 b", "c d"] * 30, 6),
        (["\x1b[31m red", "\u202e evil"] * 30, 4),
        (["x" * 10**7, *["a b"] * 30], 4),
        (["word other " * 100_000, *["a b c", "b c d"] * 20], 7),
        (["same text"] * 50, 3),
        (["a"], 1),
    ],
)
def test_odd_texts_become_vectors(texts: list[str], width: int) -> None:
    features, inputs = TextFeatures.fit_transform(texts, None)
    assert inputs.shape == (len(texts), width)
    assert torch.isfinite(inputs).all()
    assert torch.isfinite(features(["", None, "\x00" * 1000, *texts[:2]])).all()


@pytest.mark.parametrize("texts", [["", None] * 30, [None]])
def test_texts_without_content_raise_one_line(texts: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"need texts with words in them, .*; name another column"):
        TextFeatures.fit_transform(texts, None)


def wide(columns: int, rows: int = 200) -> pa.Table:
    values = np.random.default_rng(0).normal(size=(columns, rows))
    names = [f"x{number}" for number in range(columns)]
    return pa.table([*map(pa.array, values), pa.array(["a", "b"] * (rows // 2))], names=[*names, "y"])


def test_ten_thousand_columns_are_prepared_within_seconds() -> None:
    table, start = wide(10_000), time.process_time()
    problem = prepare(table, Settings(label=("y",)))
    assert problem.inputs.shape == (200, 10_000)
    assert torch.equal(problem.features(problem.kind.content(problem.source)), problem.inputs)
    assert time.process_time() - start < 10  # a few seconds; minutes if the time were quadratic


def test_few_of_many_columns_are_named() -> None:
    constant = {f"c{number}": ["same"] * 40 for number in range(1239)}
    table = pa.table({**constant, "x": np.arange(40) % 3.0})
    features = TableFeatures.fit_transform(table)[0]
    expected = "1 number; left out: " + ", ".join(f"c{number} (constant)" for number in range(5)) + " and 1,234 more"
    assert features.describe() == expected
    with pytest.raises(
        ValueError, match=r"but 'x' is missing; got 'c0', .*'c9' and 1,229 more; add or rename columns$"
    ):
        features(table.drop_columns("x"))
    many = TableFeatures.fit_transform(wide(30).drop_columns("y"))[0]
    with pytest.raises(ValueError, match=r"'x9' and 20 more are missing; got 'x';"):
        many(pa.table({"x": [1.0]}))


def test_missing_columns_are_told_from_all_columns_that_came() -> None:
    problem = prepare(wide(3), Settings(label=("y",)))
    from rockafellian.auditing.data.reading import read

    with pytest.raises(ValueError, match=r"but 'x0', 'x1', 'x2' are missing; got 'p', 'q'; add or rename columns"):
        problem.features(problem.kind.content(read(pa.table({"p": [1], "q": [2]}))))


@pytest.mark.parametrize(("name", "shown"), [("", "''"), ("  ", "'  '"), ("a\nb", r"'a\nb'"), ("n" * 99, "n" * 40)])
def test_a_column_without_a_printable_name_is_named_in_quotes(name: str, shown: str) -> None:
    features = TableFeatures.fit_transform(pa.table({name: range(40), "x": np.arange(40) % 3.0}))[0]
    assert features.describe().startswith("1 number; left out: ")
    assert shown in features.describe()
    assert features.describe().isprintable()
    assert len(features.describe()) < 100


WITHOUT_SKLEARN = """
import sys
sys.modules["sklearn"] = None
import numpy as np, pyarrow as pa
from rockafellian.auditing.data.settings import Settings
from rockafellian.auditing.model.problem import prepare
numbers = {"x": np.arange(40) % 3.0, "c": ["u", "v"] * 20, "y": ["a", "b"] * 20}
print(prepare(pa.table(numbers), Settings(label=("y",))).features.describe())
try:
    prepare(pa.table(numbers | {"t": [f"some words in row {row}" for row in range(40)]}), Settings(label=("y",)))
except ImportError as error:
    print(error)
"""


def test_tables_without_texts_need_no_sklearn() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT_SKLEARN], capture_output=True, text=True, check=True)
    described, refused = ran.stdout.splitlines()
    assert described == "1 number, 1 category"
    assert refused.startswith("need scikit-learn for columns of text; pip install")
