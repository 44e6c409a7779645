"""Types of Arrow, pandas and polars: read as a type that can be written again, or refused in one line."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rockafellian.auditing.data.labels import read_labels
from rockafellian.auditing.data.reading import read
from rockafellian.auditing.data.writing import write_table

TEXT = pa.array(["a", "b", None, "a"])
UUIDS = [uuid.UUID(int=i) for i in range(4)]
ARRAYS: dict[str, tuple[Any, Any]] = {
    "string view": (TEXT.cast(pa.string_view()), pa.string()),
    "binary view": (TEXT.cast(pa.binary()).cast(pa.binary_view()), pa.binary()),
    "dictionary": (TEXT.dictionary_encode(), pa.string()),
    "dictionary of numbers": (pa.array([1, 2, None, 1]).dictionary_encode(), pa.int64()),
    "dictionary of lists": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0]), pa.array([["a"], ["b"]])),
        pa.list_(pa.string()),
    ),
    "run ends": (pc.run_end_encode(TEXT), pa.string()),
    "list view": (pa.array([["a"], [], None, ["b"]], pa.list_view(pa.string())), pa.list_(pa.string())),
    "list of views": (pa.array([["a"], [], None, ["b"]], pa.list_(pa.string_view())), pa.list_(pa.string())),
    "list of categories": (
        pa.array([["a"]] * 4, pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        pa.list_(pa.string()),
    ),
    "struct of categories": (
        pa.array([{"k": "a"}] * 4, pa.struct([("k", pa.dictionary(pa.int32(), pa.string()))])),
        pa.struct([("k", pa.string())]),
    ),
    "half": (pa.array([1.5, None, 2.5, 0.0], pa.float16()), pa.float32()),
    "json": (pa.ExtensionArray.from_storage(pa.json_(), TEXT), pa.string()),
    "uuid": (pa.array([each.bytes for each in UUIDS], pa.uuid()), pa.string()),
    "list of uuid": (
        pa.ListArray.from_arrays([0, 1, 2, 3, 4], pa.array([u.bytes for u in UUIDS], pa.uuid())),
        pa.string(),
    ),
    "union": (
        pa.UnionArray.from_sparse(pa.array([0, 1, 0, 1], pa.int8()), [pa.array([1, 2, 3, 4]), pa.array(list("abcd"))]),
        pa.string(),
    ),
    "interval": (pa.array([(1, 2, 3)] * 4, pa.month_day_nano_interval()), pa.string()),
    "empty struct": (pa.array([{}, {}, None, {}], pa.struct([])), pa.string()),
    "map": (pa.array([[("a", 1)]] * 4, pa.map_(pa.string(), pa.int64())), pa.map_(pa.string(), pa.int64())),
    "decimal": (pa.array([Decimal("1.50")] * 4), pa.decimal128(3, 2)),
    "small decimal": (pa.array([Decimal("1.50")] * 4, pa.decimal32(5, 2)), pa.decimal32(5, 2)),
    "duration": (pa.array([1, 2, None, 3], pa.duration("s")), pa.duration("s")),
    "time": (pa.array([1, 2, None, 3], pa.time32("ms")), pa.time32("ms")),
    "date": (pa.array([0, 86_400_000, None, 0], pa.date64()), pa.date64()),
    "null": (pa.nulls(4), pa.null()),
    "nested": (pa.array([[[1]], [], None, [[2], None]]), pa.list_(pa.list_(pa.int64()))),
    "zoned": (pa.array([1, 2, None, 3], pa.timestamp("us", "Europe/Berlin")), pa.timestamp("us", "Europe/Berlin")),
    "binary": (pa.array([b"\xff", None, b"", b"a"]), pa.binary()),
}
UNTEXTUAL = ("binary", "binary view")


@pytest.mark.parametrize("case", ARRAYS)
def test_every_type_is_read_and_can_be_written_again(case: str, tmp_path: Path) -> None:
    array, kind = ARRAYS[case]
    source = read(pa.table({"a": array, "id": list("wxyz")}))
    column = source.table.column("a")
    assert column.type == kind
    if kind != pa.string() or case in ("string view", "dictionary", "run ends", "json"):
        assert column.to_pylist() == pa.chunked_array([array]).to_pylist()
    else:
        assert column.to_pylist() == [None if cell is None else str(cell) for cell in array.to_pylist()]
    kept = source.table.filter(pa.array([True, False, True, True]))  # as copies do
    for suffix in (".parquet", ".csv", ".jsonl", ".xlsx", ".csv.gz"):
        if case == "binary" and suffix != ".parquet":
            with pytest.raises(ValueError, match=r"need cells that can be written as text, got binary in column 'a'"):
                write_table(tmp_path / f"a{suffix}", kept)
        else:
            write_table(tmp_path / f"a{suffix}", kept)
            assert read(tmp_path / f"a{suffix}").table.column("id").to_pylist() == ["w", "y", "z"]
    again = read(tmp_path / "a.parquet")
    assert again.table.column("a").to_pylist() == kept.column("a").to_pylist()
    assert again.notices == ()


@pytest.mark.parametrize(
    "case", ["string view", "binary view", "uuid", "list view", "duration", "list of uuid", "half"]
)
def test_parquet_files_are_read_alike(case: str, tmp_path: Path) -> None:
    array, kind = ARRAYS[case]
    pq.write_table(pa.table({"a": array}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet").table.column("a").type == kind


def test_a_changed_type_is_a_notice_unless_the_values_are_the_same() -> None:
    table = pa.table({"u": ARRAYS["uuid"][0], "s": ARRAYS["string view"][0], "d": ARRAYS["dictionary"][0]})
    assert read(table).notices == ("column 'u' of extension<arrow.uuid> is read as string",)


@pytest.mark.parametrize("case", ["duration", "list", "struct"])
def test_labels_that_cannot_be_written_are_refused_before_training(case: str) -> None:
    arrays = {
        "duration": pa.array([1, 2] * 15, pa.duration("s")),
        "list": pa.array([[["a"]], [["b"]]] * 15),
        "struct": pa.array([[{"a": 1}], [{"a": 2}]] * 15),
    }
    source = read(pa.table({"y": arrays[case]}))
    with pytest.raises(
        ValueError, match=r"need labels that are text or numbers, got a column of .*; convert it to text"
    ):
        read_labels(source, ["y"])


def test_uuids_can_be_labels() -> None:
    labels = pa.array([each.bytes for each in UUIDS[:2]] * 15, pa.uuid())
    assert read_labels(read(pa.table({"y": labels})), ["y"]).names == [str(each) for each in UUIDS[:2]]


def test_columns_of_one_name_are_refused_by_name(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([TEXT, TEXT, TEXT], ["a", "b", "a"])
    with pytest.raises(ValueError, match="need different column names, got 'a' twice; rename one"):
        read(table)
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="got 'a' twice"):
        read(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    "array",
    [pa.array([2**30], pa.date32()), pa.array([2**62], pa.timestamp("s")), pa.array([-(2**40)], pa.timestamp("s"))],
)
def test_dates_beyond_the_calendar_are_refused(array: Any) -> None:
    with pytest.raises(ValueError, match="need dates of the years 1 to 9999, got others in column 'd'"):
        read(pa.table({"d": array}))


@pytest.mark.parametrize(
    "column",
    [
        [1, "a"],
        [b"\xff", None],
        [b"a", "a"],
        np.array([1j, 2j]),
        pd.arrays.SparseArray([0.0, 1.0]),
        pd.Categorical(pd.IntervalIndex.from_tuples([(0, 1), (1, 2)])),
        pd.Categorical([dt.date(2024, 1, 1), None]),
        [[1], ["a"]],
        [{"a": 1}, {"a": "x"}],
        [{"a": 1}, [1]],
        [Decimal("1.5"), Decimal("1e30")],
        [dt.timedelta(1), None],
        [dt.time(1), dt.date(2024, 1, 1)],
        [2**64, 1],
        [uuid.UUID(int=1), None],
        pd.array(["a", None], dtype="string"),
        pd.array([1, None], dtype="Int8"),
        np.array([1, 2], "float16"),
        pd.to_datetime(["2024-01-01", None]).tz_localize("Europe/Berlin"),
        [float("nan"), None],
        [object, print],
    ],
    ids=str,
)
def test_any_column_of_pandas_can_be_read_and_written(column: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": column, "id": ["x", "y"]})
    source = read(frame)
    assert len(source) == 2
    write_table(tmp_path / "a.parquet", source.table)
    assert read(tmp_path / "a.parquet").table.column("id").to_pylist() == ["x", "y"]
    assert len(source.to_frame(source.table, np.array([True, False]))) == 1


def test_half_a_character_in_a_frame_is_refused() -> None:
    with pytest.raises(ValueError, match=r"need whole characters, got half of a pair in column 'a'; correct it"):
        read(pd.DataFrame({"a": np.array(["x", "\ud800"], object)}, dtype=object))


def test_columns_of_several_levels_have_names_of_text() -> None:
    frame = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")]))
    assert read(frame).table.column_names == ["('a', 'b')", "('a', 'c')"]


@pytest.mark.parametrize(
    "series",
    [
        pl.Series(["a", None], dtype=pl.Categorical),
        pl.Series(["a", "b"], dtype=pl.Enum(["a", "b"])),
        pl.Series([dt.timedelta(1), None]),
        pl.Series([dt.time(1), None]),
        pl.Series([b"a", b"\xff"]),
        pl.Series([{"a": 1}, {"a": 2}]),
        pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int8, 2)),
        pl.Series([Decimal("1.5"), None]),
        pl.Series([None, None]),
        pl.Series([2**100, 1], dtype=pl.Int128),
        pl.Series([object(), None], dtype=pl.Object),
    ],
    ids=lambda series: str(series.dtype),
)
def test_any_column_of_polars_is_read_and_written_or_refused(series: Any, tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": series, "id": ["x", "y"]})
    try:
        source = read(frame)
    except ValueError as error:
        assert series.dtype in (pl.Object, pl.Int128)
        assert str(error).startswith("need ")  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
        return
    write_table(tmp_path / "a.parquet", source.table)
    assert read(tmp_path / "a.parquet").table.column("id").to_pylist() == ["x", "y"]


def test_views_of_a_table_come_back_after_the_audit() -> None:
    source = read(pa.table({"a": ARRAYS["string view"][0], "r": ARRAYS["run ends"][0]}))
    kept = source.to_frame(source.table, np.array([True, False, True, True]), ["a"])
    assert kept.column("a").to_pylist() == ["a", None, "a"]
