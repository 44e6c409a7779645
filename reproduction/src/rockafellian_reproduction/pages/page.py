"""The page on all tables: results, limits, each table, and how it was run. It depends on the records alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TextIO

from rockafellian_reproduction.pages import blocks, compare, table_section
from rockafellian_reproduction.pages.blocks import Block, Commands, Grid, Heading, Picture, Points, Text
from rockafellian_reproduction.pages.compare import Comparison, Report, Timing
from rockafellian_reproduction.pages.table_section import join_pairs, printable
from rockafellian_reproduction.pages.targets import SIGNED, headline, outcomes, tally

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
    yield Text(
        "Figures of our own runs beside the figures printed in the paper. Ours come from the records of finished runs; "
        "none is typed in."
    )
    yield from _results(report)
    yield from _limits(report)
    yield from _legend()
    for comparison in report.comparisons:
        yield Heading(2, table_section.title(comparison))
        if plot := draw(comparison):
            yield Picture(*plot)
        yield from table_section.results(comparison)
        if comparison.number != 5:
            yield from table_section.settings(comparison)
    yield from _runs(report)


def _brief(report: Report) -> Iterator[Block]:
    """Yield what fits a terminal: the results and, of each table, the figures and the signs."""
    yield from _results(report)
    for comparison in report.comparisons:
        yield Heading(2, table_section.title(comparison))
        yield from table_section.results(comparison)


def _results(report: Report) -> Iterator[Block]:
    """Yield targets, signs over all tables, and times."""
    targets = [[target, result, REACHED[reached]] for target, result, reached in outcomes(report)]
    timed = [(made, compare.timing(made)) for made in _trained(report)]
    times = [[str(made.number), made.scale, *_format_timing(found)] for made, found in timed if found]
    if targets or times:
        yield Heading(2, "Results")
    if targets:
        reached = sum(line[-1] == REACHED[True] for line in targets)
        yield Text(f"{reached} of {len(targets)} targets were reached.")
        yield Grid(["target", "result", "reached"], targets, left=3)
    if set(SIGNED) <= set(report.numbers):
        yield from _all_signs(report)
    if times:
        yield Text(
            "Time of one re-weighting, in milliseconds, over all re-weightings of all records; and what the paper "
            "prints for CPLEX, on another machine and sometimes with more rows:"
        )
        heads = ["table", "scale", "rows", "re-weightings", "median", "largest", "CPLEX in the paper"]
        yield Grid(heads, times, left=2)


def _all_signs(report: Report) -> Iterator[Block]:
    yield Text(
        "Signs, for each pair of runs that differs only in the method: is the robust method above the plain one, or "
        "below, as in the paper? Each table counts at the scale with more cells run; pairs that are equal in print are "
        "left out, and Table 2 has no plain runs. A pair with one side that diverged with every seed does not agree."
    )
    found, lines = headline(report), []
    for number in SIGNED:
        counted = tally(sign for sign in found if sign.plain.table == number)
        lines.append([str(number), report.fullest(number).scale, *map(str, counted)])
    heads = ["table", "scale", "agree", "comparable", "equal in print", "not run"]
    yield Grid(heads, [*lines, ["all", "", *map(str, tally(found))]], left=2)


def _format_timing(found: Timing) -> list[str]:
    smallest, largest = found.rows
    return [
        f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,}",
        f"{found.rounds:,}",
        f"{1000 * found.median:.3g}",
        f"{1000 * found.largest:.3g}",
        f"{1000 * found.cplex[1]:,.0f} at {found.cplex[0]:,} rows" if found.cplex else "-",
    ]


def _limits(report: Report) -> Iterator[Block]:
    """Yield what the results do not show: scale, seeds, substitutes, tables without runs."""
    trained = _trained(report)
    lines = []
    if small := [str(made.number) for made in trained if made.scale == "small"]:
        lines.append(
            f"Tables {', '.join(small)} were run at the small scale, which two cores can do in hours: fewer rows, "
            "smaller networks or fewer epochs. Their levels need not be the paper's; only the signs should carry over."
        )
    if single := [str(made.number) for made in trained if len({record["seed"] for record in made.records}) == 1]:
        lines.append(f"Tables {', '.join(single)} were run with one seed, so the spread of their figures is unknown.")
    for made in trained:
        lines += [f"Table {made.number}: {used}" for used in table_section.substitutes(made)]
    if absent := [str(number) for number in report.numbers if not report.fullest(number).records]:
        lines.append(f"Not run: tables {', '.join(absent)}.")
    lines.append("Where the text of the paper leaves something open, each table says how it was read.")
    yield Heading(2, "Limits")
    yield Points(lines)


def _legend() -> Iterator[Block]:
    yield Heading(2, "How to read the tables")
    yield Text(
        "An entry a ± b (c) gives our mean a over the seeds, its standard deviation b from two seeds on, and the "
        "printed figure c. A star marks a difference beyond the spread of the seeds: the printed figure is below our "
        "smallest or above our largest seed by more than its own printed deviation, if any, and half a unit of its "
        "last digit. Every such difference is listed with a reason, or called unexplained."
    )


def _runs(report: Report) -> Iterator[Block]:
    """Yield what was run, when and on what, and the commands that do it again."""
    trained = _trained(report)
    yield Heading(2, "The runs")
    heads = ["table", "scale", "dates", "seeds", "cells run", "diverged", "hours of training"]
    yield Grid(heads, [_describe_run(made) for made in trained], left=4)
    machines = [join_pairs(record["machine"]) for made in trained for record in made.records]
    yield Text("Run on:")
    yield Points(list(dict.fromkeys(machines)))
    yield Text("To run the tables again and write this page, from the root of a checkout:")
    seeds = [(made, len({record["seed"] for record in made.records})) for made in trained]
    lines = [f"rockafellian reproduce {made.number} --scale {made.scale} --seeds {n}" for made, n in seeds]
    yield Commands([*lines, "rockafellian compare --markdown docs/reproduce.md"])


def _describe_run(comparison: Comparison) -> list[str]:
    records = comparison.records
    seeds, dates = (sorted({printable(record[part]) for record in records}) for part in ("seed", "date"))
    return [
        str(comparison.number),
        comparison.scale,
        dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}",
        ", ".join(seeds),
        f"{comparison.cells_run} of {len(comparison.table.cells)}",
        str(len(records) - len(comparison.finished)),
        f"{sum(record['seconds'] for record in records) / 3600:.1f}",
    ]


def _trained(report: Report) -> list[Comparison]:
    """Return the tables with trainings of their own: Table 5 is read from those of Table 4."""
    return [made for made in report.comparisons if made.number != 5]
