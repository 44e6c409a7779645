"""The page on all tables: a verdict on each, the tables, and how they were run. It depends on the records alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TextIO

from rockafellian_reproduction.pages import blocks, compare, table_section
from rockafellian_reproduction.pages.blocks import Block, Commands, Fold, Grid, Heading, Picture, Points, Text
from rockafellian_reproduction.pages.compare import Comparison, Report, Timing
from rockafellian_reproduction.pages.table_section import join_pairs, printable
from rockafellian_reproduction.pages.targets import SIGNED, describe_tally, headline, outcomes, tally
from rockafellian_reproduction.pages.verdicts import MEANINGS, judge
from rockafellian_reproduction.tables import SCALES
from rockafellian_reproduction.tables.readings import options

TITLE = "The paper's tables, run again"
NOTE = "Written by `rockafellian compare --markdown` from the records in reproduction/results. Do not edit."
REACHED = {True: "yes", False: "no", None: "open: runs are missing"}


def markdown(report: Report) -> str:
    """Return the page docs/reproduce.md."""
    return blocks.markdown(_page(report), NOTE)


def html(report: Report) -> str:
    """Return the same page with plots, as one HTML file that needs no other."""
    from rockafellian_reproduction.pages.plots import draw  # matplotlib takes a second to import

    return blocks.html(_page(report, draw), TITLE)


def text(report: Report) -> str:
    """Return what the terminal shows, as plain text in aligned columns."""
    return blocks.plain(_brief(report))


def show(report: Report, file: TextIO) -> None:
    """Print the brief form: by rich on a terminal, as plain text elsewhere."""
    blocks.show(_brief(report), file)


def _page(report: Report, draw: Callable[[Comparison], tuple[str, str] | None] = lambda _: None) -> Iterator[Block]:
    yield Heading(1, TITLE)
    yield Text("Our runs beside the printed figures. Every figure comes from a record; none is typed in.")
    yield from _verdicts(report)
    yield Fold("What the words mean", list(_legend()))
    for comparison in _answers(report):
        yield Heading(2, table_section.title(comparison))
        if plot := draw(comparison):
            yield Picture(*plot)
        yield from table_section.results(comparison)
        yield from table_section.details(comparison)
        for other in report.comparisons:
            if other.number == comparison.number and other is not comparison:
                yield Fold(f"The {other.scale} scale: {SCALES[other.scale]}", list(table_section.results(other)))
    yield from _runs(report)


def _brief(report: Report) -> Iterator[Block]:
    """Yield what fits a terminal: the verdicts and, of each table, the figures."""
    yield from _verdicts(report)
    for comparison in report.comparisons:
        yield Heading(2, table_section.title(comparison))
        yield from table_section.results(comparison)


def _verdicts(report: Report) -> Iterator[Block]:
    """Yield one line a table: at which scale, the verdict, and the number it rests on."""
    lines = []
    for number in report.numbers:
        made = report.answering(number)
        seeds = {record["seed"] for record in made.records}
        name = "tissue" if number == 10 else str(number)
        scale = made.scale if made.records else made.table.answers
        lines.append([name, table_section.subject(made), scale, *judge(made), str(len(seeds))])
    yield Heading(2, "Verdict")
    yield Grid(["table", "", "scale", "verdict", "by", "seeds"], lines, left=5)
    if set(SIGNED) <= set(report.numbers):
        yield Text(f"Robust minus plain, over all tables: {describe_tally(tally(headline(report)))}.")


def _legend() -> Iterator[Block]:
    yield Points([f"{word}: {meaning}." for word, meaning in MEANINGS.items()])
    yield Points([f"{scale}: {kept}." for scale, kept in SCALES.items()])
    yield Text(
        "a ± b (c): our mean over the seeds, its standard deviation, and the printed figure. A star marks a difference "
        "beyond the spread of the seeds: the printed figure is below our smallest or above our largest by more than "
        "its own deviation, if printed, and half a unit of its last digit. Ours: the method with what this library "
        "adds, in the same protocol. A pair with a side that diverged with every seed does not agree in sign. A sign "
        "may be chance where the printed difference is smaller than its own deviation, or our seeds differ in sign."
    )


def _runs(report: Report) -> Iterator[Block]:
    """Yield targets, times, what was run, when and on what, and the commands that do it again; all folded."""
    yield Heading(2, "The runs")
    if targets := [[target, result, REACHED[reached]] for target, result, reached in outcomes(report)]:
        reached = sum(line[-1] == REACHED[True] for line in targets)
        grid = Grid(["target", "result", "reached"], targets, left=3)
        yield Fold(f"Targets: {reached} of {len(targets)} were reached", [grid])
    trained = _trained(report)
    timed = [(made, compare.timing(made)) for made in trained]
    if times := [[str(made.number), made.scale, *_format_timing(found)] for made, found in timed if found]:
        heads = ["table", "scale", "rows", "re-weightings", "median", "largest", "CPLEX in the paper"]
        yield Fold("Time of one re-weighting, in milliseconds", [Grid(heads, times, left=2)])
    heads = ["table", "scale", "dates", "seeds", "cells run", "diverged", "hours of training"]
    machines = [join_pairs(record["machine"]) for made in trained for record in made.records]
    yield Fold(
        "Dates, seeds, machines",
        [Grid(heads, [_describe_run(made) for made in trained], left=4), Points(list(dict.fromkeys(machines)))],
    )
    lines = [line for made in trained for line in _commands(made)]
    yield Fold(
        "Commands to run the tables again and write this page",
        [Commands([*lines, "rockafellian compare --markdown docs/reproduce.md"])],
    )


def _commands(comparison: Comparison) -> list[str]:
    """Return the commands that run a table again, as printed and under each other reading."""
    seeds: dict[str, set[int]] = {}
    for record in [*comparison.records, *comparison.others]:
        command = f"rockafellian reproduce {comparison.number} --scale {comparison.scale}"
        seeds.setdefault(command + options(record.get("variant")), set()).add(record["seed"])
    return [f"{command} --seeds {len(found)}" for command, found in seeds.items()]


def _format_timing(found: Timing) -> list[str]:
    smallest, largest = found.rows
    return [
        f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,}",
        f"{found.rounds:,}",
        f"{1000 * found.median:.3g}",
        f"{1000 * found.largest:.3g}",
        f"{1000 * found.cplex[1]:,.0f} at {found.cplex[0]:,} rows" if found.cplex else "-",
    ]


def _describe_run(comparison: Comparison) -> list[str]:
    records = [*comparison.records, *comparison.others]
    seeds, dates = (sorted({printable(record[part]) for record in records}) for part in ("seed", "date"))
    return [
        str(comparison.number),
        comparison.scale,
        dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}",
        ", ".join(seeds),
        f"{comparison.cells_run} of {len(comparison.table.cells)}",
        str(sum(bool(record.get("diverged")) for record in records)),
        f"{sum(record['seconds'] for record in records) / 3600:.1f}",
    ]


def _answers(report: Report) -> list[Comparison]:
    """Return each table that has records, at the scale that answers its question."""
    return [made for number in report.numbers if (made := report.answering(number)).records]


def _trained(report: Report) -> list[Comparison]:
    """Return the tables with trainings of their own: Table 5 is read from those of Table 4."""
    return [made for made in report.comparisons if made.number != 5]
