"""The section of one table: figures as the paper lays them out, differences with reasons, signs, and settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rockafellian_reproduction.pages import compare
from rockafellian_reproduction.pages.blocks import Block, Grid, Points, Text
from rockafellian_reproduction.pages.compare import Comparison
from rockafellian_reproduction.pages.rows import (
    READINGS,
    Ours,
    Reading,
    Row,
    Sign,
    digits,
    name_cell,
    name_method,
    percent,
    rows,
    signs,
)
from rockafellian_reproduction.pages.targets import describe_tally, explain, format_difference, tally
from rockafellian_reproduction.tables import Table
from rockafellian_reproduction.tables.figures import BINS, Figure


def title(comparison: Comparison) -> str:
    """Return the title of a table at its scale."""
    number, scale = comparison.number, f"{comparison.scale} scale"
    words = "evolution of u at 20 % contamination" if number == 5 else comparison.table.title
    return f"{words if number == 10 else f'Table {number}: {words}'}, {scale}"


def results(comparison: Comparison) -> Iterator[Block]:
    """Yield figures, differences and signs of one table."""
    if comparison.number == 5:
        yield from _evolution(comparison)
        return
    table = comparison.table
    for reading in READINGS[table.measures]:
        yield from _reading(comparison, reading)
    if extra := compare.unprinted(comparison):
        yield Text("Our runs of cells that the paper does not print:")
        decimals = max(1, digits(table))
        yield Points([f"{name_cell(cell)}: {_format_ours(ours, decimals)}" for cell, ours in extra])
    if lost := [record for record in comparison.records if record.get("diverged")]:
        yield Text("Runs that diverged, left out of the means:")
        lines = [f"{join_pairs(record['cell'])}, seed {record['seed']}: {record['diverged']}" for record in lost]
        yield Points(list(map(printable, lines)))


def settings(comparison: Comparison) -> Iterator[Block]:
    """Yield how the text of the paper was read, and what differs from it."""
    table, scale = comparison.table, comparison.scale
    yield Text("How the text of the paper was read:")
    yield Points(list(table.readings))
    if used := substitutes(comparison):
        yield Text("What replaces data or networks that are not available:")
        yield Points(used)
    if changes := table.paper.changes(table.scales[scale]):
        yield Text(f"What the {scale} scale changes:")
        yield Points(changes)
    if scale in table.chosen:
        yield Text(table.chosen[scale])


def substitutes(comparison: Comparison) -> list[str]:
    """Return what was replaced at this scale; only Table 8 needs substitutes at the paper's scale too."""
    table = comparison.table
    return list(table.substitutes) if comparison.scale != "paper" or table.number == 8 else []


def join_pairs(named: dict[str, Any]) -> str:
    """Return names and values on one line."""
    return printable(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in named.items()))


def printable(value: object) -> str:
    """Return a value as one line without control characters, which a record should not have."""
    return "".join(letter if letter.isprintable() else " " for letter in str(value))


def _reading(comparison: Comparison, reading: Reading) -> Iterator[Block]:
    """Yield one table as the paper lays it out, what in it differs, and its signs."""
    asked = comparison.table, comparison.scale, comparison.records, reading
    found = rows(*asked)
    yield Text(f"{reading.title}:")
    yield _lay_out(comparison.table, found)
    run = [abs(row.difference) for row in found if row.difference is not None]
    beyond = [row for row in found if row.beyond]
    if run:
        yield Text(
            f"{len(beyond)} of {len(run)} figures differ from the printed ones beyond the spread of the seeds; the "
            f"mean absolute difference is {sum(run) / len(run):.{max(1, found[0].digits)}f}."
        )
    if reading.explained:
        yield from _reasons(beyond)
    yield from _signs(comparison.table, signs(*asked))


def _lay_out(table: Table, found: Sequence[Row]) -> Grid:
    """Return rows and columns as in the paper, each entry ours and theirs."""
    entries = {_place(table, row.figure): _format_row(row) for row in found}
    sides, heads = (list(dict.fromkeys(place[part] for place in entries)) for part in (0, 1))
    return Grid(["", *heads], [[side, *(entries.get((side, head), "") for head in heads)] for side in sides])


