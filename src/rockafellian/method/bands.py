"""The rows in bands, the worst labels first, and what fraction of each band is expected to be wrong.

A margin is a difference of logits, so the chance that a label is wrong is taken as the sigmoid of a shift minus its
margin, and the shift as the one with which the chances add up to the noise rate. Floor and ceiling of the noise rate
give the two ends of what to expect. Bands are narrow where the chance is near one half and wide elsewhere, so that
equally many checked rows of each tell most about the noise rate.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rockafellian.method.noise_rate import NoiseRate
from rockafellian.method.out_of_sample import Floats

N_BANDS = 5
#: Added to the variance of each row: a model may be wrong where it is sure.
MIN_VARIANCE = 0.03
#: Bands are made for a noise rate in these bounds, whatever the estimate.
MIN_RATE, MAX_RATE = 0.02, 0.5
#: The noise rate that bands are made for where none was estimated.
UNKNOWN_RATE = 0.1
#: Sigmoids of larger numbers are 0 or 1; and how often the interval of the shift is halved.
LARGEST_LOGIT, HALVINGS = 50.0, 60


class Band(NamedTuple):
    """A number of rows that follow each other in the ranking, and between which fractions of them should be wrong."""

    rows: int
    low: float
    high: float


def split_into_bands(margins: Floats, noise_rate: NoiseRate | None, n_bands: int = N_BANDS) -> list[Band]:
    """The bands of a ranking, the worst first; without an estimate, anything may be expected of them.

    Args:
        margins: by row, in ascending order, infinite ones included: below 0 where another label is predicted.
        noise_rate: as `estimate_noise_rate` returns it.
        n_bands: so many at most; few rows make fewer.
    """
    clipped = np.clip(margins, -LARGEST_LOGIT, LARGEST_LOGIT).astype(np.float64)
    if np.isnan(clipped).any() or (np.diff(clipped) < 0).any():
        raise ValueError("need margins in ascending order, without NaN; sort them first")
    ends = _ends(clipped, noise_rate, n_bands)
    if noise_rate is None:
        return [Band(int(rows), 0.0, 1.0) for rows in np.diff(ends)]
    low, high = (_chance_wrong(clipped, rate) for rate in (noise_rate.floor.low, noise_rate.ceiling.high))
    return [
        Band(int(last - first), float(low[first:last].mean()), float(high[first:last].mean()))
        for first, last in pairwise(ends)
    ]


def _ends(margins: Floats, noise_rate: NoiseRate | None, n_bands: int) -> NDArray[np.intp]:
    """Where bands begin and end: each has the same sum of standard deviations."""
    rate = UNKNOWN_RATE if noise_rate is None else (noise_rate.floor.rate + noise_rate.ceiling.rate) / 2
    chance = _chance_wrong(margins, min(max(rate, MIN_RATE), MAX_RATE))
    deviation = np.cumsum(np.sqrt(chance * (1 - chance) + MIN_VARIANCE))
    inner = np.searchsorted(deviation, deviation.max(initial=0) * np.arange(1, n_bands) / n_bands)
    return np.unique(np.concatenate([[0], inner, [len(margins)]]))


def _chance_wrong(margins: Floats, rate: float) -> Floats:
    """The chance of each row that its label is wrong, with this mean."""
    if rate <= 0 or len(margins) == 0:
        return np.zeros(len(margins))
    low, high = -2 * LARGEST_LOGIT, 2 * LARGEST_LOGIT
    for _ in range(HALVINGS):
        shift = (low + high) / 2
        low, high = (shift, high) if _sigmoid(shift - margins).mean() < rate else (low, shift)
    return _sigmoid((low + high) / 2 - margins)


def _sigmoid(logits: Floats) -> Floats:
    found: Floats = 1 / (1 + np.exp(-logits))
    return found
