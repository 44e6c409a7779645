"""Our records beside the printed figures, table by table; Table 5 and times. Only `load` reads files."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rockafellian_reproduction.pages.rows import Ours, Sign, collect, signs
from rockafellian_reproduction.tables import SCALES, TABLES, Cell, Scale, Table, Variant
from rockafellian_reproduction.tables.figures import BINS, CPLEX_SECONDS, TABLE_5
from rockafellian_reproduction.training.jobs import OTHER_NAMES, load_records
from rockafellian_reproduction.training.records import Record, default_folder, record_file

#: Table 5 is read from one cell of Table 4; Table 6 is not a result.
NUMBERS = tuple(sorted([*TABLES, 5]))
NAMES = {str(number): number for number in NUMBERS} | {
    name: number for name, (number, cell) in OTHER_NAMES.items() if number in TABLES and not cell
}
#: The data for which the paper prints how long a re-weighting by CPLEX took, and the number of rows.
CPLEX_ROWS = {"mnist-3": 18_623, "cifar-10": 50_000}
#: Fields that a record must have to be compared.
FIELDS = {"cell", "seed", "results", "tested", "bins", "rounds", "rows", "machine", "date", "seconds"}


@dataclass(frozen=True)
class Comparison:
    """The records of a table at one scale. Number 5 stands for the cell of Table 4 that Table 5 is read from.

    Args:
        number: of the table
        scale: at which it was run
        records: of the runs as printed
        others: of runs under other readings, and of ours
        plain: of the plain runs of another table, if this one has none
    """

    number: int
    scale: Scale
    records: Sequence[Record]
    others: Sequence[Record] = ()
    plain: Sequence[Record] = ()

    @property
    def table(self) -> Table:
        """The table that was trained."""
        return TABLES[OTHER_NAMES["5"][0] if self.number == 5 else self.number]

    @property
    def cells_run(self) -> int:
        """The number of cells with a record."""
        return sum(any(record["cell"] == cell for record in self.records) for cell in self.table.cells)

    def under(self, variant: Variant) -> list[Record]:
        """Return the records under these readings, of each cell under those that change it; none if one was not run."""
        table, found = self.table, [*self.records, *self.others]
        wanted = [(cell, table.variant_of(cell, variant)) for cell in table.cells]
        chosen = [record for record in found if (record["cell"], record.get("variant", {})) in wanted]
        run = {name for record in chosen for name in record.get("variant", {})}
        return chosen if run == variant.keys() else []

    @property
    def signs(self) -> list[Sign]:
        """The signs of the table by its headline reading."""
        return signs(self.table, self.scale, [*self.records, *self.plain])

    @property
    def finished(self) -> list[Record]:
        """The records of runs that did not diverge."""
        return [record for record in self.records if not record.get("diverged")]


@dataclass(frozen=True)
class Report:
    """What was asked for, and what of it has records."""

    numbers: tuple[int, ...]
    scales: tuple[Scale, ...]
    comparisons: tuple[Comparison, ...]

    def answering(self, number: int) -> Comparison:
        """Return a table at the scale that answers its question, or the one with most cells where nothing is run there.

        Without records at any scale, there are none.
        """
        found = [made for made in self.comparisons if made.number == number]
        none = Comparison(number, "paper", ())
        table, most = none.table, max(found, key=lambda made: made.cells_run, default=none)
        return next((made for made in found if made.scale == table.answers and made.cells_run), most)

    def decides(self, number: int) -> bool:
        """Return whether the scale that answers this table's question is among those asked for."""
        return Comparison(number, "paper", ()).table.answers in self.scales


class Step(NamedTuple):
    """Fractions of rows in each bin of Table 5, [mislabeled, clean], after a re-weighting of ours and of the paper."""

    number: int
    fractions: list[list[float]]
    published: int
    printed: list[list[float]]


class Timing(NamedTuple):
    """Seconds of the rule over all rounds of the records, and what the paper prints for CPLEX."""

    rows: tuple[int, int]
    rounds: int
    median: float
    largest: float
    cplex: tuple[int, float] | None


