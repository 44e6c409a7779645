"""Random instances of the linear program: ties, constant vectors, one row, negative losses, gamma on the edge."""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

import rockafellian as rk


class Instance(NamedTuple):
    losses: NDArray[np.float64]
    gamma: float
    prior: NDArray[np.float64] | None


@st.composite
def instances(draw: st.DrawFn, *, with_prior: bool = False) -> Instance:
    """Losses on a grid, so that two of them are equal or far enough apart for a solver to tell.

    Thousandths are not floats: there, c_min + gamma misses the loss it was made from by a unit in the last place.
    """
    per_unit = draw(st.sampled_from([1, 8, 1000]))
    pool = draw(st.lists(st.integers(-5 * per_unit, 5 * per_unit), min_size=1, max_size=8))
    losses = np.array(draw(st.lists(st.sampled_from(pool), min_size=1, max_size=25))) / per_unit
    gammas = st.integers(1, 8 * per_unit).map(lambda i: i / per_unit)
    if distances := sorted({float(c - losses.min()) for c in losses} - {0.0}):
        gammas |= st.sampled_from(distances)
    n = len(losses)
    prior = np.array(draw(st.lists(st.integers(1, 9), min_size=n, max_size=n)), float) if with_prior else None
    return Instance(losses, draw(gammas), prior)


def known_rate(rate: float, low: float, high: float) -> rk.NoiseRate:
    """A noise rate whose floor and ceiling are the same."""
    return rk.NoiseRate(rk.Estimate(rate, low, high), rk.Estimate(rate, low, high))


def numbers(estimate: rk.NoiseRate | None) -> list[float]:
    """All numbers of a noise rate; nothing, if there is none."""
    return [] if estimate is None else [*estimate.floor, *estimate.ceiling, estimate.skill]
