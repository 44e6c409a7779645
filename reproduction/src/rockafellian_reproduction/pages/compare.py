"""Our recorded results beside the published figures: rows, signs, Table 5, times. Only `load` reads files."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from rockafellian_reproduction.tables import TABLES, Cell, Scale, Table
from rockafellian_reproduction.tables.figures import BINS, CPLEX_SECONDS, TABLE_5, Figure
from rockafellian_reproduction.training.reproduce import ALSO, RESULTS, load_records

Record: TypeAlias = dict[str, Any]

SCALES: tuple[Scale, ...] = get_args(Scale)
#: Table 5 is read from one cell of Table 4; Table 6 is no result.
NUMBERS = tuple(sorted([*TABLES, 5]))
NAMES = {str(number): number for number in NUMBERS} | {
    name: number for name, (number, cell) in ALSO.items() if number in TABLES and not cell
}
#: The data for which the paper prints how long a re-weighting by CPLEX took, and their rows.
CPLEX_ROWS = {"mnist-3": 18_623, "cifar-10": 50_000}
#: What a record must have to be compared.
PARTS = {"cell", "seed", "results", "tested", "bins", "rounds", "rows", "machine", "date", "seconds"}
#: Keeps the last bit of a float from deciding a comparison of printed figures.
TINY = 1e-9


class Reading(NamedTuple):
    """One way to read what a table measures: how the record calls the measure that the paper prints, where it does."""

    title: str
    template: str = "{}"
    of: str = ""
    #: Whether every difference is explained, or only shown.
    explained: bool = True


#: By `Table.measures`; the first is the headline.
READINGS: dict[str, tuple[Reading, ...]] = {
    "last": (Reading("Test accuracy after the last epoch, in per cent"),),
    "eps": (
        Reading("Test accuracy at the best validation, in per cent, attacked by the eps printed"),
        Reading("The same, each eps added to those before it", "summed {}"),
        Reading("After the last epoch, attacked by the eps printed", "last, {}", explained=False),
    ),
    "ranking": (
        Reading("Area under the precision-recall curve; training rows count with their weights"),
        Reading("The same on the training rows, all counted alike", "{}, all rows alike", "train", explained=False),
    ),
    "peak": (
        Reading("Test accuracy, in per cent"),
        Reading("After the last epoch, beside the figures at the best validation", "last", "at best", explained=False),
    ),
}


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
        """Over the seeds that did not diverge."""
        return statistics.fmean(self.values.values()) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Of the sample, from two seeds on."""
        return statistics.stdev(self.values.values()) if len(self.values) > 1 else None

    @property
    def span(self) -> tuple[float, float] | None:
        """The least and the greatest."""
        return (min(self.values.values()), max(self.values.values())) if self.values else None


@dataclass(frozen=True)
class Row:
    """A published figure and ours. `digits` are the decimals that its table prints."""

    table: int
    scale: Scale
    figure: Figure
    measure: str
    digits: int
    ours: Ours

    @property
    def difference(self) -> float | None:
        """Our mean minus the published figure."""
        return None if self.ours.mean is None else self.ours.mean - self.figure.value

    @property
    def beyond(self) -> bool:
        """Whether the published figure lies outside the range of our seeds, widened by what it leaves open itself."""
        if self.ours.span is None:
            return False
        least, greatest = self.ours.span
        slack = (self.figure.deviation or 0.0) + 0.5 * 10.0**-self.digits + TINY
        return not least - slack <= self.figure.value <= greatest + slack


@dataclass(frozen=True)
class Sign:
    """Two rows that differ only in the method: does the robust one lie on the same side of the plain one?"""

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
        """The least and the greatest difference of two runs with the same seed."""
        plain, robust = self.plain.ours.values, self.robust.ours.values
        return Ours({seed: robust[seed] - plain[seed] for seed in plain.keys() & robust.keys()}).span

    @property
    def verdict(self) -> Literal["agrees", "differs", "equal in print", "not run"]:
        """A pair of which one diverged with every seed, or that is equal in our runs, counts as not agreeing."""
        if not self.printed:
            return "equal in print"
        if not (self.plain.ours.run and self.robust.ours.run):
            return "not run"
        return "agrees" if self.ours and (self.ours > 0) == (self.printed > 0) else "differs"


