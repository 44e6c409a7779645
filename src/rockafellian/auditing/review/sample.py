"""Rows drawn from all bands of the ranking, for a person to check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

#: At most so many rows are drawn; thirty are enough to begin with.
SAMPLE_SIZE = 100


class Drawn(NamedTuple):
    """A row to check, by its place in the ranking, and the band that it was drawn from."""

    place: int
    band: int


def draw_sample(band_rows: Sequence[int], seed: int, size: int = SAMPLE_SIZE) -> list[Drawn]:
    """Return rows to check in this order, equally many of each band, so that one may stop after any of them.

    Args:
        band_rows: how many rows each band has, the worst first.
        seed: equal seeds draw equal rows.
        size: so many rows, or all if there are fewer.
    """
    random = np.random.default_rng(seed)
    first = np.concatenate([[0], np.cumsum(band_rows)]).astype(int)
    waiting = [(first[band] + random.permutation(rows)[:size]).tolist() for band, rows in enumerate(band_rows)]
    drawn: list[Drawn] = []
    while len(drawn) < size and any(waiting):
        bands = [int(band) for band in random.permutation(len(waiting)) if waiting[band]]
        drawn += [Drawn(waiting[band].pop(), band) for band in bands]
    return drawn[:size]
