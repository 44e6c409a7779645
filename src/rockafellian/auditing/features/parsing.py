"""The cells of a column as numbers, dates or strings, whether they come as text or typed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Column: TypeAlias = "pa.ChunkedArray[Any]"
Floats: TypeAlias = NDArray[np.float64]
T = TypeVar("T")

#: Cells that count as missing: what pandas reads as such, and what people write.
MISSING = ["", "NA", "N/A", "n/a", "na", "#N/A", "#N/A N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL"]
MISSING += ["Null", "null", "None", "none", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", "?", "-", "--", "."]
#: Formats of a day, as patterns that turn it into year-month-day. Where two of them fit all cells, the first is used.
DATE_FORMATS = {
    "year-month-day": (r"^(\d{4})-(\d\d)-(\d\d)", r"\1-\2-\3"),
    "year/month/day": (r"^(\d{4})/(\d\d)/(\d\d)", r"\1-\2-\3"),
    "day.month.year": (r"^(\d\d)\.(\d\d)\.(\d{4})", r"\3-\2-\1"),
    "month/day/year": (r"^(\d\d)/(\d\d)/(\d{4})", r"\3-\1-\2"),
    "day/month/year": (r"^(\d\d)/(\d\d)/(\d{4})", r"\3-\2-\1"),
}
#: A single digit of a day, a month or an hour gets a 0 before it.
PADDING = ((r"^(\d)([./])", r"0\1\2"), (r"([./])(\d)([./])", r"\10\2\3"), (r" (\d):", r" 0\1:"))
FAILURES = (pa.ArrowInvalid, pa.ArrowNotImplementedError)


def is_text(column: Column) -> bool:
    """Return whether the cells are strings."""
    kind = column.type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def decoded(column: Column) -> Column:
    """Return the cells without dictionary encoding; text gets 64-bit offsets, as 2 GB exhaust those of 32 bits."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.large_string()) if is_text(column) else column


def parse_strings(column: Column) -> Column:
    """Return the cells as text without surrounding spaces, null where missing."""
    column = decoded(column)
    text = pc.utf8_trim_whitespace(column if is_text(column) else column.cast(pa.large_string()))
    missing = pc.is_in(text, pa.array(MISSING, pa.large_string()))
    return pc.if_else(missing, pa.scalar(None, pa.large_string()), text)


def parse_numbers(column: Column) -> Floats:
    """Return the cells as numbers, NaN where missing or infinite; true and false are 1 and 0."""
    column = decoded(column)
    if is_text(column):
        column = _text_to_numbers(column)
    elif pa.types.is_duration(column.type):
        column = column.cast(pa.int64())
    found: Floats = column.cast(pa.float64(), safe=False).to_numpy()
    return np.where(np.isinf(found), np.nan, found)


def parse_dates(column: Column, date_format: str) -> Floats:
    """Return the cells as seconds since 1970, NaN where missing; text must have this one of DATE_FORMATS."""
    column = decoded(column)
    if is_text(column):
        column = _text_to_dates(parse_strings(column), date_format)
    elif not pa.types.is_temporal(column.type) and not pa.types.is_null(column.type):
        raise pa.ArrowInvalid(f"{column.type} is no date")
    ticks = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    seconds: Floats = ticks.cast(pa.float64(), safe=False).to_numpy() / 1e6
    return seconds


def find_date_format(column: Column) -> tuple[str, Floats] | None:
    """Return the first date format that all cells have, and the seconds since 1970; None if there is none."""
    for date_format in DATE_FORMATS:
        seconds = try_parse(column, partial(parse_dates, date_format=date_format))
        if seconds is not None:
            return date_format, seconds
    return None


def try_parse(column: Column, parse: Callable[[Column], T], head: int = 1000) -> T | None:
    """Return the parsed cells, or None if one fails; the head is tried first, where a column of another kind fails."""
    try:
        if len(column) > head:
            parse(column.slice(0, head))
        return parse(column)
    except FAILURES:
        return None


def first_unreadable(column: Column, parse: Callable[[Column], object]) -> int:
    """Return the index of the first cell that cannot be parsed, in a column that has one."""
    start, stop = 0, len(column)
    while stop - start > 1:
        middle = (start + stop) // 2
        fails = try_parse(column.slice(start, middle - start), parse) is None
        start, stop = (start, middle) if fails else (middle, stop)
    return start


def quoted(value: object) -> str:
    """Return a cell as error messages show it."""
    text = str(value)
    return repr(text if len(text) <= 40 else text[:40] + "…")


def _text_to_numbers(text: Column) -> Column:
    """Try the cheapest way first: most columns have no missing cells and no spaces."""
    for way in (decoded, parse_strings):
        try:
            return way(text).cast(pa.float64())
        except pa.ArrowInvalid:
            continue
    return _booleans(text)


def _booleans(column: Column) -> Column:
    """Cells that are all true or false, in any case, as 1 and 0."""
    return pc.utf8_lower(parse_strings(column)).cast(pa.bool_())


def _text_to_dates(text: Column, date_format: str) -> Column:
    pattern, day = DATE_FORMATS[date_format]
    if date_format != "year-month-day":
        for lone, pair in PADDING:
            text = pc.replace_substring_regex(text, lone, pair)
    if not pc.all(pc.match_substring_regex(text, pattern), min_count=0).as_py():
        raise pa.ArrowInvalid(f"not all cells are {date_format}")
    text = pc.replace_substring_regex(text, pattern, day)
    text = pc.replace_substring_regex(text, r"(\.\d{6})\d+", r"\1")  # pandas writes nine digits
    try:
        return text.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return text.cast(pa.timestamp("us", "UTC"))  # the times have zones
