"""Targets for our figures, reached or not; signs counted, and differences explained."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from rockafellian_reproduction.pages.compare import Comparison, Report, evolution
from rockafellian_reproduction.pages.rows import TINY, Row, Sign, name_cell, rows, signs
from rockafellian_reproduction.tables import TABLES, Variant
from rockafellian_reproduction.tables.explanations import EXPLANATIONS, UNEXPLAINED

#: Tables whose signs are counted: those of the paragraph on tissue are of other images.
SIGNED = (1, 2, 3, 4, 7, 8, 9)
#: The variants of Table 3 with what this library adds; the first that was run is judged.
OURS: tuple[Variant, ...] = ({"elr-beta": "0.9", "ours": "yes"}, {"ours": "yes"})


class Outcome(NamedTuple):
    """A target for our figures, our result, and whether it was reached; None while deciding records are missing."""

    target: str
    result: str
    reached: bool | None


class Tally(NamedTuple):
    """How many signs agree, of how many that can be compared; and what was left out."""

    agreeing: int
    comparable: int
    equal: int
    not_run: int


def outcomes(report: Report) -> list[Outcome]:
    """Return the targets for the tables and scales asked for, with our results."""
    found: list[Outcome] = []
    if {1, 2} <= set(report.numbers) and report.decides(1):
        found += _check_cifar(report.answering(1), report.answering(2))
    if 3 in report.numbers and report.decides(3):
        found += _check_table_3(report.answering(3))
    for number, wanted in ((4, 18), (7, 15)):
        if number in report.numbers and report.decides(number):
            found += _check_attacked(report.answering(number), wanted)
    if 5 in report.numbers:
        found += _check_table_5(report.answering(5))
    if set(SIGNED) <= set(report.numbers):
        found.append(_check_signs(headline(report)))
    return found


def headline(report: Report) -> list[Sign]:
    """Return the signs of all tables that have pairs, each at the scale that answers its question."""
    return [sign for number in SIGNED for sign in report.answering(number).signs]


def tally(found: Iterable[Sign]) -> Tally:
    """Return how many signs agree, of how many, and what was left out."""
    verdicts = [sign.verdict for sign in found]
    agreeing, differing = verdicts.count("agrees"), verdicts.count("differs")
    return Tally(agreeing, agreeing + differing, verdicts.count("equal in print"), verdicts.count("not run"))


def explain(row: Row) -> str:
    """Return why a row differs beyond the spread of the seeds, as far as known; empty if it does not."""
    side = "above" if row.difference and row.difference > 0 else "below"
    fitting = (
        known.text
        for known in EXPLANATIONS
        if known.table == row.table
        and known.scale in (None, row.scale)
        and known.ours in (None, side)
        and (not known.measures or row.measure.endswith(known.measures))
        and all(row.figure.cell.get(key) in values for key, values in known.cell.items())
    )
    return next(fitting, UNEXPLAINED) if row.beyond else ""


def describe_tally(counted: Tally) -> str:
    """Return the count in words."""
    fraction = f" ({100 * counted.agreeing / counted.comparable:.1f} %)" if counted.comparable else ""
    counts = f"{counted.agreeing} of {counted.comparable} comparable signs agree{fraction}"
    return _join([counts], {"equal in print": counted.equal, "not run": counted.not_run})


def format_difference(value: float | None, decimals: int) -> str:
    """Return a difference with its sign; `diverged` if there is none."""
    return "diverged" if value is None else f"{value:+.{decimals}f}"


def _check_cifar(first: Comparison, second: Comparison) -> Iterator[Outcome]:
    """Yield the targets of Tables 1 and 2."""
    pairs = [sign for sign in first.signs if sign.robust.figure.cell["loss"] in ("cce", "mse")]
    yield _every("Table 1: RRM above its own loss, CCE and MSE", [_pair(sign) for sign in pairs], _is_positive)
    yield _every(
        "Table 1: MSE + RRM best of all, or level with the best within a standard deviation",
        list(_margins(rows(first.table, first.scale, first.records))),
        lambda margin: margin >= -TINY,
    )
    yield _check_agreement("Table 1: signs as printed in at least 8 of 9", first.signs, 8)
    runs = [sign for sign in second.signs if sign.ours is not None]
    target, gains = (
        "Table 2: a C' that is too large costs less than RRM brings, on average",
        [s.ours or 0 for s in runs],
    )
    if not gains or len(runs) < len(second.signs):
        yield Outcome(target, f"{len(second.signs) - len(runs)} not run", None)
    else:
        yield Outcome(target, f"{statistics.fmean(gains):+.2f} beside plain MSE", statistics.fmean(gains) > 0)


def _margins(found: Sequence[Row]) -> Iterator[tuple[Row, bool, float | None]]:
    """Yield, at each rate, what MSE + RRM is above the best other, with the larger of the standard deviations added."""
    for row in found:
        cell = row.figure.cell
        if (cell["loss"], cell["method"]) != ("mse", "RRM"):
            continue
        others = [o for o in found if o is not row and o.figure.cell["contamination"] == cell["contamination"]]
        best = max(others, key=lambda other: -math.inf if other.ours.mean is None else other.ours.mean)
        run = row.ours.run and all(other.ours.run for other in others)
        margin = None
        if row.ours.mean is not None and best.ours.mean is not None:
            spread = max(row.ours.deviation or 0.0, best.ours.deviation or 0.0)
            margin = row.ours.mean - best.ours.mean + spread
        yield row, run, margin


def _check_table_3(comparison: Comparison) -> Iterator[Outcome]:
    yield _check_readings(comparison)
    ours = next((run for wanted in OURS if (run := comparison.under(wanted))), [])
    robust = [row for row in rows(TABLES[3], "paper", ours) if row.figure.cell["method"] == TABLES[3].pairs[1]]
    yield _every(
        "Table 3 at 55 % and 60 %: ours at or above the printed figure of RRM, which is rounded to a whole percent",
        [(row, row.ours.run, row.difference) for row in robust if row.figure.cell["contamination"] < 0.65],
        lambda difference: difference >= -0.5 - TINY,
    )
    pairs = [sign for sign in signs(TABLES[3], "paper", ours) if sign.robust.figure.cell["contamination"] == 0.65]
    yield _every("Table 3 at 65 %: ours above plain training", [_pair(sign) for sign in pairs], _is_positive)


def _check_readings(comparison: Comparison) -> Outcome:
    """Return the outcome for the mean difference at 55 and 60 %, by the one reading that fits best."""
    target = "Table 3 at 55 % and 60 %: mean absolute difference at most 1.5, by one reading for all cells"
    fits: list[tuple[float, str]] = []
    for variant in ({}, *(shown for shown in TABLES[3].shown if "ours" not in shown)):
        records = comparison.under(variant) if variant else comparison.records
        found = [row for row in rows(TABLES[3], "paper", records) if row.figure.cell["contamination"] < 0.65]
        differences = [abs(row.difference) for row in found if row.difference is not None]
        if len(differences) == len(found):
            named = ", ".join(f"{name}={value}" for name, value in variant.items()) or "as printed"
            fits.append((statistics.fmean(differences), named))
    if not fits:
        return Outcome(target, "not run", None)
    least, named = min(fits)
    return Outcome(target, f"{least:.2f} ({named})", least <= 1.5 + TINY)


def _check_attacked(comparison: Comparison, wanted: int) -> Iterator[Outcome]:
    """Yield the targets of Tables 4 and 7."""
    number, robust = comparison.number, comparison.table.pairs[1]
    found = [
        row
        for row in rows(comparison.table, comparison.scale, comparison.records)
        if row.figure.cell["method"] == robust
    ]
    run = [row for row in found if row.ours.run]
    close = sum(row.difference is not None and abs(row.difference) <= 3 + TINY for row in run)
    possible = close + len(found) - len(run)
    yield Outcome(
        f"Table {number}: {robust} within 3 points of the printed figure in at least {wanted} of {len(found)}",
        _join([f"{close} of {len(found)}"], {"not run": len(found) - len(run)}),
        close >= wanted or (None if possible >= wanted else False),
    )
    weak = [
        sign
        for sign in comparison.signs
        if sign.printed > 0 and float(sign.robust.figure.measure.removeprefix("eps ")) <= 0.25
    ]
    yield _every(
        f"Table {number}: {robust} above AT for eps up to 0.25, where the paper says so",
        [_pair(sign) for sign in weak],
        _is_positive,
    )


def _check_agreement(target: str, found: Sequence[Sign], wanted: int) -> Outcome:
    """Return whether so many signs agree; open while missing runs could change it."""
    counted = tally(found)
    possible = counted.agreeing + counted.not_run
    reached = counted.agreeing >= wanted or (None if possible >= wanted else False)
    return Outcome(target, describe_tally(counted), reached)


def _pair(sign: Sign) -> tuple[Row, bool, float | None]:
    return sign.robust, sign.plain.ours.run and sign.robust.ours.run, sign.ours


def _is_positive(difference: float) -> bool:
    return difference > 0


def _every(target: str, cases: Sequence[tuple[Row, bool, float | None]], holds: Callable[[float], bool]) -> Outcome:
    """Return whether a target holds for each (row, was run, difference); a cell that diverged with every seed fails."""
    run = [(row, difference) for row, was_run, difference in cases if was_run]
    misses = [(row, difference) for row, difference in run if difference is None or not holds(difference)]
    differences = [difference for _, difference in run if difference is not None]
    parts = [f"{len(run) - len(misses)} of {len(cases)} hold"]
    if differences:
        parts.append(f"differences from {min(differences):+.1f} to {max(differences):+.1f}")
    if misses:
        names = (f"{name_cell(row.figure.cell)} ({format_difference(difference, 1)})" for row, difference in misses)
        parts.append(f"not for {', '.join(names)}")
    not_run, diverged = len(cases) - len(run), sum(row.ours.diverged for row, _ in run)
    found = _join(parts, {"not run": not_run, "runs diverged": diverged})
    return Outcome(target, found, False if misses else None if not_run else True)


def _join(parts: list[str], left_out: dict[str, int]) -> str:
    """Return one line: the parts, and what was left out, if anything was."""
    return "; ".join([*parts, *(f"{count} {why}" for why, count in left_out.items() if count)])


def _check_table_5(comparison: Comparison) -> Iterator[Outcome]:
    targets = (
        "Table 5, 20 % noise: after the last re-weighting at least 90 % of the mislabeled rows nearly removed",
        "Table 5, 20 % noise: after the last re-weighting at least 88 % of the clean rows untouched or above",
    )
    steps = evolution(comparison)
    if not steps:
        result, reached = ("diverged", False) if comparison.records else ("not run", None)
        yield from (Outcome(target, result, reached) for target in targets)
        return
    mislabeled, clean = steps[-1].fractions
    for target, fraction, mark in zip(targets, (mislabeled[-1], clean[0] + clean[1]), (0.90, 0.88), strict=True):
        yield Outcome(target, f"{100 * fraction:.1f} % ({comparison.scale} scale)", fraction >= mark - TINY)


def _check_signs(found: list[Sign]) -> Outcome:
    """Return the outcome for all signs; open while runs that are missing could change it."""
    counted, mark = tally(found), 0.85
    total = counted.comparable + counted.not_run
    smallest, largest = counted.agreeing / total, (counted.agreeing + counted.not_run) / total
    tables = ", ".join(map(str, SIGNED))
    target = f"Signs, tables {tables}: robust minus plain as in the paper in at least {100 * mark:.0f} %"
    return Outcome(
        target, describe_tally(counted), smallest >= mark - TINY or (None if largest >= mark - TINY else False)
    )
