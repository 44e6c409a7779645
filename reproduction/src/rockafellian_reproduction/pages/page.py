"""Our results beside the published ones: what is said of them, block by block.

Nothing depends on the day or the machine. What a record says in words comes in through `_printable` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TextIO

from rockafellian_reproduction.pages import blocks, compare
from rockafellian_reproduction.pages.blocks import Block, Commands, Grid, Heading, Picture, Points, Text
from rockafellian_reproduction.pages.checks import (
    SIGNED,
    checks,
    explain,
    headline,
    name_cell,
    say_difference,
    say_tally,
    tally,
)
from rockafellian_reproduction.pages.compare import Comparison, Ours, Reading, Report, Row, Sign, Timing
from rockafellian_reproduction.tables import Table
from rockafellian_reproduction.tables.figures import BINS, Figure

TITLE = "The paper's tables, run again"
WRITTEN = "Written by `rockafellian compare --markdown` from the records in results/. Run that instead of editing."


def markdown(report: Report) -> str:
    """The page docs/reproduce.md."""
    return blocks.markdown(_page(report), WRITTEN)


def html(report: Report) -> str:
    """The same with plots, as one file that needs no other."""
    from rockafellian_reproduction.pages.plots import draw

    return blocks.html(_page(report, draw), TITLE)


def text(report: Report) -> str:
    """What the terminal shows, as plain text in aligned columns."""
    return blocks.plain(_brief(report))


def show(report: Report, file: TextIO) -> None:
    """Print it: by rich on a terminal, if it is there, and as plain text elsewhere."""
    blocks.show(_brief(report), file)


def _page(report: Report, draw: Callable[[Comparison], tuple[str, str] | None] = lambda _: None) -> Iterator[Block]:
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
        str(len(records) - len(comparison.finished)),
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
    if lines := [[claim, found, words[met]] for claim, found, met in checks(report)]:
        yield Heading(2, "Checks")
        yield Grid(["what", "found", "outcome"], lines, words=True)
    if set(SIGNED) <= set(report.numbers):
        yield from _all_signs(report)
    timed = [(made, compare.timing(made)) for made in report.comparisons if made.number != 5]
    if lines := [[str(made.number), made.scale, *_say_timing(found)] for made, found in timed if found]:
        yield Heading(2, "Time of one re-weighting")
        yield Text(
            "Milliseconds that the rule took on its own, over all re-weightings of all records; and what the paper "
            "prints for CPLEX, on another machine and sometimes with more rows."
        )
        yield Grid(["table", "scale", "rows", "re-weightings", "median", "greatest", "CPLEX in the paper"], lines)


def _say_timing(found: Timing) -> list[str]:
    least, greatest = found.rows
    return [
        f"{least:,}" if least == greatest else f"{least:,} to {greatest:,}",
        f"{found.rounds:,}",
        f"{1000 * found.median:.3g}",
        f"{1000 * found.greatest:.3g}",
        f"{1000 * found.cplex[1]:,.0f} at {found.cplex[0]:,} rows" if found.cplex else "-",
    ]


def _all_signs(report: Report) -> Iterator[Block]:
    yield Heading(2, "Signs")
    yield Text(
        "For each pair of runs that differs only in the method: is robust minus plain above or below 0 as in the "
        "paper? Pairs with equal printed figures are left out. Table 2 has no plain runs of its own, so none of its "
        "figures can be compared in this way. A pair of which one side diverged with every seed counts as not "
        "agreeing. Tables 4 and 7 count with the eps as printed. Each table counts at the scale at which more of its "
        "cells were run."
    )
    found, lines = headline(report), []
    for number in SIGNED:
        counted = tally(sign for sign in found if sign.plain.table == number)
        lines.append([str(number), report.fullest(number).scale, *map(str, counted)])
    heads = ["table", "scale", "agree", "comparable", "equal in print", "not run"]
    yield Grid(heads, [*lines, ["all", "", *map(str, tally(found))]])
    yield from _disagreements(found, lambda row: f"Table {row.table}: {_name(row)}")


def _title(comparison: Comparison) -> str:
    number, scale = comparison.number, {"paper": "the paper's scale", "small": "the small scale"}[comparison.scale]
    title = "evolution of u at 20 % contamination" if number == 5 else comparison.table.title
    return f"{title if number == 10 else f'Table {number}: {title}'}, {scale}"


def _settings(comparison: Comparison) -> Iterator[Block]:
    """How the text was read, and what is not as in the paper."""
    table, small = comparison.table, comparison.scale == "small"
    yield Text("How the text was read:")
    yield Points(list(table.readings))
    if table.substitutes and (small or table.number == 8):  # only Table 8 needs them at the paper's scale too
        yield Text("What stands in for what was not to be had:")
        yield Points(list(table.substitutes))
    if small:
        yield Text("What the small scale changes:")
        yield Points(table.paper.changes(table.small))
        if table.chosen:
            yield Text(table.chosen)


def _figures(comparison: Comparison) -> Iterator[Block]:
    """Figures, differences and signs of one table."""
    if comparison.number == 5:
        yield from _evolution(comparison)
        return
    table = comparison.table
    for reading in compare.READINGS[table.measures]:
        yield from _reading(comparison, reading)
    if extra := compare.unprinted(comparison):
        yield Text("Run by us, and not printed in the paper:")
        decimals = max(1, compare.digits(table))
        yield Points([f"{name_cell(cell)}: {_say_ours(ours, decimals)}" for cell, ours in extra])
    if lost := [record for record in comparison.records if record.get("diverged")]:
        yield Text("Runs that diverged, left out of the means:")
        said = [f"{_say_pairs(record['cell'])}, seed {record['seed']}: {record['diverged']}" for record in lost]
        yield Points(list(map(_printable, said)))


def _reading(comparison: Comparison, reading: Reading) -> Iterator[Block]:
    """One table as the paper lays it out, what in it differs, and its signs."""
    asked = comparison.table, comparison.scale, comparison.records, reading
    found = compare.rows(*asked)
    yield Text(f"{reading.title}:")
    yield _lay_out(comparison.table, found)
    run = [abs(row.difference) for row in found if row.difference is not None]
    beyond = [row for row in found if row.beyond]
    if run:
        yield Text(
            f"{len(beyond)} of {len(run)} figures differ from the printed ones beyond the spread of the seeds; the "
            f"mean of all absolute differences is {sum(run) / len(run):.{max(1, found[0].digits)}f}."
        )
    if reading.explained:
        yield from _reasons(beyond)
    yield from _signs(comparison.table, compare.signs(*asked))


def _lay_out(table: Table, found: Sequence[Row]) -> Grid:
    """Rows and columns as in the paper, each entry ours and theirs."""
    entries = {_place(table, row.figure): _say_row(row) for row in found}
    sides, heads = (list(dict.fromkeys(place[part] for place in entries)) for part in (0, 1))
    return Grid(["", *heads], [[side, *(entries.get((side, head), "") for head in heads)] for side in sides])


def _place(table: Table, figure: Figure) -> tuple[str, str]:
    """Row and column of a figure in its table."""
    share = compare.say_share(figure.cell["contamination"])
    if table.measures == "eps":
        return figure.measure, f"{share}, {figure.cell['method']}"
    side = compare.name_method(figure.cell)
    return side if table.measures == "last" else f"{side}, {figure.measure.removeprefix('PR-AUC, ')}", share


def _say_row(row: Row) -> str:
    theirs = f"{row.figure.value:.{row.digits}f}"
    if row.figure.deviation is not None:
        theirs += f" ± {row.figure.deviation:.{row.digits}f}"
    return f"{_say_ours(row.ours, max(1, row.digits))} ({theirs}){' *' if row.beyond else ''}"


def _say_ours(ours: Ours, decimals: int) -> str:
    if ours.mean is None:
        return "diverged" if ours.diverged else "not run"
    deviation = "" if ours.deviation is None else f" ± {ours.deviation:.{decimals}f}"
    lost = f", {ours.diverged} of {ours.diverged + len(ours.values)} diverged" if ours.diverged else ""
    return f"{ours.mean:.{decimals}f}{deviation}{lost}"


def _reasons(beyond: Sequence[Row]) -> Iterator[Block]:
    """The differences, under the reason that each has."""
    for reason in dict.fromkeys(map(explain, beyond)):
        lines = [_say_difference(row) for row in beyond if explain(row) == reason]
        yield Text(f"{reason[0].upper()}{reason[1:].removesuffix('.')} ({len(lines)}):")
        yield Grid(["figure", "ours", "least to greatest", "seeds", "paper", "difference"], lines)


def _say_difference(row: Row) -> list[str]:
    decimals = max(1, row.digits)
    return [
        _name(row),
        _say_ours(row.ours, decimals),
        _say_span(row.ours.span, f".{decimals}f"),
        str(len(row.ours.values)),
        f"{row.figure.value:.{row.digits}f}",
        say_difference(row.difference, decimals),
    ]


def _name(row: Row) -> str:
    cell = name_cell(row.figure.cell)
    return cell if row.measure == "test accuracy" else f"{cell}, {row.measure}"


def _say_span(span: tuple[float, float] | None, form: str) -> str:
    return "-" if span is None else f"{span[0]:{form}} to {span[1]:{form}}"


def _signs(table: Table, found: Sequence[Sign]) -> Iterator[Block]:
    if not found:
        yield Text("Signs: not comparable, as the table has no plain runs.")
        return
    plain, robust = table.pairs
    yield Text(f"Sign of {robust} minus {plain}: {say_tally(tally(found))}.")
    if equal := [_name(sign.plain) for sign in found if sign.verdict == "equal in print"]:
        yield Text(f"Equal in print, and left out: {'; '.join(equal)}.")
    yield from _disagreements(found, _name)


def _disagreements(found: Iterable[Sign], name: Callable[[Row], str]) -> Iterator[Block]:
    """Pairs whose sign is not the paper's, each with both differences."""
    lines = []
    for sign in found:
        if sign.verdict == "differs":
            row, decimals = sign.robust, max(1, sign.robust.digits)
            printed, span = say_difference(sign.printed, row.digits), _say_span(sign.span, f"+.{decimals}f")
            lines.append([name(row), printed, say_difference(sign.ours, decimals), span])
    if lines:
        yield Text("Not agreeing, robust minus plain:")
        yield Grid(["figure", "paper", "ours", "least to greatest by seed"], lines)


def _evolution(comparison: Comparison) -> Iterator[Block]:
    steps = compare.evolution(comparison)
    if not steps:
        yield Text("Every run diverged.")
        return
    whole = len(comparison.finished)
    yield Text(
        "Shares in per cent of the rows with wrong labels and of the clean rows, by what re-weighting has added to "
        "their probability, in units of 1/N: 0 is untouched, -1 is removed; where kept rows share the freed weight, "
        "as at the small scale, they lie above 0. In brackets the paper's. Shares, since "
        f"the number of rows differs between scales. Mean over {whole} {'seed' if whole == 1 else 'seeds'}."
    )
    heads, columns = ["u N"], [list(BINS)]
    for step in steps:
        when = str(step.number) if step.number == step.published else f"{step.number} (paper: {step.published})"
        for part, ours, theirs in zip(("wrong", "clean"), step.shares, step.printed, strict=True):
            heads.append(f"{part}, after {when}")
            columns.append([f"{100 * a:.1f} ({100 * b:.1f})" for a, b in zip(ours, theirs, strict=True)])
    yield Grid(heads, [list(line) for line in zip(*columns, strict=True)])
