"""The cells of a column as numbers, dates or strings, whether they come as text or typed."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rockafellian.auditing.data.cells import Column, as_text, decoded, has_text, is_text

Floats: TypeAlias = NDArray[np.float64]
T = TypeVar("T")

#: Cells that count as missing: what pandas reads as such, and what people write.
MISSING = ["", "NA", "N/A", "n/a", "na", "#N/A", "#N/A N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL"]
MISSING += ["Null", "null", "None", "none", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", "?", "-", "--", "."]
SPACES = " \u00a0\u2009\u202f"  # plain, no-break, thin, narrow no-break


class NumberFormat(NamedTuple):
    """The characters that may separate groups of three digits, the decimal mark, and what ends every cell."""

    thousands: str = ""
    decimal: str = "."
    ending: str = ""

    @property
    def pattern(self) -> str:
        """The pattern of a whole cell. A 0 in front of other digits makes it an id, not a number."""
        groups = rf"[1-9]\d{{0,2}}(?:[{self.thousands}]\d{{3}})+|" if self.thousands else ""
        whole, mark = rf"(?:{groups}0|[1-9]\d*)", re.escape(self.decimal)
        return rf"^[+-]?(?:{whole}(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?{self.ending}$"


PLAIN, DECIMAL_COMMAS = "plain", "decimal commas"
#: Formats of a number. Where two of them fit all cells, the first is used: 1,234 alone is one thousand.
NUMBER_FORMATS = {
    PLAIN: NumberFormat(),
    "thousands separators": NumberFormat(f",'\u2019{SPACES}"),
    DECIMAL_COMMAS: NumberFormat(f".'\u2019{SPACES}", ","),
    "percent signs": NumberFormat(f",'\u2019{SPACES}", ending=f"[{SPACES}]?%"),
    "decimal commas and percent signs": NumberFormat(f".'\u2019{SPACES}", ",", f"[{SPACES}]?%"),
}
#: IP addresses and phone numbers, if all cells of a column are like this.
CODE = rf"^\+?\d{{1,3}}(?:[.{SPACES}]\d{{3}}){{2,}}$"
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
TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # in a second
FAILURES = (pa.ArrowInvalid, pa.ArrowNotImplementedError)


def parse_strings(column: Column) -> Column:
    """Return the cells as text without surrounding spaces, null where missing."""
    if not has_text(decoded(column).type):
        raise pa.ArrowInvalid(f"cells of type {column.type} have no text")
    text = pc.utf8_trim_whitespace(as_text(column))
    missing = pc.is_in(text, pa.array(MISSING, pa.large_string()))
    return pc.if_else(missing, pa.scalar(None, pa.large_string()), text)


def parse_numbers(column: Column, number_format: str = PLAIN) -> Floats:
    """Return the cells as numbers, NaN where missing or infinite; text must have this one of NUMBER_FORMATS.

    Plain numbers may be true and false, which are 1 and 0.
    """
    column = decoded(column)
    if is_text(column.type):
        column = _plain_numbers(column) if number_format == PLAIN else _formatted_numbers(column, number_format)
    elif pa.types.is_duration(column.type):
        column = column.cast(pa.int64())
    if column.type != pa.float64():  # to cast takes time even where there is nothing to do
        column = column.cast(pa.float64(), safe=False)
    found: Floats = column.to_numpy()
    return np.where(np.isinf(found), np.nan, found)


def parse_dates(column: Column, date_format: str) -> Floats:
    """Return the cells as seconds since 1970, NaN where missing; text must have this one of DATE_FORMATS."""
    column = decoded(column)
    if is_text(column.type):
        column = _text_to_dates(parse_strings(column), date_format)
    elif pa.types.is_date(column.type) or pa.types.is_null(column.type):
        column = column.cast(pa.timestamp("s"))
    if not pa.types.is_timestamp(column.type):
        raise pa.ArrowInvalid(f"{column.type} is no date")
    ticks = column.cast(pa.int64()).cast(pa.float64(), safe=False).to_numpy()
    seconds: Floats = ticks / TICKS[column.type.unit]
    return seconds


def find_number_format(column: Column) -> tuple[str, Floats] | None:
    """Return the first number format that all cells of text have, and the numbers; None if there is none."""
    formats = [PLAIN] if _starts_with_words(column) else NUMBER_FORMATS
    for number_format in formats:
        numbers = try_parse(column, partial(parse_numbers, number_format=number_format))
        if numbers is not None:
            return None if number_format != PLAIN and _are_codes(column) else (number_format, numbers)
    return None


def find_date_format(column: Column) -> tuple[str, Floats] | None:
    """Return the first date format that all cells have, and the seconds since 1970; None if there is none."""
    formats = () if _starts_with_words(column) else DATE_FORMATS
    for date_format in formats:
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


def _plain_numbers(text: Column) -> Column:
    """Try the cheapest way first: most columns have no missing cells and no spaces."""
    for way in (decoded, parse_strings, _with_plain_signs):
        try:
            return way(text).cast(pa.float64())
        except pa.ArrowInvalid:
            continue
    return _booleans(text)


def _formatted_numbers(column: Column, number_format: str) -> Column:
    """Numbers in a format that is not the plain one, in which they are written before they are read."""
    text, form = _with_plain_signs(column), NUMBER_FORMATS[number_format]
    if not pc.all(pc.match_substring_regex(text, form.pattern), min_count=0).as_py():
        raise pa.ArrowInvalid(f"not all cells are numbers with {number_format}")
    text = pc.replace_substring_regex(text, f"[{form.thousands}%]", "")
    return pc.replace_substring(text, form.decimal, ".").cast(pa.float64())


def _with_plain_signs(column: Column) -> Column:
    """The cells as text, with a hyphen for the minus sign of typography."""
    return pc.replace_substring(parse_strings(column), "\u2212", "-")


def _starts_with_words(column: Column) -> bool:
    """Whether the first cell that is not missing has no digit; this recognizes most columns of words at once."""
    heads = (column.slice(0, count).to_pylist() for count in (1, 100))
    cells = (cell.strip() for head in heads for cell in head if cell is not None)
    first = next((cell for cell in cells if cell not in MISSING), None)
    return first is not None and re.search(r"\d", first) is None


def _are_codes(column: Column) -> bool:
    return bool(pc.all(pc.match_substring_regex(parse_strings(column), CODE), min_count=0).as_py())


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
