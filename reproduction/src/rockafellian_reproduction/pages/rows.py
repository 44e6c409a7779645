"""Printed figures beside ours: rows of one figure each, and signs of pairs that differ only in the method."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from rockafellian_reproduction.tables import TABLES, Cell, Scale, Table
from rockafellian_reproduction.tables.figures import Figure
from rockafellian_reproduction.tables.measured import Reading
from rockafellian_reproduction.training.records import Record

#: Keeps the last bit of a float from deciding a comparison of printed figures.
TINY = 1e-9


@dataclass(frozen=True)
class Ours:
    """What our runs of one cell gave for one measure, by seed, and how many of them diverged."""

    values: Mapping[int, float]
    diverged: int = 0

    @property
    def run(self) -> bool:
        """Whether there is a record, be it of a run that diverged."""
        return bool(self.values) or self.diverged > 0

    @property
    def mean(self) -> float | None:
        """The mean over the seeds that did not diverge."""
        return statistics.fmean(self.values.values()) if self.values else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the sample, from two seeds on."""
        return statistics.stdev(self.values.values()) if len(self.values) > 1 else None

    @property
    def span(self) -> tuple[float, float] | None:
        """The smallest and the largest value."""
        return (min(self.values.values()), max(self.values.values())) if self.values else None


@dataclass(frozen=True)
class Row:
    """A printed figure and ours. `digits` is the number of decimals that its table prints."""

    table: int
    scale: Scale
    figure: Figure
    measure: str
    digits: int
    ours: Ours

    @property
    def difference(self) -> float | None:
        """Our mean minus the printed figure."""
        return None if self.ours.mean is None else self.ours.mean - self.figure.value

    @property
    def beyond(self) -> bool:
        """Whether the printed figure is outside the range of our seeds, widened by its own deviation and rounding."""
        if self.ours.span is None:
            return False
        smallest, largest = self.ours.span
        slack = (self.figure.deviation or 0.0) + 0.5 * 10.0**-self.digits + TINY
        return not smallest - slack <= self.figure.value <= largest + slack


@dataclass(frozen=True)
class Sign:
    """Two rows that differ only in the method: is the robust one above the plain one, or below, as in the paper?"""

    plain: Row
    robust: Row

    @property
    def printed(self) -> float:
        """Robust minus plain in the paper."""
        return round(self.robust.figure.value - self.plain.figure.value, 6)

    @property
    def ours(self) -> float | None:
        """Robust minus plain by our means; None where one has none."""
        plain, robust = self.plain.ours.mean, self.robust.ours.mean
        return None if plain is None or robust is None else robust - plain

    @property
    def span(self) -> tuple[float, float] | None:
        """The smallest and the largest difference of two runs with the same seed."""
        plain, robust = self.plain.ours.values, self.robust.ours.values
        return Ours({seed: robust[seed] - plain[seed] for seed in plain.keys() & robust.keys()}).span

    @property
    def within_chance(self) -> bool:
        """Whether the sign may be chance: the printed difference is within its deviation, or our seeds disagree."""
        deviations = [row.figure.deviation or 0.0 for row in (self.plain, self.robust)]
        span = self.span
        return abs(self.printed) < math.hypot(*deviations) or (span is not None and span[0] < 0 < span[1])

    @property
    def verdict(self) -> Literal["agrees", "differs", "equal in print", "not run"]:
        """Whether the signs agree; a pair differs if equal in our runs, or if one side diverged with every seed."""
        if not self.printed:
            return "equal in print"
        if not (self.plain.ours.run and self.robust.ours.run):
            return "not run"
        return "agrees" if self.ours and (self.ours > 0) == (self.printed > 0) else "differs"


def rows(table: Table, scale: Scale, records: Sequence[Record], reading: Reading | None = None) -> list[Row]:
    """Return every printed figure beside ours, in the paper's order; by the headline reading if none is given."""
    reading, decimals = reading or table.headline, digits(table)
    found = []
    for figure in table.published:
        if reading.of in figure.measure:
            measure = reading.template.format(figure.measure)
            found.append(Row(table.number, scale, figure, measure, decimals, collect(records, figure.cell, measure)))
    return found


def signs(table: Table, scale: Scale, records: Sequence[Record], reading: Reading | None = None) -> list[Sign]:
    """Return every pair of printed figures that differs only in the method.

    Table 2 is paired with the plain runs of Table 1, whose records then belong among these.
    """
    found = rows(table, scale, records, reading)
    plain, robust = table.pairs
    if table.plain_table is not None:
        found = rows(TABLES[table.plain_table], scale, records, reading) + found
    return [
        Sign(one, other)
        for one, other in product(found, repeat=2)
        if one.figure.cell["method"] == plain
        and other.table == table.number
        and (_without_excess(other.figure.cell), other.measure) == ({**one.figure.cell, "method": robust}, one.measure)
    ]


def _without_excess(cell: Cell) -> Cell:
    return {key: value for key, value in cell.items() if key != "excess"}


def collect(records: Sequence[Record], cell: Cell, measure: str) -> Ours:
    """Return one measure of one cell over the seeds."""
    own = [record for record in records if record["cell"] == cell]
    values = {record["seed"]: record["results"][measure] for record in own if measure in record["results"]}
    finite = {seed: value for seed, value in values.items() if math.isfinite(value)}
    return Ours(finite, sum(bool(record.get("diverged")) for record in own) + len(values) - len(finite))


def digits(table: Table) -> int:
    """Return how many decimals a table prints: 0 where all figures are whole."""
    return max(len(f"{figure.value:.10g}".partition(".")[2]) for figure in table.published)


def name_cell(cell: Cell) -> str:
    """Return a cell in words, such as `CCE + RRM at 55 %`."""
    return f"{name_method(cell)} at {percent(cell['contamination'])}"


def name_method(cell: Cell) -> str:
    """Return loss and method in words, such as `CCE + RRM`."""
    name = cell["method"]
    if "loss" in cell:
        name = cell["loss"].upper() + (" + RRM" if name == "RRM" else "")
    return f"{name}, C' = C + {percent(cell['excess'])}" if "excess" in cell else name


def percent(fraction: float) -> str:
    """Return a fraction in percent, such as `55 %`."""
    return f"{100 * fraction:g} %"
