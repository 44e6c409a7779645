"""The verdict on each table: one word, and the number that it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rockafellian_reproduction.pages.compare import Comparison, evolution
from rockafellian_reproduction.pages.rows import TINY, Row, rows
from rockafellian_reproduction.pages.targets import tally
from rockafellian_reproduction.tables import Scale

#: A figure is close within so many points, hundredths of a PR-AUC; a table is reproduced by this part of its figures.
CLOSE, MOST_FIGURES = 3.0, 0.75
#: The pattern of a table holds by this part of its signs.
MOST_SIGNS = 0.85

MEANINGS = {
    "reproduced": f"{100 * MOST_FIGURES:.0f} % of the figures are within {CLOSE:g} points of the printed ones, or "
    "within the spread of our seeds",
    "pattern holds": f"{100 * MOST_SIGNS:.0f} % of the signs, robust minus plain, are as printed; levels may differ, "
    "as the network or the data is another",
    "pattern does not hold": "fewer signs are as printed",
    "not comparable": "the data of the paper cannot be had",
}


class Verdict(NamedTuple):
    """A verdict of those in `MEANINGS`, or `not yet run`, and its number in words."""

    word: str
    number: str


def judge(comparison: Comparison) -> Verdict:
    """Return the verdict on a table at a scale, by its headline reading."""
    if not comparison.records:
        return Verdict("not yet run", "-")
    if comparison.number == 5:
        return _judge_evolution(comparison)
    found = [row for row in rows(comparison.table, comparison.scale, comparison.records) if row.ours.run]
    close, signs = sum(map(is_close, found)), tally(comparison.signs)
    figures = f"{close} of {len(found)} figures{_missing(comparison)}"
    agreeing = f"{signs.agreeing} of {signs.comparable} signs{_missing(comparison)}"
    if comparison.number == 10:
        return Verdict("not comparable", agreeing)
    if is_as_printed(comparison) and found and close >= MOST_FIGURES * len(found) - TINY:
        return Verdict("reproduced", figures)
    holds = signs.comparable > 0 and signs.agreeing >= MOST_SIGNS * signs.comparable - TINY
    return Verdict("pattern holds" if holds else "pattern does not hold", agreeing)


def is_as_printed(comparison: Comparison) -> bool:
    """Return whether data and network are the paper's, so that levels can be compared."""
    table = comparison.table
    replaced: dict[Scale, tuple[int, ...]] = {
        "paper": (8,),
        "network": (1, 2),
    }  # the word vectors of Table 8, the network of Tables 1 and 2
    return comparison.scale in replaced and table.number not in replaced[comparison.scale]


def is_close(row: Row) -> bool:
    """Return whether a figure is within a few points of the printed one, or that within the spread of our seeds."""
    points = 100 if "AUC" in row.measure else 1
    return row.difference is not None and (not row.beyond or points * abs(row.difference) <= CLOSE + TINY)


def mean_difference(found: Sequence[Row]) -> float | None:
    """Return the mean absolute difference of the figures that were run."""
    run = [abs(row.difference) for row in found if row.difference is not None]
    return sum(run) / len(run) if run else None


def _missing(comparison: Comparison) -> str:
    run, cells = comparison.cells_run, len(comparison.table.cells)
    return "" if run == cells else f" ({run} of {cells} cells run)"


def _judge_evolution(comparison: Comparison) -> Verdict:
    """Return whether, after the last re-weighting, rows are removed and left alone as in Table 5, within ten points."""
    steps = evolution(comparison)
    if not steps:
        return Verdict("pattern does not hold", "every run diverged")
    last = steps[-1]
    (removed, kept), (printed, left) = (
        (mislabeled[-1], clean[0] + clean[1]) for mislabeled, clean in (last.fractions, last.printed)
    )
    word = "pattern holds" if min(removed - printed, kept - left) >= -0.1 else "pattern does not hold"
    found = f"{_percent(removed)} of the mislabeled rows removed ({_percent(printed)})"
    return Verdict(word, f"{found}, {_percent(kept)} of the others kept ({_percent(left)})")


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.0f} %"
