"""Tables as inputs of a network: the kind of each column is found in the training rows, and each gets an encoder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from rockafellian.auditing.data.cells import Column, decoded, is_text, named, quoted
from rockafellian.auditing.features.column_encoders import (
    Block,
    CategoryEncoder,
    ColumnEncoder,
    DateEncoder,
    NumberEncoder,
    TextEncoder,
    from_state,
    state_of,
)
from rockafellian.auditing.features.parsing import (
    DECIMAL_COMMAS,
    NUMBER_FORMATS,
    PLAIN,
    Floats,
    find_date_format,
    find_number_format,
    parse_dates,
    parse_numbers,
    parse_strings,
    try_parse,
)
from rockafellian.auditing.features.texts import UNSPACED, TfIdf

#: An encoder and the inputs of the training rows, or the reason why a column is left out.
Learned: TypeAlias = tuple[ColumnEncoder, Block] | str

#: Numbers further from the median, in interquartile ranges, count neither for the mean nor for the deviation.
OUTLIER_RANGES = 50.0
MAX_CATEGORIES, MIN_CATEGORY_ROWS = 64, 2
#: A column has few different values up to this number, or this fraction of the rows, and never above the maximum.
FEW_VALUES, FEW_FRACTION, MAX_FEW_VALUES = 20, 0.05, 1000
NEARLY_ALL = 0.9
#: How many columns are named in an error, and how many of those left out.
MAX_NAMES, MAX_LEFT_OUT = 10, 5
MIN_WORDS_OF_TEXT = 4
KIND_NAMES = {
    ("number", "numbers"): NumberEncoder,
    ("category", "categories"): CategoryEncoder,
    ("date", "dates"): DateEncoder,
    ("text", "texts"): TextEncoder,
}


@dataclass(frozen=True)
class TableFeatures:
    """An encoder for each column that can be learned from, and the columns left out, each with the reason."""

    encoders: tuple[ColumnEncoder, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    @classmethod
    def fit_transform(cls, table: pa.Table, *, seed: int = 0) -> tuple[TableFeatures, Tensor]:
        """Find the kind of each column in training rows, in data order; return the features and the rows' inputs."""
        _check_names(table)
        columns = {name: decoded(column) for name, column in zip(table.column_names, table.columns, strict=True)}
        found = {name: _learn(name, column, seed) for name, column in columns.items()}
        found |= _learn_with_commas(columns, found)
        left_out = tuple((name, each) for name, each in found.items() if isinstance(each, str))
        learned = [each for each in found.values() if not isinstance(each, str)]
        if not learned:
            raise ValueError(
                f"need a column to learn from, got {_listed_reasons(left_out) or 'none'}; add other columns"
            )
        inputs = np.concatenate([block for _, block in learned], axis=1)
        return cls(tuple(encoder for encoder, _ in learned), left_out), torch.from_numpy(inputs)

    @property
    def width(self) -> int:
        """The number of inputs of a row."""
        return sum(encoder.width for encoder in self.encoders)

    def __call__(self, table: pa.Table) -> Tensor:
        """Return the inputs (rows, width) of a table that has the columns, in any order, as text or typed."""
        _check_names(table)
        columns = dict(zip(table.column_names, table.columns, strict=True))
        if missing := [each.name for each in self.encoders if each.name not in columns]:
            raise ValueError(
                f"need the columns of the training data, but {_listed(missing)} {'is' if len(missing) == 1 else 'are'} "
                f"missing; got {_listed(columns)}; add or rename columns"
            )
        inputs, start = np.zeros((table.num_rows, self.width), np.float32), 0
        for encoder in self.encoders:
            encoder.write(encoder.parse(columns[encoder.name]), inputs[:, start : start + encoder.width])
            start += encoder.width
        return torch.from_numpy(inputs)

    def describe(self) -> str:
        """Return one line: how many columns of each kind, and what was left out."""
        counts = Counter((type(each), getattr(each, "number_format", PLAIN)) for each in self.encoders)
        kinds = [
            f"{count:,} {names[count > 1]}" + ("" if number_format == PLAIN else f" with {number_format}")
            for names, kind in KIND_NAMES.items()
            for number_format in NUMBER_FORMATS
            if (count := counts[kind, number_format])
        ]
        left_out = f"; left out: {_listed_reasons(self.left_out)}" if self.left_out else ""
        return ", ".join(kinds) + left_out

    @property
    def state(self) -> dict[str, Any]:
        """Plain values and tensors, for `from_state`."""
        return {"encoders": list(map(state_of, self.encoders)), "left_out": [list(pair) for pair in self.left_out]}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> TableFeatures:
        """Return the features that had this state."""
        left_out = tuple((name, reason) for name, reason in state["left_out"])
        return cls(tuple(map(from_state, state["encoders"])), left_out)