def load(name: str | None = None, scale: str | None = None, results: Path | None = None) -> Report:
    """Return the records of one table or of all, at one scale or at both.

    Raises:
        FileNotFoundError: there are none; it names the command that makes them
    """
    if name not in (None, *NAMES):
        raise ValueError(f"need a table of {', '.join(NAMES)}; got {name!r}")
    if scale not in (None, *SCALES):
        raise ValueError(f"need scale {' or '.join(SCALES)}, got {scale!r}")
    folder = default_folder() if results is None else results
    numbers = NUMBERS if name is None else (NAMES[name],)
    scales = tuple(size for size in SCALES if scale in (None, size))
    made = [_compare(number, size, folder) for number in numbers for size in scales]
    found = tuple(comparison for comparison in made if comparison.records)
    if not found:
        name = name or "3"
        size = scale or Comparison(NAMES[name], "paper", ()).table.answers
        raise FileNotFoundError(
            f"need records made with the present settings, found none in {folder}; "
            f"make them by: rockafellian reproduce {name} --scale {size}"
        )
    return Report(numbers, scales, found)


def _compare(number: int, scale: Scale, results: Path) -> Comparison:
    found = _records(number, scale, results)
    records, others = ([record for record in found if bool(record.get("variant")) is other] for other in (False, True))
    plain_table = Comparison(number, scale, ()).table.plain_table
    plain = [] if plain_table is None else _records(plain_table, scale, results)
    return Comparison(number, scale, records, others, [record for record in plain if not record.get("variant")])


def _records(number: int, scale: Scale, results: Path) -> list[Record]:
    table = Comparison(number, scale, ()).table
    found = load_records(table, scale, results)
    for record in found:
        if missing := sorted(FIELDS - record.keys()):
            raise ValueError(
                f"need {', '.join(missing)} in the record of seed {record['seed']} of {record['cell']} in "
                f"{record_file(results, table.number, scale)}; remove that line and run the cell again"
            )
    return [record for record in found if number != 5 or record["cell"] == OTHER_NAMES["5"][1]]


def unprinted(comparison: Comparison) -> list[tuple[Cell, Ours]]:
    """Return the cells that were run though the paper prints nothing for them, by the measure of the others."""
    table = comparison.table
    printed = [figure.cell for figure in table.published]
    cells = [(cell, collect(comparison.records, cell, table.published[0].measure)) for cell in table.cells]
    return [(cell, ours) for cell, ours in cells if cell not in printed and ours.run]


def evolution(comparison: Comparison) -> list[Step]:
    """Return Table 5: after the first, a middle and the last re-weighting; the paper's own where there are as many."""
    last, published = count_rounds(comparison), list(TABLE_5)
    if not last:
        return []
    numbers = published if last == published[-1] else [1, (last + 1) // 2, last]
    return [
        Step(number, bin_fractions(comparison, number), theirs, [_fractions(part) for part in TABLE_5[theirs]])
        for number, theirs in zip(numbers, published, strict=True)
    ]


def count_rounds(comparison: Comparison) -> int:
    """Return the re-weightings that every run has which did not diverge; 0 if all did."""
    return min((len(record["bins"]) for record in comparison.finished), default=0)


def bin_fractions(comparison: Comparison, number: int) -> list[list[float]]:
    """Return the mean fraction of the mislabeled and of the clean rows in each bin after this re-weighting."""
    found = [[_fractions(part) for part in record["bins"][number - 1]] for record in comparison.finished]
    return [[statistics.fmean(seed[part][i] for seed in found) for i in range(len(BINS))] for part in (0, 1)]


def _fractions(counts: Sequence[int]) -> list[float]:
    return [count / sum(counts) for count in counts]


def timing(comparison: Comparison) -> Timing | None:
    """Return how long a re-weighting took; None if there was none."""
    timed = [record for record in comparison.records if record["rounds"]]
    if not timed:
        return None
    seconds = [made["rule_seconds"] for record in timed for made in record["rounds"]]
    sizes = [record["rows"]["train"] for record in timed]
    size = CPLEX_ROWS.get(comparison.table.paper.data)
    cplex = None if size is None else (size, CPLEX_SECONDS[size])
    return Timing((min(sizes), max(sizes)), len(seconds), statistics.median(seconds), max(seconds), cplex)
