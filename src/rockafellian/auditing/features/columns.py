"""Columns of a table as inputs of a network: what each one is, learned from the training rows, and how it is coded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from rockafellian.auditing.features.cells import (
    Column,
    Floats,
    attempt,
    dated,
    is_text,
    moments,
    numbers,
    plain,
    shown,
    words,
)
from rockafellian.auditing.features.codings import Category, Coding, Date, Number, Text, from_state, state_of
from rockafellian.auditing.features.texts import UNSPACED, TfIdf

#: Beyond so many interquartile ranges from the median a number counts neither for the mean nor for the deviation.
FAR = 50.0
MOST_CATEGORIES, LEAST_ROWS = 64, 2
#: A column has few values if they are so many at the most: this number or this share of the rows, and never more than.
FEW, FEW_SHARE, MOST_VALUES = 20, 0.05, 1000
NEARLY_ALL = 0.9
WORDS_OF_TEXT = 4
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
CALLED = {
    ("number", "numbers"): Number,
    ("category", "categories"): Category,
    ("date", "dates"): Date,
    ("text", "texts"): Text,
}


@dataclass(frozen=True)
class Columns:
    """The columns that can be learned from, each with its coding, and those left out, each with the reason."""

    parts: tuple[Coding, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    @classmethod
    def learn(cls, table: pa.Table, *, seed: int = 0) -> Columns:
        """Decide from training rows, in the order of the data, what each column is; ValueError if none is usable."""
        _check_names(table)
        found = {name: _decide(name, plain(table.column(name)), seed) for name in table.column_names}
        left_out = tuple((name, each) for name, each in found.items() if isinstance(each, str))
        parts = tuple(each for each in found.values() if not isinstance(each, str))
        if not parts:
            raise ValueError(f"need a column to learn from, got {_listed(left_out) or 'none'}; add other columns")
        return cls(parts, left_out)

    @property
    def width(self) -> int:
        """Numbers a row."""
        return sum(part.width for part in self.parts)

    def __call__(self, table: pa.Table) -> Tensor:
        """The inputs (rows, width) for a table that has the columns, in any order, as text or typed."""
        _check_names(table)
        missing = [part.name for part in self.parts if part.name not in table.column_names]
        if missing:
            raise ValueError(
                f"need the columns of the training, but {', '.join(map(repr, missing))} is missing; "
                f"got {', '.join(map(repr, table.column_names))}"
            )
        inputs, start = np.zeros((table.num_rows, self.width), np.float32), 0
        for part in self.parts:
            part.fill(table.column(part.name), inputs[:, start : start + part.width])
            start += part.width
        return torch.from_numpy(inputs)

    def describe(self) -> str:
        """One line: how many columns of each kind, and what was left out."""
        counts = {called: sum(type(part) is kind for part in self.parts) for called, kind in CALLED.items()}
        kinds = ", ".join(f"{count} {called[count > 1]}" for called, count in counts.items() if count)
        return kinds + (f"; left out: {_listed(self.left_out)}" if self.left_out else "")

    @property
    def state(self) -> dict[str, Any]:
        """Plain values and tensors, for `from_state`."""
        return {"parts": list(map(state_of, self.parts)), "left_out": [list(pair) for pair in self.left_out]}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Columns:
        """The columns that had this state."""
        return cls(tuple(map(from_state, state["parts"])), tuple((name, reason) for name, reason in state["left_out"]))


def _decide(name: str, column: Column, seed: int) -> Coding | str:
    """The coding of a column, or why it is left out."""
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return f"values of type {kind}"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _date(name, "year-month-day", moments(column, "year-month-day"))
    if _is_numeric(kind):
        return _number(name, numbers(column))
    if is_text(column) and (values := attempt(column, numbers)) is not None:
        return _number(name, values)
    if is_text(column) and (found := dated(column)) is not None:
        return _date(name, *found)
    text = attempt(column, words)
    return f"values of type {kind}" if text is None else _spoken(name, text, seed)


def _is_numeric(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_duration)
    return any(test(kind) for test in (*tests, pa.types.is_null))


def _number(name: str, values: Floats) -> Number | str:
    known = values[~np.isnan(values)]
    if reason := _no_use(known, len(values)):
        return reason
    if len(known) == len(values) and _counts(values):
        return "counts the rows"
    return Number(name, *_centre_and_deviation(known), missing=len(known) < len(values))


def _date(name: str, layout: str, seconds: Floats) -> Date | str:
    known = seconds[~np.isnan(seconds)]
    if reason := _no_use(known, len(seconds)):
        return reason
    times = known % 86_400
    hours = bool((times != times[0]).any())
    return Date(name, layout, *_centre_and_deviation(known), hours, missing=len(known) < len(seconds))


def _no_use(known: Floats, rows: int) -> str | None:
    if len(known) == 0:
        return "all missing"
    return "constant" if len(known) == rows and (known == known[0]).all() else None


def _counts(values: Floats) -> bool:
    """Whether these are whole numbers that rise with every row, mostly by 1: rows may have been set aside."""
    if len(values) < 3 or not (values % 1 == 0).all() or not (values[1:] > values[:-1]).all():
        return False
    return float(np.median(np.diff(values))) == 1


def _centre_and_deviation(known: Floats) -> tuple[float, float]:
    """Mean and deviation of all but far outliers, without overflow; a deviation of 0 becomes 1."""
    part = known / (4 * FAR)  # so that nothing overflows
    low, middle, high = np.quantile(part, [0.25, 0.5, 0.75])
    near = known[np.abs(part - middle) <= FAR * (high - low)] if high > low else known
    scale = float(np.abs(near).max()) or 1.0
    centre, deviation = float((near / scale).mean()) * scale, float((near / scale).std()) * scale
    return centre, deviation if deviation > 1e-12 * scale else 1.0


def _spoken(name: str, text: Column, seed: int) -> Coding | str:
    """The coding of a column of words: a text, categories, or nothing that comes again."""
    rows = len(text) - text.null_count
    if rows == 0:
        return "all missing"
    if _is_prose(text):
        return Text(name, TfIdf.learn(text.to_pylist(), seed=seed))
    counted = pc.value_counts(text.drop_null())
    values, counts = counted.field("values"), counted.field("counts").to_numpy()
    if len(values) == 1 and rows == len(text):
        return "constant"
    kept = np.lexsort((np.arange(len(counts)), -counts))[:MOST_CATEGORIES]
    kept = kept[counts[kept] >= LEAST_ROWS]
    few = len(values) <= min(max(FEW, FEW_SHARE * rows), MOST_VALUES)
    if len(values) > NEARLY_ALL * rows or not (few or 2 * counts[kept].sum() >= rows):
        return _too_many(text, len(values), rows)
    return Category(name, tuple(values.take(pa.array(kept)).to_pylist()))


def _is_prose(text: Column) -> bool:
    """Whether the cells have several words each and are mostly different, by a sample from all over the column."""
    spans = [text.slice(start, 200).drop_null() for start in np.linspace(0, max(0, len(text) - 200), 10).astype(int)]
    sample = list(dict.fromkeys(value for span in spans for value in span.to_pylist()))
    seen = min(sum(map(len, spans)), len(text) - text.null_count)
    counts = [len(value.split()) + len(UNSPACED.findall(value)) for value in sample]
    return bool(sample) and 2 * len(sample) >= seen and sum(counts) >= WORDS_OF_TEXT * len(sample)


def _too_many(text: Column, distinct: int, rows: int) -> str:
    """Why words that hardly come again are left out; a column of numbers with a few slips is told apart."""
    known = text.drop_null()
    unlike = pc.invert(pc.match_substring_regex(known, NUMBER))
    slips = pc.sum(unlike).as_py()
    if 0 < slips <= (1 - NEARLY_ALL) * rows:
        return f"numbers but for {slips} of {rows:,} cells, such as {shown(known.filter(unlike)[0].as_py())}"
    if distinct == rows:
        return "a different value in every row"
    return f"{distinct:,} different values in {rows:,} rows, such as {shown(known[0].as_py())}"


def _listed(left_out: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} ({reason})" for name, reason in left_out)


def _check_names(table: pa.Table) -> None:
    twice = [name for name, count in Counter(table.column_names).items() if count > 1]
    if twice:
        raise ValueError(f"need columns with different names, got {', '.join(map(repr, twice))} twice; rename one")
