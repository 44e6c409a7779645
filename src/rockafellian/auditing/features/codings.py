"""What one column of a table becomes: a number, a date, a category or a text, each as a few numbers a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rockafellian.auditing.features.cells import (
    FAILURES,
    Column,
    Floats,
    first_unreadable,
    moments,
    numbers,
    shown,
    words,
)
from rockafellian.auditing.features.texts import TfIdf

Block: TypeAlias = NDArray[np.float32]

#: Standardised numbers end here, so that one odd cell does not outweigh all others.
REACH = 8.0


class Coding(Protocol):
    """What one column becomes: `width` numbers a row, written by `fill` into zeros (rows, width)."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def width(self) -> int: ...  # noqa: D102
    def fill(self, column: Column, out: Block) -> None: ...  # noqa: D102


@dataclass(frozen=True)
class Number:
    """A standardised number, 0 where missing, and whether it is missing if any was in training."""

    name: str
    centre: float
    deviation: float
    missing: bool

    @property
    def width(self) -> int:
        """Numbers a row."""
        return 1 + self.missing

    def fill(self, column: Column, out: Block) -> None:
        """Write the numbers of these cells."""
        values = _read(column, numbers, self.name, "numbers")
        out[:, 0] = _standardised(values, self.centre, self.deviation)
        if self.missing:
            out[:, 1] = np.isnan(values)


@dataclass(frozen=True)
class Date:
    """The time, standardised; month, weekday and, if times vary, hour as points on circles; whether it is missing."""

    name: str
    layout: str
    centre: float
    deviation: float
    hours: bool
    missing: bool

    @property
    def width(self) -> int:
        """Numbers a row."""
        return 5 + 2 * self.hours + self.missing

    def fill(self, column: Column, out: Block) -> None:
        """Write the numbers of these cells."""
        seconds = _read(column, partial(moments, layout=self.layout), self.name, f"dates ({self.layout})")
        known = ~np.isnan(seconds)
        out[:, 0] = _standardised(seconds, self.centre, self.deviation)
        for place, turn in enumerate(_turns(seconds[known])[: 2 + self.hours]):
            out[known, 1 + 2 * place], out[known, 2 + 2 * place] = np.sin(turn), np.cos(turn)
        if self.missing:
            out[:, -1] = ~known


@dataclass(frozen=True)
class Category:
    """One of the most frequent values, another or an unseen one, or missing: 1 in the column that it is."""

    name: str
    values: tuple[str, ...]

    @property
    def width(self) -> int:
        """Numbers a row."""
        return len(self.values) + 2

    def fill(self, column: Column, out: Block) -> None:
        """Write the numbers of these cells."""
        text = _read(column, words, self.name, "words")
        place = pc.index_in(text, pa.array(self.values, pa.large_string())).fill_null(len(self.values)).to_numpy()
        out[np.arange(len(out)), np.where(text.is_null().to_numpy(), len(self.values) + 1, place)] = 1


@dataclass(frozen=True)
class Text:
    """The words of a text, weighed by how rare they are."""

    name: str
    tfidf: TfIdf

    @property
    def width(self) -> int:
        """Numbers a row."""
        return self.tfidf.width

    def fill(self, column: Column, out: Block) -> None:
        """Write the numbers of these cells."""
        out[:] = self.tfidf(_read(column, words, self.name, "text").to_pylist()).numpy()


#: By the name in a state.
KINDS: dict[str, type[Number] | type[Date] | type[Category] | type[Text]] = {
    "number": Number,
    "date": Date,
    "category": Category,
    "text": Text,
}


def state_of(coding: Coding) -> dict[str, Any]:
    """Plain values and tensors, for `from_state`."""
    kind = next(name for name, made in KINDS.items() if isinstance(coding, made))
    if isinstance(coding, Text):
        return {"kind": kind, "name": coding.name, "tfidf": coding.tfidf.state}
    settings = {key: list(value) if isinstance(value, tuple) else value for key, value in vars(coding).items()}
    return {"kind": kind, **settings}


def from_state(state: Mapping[str, Any]) -> Coding:
    """The coding that had this state."""
    settings = {key: value for key, value in state.items() if key != "kind"}
    if state["kind"] == "text":
        return Text(settings["name"], TfIdf.from_state(settings["tfidf"]))
    if state["kind"] == "category":
        return Category(settings["name"], tuple(settings["values"]))
    made: Coding = KINDS[state["kind"]](**settings)
    return made


def _standardised(values: Floats, centre: float, deviation: float) -> Floats:
    with np.errstate(over="ignore"):
        standard = (values / 2 - centre / 2) / (deviation / 2)  # halves, as the difference of two floats can overflow
    return np.nan_to_num(np.clip(standard, -REACH, REACH), nan=0.0)


def _turns(seconds: Floats) -> list[Floats]:
    """Month of the year, day of the week and hour of the day as angles."""
    days = np.floor(seconds / 86_400)
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    return [2 * np.pi * part for part in (months % 12 / 12, days % 7 / 7, seconds % 86_400 / 86_400)]


def _read(column: Column, parse: Callable[[Column], Any], name: str, wanted: str) -> Any:
    """The cells of a column, or an error that names the first one that is something else."""
    try:
        return parse(column)
    except FAILURES as error:
        row = first_unreadable(column, parse)
        raise ValueError(
            f"need {wanted} in column {name!r}, as in training, got {shown(column[row].as_py())} in row {row + 1}; "
            "correct the cell or leave it empty"
        ) from error