def _learn(name: str, column: Column, seed: int) -> Learned:
    """The encoder of a column and its inputs: its cells are parsed once for both."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _learn_dates(name, "year-month-day", parse_dates(column, "year-month-day"))
    if _is_numeric(kind):
        return _learn_numbers(name, parse_numbers(column))
    if is_text(column.type) and (numbers := find_number_format(column)) is not None:
        return _learn_numbers(name, numbers[1], numbers[0])
    if is_text(column.type) and (found := find_date_format(column)) is not None:
        return _learn_dates(name, *found)
    text = try_parse(column, parse_strings)
    return f"values of type {kind}" if text is None else _learn_strings(name, text, seed)


def _learn_with_commas(columns: Mapping[str, Column], found: Mapping[str, Learned]) -> dict[str, Learned]:
    """Columns learned again: where one column has decimal commas, others in which 1.234 or 1,234 may be one do too."""
    numbers = {name: each[0] for name, each in found.items() if isinstance(each[0], NumberEncoder)}
    if all(DECIMAL_COMMAS not in each.number_format for each in numbers.values()):
        return {}
    again: dict[str, Learned] = {}
    for name, encoder in numbers.items():
        column = columns[name]
        if is_text(column.type) and DECIMAL_COMMAS not in encoder.number_format and _has_marks(column):
            values = try_parse(column, partial(parse_numbers, number_format=DECIMAL_COMMAS))
            again |= {} if values is None else {name: _learn_numbers(name, values, DECIMAL_COMMAS)}
    return again


def _has_marks(text: Column) -> bool:
    return bool(pc.any(pc.match_substring_regex(text, "[.,]")).as_py())


def _encoded(encoder: ColumnEncoder, values: Any) -> tuple[ColumnEncoder, Block]:
    block = np.zeros((len(values), encoder.width), np.float32)
    encoder.write(values, block)
    return encoder, block


def _is_numeric(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_duration)
    return any(test(kind) for test in (*tests, pa.types.is_null))


def _learn_numbers(name: str, values: Floats, number_format: str = PLAIN) -> Learned:
    known = values[~np.isnan(values)]
    if reason := _useless(known, len(values)):
        return reason
    if len(known) == len(values) and _counts_rows(values):
        return "counts the rows"
    center, deviation = _center_and_deviation(known)
    return _encoded(NumberEncoder(name, center, deviation, len(known) < len(values), number_format), values)


def _learn_dates(name: str, date_format: str, seconds: Floats) -> Learned:
    known = seconds[~np.isnan(seconds)]
    if reason := _useless(known, len(seconds)):
        return reason
    times = known % 86_400
    hours, missing = bool((times != times[0]).any()), len(known) < len(seconds)
    return _encoded(DateEncoder(name, date_format, *_center_and_deviation(known), hours, missing), seconds)


def _useless(known: Floats, rows: int) -> str | None:
    if len(known) == 0:
        return "all missing"
    return "constant" if len(known) == rows and (known == known[0]).all() else None


def _counts_rows(values: Floats) -> bool:
    """Whether these are whole numbers that rise with every row, mostly by 1: some rows may have been left out."""
    if len(values) < 3 or not (values % 1 == 0).all() or not (values[1:] > values[:-1]).all():
        return False
    return float(np.median(np.diff(values))) == 1


def _quartiles(values: Floats) -> Floats:
    """The quartiles; of few values without NumPy's function, which is slow for one of many short columns."""
    if len(values) > 10_000:
        return np.quantile(values, [0.25, 0.5, 0.75])
    places = np.array([0.25, 0.5, 0.75]) * (len(values) - 1)
    found: Floats = np.interp(places, np.arange(len(values)), np.sort(values))
    return found


