"""What was promised of our figures, met or not; signs counted, and differences put into words."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from rockafellian_reproduction.pages.compare import (
    TINY,
    Comparison,
    Record,
    Report,
    Row,
    Sign,
    evolution,
    name_method,
    rows,
    say_share,
    signs,
)
from rockafellian_reproduction.tables import TABLES, Cell
from rockafellian_reproduction.tables.explanations import EXPLANATIONS, UNEXPLAINED

#: Tables whose signs make the headline: Table 2 has no plain runs, and the tissue is no table.
SIGNED = (1, 3, 4, 7, 8, 9)


class Check(NamedTuple):
    """A claim on our figures, what was found, and whether it holds; None while records that decide it are missing."""

    claim: str
    found: str
    met: bool | None


class Tally(NamedTuple):
    """How many signs agree, of how many that can be compared; and what was left out."""

    agreeing: int
    comparable: int
    equal: int
    not_run: int


def checks(report: Report) -> list[Check]:
    """What was promised for the tables and scales asked for."""
    found: list[Check] = []
    if 3 in report.numbers and "paper" in report.scales:
        made = [made for made in report.comparisons if (made.number, made.scale) == (3, "paper")]
        found += _check_table_3(made[0].records if made else [])
    if 5 in report.numbers:
        found += _check_table_5(report.fullest(5))
    if set(SIGNED) <= set(report.numbers):
        found.append(_check_signs(headline(report)))
    return found


def headline(report: Report) -> list[Sign]:
    """The signs of all tables that have pairs, each at the scale with more cells run."""
    chosen = [report.fullest(number) for number in SIGNED]
    return [sign for made in chosen for sign in signs(made.table, made.scale, made.records)]


def tally(found: Iterable[Sign]) -> Tally:
    """The signs, counted."""
    verdicts = [sign.verdict for sign in found]
    agreeing, differing = verdicts.count("agrees"), verdicts.count("differs")
    return Tally(agreeing, agreeing + differing, verdicts.count("equal in print"), verdicts.count("not run"))


def explain(row: Row) -> str:
    """Why it is beyond, as far as that is known; empty if it is not beyond."""
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


def say_tally(counted: Tally) -> str:
    """The count in words."""
    share = f" ({100 * counted.agreeing / counted.comparable:.1f} %)" if counted.comparable else ""
    said = f"{counted.agreeing} of {counted.comparable} comparable signs agree{share}"
    return _say([said], {"equal in print": counted.equal, "not run": counted.not_run})


def say_difference(value: float | None, decimals: int) -> str:
    """With its sign; `diverged` if there is none."""
    return "diverged" if value is None else f"{value:+.{decimals}f}"


def name_cell(cell: Cell) -> str:
    """A cell in words, such as `CCE + RRM at 55 %`."""
    return f"{name_method(cell)} at {say_share(cell['contamination'])}"


def _check_table_3(records: Sequence[Record]) -> Iterator[Check]:
    found = rows(TABLES[3], "paper", records)
    plain, robust = ([row for row in found if row.figure.cell["method"] == method] for method in TABLES[3].pairs)
    yield _every(
        "Table 3 at 55 % and 60 %: every RRM cell at most 2 points below the published one",
        [(row, row.ours.run, row.difference) for row in robust if row.figure.cell["contamination"] < 0.65],
        lambda difference: difference >= -2 - TINY,
    )
    yield _every(
        "Table 3 at 55 % and 60 %: every plain cell within 5 points of the published one",
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


def _every(claim: str, cases: Sequence[tuple[Row, bool, float | None]], holds: Callable[[float], bool]) -> Check:
    """Whether it holds for each difference; a cell that diverged with every seed is a miss."""
    run = [(row, difference) for row, was_run, difference in cases if was_run]
    misses = [(row, difference) for row, difference in run if difference is None or not holds(difference)]
    differences = [difference for _, difference in run if difference is not None]
    said = [f"{len(run) - len(misses)} of {len(cases)} hold"]
    if differences:
        said.append(f"differences from {min(differences):+.1f} to {max(differences):+.1f}")
    said += [f"missed by {name_cell(row.figure.cell)} ({say_difference(difference, 1)})" for row, difference in misses]
    not_run, diverged = len(cases) - len(run), sum(row.ours.diverged for row, _ in run)
    found = _say(said, {"not run": not_run, "runs diverged": diverged})
    return Check(claim, found, False if misses else None if not_run else True)


def _say(said: list[str], left_out: dict[str, int]) -> str:
    """One line: what was said, and what was left out, if anything was."""
    return "; ".join([*said, *(f"{count} {why}" for why, count in left_out.items() if count)])


def _check_mean(robust: Sequence[Row]) -> Check:
    wanted = statistics.fmean(row.figure.value for row in robust)
    claim = f"Table 3: the mean of the {len(robust)} RRM cells at or above the published mean, {wanted:.2f}"
    means = [row.ours.mean for row in robust if row.ours.mean is not None]
    run = sum(row.ours.run for row in robust)
    if len(means) < run:
        return Check(claim, f"no mean: {run - len(means)} cells diverged with every seed", False)
    if run < len(robust):
        return Check(claim, f"{len(robust) - run} not run", None)
    ours = statistics.fmean(means)
    return Check(claim, f"{ours:.2f}", ours >= wanted - TINY)


def _check_table_5(comparison: Comparison) -> Iterator[Check]:
    claims = (
        "Table 5, 20 % noise: after the last re-weighting at least 90 % of the wrong rows nearly removed",
        "Table 5, 20 % noise: after the last re-weighting at least 88 % of the clean rows untouched, or above that",
    )
    steps = evolution(comparison)
    if not steps:
        found, met = ("diverged", False) if comparison.records else ("not run", None)
        yield from (Check(claim, found, met) for claim in claims)
        return
    wrong, clean = steps[-1].shares
    for claim, share, mark in zip(claims, (wrong[-1], clean[0] + clean[1]), (0.90, 0.88), strict=True):
        yield Check(claim, f"{100 * share:.1f} % ({comparison.scale} scale)", share >= mark - TINY)


def _check_signs(found: list[Sign]) -> Check:
    """Decided only when runs that are missing could not turn it."""
    counted, mark = tally(found), 0.85
    total = counted.comparable + counted.not_run
    least, most = counted.agreeing / total, (counted.agreeing + counted.not_run) / total
    claim = f"Signs, tables {', '.join(map(str, SIGNED))}: robust minus plain as in the paper in at least {mark:.0%}"
    return Check(claim, say_tally(counted), least >= mark - TINY or (None if most >= mark - TINY else False))
