"""The noise rate from a person's decisions, whatever the model knows: a stratified estimate with its interval.

Rows are counted by their place in the ranking, 0 for the worst. Those at its head that a person has checked without a
gap are known. The others are estimated band by band, from the drawn rows that were checked in the order of the draw: a
fraction of wrong labels, with a 90 % interval of the beta distribution. The interval of the whole combines those of the
bands by their variances (Zou and Donner, 2008). Other checked rows only bound it, as people choose what to check.

The page computes the same in template/estimate.js; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from rockafellian.auditing.review.sample import Drawn
from rockafellian.method.noise_rate import NoiseRate
from rockafellian.method.out_of_sample import Estimate, Floats

#: In each tail of the 90 % interval.
TAIL = 0.05

#: By place in the ranking, whether the label is wrong; None where a person could not tell.
Checked = Mapping[int, bool | None]


class Reviewed(NamedTuple):
    """What the decisions tell: the noise rate of all rows and of each band, and wrong labels found and expected."""

    noise_rate: Estimate
    bands: list[Estimate]
    found: int
    expected: float  # among all rows, those found included
    rows: int

    @property
    def still_expected(self) -> float:
        """How many wrong labels should be among the rows that nobody has checked."""
        return max(self.expected - self.found, 0.0)

    @property
    def remaining(self) -> Estimate:
        """The noise rate once those found are corrected."""
        corrected = self.found / max(self.rows, 1)
        return Estimate(*(max(each - corrected, 0.0) for each in self.noise_rate))

    def to_remove(self, removed_before: float) -> NoiseRate:
        """The noise rate for training again: to remove too few rows costs more than to remove too many.

        No less is removed than remains, nor than the run before removed, as far as the interval of what remains allows.
        """
        rate, _, high = self.remaining
        least = max(rate, min(removed_before - self.found / max(self.rows, 1), high))
        return NoiseRate(self.remaining, Estimate(least, least, high))


class _Counts(NamedTuple):
    """By band: all rows; those behind the head; of these, drawn rows that count, and wrong ones; what is known."""

    rows: Floats
    rest: Floats
    drawn: Floats
    drawn_wrong: Floats
    head_wrong: Floats  # expected at the head: all that were found there, and their share of skipped rows
    wrong: Floats  # all that were found
    right: Floats


def estimate_from_decisions(band_rows: Sequence[int], sample: Sequence[Drawn], checked: Checked) -> Reviewed:
    """Return the noise rate, with its 90 % interval, from the decisions so far; without any, it may be anything.

    Args:
        band_rows: how many rows each band has, the worst first.
        sample: the rows drawn from the bands, in their order.
        checked: the decisions.
    """
    counts = _count(np.array(band_rows, int), sample, checked)
    rate, below, above = _estimate_rest(counts)
    expected, below, above = counts.head_wrong + counts.rest * rate, counts.rest * below, counts.rest * above
    parts = (expected, below, above, counts.wrong, counts.right, counts.rows)
    bands = [_estimate(*map(float, band)) for band in zip(*parts, strict=True)]
    spread = (_combine(each, counts.drawn > 0) for each in (below, above))
    whole = _estimate(expected.sum(), *spread, *(float(each.sum()) for each in parts[3:]))
    return Reviewed(whole, bands, int(counts.wrong.sum()), float(expected.sum()), int(counts.rows.sum()))


def _count(band_rows: NDArray[np.int_], sample: Sequence[Drawn], checked: Checked) -> _Counts:
    ends = np.cumsum(band_rows)
    head = next(place for place in count() if place not in checked)
    known = {place: wrong for place, wrong in checked.items() if wrong is not None}
    at_head = np.clip(head - (ends - band_rows), 0, band_rows)
    wrong_at_head, right_at_head = (_by_band(known, is_wrong, ends, head) for is_wrong in (True, False))
    decided = wrong_at_head + right_at_head
    at_head = np.where(decided > 0, at_head, 0)  # a band whose head was only skipped is all estimated
    drawn = _drawn_that_count(len(ends), sample, checked, head)
    return _Counts(
        rows=band_rows.astype(float),
        rest=(band_rows - at_head).astype(float),
        drawn=drawn[:, 0],
        drawn_wrong=drawn[:, 1],
        head_wrong=at_head * wrong_at_head / np.maximum(decided, 1),
        wrong=_by_band(known, True, ends),
        right=_by_band(known, False, ends),
    )


def _by_band(known: Mapping[int, bool], wrong: bool, ends: NDArray[np.int_], before: int | None = None) -> Floats:
    """How many rows of each band are known to be wrong, or right, before a place."""
    places = [place for place, is_wrong in known.items() if is_wrong == wrong and (before is None or place < before)]
    return np.bincount(np.searchsorted(ends, places, side="right").astype(int), minlength=len(ends)).astype(float)


def _drawn_that_count(n_bands: int, sample: Sequence[Drawn], checked: Checked, head: int) -> Floats:
    """By band, how many rows behind the head were checked in the order of the draw, and how many of them are wrong."""
    counts, open_bands = np.zeros((n_bands, 2)), set(range(n_bands))
    for place, band in sample:
        if place < head or band not in open_bands:
            continue
        if place not in checked:
            open_bands.remove(band)  # later ones may have been chosen for what they look like
        elif checked[place] is not None:
            counts[band] += 1, bool(checked[place])
    return counts


def _estimate_rest(counts: _Counts) -> tuple[Floats, Floats, Floats]:
    """Of each band's rows behind the head: the fraction wrong, and how far below and above it may be."""
    n, k, at = counts.drawn, counts.drawn_wrong, np.maximum(counts.drawn, 1)
    weight = np.where(n > 0, counts.rest, 0)
    pooled = (weight * k / at).sum() / weight.sum() if weight.any() else 0.5
    rate = np.where(n > 0, k / at, pooled)
    # The lower end is exact, as it must be able to reach 0 where wrong labels are rare; the upper one is Jeffreys'.
    low = np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, TAIL), 0)
    high = np.where(k < n, betaincinv(k + 0.5, at - k + 0.5, 1 - TAIL), 1)
    part = np.sqrt((counts.rest - n).clip(0) / np.maximum(counts.rest - 1, 1))  # the fewer are left, the surer it is
    part = np.where(n > 0, part, 1)
    return rate, (rate - low) * part, (high - rate) * part


def _combine(spread: Floats, drawn: NDArray[np.bool_]) -> float:
    """How far the sum may be off: bands with drawn rows by their variances, of the others each as far as it can."""
    return float(np.sqrt(np.square(spread[drawn]).sum()) + spread[~drawn].sum())


def _estimate(expected: float, below: float, above: float, wrong: float, right: float, rows: float) -> Estimate:
    """The fraction and its interval, within what is already known."""
    if rows == 0:
        return Estimate(0.0, 0.0, 0.0)
    expected = min(max(expected, wrong), rows - right)
    low, high = max(expected - below, wrong), min(expected + above, rows - right)
    return Estimate(*(float(each / rows) for each in (expected, low, high)))


def describe_review(found: Reviewed) -> str:
    """Return in a sentence what the decisions tell."""
    rate, low, high = found.noise_rate
    interval = f"90 % interval {low:.1%} to {high:.1%}"
    counts = f"{found.found:,} found, {found.still_expected:,.0f} more expected"
    return f"by review, {rate:.1%} of the labels are wrong ({interval}): {counts}"