def _center_and_deviation(known: Floats) -> tuple[float, float]:
    """Mean and deviation of all but far outliers; a deviation of 0 becomes 1."""
    part = known / (4 * OUTLIER_RANGES)  # so that nothing overflows
    low, middle, high = _quartiles(part)
    near = known[np.abs(part - middle) <= OUTLIER_RANGES * (high - low)] if high > low else known
    scale = float(np.abs(near).max()) or 1.0
    center, deviation = float((near / scale).mean()) * scale, float((near / scale).std()) * scale
    return center, deviation if deviation > 1e-12 * scale else 1.0


def _learn_strings(name: str, text: Column, seed: int) -> Learned:
    """A text, a category, or the reason why the values do not repeat enough to learn from."""
    rows = len(text) - text.null_count
    if rows == 0:
        return "all missing"
    if _is_prose(text):
        tfidf, vectors = TfIdf.fit_transform(text.to_pylist(), seed=seed)
        return TextEncoder(name, tfidf), vectors.numpy()
    counted = pc.value_counts(text.drop_null())
    values, counts = counted.field("values"), counted.field("counts").to_numpy()
    if len(values) == 1 and rows == len(text):
        return "constant"
    kept = np.lexsort((np.arange(len(counts)), -counts))[:MAX_CATEGORIES]
    kept = kept[counts[kept] >= MIN_CATEGORY_ROWS]
    few = len(values) <= min(max(FEW_VALUES, FEW_FRACTION * rows), MAX_FEW_VALUES)
    if len(values) > NEARLY_ALL * rows or not (few or 2 * counts[kept].sum() >= rows):
        return _too_many_values(text, len(values), rows)
    return _encoded(CategoryEncoder(name, tuple(values.take(pa.array(kept)).to_pylist())), text)


def _is_prose(text: Column) -> bool:
    """Whether the cells have several words each and are mostly different, by a sample from all over the column."""
    spans = [text.slice(start, 200).drop_null() for start in np.linspace(0, max(0, len(text) - 200), 10).astype(int)]
    sample = list(dict.fromkeys(value for span in spans for value in span.to_pylist()))
    seen = min(sum(map(len, spans)), len(text) - text.null_count)
    counts = [len(value.split()) + len(UNSPACED.findall(value)) for value in sample]
    return bool(sample) and 2 * len(sample) >= seen and sum(counts) >= MIN_WORDS_OF_TEXT * len(sample)


def _too_many_values(text: Column, distinct: int, rows: int) -> str:
    """Why values that hardly repeat are left out; a column of numbers with a few errors gets a reason of its own."""
    known = text.drop_null()
    for number_format in NUMBER_FORMATS.values():
        errors = known.filter(pc.invert(pc.match_substring_regex(known, number_format.pattern)))
        if 0 < len(errors) <= (1 - NEARLY_ALL) * rows:
            return f"numbers but for {len(errors)} of {rows:,} cells, such as {quoted(errors[0].as_py())}"
    if distinct == rows:
        return "a different value in every row"
    return f"{distinct:,} different values in {rows:,} rows, such as {quoted(known[0].as_py())}"


def _listed(names: Collection[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - MAX_NAMES
    return ", ".join(map(repr, islice(names, MAX_NAMES))) + (f" and {more:,} more" if more > 0 else "")


def _listed_reasons(left_out: Sequence[tuple[str, str]]) -> str:
    shown = ", ".join(f"{named(name)} ({reason})" for name, reason in left_out[:MAX_LEFT_OUT])
    more = len(left_out) - MAX_LEFT_OUT
    return shown + (f" and {more:,} more" if more > 0 else "")


def _check_names(table: pa.Table) -> None:
    twice = [name for name, count in Counter(table.column_names).items() if count > 1]
    if twice:
        raise ValueError(f"need columns with different names, got {', '.join(map(repr, twice))} twice; rename one")
