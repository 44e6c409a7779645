"""The noise rate, estimated from out-of-sample predictions: a floor and a ceiling.

A label drawn from an ambiguous row and a label that a person got wrong look the same to any model. So no single number
can be right for all data. The floor counts errors that nothing else explains, the ceiling all that would be errors if
every row had one right answer. Which of them applies is known to whoever knows the data.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rockafellian._internal.arrays import Array, read_array
from rockafellian._internal.html import html_table
from rockafellian.method.noise_ceiling import estimate_ceiling
from rockafellian.method.noise_floor import MIN_SKILL, Z_SCORE, estimate_floor, estimate_skill
from rockafellian.method.out_of_sample import Estimate, Floats, OutOfSample

#: How far the probabilities of a row may be from a sum of 1, as when they are written with two digits.
MAX_DEVIATION = 0.05
#: If the interval of the floor reaches from 0 to above this, nothing is claimed.
UNSURE = 0.1
#: The least noise rate that is acted on, for crisp labels, although its interval reaches down to 0.
MIN_UNSURE_RATE = 0.05


class NoiseRate(NamedTuple):
    """The noise rate: errors that nothing but a wrong label explains, and errors if every row has one right answer.

    `skill` is what the model gains on always predicting the most frequent label, of what is to be gained, errors of the
    floor aside: 1 is a model that knows everything, 0 one that knows nothing.
    """

    floor: Estimate
    ceiling: Estimate
    skill: float = 1.0

    def _repr_html_(self) -> str:
        """The verdict and both ends, for notebooks."""
        rows = (
            (name, _percent(end.rate), f"{_percent(end.low)} to {_percent(end.high)}")
            for name, end in (("floor", self.floor), ("ceiling", self.ceiling))
        )
        return html_table(self.verdict, ("", "noise rate", "90 % interval"), rows)

    @property
    def is_unsure(self) -> bool:
        """Whether there are too few rows, or the model is too weak, to claim anything."""
        return self.floor.low == 0 and self.floor.high > UNSURE

    @property
    def verdict(self) -> str:
        """What is known, in words."""
        floor, ceiling = self.floor, self.ceiling
        if ceiling.high < 0.01 or (floor.rate < 0.001 and ceiling.rate < 0.001):
            most = _percent(max(floor.high, ceiling.high))
            return f"no errors to be seen; up to {most} of the labels may be wrong, more where the model is unsure"
        if self.is_unsure:
            return (
                f"too few rows or too weak a model to tell: {_percent(0)} to {_percent(floor.high)} of the labels are "
                f"wrong, up to {_percent(ceiling.high)} if every row has one right answer"
            )
        if ceiling.rate <= floor.high:
            within = f"{_percent(floor.low)} to {_percent(ceiling.high)}"
            return f"about {_percent(floor.rate)} of the labels are wrong ({within})"
        return (
            f"errors of at least {_percent(floor.rate)} ({_percent(floor.low)} to {_percent(floor.high)}); "
            f"up to {_percent(ceiling.rate)} if every row has one right answer"
        )

    def fraction_to_remove(self, disagree: float, *, crisp: bool) -> float:
        """The fraction of rows to remove in training, if the network disagrees with this fraction of the labels.

        Args:
            disagree: the fraction of rows for which another label is predicted.
            crisp: whether every row has one right answer. If so, all disagreements within the interval of the ceiling
                are removed, and otherwise only what the floor is sure of. If neither end is sure of any error, as
                with few rows, that is the rate itself, unless it is small.
        """
        if not crisp:
            return self.floor.low
        if self.ceiling.low == 0 and self.ceiling.rate <= self.floor.rate:  # neither end is sure of any error
            return self.ceiling.rate if self.ceiling.rate >= MIN_UNSURE_RATE else 0.0
        return min(max(disagree, self.ceiling.low), self.ceiling.high)


def estimate_noise_rate(probabilities: Array, labels: Array, *, weights: Array | None = None) -> NoiseRate:
    """The noise rate, from out-of-sample probabilities, as a floor and a ceiling with 90 % intervals.

    The model should have learned what generalizes and not yet memorized wrong labels, as at the best epoch of a
    validation; `SampleWeights` sees to that.

    Args:
        probabilities: (rows, classes), of rows that the model was not trained on.
        labels: the given labels, from 0.
        weights: a row of weight 2 counts like two equal rows, and equal confidences then share a rank. Weights whose
            mean is below 1 are no counts of rows, and are scaled to mean 1.
    """
    p, given = _read(probabilities, labels)
    return estimate_from(OutOfSample.of(p, given), p.shape[1], None if weights is None else _read_mass(weights, len(p)))


def estimate_from(predictions: OutOfSample, n_classes: int, mass: Floats | None = None) -> NoiseRate:
    """`estimate_noise_rate` from predictions that were read before."""
    each = np.ones(len(predictions.predicted)) if mass is None else mass
    floor = estimate_floor(predictions, n_classes, each)
    found = estimate_ceiling(predictions, n_classes, mass)
    # At least the error of sampling: where all rows agree, the likelihood alone would be sure.
    n = float(each.sum())
    spread = Z_SCORE * math.sqrt((found.rate + 0.5 / n) * (1 - found.rate) / n)
    low, high = min(found.low, max(found.rate - spread, 0)), max(found.high, min(found.rate + spread, 1))
    ceiling = Estimate(*(max(pair) for pair in zip((found.rate, low, high), floor, strict=True)))
    skill = estimate_skill(predictions, each)
    if skill > MIN_SKILL:  # otherwise the model may know nothing, however many labels are wrong
        skill = estimate_skill(predictions, each, floor.rate)
    return NoiseRate(floor, ceiling, skill)


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %" if fraction < 0.1 else f"{100 * fraction:.0f} %"


def _read(probabilities: Array, labels: Array) -> tuple[Floats, NDArray[np.intp]]:
    p, given = read_array(probabilities), read_array(labels)
    if p.ndim != 2 or p.shape[1] < 2 or given.shape != p.shape[:1] or len(p) == 0:
        raise ValueError(
            f"need probabilities (rows, classes) of two classes or more and one label a row, "
            f"got {p.shape} and {given.shape}"
        )
    if given.dtype.kind not in "iub":
        raise ValueError(f"need integers as labels from 0 to {p.shape[1] - 1}, got numbers of {given.dtype}")
    if given.min() < 0 or given.max() >= p.shape[1]:
        raise ValueError(f"need labels from 0 to {p.shape[1] - 1}, got {given.min()} to {given.max()} of {given.dtype}")
    if not (np.isfinite(p).all() and p.min() >= 0):
        raise ValueError("need probabilities >= 0, got negative or non-finite ones; apply softmax to logits first")
    sums = p.sum(1, dtype=np.float64)
    if not (abs(sums - 1) <= MAX_DEVIATION).all():
        raise ValueError(
            f"need probabilities that sum to 1 in each row, got sums from {sums.min():g} to {sums.max():g}; "
            "apply softmax to logits first, or divide each row by its sum"
        )
    return p.astype(np.float64), given.astype(np.intp)


def _read_mass(weights: Array, n: int) -> Floats:
    mass = read_array(weights).astype(np.float64)
    if mass.shape != (n,) or not (np.isfinite(mass).all() and mass.min() > 0):
        raise ValueError(f"need {n} positive finite weights, one per row, got shape {mass.shape}; leave rows of 0 out")
    with np.errstate(over="ignore"):
        mass = mass if np.isfinite(mass.sum()) else mass / mass.max()
    scaled: Floats = mass * max(1.0, n / mass.sum())
    return scaled