class Step(NamedTuple):
    """Shares of rows in each bin of Table 5, [wrong, clean], after this re-weighting and after one of the paper."""

    number: int
    shares: list[list[float]]
    published: int
    printed: list[list[float]]


class Timing(NamedTuple):
    """Seconds of the rule over all rounds of the records, and what the paper prints for CPLEX."""

    rows: tuple[int, int]
    rounds: int
    median: float
    greatest: float
    cplex: tuple[int, float] | None


@dataclass(frozen=True)
class Comparison:
    """The records of a table at one scale. Number 5 stands for the cell of Table 4 that Table 5 is read from."""

    number: int
    scale: Scale
    records: Sequence[Record]

    @property
    def table(self) -> Table:
        """The table that was trained."""
        return TABLES[ALSO["5"][0] if self.number == 5 else self.number]

    @property
    def cells_run(self) -> int:
        """Cells with a record."""
        return sum(any(record["cell"] == cell for record in self.records) for cell in self.table.cells)

    @property
    def finished(self) -> list[Record]:
        """Those of runs that did not diverge."""
        return [record for record in self.records if not record.get("diverged")]


@dataclass(frozen=True)
class Report:
    """What was asked for, and what of it has records."""

    numbers: tuple[int, ...]
    scales: tuple[Scale, ...]
    comparisons: tuple[Comparison, ...]

    def fullest(self, number: int) -> Comparison:
        """A table at the scale with more cells run, the paper's if equal; without records if there are none."""
        found = [made for made in self.comparisons if made.number == number]
        return max(found, key=lambda made: made.cells_run, default=Comparison(number, self.scales[-1], ()))


def load(name: str | None = None, scale: str | None = None, results: Path = RESULTS) -> Report:
    """The records of one table or of all, at one scale or at both; an error that says how to make them if none is."""
    if name not in (None, *NAMES):
        raise ValueError(f"need a table of {', '.join(NAMES)}; got {name!r}")
    if scale not in (None, *SCALES):
        raise ValueError(f"need scale {' or '.join(SCALES)}, got {scale!r}")
    numbers = NUMBERS if name is None else (NAMES[name],)
    scales = tuple(size for size in SCALES if scale in (None, size))
    made = [Comparison(number, size, _records(number, size, results)) for number in numbers for size in scales]
    found = tuple(comparison for comparison in made if comparison.records)
    if not found:
        name = name or "3"
        size = scale or ("paper" if name == "3" else "small")
        raise FileNotFoundError(
            f"need records made with the present settings, found none in {results}; "
            f"make them by: rockafellian reproduce {name} --scale {size}"
        )
    return Report(numbers, scales, found)


def _records(number: int, scale: Scale, results: Path) -> list[Record]:
    table = Comparison(number, scale, ()).table
    found = load_records(table, scale, results)
    for record in found:
        if missing := sorted(PARTS - record.keys()):
            wrong = f"seed {record.get('seed')} of {record.get('cell')} in table {table.number}, {scale} scale"
            raise ValueError(f"need {', '.join(missing)} in {wrong}; remove its file in {results} and run it again")
    return [record for record in found if number != 5 or record["cell"] == ALSO["5"][1]]


def rows(table: Table, scale: Scale, records: Sequence[Record], reading: Reading | None = None) -> list[Row]:
    """Every published figure, in the paper's order, beside ours; by the headline reading unless told."""
    reading, decimals = reading or READINGS[table.measures][0], digits(table)
    found = []
    for figure in table.published:
        if reading.of in figure.measure:
            measure = reading.template.format(figure.measure)
            found.append(Row(table.number, scale, figure, measure, decimals, collect(records, figure.cell, measure)))
    return found