def _place(table: Table, figure: Figure) -> tuple[str, str]:
    """Return row and column of a figure in its table."""
    column = percent(figure.cell["contamination"])
    if table.measures == "eps":
        return figure.measure, f"{column}, {figure.cell['method']}"
    side = name_method(figure.cell)
    return side if table.measures == "last" else f"{side}, {figure.measure.removeprefix('PR-AUC, ')}", column


def _format_row(row: Row) -> str:
    theirs = f"{row.figure.value:.{row.digits}f}"
    if row.figure.deviation is not None:
        theirs += f" ± {row.figure.deviation:.{row.digits}f}"
    return f"{_format_ours(row.ours, max(1, row.digits))} ({theirs}){' *' if row.beyond else ''}"


def _format_ours(ours: Ours, decimals: int) -> str:
    if ours.mean is None:
        return "diverged" if ours.diverged else "not run"
    deviation = "" if ours.deviation is None else f" ± {ours.deviation:.{decimals}f}"
    lost = f", {ours.diverged} of {ours.diverged + len(ours.values)} diverged" if ours.diverged else ""
    return f"{ours.mean:.{decimals}f}{deviation}{lost}"


def _reasons(beyond: Sequence[Row]) -> Iterator[Block]:
    """Yield the differences, under the reason of each."""
    for reason in dict.fromkeys(map(explain, beyond)):
        lines = [_format_difference(row) for row in beyond if explain(row) == reason]
        yield Text(f"{reason[0].upper()}{reason[1:].removesuffix('.')} ({len(lines)}):")
        yield Grid(["figure", "ours", "smallest to largest", "seeds", "paper", "difference"], lines)


def _format_difference(row: Row) -> list[str]:
    decimals = max(1, row.digits)
    return [
        _name(row),
        _format_ours(row.ours, decimals),
        _format_span(row.ours.span, f".{decimals}f"),
        str(len(row.ours.values)),
        f"{row.figure.value:.{row.digits}f}",
        format_difference(row.difference, decimals),
    ]


def _name(row: Row) -> str:
    cell = name_cell(row.figure.cell)
    return cell if row.measure == "test accuracy" else f"{cell}, {row.measure}"


def _format_span(span: tuple[float, float] | None, form: str) -> str:
    return "-" if span is None else f"{span[0]:{form}} to {span[1]:{form}}"


def _signs(table: Table, found: Sequence[Sign]) -> Iterator[Block]:
    if not found:
        yield Text("Signs: not comparable, as the table has no plain runs.")
        return
    plain, robust = table.pairs
    yield Text(f"Sign of {robust} minus {plain}: {describe_tally(tally(found))}.")
    if equal := [_name(sign.plain) for sign in found if sign.verdict == "equal in print"]:
        yield Text(f"Equal in print, and left out: {'; '.join(equal)}.")
    if lines := [_format_sign(sign) for sign in found if sign.verdict == "differs"]:
        yield Text("Pairs whose sign is not the paper's, robust minus plain:")
        yield Grid(["figure", "paper", "ours", "smallest to largest by seed"], lines)


def _format_sign(sign: Sign) -> list[str]:
    row, decimals = sign.robust, max(1, sign.robust.digits)
    return [
        _name(row),
        format_difference(sign.printed, row.digits),
        format_difference(sign.ours, decimals),
        _format_span(sign.span, f"+.{decimals}f"),
    ]


def _evolution(comparison: Comparison) -> Iterator[Block]:
    """Yield Table 5 in fractions, since the number of rows differs between scales."""
    steps = compare.evolution(comparison)
    if not steps:
        yield Text("Every run diverged.")
        return
    whole = len(comparison.finished)
    yield Text(
        "Percent of the mislabeled and of the clean rows by u N, where u is what re-weighting has added to the "
        "probability 1/N of a row: 0 is untouched, -1 is removed. Kept rows that share the freed weight, as at the "
        "small scale, are above 0. The paper's in brackets. "
        f"Mean over {whole} {'seed' if whole == 1 else 'seeds'}."
    )
    heads, columns = ["u N"], [list(BINS)]
    for step in steps:
        when = str(step.number) if step.number == step.published else f"{step.number} (paper: {step.published})"
        for part, ours, theirs in zip(("mislabeled", "clean"), step.fractions, step.printed, strict=True):
            heads.append(f"{part}, after {when}")
            columns.append([f"{100 * a:.1f} ({100 * b:.1f})" for a, b in zip(ours, theirs, strict=True)])
    yield Grid(heads, [list(line) for line in zip(*columns, strict=True)])
