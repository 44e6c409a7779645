"""Encoders of one column of a table: a number, a date, a category or a text, each as a few inputs of a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rockafellian.auditing.data.cells import Column, quoted, shown
from rockafellian.auditing.features.parsing import (
    FAILURES,
    PLAIN,
    Floats,
    first_unreadable,
    parse_dates,
    parse_numbers,
    parse_strings,
)
from rockafellian.auditing.features.texts import TfIdf

Block: TypeAlias = NDArray[np.float32]

#: Standardized numbers are clipped here, so that one odd cell does not outweigh all others.
CLIP = 8.0


class ColumnEncoder(Protocol):
    """Turns a column into `width` inputs: `parse` types its cells, `write` fills zeros (rows, width) from these."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def width(self) -> int: ...  # noqa: D102
    def parse(self, column: Column) -> Any: ...  # noqa: D102
    def write(self, values: Any, out: Block) -> None: ...  # noqa: D102


@dataclass(frozen=True)
class NumberEncoder:
    """A standardized number, 0 where missing, and whether it is missing if any was in training."""

    name: str
    center: float
    deviation: float
    missing: bool
    number_format: str = PLAIN

    @property
    def width(self) -> int:
        """The number of inputs."""
        return 1 + self.missing

    def parse(self, column: Column) -> Floats:
        """Return the cells as numbers, NaN where missing."""
        parse = partial(parse_numbers, number_format=self.number_format)
        wanted = "numbers" if self.number_format == PLAIN else f"numbers with {self.number_format}"
        values: Floats = _parse(column, parse, self.name, wanted)
        return values

    def write(self, values: Floats, out: Block) -> None:
        """Write the inputs of these numbers."""
        out[:, 0] = _standardized(values, self.center, self.deviation)
        if self.missing:
            out[:, 1] = np.isnan(values)


@dataclass(frozen=True)
class DateEncoder:
    """The time, standardized; month, weekday and, if times vary, hour as points on circles; whether it is missing."""

    name: str
    date_format: str
    center: float
    deviation: float
    hours: bool
    missing: bool

    @property
    def width(self) -> int:
        """The number of inputs."""
        return 5 + 2 * self.hours + self.missing

    def parse(self, column: Column) -> Floats:
        """Return the cells as seconds since 1970, NaN where missing."""
        parse = partial(parse_dates, date_format=self.date_format)
        seconds: Floats = _parse(column, parse, self.name, f"dates ({self.date_format})")
        return seconds

    def write(self, values: Floats, out: Block) -> None:
        """Write the inputs of these dates."""
        known = ~np.isnan(values)
        out[:, 0] = _standardized(values, self.center, self.deviation)
        for number, angle in enumerate(_angles(values[known])[: 2 + self.hours]):
            out[known, 1 + 2 * number], out[known, 2 + 2 * number] = np.sin(angle), np.cos(angle)
        if self.missing:
            out[:, -1] = ~known


@dataclass(frozen=True)
class CategoryEncoder:
    """One input for each of the most frequent values, one for any other value, and one for missing."""

    name: str
    values: tuple[str, ...]

    @property
    def width(self) -> int:
        """The number of inputs."""
        return len(self.values) + 2

    def parse(self, column: Column) -> Column:
        """Return the cells as text, null where missing."""
        return _parse(column, parse_strings, self.name, "words")

    def write(self, values: Column, out: Block) -> None:
        """Write the inputs of these categories."""
        known = pa.array(self.values, pa.large_string())
        at = pc.index_in(values, known).fill_null(len(self.values)).to_numpy()
        out[np.arange(len(out)), np.where(values.is_null().to_numpy(), len(self.values) + 1, at)] = 1


@dataclass(frozen=True)
class TextEncoder:
    """The words of a text, weighted by how rare they are."""

    name: str
    tfidf: TfIdf

    @property
    def width(self) -> int:
        """The number of inputs."""
        return self.tfidf.width

    def parse(self, column: Column) -> list[str | None]:
        """Return the texts, None where missing."""
        texts: list[str | None] = _parse(column, parse_strings, self.name, "text").to_pylist()
        return texts

    def write(self, values: list[str | None], out: Block) -> None:
        """Write the inputs of these texts."""
        out[:] = self.tfidf(values).numpy()


#: By the name in a state.
ENCODERS: dict[str, type[NumberEncoder] | type[DateEncoder] | type[CategoryEncoder] | type[TextEncoder]] = {
    "number": NumberEncoder,
    "date": DateEncoder,
    "category": CategoryEncoder,
    "text": TextEncoder,
}


def state_of(encoder: ColumnEncoder) -> dict[str, Any]:
    """Return plain values and tensors, for `from_state`."""
    kind = next(name for name, made in ENCODERS.items() if isinstance(encoder, made))
    if isinstance(encoder, TextEncoder):
        return {"kind": kind, "name": encoder.name, "tfidf": encoder.tfidf.state}
    settings = {key: list(value) if isinstance(value, tuple) else value for key, value in vars(encoder).items()}
    return {"kind": kind, **settings}


def from_state(state: Mapping[str, Any]) -> ColumnEncoder:
    """Return the encoder that had this state."""
    settings = {key: value for key, value in state.items() if key != "kind"}
    if state["kind"] == "text":
        return TextEncoder(settings["name"], TfIdf.from_state(settings["tfidf"]))
    if state["kind"] == "category":
        return CategoryEncoder(settings["name"], tuple(settings["values"]))
    encoder: ColumnEncoder = ENCODERS[state["kind"]](**settings)
    return encoder


def _standardized(values: Floats, center: float, deviation: float) -> Floats:
    with np.errstate(over="ignore"):
        standard = (values / 2 - center / 2) / (deviation / 2)  # halves, as the difference of two floats can overflow
    standard = np.clip(standard, -CLIP, CLIP, out=standard)
    standard[np.isnan(standard)] = 0
    return standard


def _angles(seconds: Floats) -> list[Floats]:
    """Month of the year, day of the week and hour of the day as angles."""
    days = np.floor(seconds / 86_400)
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    return [2 * np.pi * part for part in (months % 12 / 12, days % 7 / 7, seconds % 86_400 / 86_400)]


def _parse(column: Column, parse: Callable[[Column], Any], name: str, wanted: str) -> Any:
    """The parsed cells of a column, or an error that names the first one that is something else."""
    try:
        return parse(column)
    except FAILURES as error:
        row = first_unreadable(column, parse)
        raise ValueError(
            f"need {wanted} in column {name!r}, as in training, got {quoted(shown(column, row))} in row {row + 1}; "
            "correct the cell or leave it empty"
        ) from error
