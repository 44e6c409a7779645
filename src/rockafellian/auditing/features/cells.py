"""The cells of a column as numbers, moments or words, the same whether they come as text or typed."""

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

#: What pandas reads as missing, and what people write.
MISSING = ["", "NA", "N/A", "n/a", "na", "#N/A", "#N/A N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL"]
MISSING += ["Null", "null", "None", "none", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", "?", "-", "--", "."]
#: Ways to write a day, as patterns that turn it into year-month-day. Where two of them fit all cells, the first holds.
LAYOUTS = {
    "year-month-day": (r"^(\d{4})-(\d\d)-(\d\d)", r"\1-\2-\3"),
    "year/month/day": (r"^(\d{4})/(\d\d)/(\d\d)", r"\1-\2-\3"),
    "day.month.year": (r"^(\d\d)\.(\d\d)\.(\d{4})", r"\3-\2-\1"),
    "month/day/year": (r"^(\d\d)/(\d\d)/(\d{4})", r"\3-\1-\2"),
    "day/month/year": (r"^(\d\d)/(\d\d)/(\d{4})", r"\3-\2-\1"),
}
#: A lone digit of a day, a month or an hour gets a 0 before it.
PADDED = ((r"^(\d)([./])", r"0\1\2"), (r"([./])(\d)([./])", r"\10\2\3"), (r" (\d):", r" 0\1:"))
FAILURES = (pa.ArrowInvalid, pa.ArrowNotImplementedError)


def is_text(column: Column) -> bool:
    """Whether the cells are strings."""
    kind = column.type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def plain(column: Column) -> Column:
    """The cells as they are, out of a dictionary if they are in one; text gets offsets that 2 GB do not exhaust."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.large_string()) if is_text(column) else column


def words(column: Column) -> Column:
    """The cells as text without blanks around it, null where missing."""
    column = plain(column)
    text = pc.utf8_trim_whitespace(column if is_text(column) else column.cast(pa.large_string()))
    missing = pc.is_in(text, pa.array(MISSING, pa.large_string()))
    return pc.if_else(missing, pa.scalar(None, pa.large_string()), text)


def numbers(column: Column) -> Floats:
    """The cells as numbers, NaN where missing or infinite; true and false are 1 and 0."""
    column = plain(column)
    if is_text(column):
        column = _as_numbers(column)
    elif pa.types.is_duration(column.type):
        column = column.cast(pa.int64())
    found: Floats = column.cast(pa.float64(), safe=False).to_numpy()
    return np.where(np.isinf(found), np.nan, found)


def moments(column: Column, layout: str) -> Floats:
    """The cells as seconds since 1970, NaN where missing; text is read in one of LAYOUTS."""
    column = plain(column)
    if is_text(column):
        column = _written(words(column), layout)
    elif not pa.types.is_temporal(column.type) and not pa.types.is_null(column.type):
        raise pa.ArrowInvalid(f"{column.type} is no date")
    ticks = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    seconds: Floats = ticks.cast(pa.float64(), safe=False).to_numpy() / 1e6
    return seconds


def dated(column: Column) -> tuple[str, Floats] | None:
    """The first layout in which all cells can be read as dates, and the seconds; None if there is none."""
    for layout in LAYOUTS:
        seconds = attempt(column, partial(moments, layout=layout))
        if seconds is not None:
            return layout, seconds
    return None


def attempt(column: Column, parse: Callable[[Column], T], head: int = 1000) -> T | None:
    """All cells, or None if one cannot be read; the first are tried first, as columns of another kind fail there."""
    try:
        parse(column.slice(0, head))
        return parse(column)
    except FAILURES:
        return None


def first_unreadable(column: Column, parse: Callable[[Column], object]) -> int:
    """The place of the first cell that cannot be read, in a column that cannot."""
    start, stop = 0, len(column)
    while stop - start > 1:
        middle = (start + stop) // 2
        fails = attempt(column.slice(start, middle - start), parse) is None
        start, stop = (start, middle) if fails else (middle, stop)
    return start


def shown(value: object) -> str:
    """A cell in a message."""
    text = str(value)
    return repr(text if len(text) <= 40 else text[:40] + "…")


def _as_numbers(text: Column) -> Column:
    """By the cheapest way that can: most columns have nothing missing and no blanks."""
    for way in (plain, words):
        try:
            return way(text).cast(pa.float64())
        except pa.ArrowInvalid:
            continue
    return _truths(text)


def _truths(column: Column) -> Column:
    """Words that are all true or false, in any case, as 1 and 0."""
    return pc.utf8_lower(words(column)).cast(pa.bool_())


def _written(text: Column, layout: str) -> Column:
    pattern, day = LAYOUTS[layout]
    if layout != "year-month-day":
        for lone, pair in PADDED:
            text = pc.replace_substring_regex(text, lone, pair)
    if not pc.all(pc.match_substring_regex(text, pattern), min_count=0).as_py():
        raise pa.ArrowInvalid(f"not all cells are {layout}")
    text = pc.replace_substring_regex(text, pattern, day)
    text = pc.replace_substring_regex(text, r"(\.\d{6})\d+", r"\1")  # pandas writes nine digits
    try:
        return text.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return text.cast(pa.timestamp("us", "UTC"))  # the times have zones
