"""The section of one table: figures as the paper lays them out, differences with reasons, signs, and settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rockafellian_reproduction.pages import compare
from rockafellian_reproduction.pages.blocks import Block, Fold, Grid, Points, Text
from rockafellian_reproduction.pages.compare import Comparison
from rockafellian_reproduction.pages.rows import (
    Ours,
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
from rockafellian_reproduction.pages.verdicts import mean_difference
from rockafellian_reproduction.tables import Table, Variant
from rockafellian_reproduction.tables.figures import BINS, Figure
from rockafellian_reproduction.tables.measured import READINGS, Reading
from rockafellian_reproduction.training.records import Record

OURS_VARIANT: Variant = {"ours": "yes"}
#: Tables with the readings and settings of another.
ALIKE = {2: 1, 7: 4}


def title(comparison: Comparison) -> str:
    """Return the title of a table at its scale."""
    number = comparison.number
    return (
        f"{subject(comparison) if number == 10 else f'Table {number}: {subject(comparison)}'}, {comparison.scale} scale"
    )


def subject(comparison: Comparison) -> str:
    """Return what a table is about."""
    return "evolution of u at 20 % contamination" if comparison.number == 5 else comparison.table.title


def results(comparison: Comparison) -> Iterator[Block]:
    """Yield the figures of one table as the paper lays them out, ours among them, and how well they agree."""
    if comparison.number == 5:
        yield from _evolution(comparison)
        return
    table, scale = comparison.table, comparison.scale
    found = rows(table, scale, comparison.records)
    yield Text(f"{table.headline.title}:")
    variants = [variant for variant in (*table.shown, OURS_VARIANT) if "ours" in variant and comparison.under(variant)]
    ours = max(variants, key=len, default=OURS_VARIANT)
    yield _lay_out(table, found, rows(table, scale, comparison.under(ours)), ours)
    beyond = sum(row.beyond for row in found)
    mean, run = mean_difference(found), sum(row.difference is not None for row in found)
    if mean is not None:
        decimals = max(1, found[0].digits)
        yield Text(
            f"Mean absolute difference {mean:.{decimals}f}; {beyond} of {run} figures differ beyond the spread of the "
            f"seeds. Robust minus plain: {describe_tally(tally(comparison.signs))}."
        )


def details(comparison: Comparison) -> Iterator[Block]:
    """Yield, folded, the differences with their reasons, signs that differ, other readings, and the settings."""
    if comparison.number == 5:
        return
    beyond = [row for row in rows(comparison.table, comparison.scale, comparison.records) if row.beyond]
    if beyond:
        yield Fold(f"Differences beyond the spread of the seeds ({len(beyond)})", [_reasons(beyond)])
    if differing := [sign for sign in comparison.signs if sign.verdict == "differs"]:
        heads = ["robust minus plain", "paper", "ours", "smallest to largest by seed", "may be chance"]
        yield Fold(
            f"Signs that are not the paper's ({len(differing)})", [Grid(heads, list(map(_format_sign, differing)))]
        )
    if others := list(_other_readings(comparison)):
        yield Fold("Other readings", others)
    yield Fold("Settings", list(_settings(comparison)))


def _settings(comparison: Comparison) -> Iterator[Block]:
    """Yield how the text of the paper was read, what differs from it, and runs that are not in the table."""
    table, scale = comparison.table, comparison.scale
    if table.number in ALIKE:
        yield Text(f"As for Table {ALIKE[table.number]}.")
    else:
        chosen = [table.chosen[scale]] if scale in table.chosen else []
        yield Points([*table.readings, *substitutes(comparison), *chosen])
        if changes := table.paper.changes(table.scales[scale]):
            yield Text(f"Paper -> {scale} scale: {'; '.join(changes)}.")
    if extra := compare.unprinted(comparison):
        decimals = max(1, digits(table))
        named = "; ".join(f"{name_cell(cell)} {_format_ours(ours, decimals)}" for cell, ours in extra)
        yield Text(f"Run, and not printed in the paper: {named}.")
    if lost := [record for record in comparison.records if record.get("diverged")]:
        lines = [f"{join_pairs(record['cell'])}, seed {record['seed']}: {record['diverged']}" for record in lost]
        yield Text("Diverged, and left out of the means:")
        yield Points(list(map(printable, lines)))


def _other_readings(comparison: Comparison) -> Iterator[Block]:
    """Yield how well other readings agree where they were run or measured, and the evidence for each."""
    table, scale = comparison.table, comparison.scale
    lines = [
        [reading.title, *_agreement(comparison, comparison.records, reading)]
        for reading in READINGS[table.measures][1:]
    ]
    for variant in table.shown:
        if made := comparison.under(variant):
            lines.append([name_variant(variant), *_agreement(comparison, made)])
    lines = [line for line in lines if line[1] != "-"]
    if lines:
        printed = ["as above", *_agreement(comparison, comparison.records)]
        yield Grid(["reading", "mean absolute difference", "figures beyond the spread", "signs"], [printed, *lines])
    if table.number not in ALIKE and (
        points := [
            [f"{point.name}={choice.name}", choice.evidence, "yes" if choice is table.made(point, scale) else ""]
            for point in table.points
            for choice in point.choices
        ]
    ):
        yield Grid(["--reading", "evidence", "above"], points, left=3)


def _agreement(comparison: Comparison, records: Sequence[Record], reading: Reading | None = None) -> list[str]:
    table = comparison.table
    found = rows(table, comparison.scale, records, reading)
    mean = mean_difference(found)
    if mean is None:
        return ["-", "-", "-"]
    counted = tally(signs(table, comparison.scale, [*records, *comparison.plain], reading))
    run = sum(row.difference is not None for row in found)
    return [
        f"{mean:.{max(1, digits(table))}f}",
        f"{sum(row.beyond for row in found)} of {run}",
        f"{counted.agreeing} of {counted.comparable}",
    ]


def name_variant(variant: Variant) -> str:
    """Return readings in words."""
    return ", ".join("ours" if name == "ours" else f"{name}={value}" for name, value in variant.items())


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


def _lay_out(table: Table, found: Sequence[Row], ours: Sequence[Row], variant: Variant) -> Grid:
    """Return rows and columns as in the paper, each entry ours and theirs; where our variant was run, beside it."""
    entries = {}
    own = {(*row.figure.cell.items(), row.measure): row for row in ours if row.figure.cell["method"] == table.pairs[1]}
    for row in found:
        side, head = _place(table, row.figure)
        entries[side, head] = _format_row(row)
        better = own.get((*row.figure.cell.items(), row.measure))
        if better is not None and better.ours.run:
            name = name_variant(table.variant_of(row.figure.cell, variant))
            place = (side, f"{head}, {name}") if table.measures == "eps" else (f"{side}, {name}", head)
            entries[place] = _format_row(better)
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


def _reasons(beyond: Sequence[Row]) -> Grid:
    """Return the reasons, how many differences each explains, and from where to where these go."""
    lines = []
    for reason in dict.fromkeys(map(explain, beyond)):
        of_it = sorted((row for row in beyond if explain(row) == reason), key=lambda row: row.difference or 0)
        decimals = max(1, of_it[0].digits)
        ends = [f"{_name(row)} {format_difference(row.difference, decimals)}" for row in (of_it[0], of_it[-1])]
        lines.append([reason.removesuffix("."), str(len(of_it)), *ends])
    return Grid(["reason", "figures", "lowest", "highest"], lines)


def _name(row: Row) -> str:
    cell = name_cell(row.figure.cell)
    return cell if row.measure == "test accuracy" else f"{cell}, {row.measure}"


def _format_span(span: tuple[float, float] | None, form: str) -> str:
    return "-" if span is None else f"{span[0]:{form}} to {span[1]:{form}}"


def _format_sign(sign: Sign) -> list[str]:
    row, decimals = sign.robust, max(1, sign.robust.digits)
    return [
        _name(row),
        format_difference(sign.printed, row.digits),
        format_difference(sign.ours, decimals),
        _format_span(sign.span, f"+.{decimals}f"),
        "yes" if sign.within_chance else "no",
    ]


def _evolution(comparison: Comparison) -> Iterator[Block]:
    """Yield Table 5 in fractions, since the number of rows differs between scales."""
    steps = compare.evolution(comparison)
    if not steps:
        yield Text("Every run diverged.")
        return
    whole = len(comparison.finished)
    yield Text(
        "Percent of the mislabeled and of the clean rows by u N: 0 is untouched, -1 is removed. The paper's in "
        f"brackets. Mean over {whole} {'seed' if whole == 1 else 'seeds'}."
    )
    heads, columns = ["u N"], [list(BINS)]
    for step in steps:
        when = str(step.number) if step.number == step.published else f"{step.number} (paper: {step.published})"
        for part, ours, theirs in zip(("mislabeled", "clean"), step.fractions, step.printed, strict=True):
            heads.append(f"{part}, after {when}")
            columns.append([f"{100 * a:.1f} ({100 * b:.1f})" for a, b in zip(ours, theirs, strict=True)])
    yield Grid(heads, [list(line) for line in zip(*columns, strict=True)])