def digits(table: Table) -> int:
    """Decimals that a table prints: 0 where all figures are whole."""
    return max(len(f"{figure.value:.10g}".partition(".")[2]) for figure in table.published)


def collect(records: Sequence[Record], cell: Cell, measure: str) -> Ours:
    """One measure of one cell over the seeds."""
    own = [record for record in records if record["cell"] == cell]
    values = {record["seed"]: record["results"][measure] for record in own if measure in record["results"]}
    finite = {seed: value for seed, value in values.items() if math.isfinite(value)}
    return Ours(finite, sum(bool(record.get("diverged")) for record in own) + len(values) - len(finite))


def unprinted(comparison: Comparison) -> list[tuple[Cell, Ours]]:
    """Cells that were run though the paper prints nothing for them, by the measure of the others."""
    table = comparison.table
    printed = [figure.cell for figure in table.published]
    cells = [(cell, collect(comparison.records, cell, table.published[0].measure)) for cell in table.cells]
    return [(cell, ours) for cell, ours in cells if cell not in printed and ours.run]


def signs(table: Table, scale: Scale, records: Sequence[Record], reading: Reading | None = None) -> list[Sign]:
    """Every pair of published figures that differs only in the method."""
    found = rows(table, scale, records, reading)
    plain, robust = table.pairs
    return [
        Sign(one, other)
        for one, other in product(found, repeat=2)
        if one.figure.cell["method"] == plain
        and (other.figure.cell, other.measure) == ({**one.figure.cell, "method": robust}, one.measure)
    ]


def evolution(comparison: Comparison) -> list[Step]:
    """Table 5: after the first, a middle and the last re-weighting; the paper's own where there are as many."""
    last, published = count_rounds(comparison), list(TABLE_5)
    if not last:
        return []
    numbers = published if last == published[-1] else [1, (last + 1) // 2, last]
    steps = zip(numbers, published, strict=True)
    return [Step(n, shares(comparison, n), theirs, [_shares(part) for part in TABLE_5[theirs]]) for n, theirs in steps]


def count_rounds(comparison: Comparison) -> int:
    """Re-weightings that every run has which did not diverge; 0 if all did."""
    return min((len(record["bins"]) for record in comparison.finished), default=0)


def shares(comparison: Comparison, number: int) -> list[list[float]]:
    """The mean share of the wrong and of the clean rows in each bin after this re-weighting."""
    found = [[_shares(part) for part in record["bins"][number - 1]] for record in comparison.finished]
    return [[statistics.fmean(seed[part][i] for seed in found) for i in range(len(BINS))] for part in (0, 1)]


def _shares(counts: Sequence[int]) -> list[float]:
    return [count / sum(counts) for count in counts]


def timing(comparison: Comparison) -> Timing | None:
    """How long a re-weighting took; None if there was none."""
    timed = [record for record in comparison.records if record["rounds"]]
    if not timed:
        return None
    seconds = [made["rule_seconds"] for record in timed for made in record["rounds"]]
    sizes = [record["rows"]["train"] for record in timed]
    size = CPLEX_ROWS.get(comparison.table.paper.data)
    cplex = None if size is None else (size, CPLEX_SECONDS[size])
    return Timing((min(sizes), max(sizes)), len(seconds), statistics.median(seconds), max(seconds), cplex)


def name_method(cell: Cell) -> str:
    """Loss and method in words, such as `CCE + RRM`."""
    name = cell["method"]
    if "loss" in cell:
        name = cell["loss"].upper() + (" + RRM" if name == "RRM" else "")
    return f"{name}, C' = C + {say_share(cell['excess'])}" if "excess" in cell else name


def say_share(share: float) -> str:
    """A share in per cent."""
    return f"{100 * share:g} %"
