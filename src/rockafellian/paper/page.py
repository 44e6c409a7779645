"""Our results beside the published ones: what is said of them, block by block.

Nothing depends on the day or the machine. What a record says in words comes in through `_printable` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TextIO, TypeAlias

from rockafellian.paper import blocks, checks, compare
from rockafellian.paper.blocks import Block, Commands, Grid, Heading, Picture, Points, Text
from rockafellian.paper.compare import Comparison, Ours, Reading, Report, Row, Sign, name_cell
from rockafellian.paper.figures import BINS, Figure
from rockafellian.paper.tables import Table

TITLE = "The paper's tables, run again"
WRITTEN = "Written by `rockafellian compare --markdown` from the records in results/. Run that instead of editing."
Draw: TypeAlias = Callable[[Comparison], tuple[str, str] | None]


def markdown(report: Report) -> str:
    """The page docs/reproduce.md."""
    return blocks.markdown(_page(report), WRITTEN)


def html(report: Report) -> str:
    """The same with plots, as one file that needs no other."""
    from rockafellian.paper.plots import draw

    return blocks.html(_page(report, draw), TITLE)


def text(report: Report) -> str:
    """What the terminal shows, as plain text in aligned columns."""
    return blocks.plain(_brief(report))


def show(report: Report, file: TextIO) -> None:
    """Print it: by rich on a terminal, if it is there, and as plain text elsewhere."""
    blocks.show(_brief(report), file)


def _page(report: Report, draw: Draw = lambda _: None) -> Iterator[Block]:
    """Everything there is to say, in order."""
    yield Heading(1, TITLE)
    yield from _introduction(report)
    yield from _runs(report)
    yield from _summary(report)
    for comparison in report.comparisons:
        yield Heading(2, _title(comparison))
        if comparison.number != 5:
            yield from _settings(comparison)
        if plot := draw(comparison):
            yield Picture(*plot)
        yield from _figures(comparison)


def _brief(report: Report) -> Iterator[Block]:
    """What fits a terminal: the checks and, of each table, the figures and the signs."""
    yield from _summary(report)
    for comparison in report.comparisons:
        yield Heading(2, _title(comparison))
        yield from _figures(comparison)


def _introduction(report: Report) -> Iterator[Block]:
    yield Text(
        "This page puts figures of our own runs beside the figures printed in the paper. Ours are read from the "
        "records of finished runs, one file per cell of a table and seed; none is typed in."
    )
    yield Text(
        "An entry a ± b (c) gives our mean a over the seeds, its standard deviation b where there are two seeds or "
        "more, and the figure c that the paper prints. A star marks a difference beyond the spread of the seeds: the "
        "printed figure lies below our least or above our greatest seed by more than its own printed deviation, if "
        "any, and half a unit of its last digit. Every such difference is listed with a reason, or called "
        "unexplained. With one seed, the spread is nothing."
    )
    yield Text(
        "The paper's scale keeps the paper's data, network and epochs as far as the text tells them. The small scale "
        "is what two cores can do in hours; each table says what it changes. At the small scale the figures need not "
        "be the paper's. What should carry over is the sign: whether the robust method lies above the plain one."
    )
    yield Text("To run a table again, and to write this page again:")
    trained = [(made, {record["seed"] for record in made.records}) for made in report.comparisons if made.number != 5]
    lines = [f"rockafellian reproduce {one.number} --scale {one.scale} --seeds {len(seeds)}" for one, seeds in trained]
    yield Commands([*lines, "rockafellian compare --markdown docs/reproduce.md --html reproduce.html"])


def _runs(report: Report) -> Iterator[Block]:
    yield Heading(2, "The runs")
    yield Grid(
        ["table", "scale", "cells run", "seeds", "diverged", "dates", "hours of training"],
        [_run(made) for made in report.comparisons if made.number != 5],
    )
    if absent := [str(number) for number in report.numbers if not report.fullest(number).records]:
        yield Text(f"Without records: table {', '.join(absent)}.")
    machines = [_say_pairs(record["machine"]) for made in report.comparisons for record in made.records]
    yield Text("Run on:")
    yield Points(list(dict.fromkeys(machines)))


def _run(comparison: Comparison) -> list[str]:
    records = comparison.records
    seeds, dates = (sorted({_printable(record[part]) for record in records}) for part in ("seed", "date"))
    return [
        str(comparison.number),
        comparison.scale,
        f"{comparison.cells_run} of {len(comparison.table.cells)}",
        ", ".join(seeds),
        str(len(comparison.diverged)),
        dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}",
        f"{sum(record['seconds'] for record in records) / 3600:.1f}",
    ]


def _say_pairs(named: dict[str, Any]) -> str:
    return _printable(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in named.items()))


def _printable(said: object) -> str:
    """On one line and without control characters, which a record should not have."""
    return "".join(letter if letter.isprintable() else " " for letter in str(said))


def _summary(report: Report) -> Iterator[Block]:
    """Checks, signs over all tables, and times."""
    words = {True: "met", False: "not met", None: "open: runs are missing"}
    if lines := [[claim, found, words[met]] for claim, found, met in checks.checks(report)]:
        yield Heading(2, "Checks")
        yield Grid(["what", "found", "outcome"], lines, words=True)
    if set(checks.SIGNED) <= set(report.numbers):
        yield from _all_signs(report)
    if lines := [_time(made) for made in report.comparisons if made.number != 5 and compare.timing(made)]:
        yield Heading(2, "Time of one re-weighting")
        yield Text(
            "Milliseconds that the rule took on its own, over all re-weightings of all records; and what the paper "
            "prints for CPLEX, on another machine and sometimes with more rows."
        )
        yield Grid(["table", "scale", "rows", "re-weightings", "median", "greatest", "CPLEX in the paper"], lines)
