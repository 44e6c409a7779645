"""Cells as text: which types of columns have one, and what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa

Column: TypeAlias = "pa.ChunkedArray[Any]"
Tests: TypeAlias = tuple[Callable[[pa.DataType], bool], ...]

TEXT: Tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
NUMBERS: Tests = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
TIMES: Tests = (pa.types.is_date, pa.types.is_timestamp, pa.types.is_time)
LARGE_STRING = pa.large_string()
#: Characters of a cell or a name in a message.
MAX_SHOWN = 40


def is_text(kind: pa.DataType) -> bool:
    """Return whether cells of this type are strings."""
    return any(test(kind) for test in TEXT)


def has_text(kind: pa.DataType) -> bool:
    """Return whether each value of this type has a text of its own: strings, numbers, dates and times."""
    return any(test(kind) for test in (*TEXT, *NUMBERS, *TIMES, pa.types.is_null))


def decoded(column: Column) -> Column:
    """Return the cells without dictionary encoding; text gets 64-bit offsets, as 2 GB exhaust those of 32 bits."""
    if column.type == LARGE_STRING:  # at once: a cast that changes nothing takes its time in very wide tables
        return column
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(LARGE_STRING) if is_text(column.type) else column


def as_text(column: Column) -> Column:
    """Return the text of the cells of a column whose type has one; times with a zone are in UTC."""
    column = decoded(column)
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:  # a zone may have any name
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    return column if column.type == LARGE_STRING else column.cast(LARGE_STRING)


def shown(column: Column, row: int) -> str:
    """Return a cell for people, also if Python has no such value, such as the year 10000; empty if missing."""
    try:
        value = column[row].as_py()
    except (ValueError, OverflowError, KeyError):
        value = as_text(column.slice(row, 1))[0].as_py()
    return "" if value is None else str(value)


def quoted(value: object) -> str:
    """Return a value in quotes as messages show it: shortened, with escapes for what cannot be printed."""
    text = str(value)
    return repr(text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…")


def named(name: str) -> str:
    """Return a name as it is, or in quotes if it is blank, long or cannot be printed."""
    return name if name.strip() and name.isprintable() and len(name) <= MAX_SHOWN else quoted(name)
