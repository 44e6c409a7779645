"""Tables of Arrow in the types that the rest of the package knows and that Parquet files can hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

types = pa.types
KEPT: tuple[Callable[[pa.DataType], bool], ...] = (
    types.is_null,
    types.is_boolean,
    types.is_integer,
    types.is_floating,
    types.is_decimal,
    types.is_string,
    types.is_large_string,
    types.is_binary,
    types.is_large_binary,
    types.is_fixed_size_binary,
    types.is_temporal,
)
#: Days from 1970 to the first day of the year 1 and the last of 9999; other dates cannot be printed.
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def plain_table(table: pa.Table) -> tuple[pa.Table, tuple[str, ...]]:
    """Return the table in common types, and notices about columns that had others.

    Dictionaries, views and run-end encodings become the values they stand for, extension types what they are stored
    as, and anything that Parquet cannot hold becomes text. No two columns may have the same name.
    """
    names = table.column_names
    if len(set(names)) < len(names):
        twice = next(name for name in names if not name or table.schema.get_field_index(name) < 0)
        raise ValueError(f"need different column names, got {twice!r} twice; rename one")
    columns, notices = [], []
    for name, column in zip(names, table.columns, strict=True):
        plain = _plain_column(name, column)
        columns.append(plain)
        if not _same_values(column.type, plain.type):
            notices.append(f"column {name!r} of {column.type} is read as {plain.type}")
    return pa.Table.from_arrays(columns, names), tuple(notices)


def _plain_column(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = _plain_type(column.type)
    try:
        column.validate(full=True)
        if kind is None:
            return _as_text(column)
        column = column if kind == column.type else _cast(column, kind)
        _check_dates(name, column)
        return column
    except (pa.ArrowException, OverflowError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"need cells that can be read, got {column.type} in column {name!r} ({reason})") from error


def _plain_type(kind: pa.DataType) -> pa.DataType | None:
    """The type to read as; None for text."""
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _plain_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return None if isinstance(kind, pa.UuidType) else _plain_type(kind.storage_type)
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return pa.string() if types.is_string_view(kind) else pa.binary()
    if types.is_float16(kind):
        return pa.float32()
    if types.is_interval(kind):
        return None
    if types.is_nested(kind):
        return _plain_nested(kind)
    return kind if any(test(kind) for test in KEPT) else None


def _plain_nested(kind: pa.DataType) -> pa.DataType | None:
    if types.is_struct(kind):
        fields = [(field.name, _plain_type(field.type)) for field in kind]
        return pa.struct(fields) if fields and all(inner is not None for _, inner in fields) else None
    if types.is_map(kind):
        key, item = _plain_type(kind.key_type), _plain_type(kind.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if types.is_union(kind):
        return None
    inner = _plain_type(kind.value_type)
    if inner is None:
        return None
    if types.is_fixed_size_list(kind):
        return kind if inner == kind.value_type else pa.list_(inner, kind.list_size)
    return pa.large_list(inner) if types.is_large_list(kind) or types.is_large_list_view(kind) else pa.list_(inner)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """The cells in another type, by way of Python objects where Arrow has no shorter one."""
    if types.is_run_end_encoded(column.type):
        decoded = [pc.run_end_decode(chunk) for chunk in column.chunks]
        column = pa.chunked_array(decoded, column.type.value_type)
    try:
        cast = column.cast(kind)
        cast.validate(full=True)  # pyarrow 26 makes invalid lists of views with nulls
        return cast
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.chunked_array([pa.array(column.to_pylist(), kind)])


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    cells: list[Any] = column.to_pylist()
    return pa.chunked_array([pa.array([None if cell is None else str(cell) for cell in cells], pa.string())])


def _check_dates(name: str, column: pa.ChunkedArray) -> None:
    if not (types.is_date(column.type) or types.is_timestamp(column.type)):
        return
    per_day = 1 if types.is_date32(column.type) else PER_DAY[getattr(column.type, "unit", "ms")]
    numbers = column.cast(pa.int32() if types.is_date32(column.type) else pa.int64())
    found = pc.min_max(numbers).as_py()
    if found["min"] is not None and not FIRST_DAY * per_day <= found["min"] <= found["max"] < (LAST_DAY + 1) * per_day:
        raise ValueError(f"need dates of the years 1 to 9999, got others in column {name!r}; correct them")


def _same_values(before: pa.DataType, after: pa.DataType) -> bool:
    """Whether a type was only another way to store the same values."""
    while types.is_dictionary(before) or types.is_run_end_encoded(before):
        before = before.value_type
    return not (isinstance(before, pa.BaseExtensionType) or (types.is_string(after) and _plain_type(before) is None))
