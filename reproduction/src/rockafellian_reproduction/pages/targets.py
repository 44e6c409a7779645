"""Targets for our figures, reached or not; signs counted, and differences explained."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from rockafellian_reproduction.pages.compare import Comparison, Report, evolution
from rockafellian_reproduction.pages.rows import TINY, Row, Sign, name_cell, rows, signs
from rockafellian_reproduction.tables import TABLES
from rockafellian_reproduction.tables.explanations import EXPLANATIONS, UNEXPLAINED
from rockafellian_reproduction.training.records import Record

#: Tables whose signs are counted: those of the paragraph on tissue are of other images.
SIGNED = (1, 2, 3, 4, 7, 8, 9)


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
    if 3 in report.numbers and "paper" in report.scales:
        made = [made for made in report.comparisons if (made.number, made.scale) == (3, "paper")]
        found += _check_table_3(made[0].records if made else [])
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


def _check_table_3(records: Sequence[Record]) -> Iterator[Outcome]:
    found = rows(TABLES[3], "paper", records)
    plain, robust = ([row for row in found if row.figure.cell["method"] == method] for method in TABLES[3].pairs)
    yield _every(
        "Table 3 at 55 % and 60 %: every RRM cell at most 2 points below the printed figure",
        [(row, row.ours.run, row.difference) for row in robust if row.figure.cell["contamination"] < 0.65],
        lambda difference: difference >= -2 - TINY,
    )
    yield _every(
        "Table 3 at 55 % and 60 %: every plain cell within 5 points of the printed figure",
        [(row, row.ours.run, row.difference) for row in plain if row.figure.cell["contamination"] < 0.65],
        lambda difference: abs(difference) <= 5 + TINY,
    )
    pairs = [sign for sign in signs(TABLES[3], "paper", records) if sign.robust.figure.cell["contamination"] == 0.65]
    yield _every(
        "Table 3 at 65 %: RRM above plain training for each loss",
        [(sign.robust, sign.plain.ours.run and sign.robust.ours.run, sign.ours) for sign in pairs],
        lambda difference: difference > 0,
    )
    yield _check_mean(robust)


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


def _check_mean(robust: Sequence[Row]) -> Outcome:
    wanted = statistics.fmean(row.figure.value for row in robust)
    target = f"Table 3: the mean of the {len(robust)} RRM cells at or above the printed mean, {wanted:.2f}"
    means = [row.ours.mean for row in robust if row.ours.mean is not None]
    run = sum(row.ours.run for row in robust)
    if len(means) < run:
        return Outcome(target, f"no mean: {run - len(means)} cells diverged with every seed", False)
    if run < len(robust):
        return Outcome(target, f"{len(robust) - run} not run", None)
    ours = statistics.fmean(means)
    return Outcome(target, f"{ours:.2f}", ours >= wanted - TINY)


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
