"""Exact selection in a large vector: the k-th largest value and its neighbor, in about two passes over memory."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from rockafellian._internal.arrays import Real, Vector, blocks


def kth_largest(values: Vector, k: int) -> tuple[Real, Real]:
    """The k-th largest value, and the largest one strictly below it or -inf.

    Of many rows only those in a narrow band are ordered: a sample says where the k-th largest must lie, give or take
    six standard deviations. Should the band have missed it, all rows are ordered, so the answer is exact either way.
    """
    n = len(values)
    if n >= 1 << 18:
        sample = np.sort(values[:: n >> 14])
        rank, reach = (1 - k / n) * len(sample), 3 * math.sqrt(len(sample))
        low = sample[max(int(rank - reach), 0)]
        high = sample[min(int(rank + reach), len(sample) - 1)]
        above, parts = 0, []
        for rows in blocks(n):
            block = values[rows]
            higher = block > high
            above += int(np.count_nonzero(higher))
            parts.append(block[(block >= low) & ~higher])
        band = np.concatenate(parts)
        if above < k <= above + len(band):
            edge, below = _order(band, k - above)
            if below > -np.inf:
                return edge, below
    return _order(values, k)


def min_count(fraction: float, n: int | Fraction) -> int:
    """Least k with k / n >= fraction, where k / n is the float nearest to it: 7 of 100 rows are 0.07.

    `fraction * n` is rounded: 0.07 * 100 is above 7, and the float after 7 / 100 times 100 may be 7.
    """
    k = math.ceil(Fraction(fraction) * n)
    return k - 1 if k > 0 and float(Fraction(k - 1) / n) >= fraction else k


def max_count(fraction: float, n: int) -> int:
    """Largest k <= n with k / n <= fraction, where k / n is the float nearest to it."""
    numerator, denominator = min(fraction, 1.0).as_integer_ratio()
    k = numerator * n // denominator
    return k + 1 if k < n and (k + 1) / n <= fraction else k


def _order(values: Vector, k: int) -> tuple[Real, Real]:
    split = len(values) - k
    ordered = np.partition(values, split)
    smaller = ordered[:split]
    return ordered[split], smaller[smaller < ordered[split]].max(initial=-np.inf)
