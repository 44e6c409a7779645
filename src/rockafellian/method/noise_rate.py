"""How many labels are wrong? An estimate from what a network says of rows that it was not trained on.

Where network and label disagree, either the label is wrong or the network is. Two things tell these apart:

- doubt. Rows are ranked by confidence among those of which the network says the same, from q = 0, where it is surest,
  to 1. Honest mistakes all but vanish towards q = 0, like E + A q^B with a small E; wrong labels do not.
- second choices. In an honest mistake the label is mostly the network's second choice; a label that is wrong by chance
  is any class. People lie between: they confuse what is alike, and more often where there is doubt.

The likelihood of what was seen under this model, largest over E, A, B and the kind of error, has its maximum over the
share of wrong labels at the estimate, and its width tells the interval. The constants below were chosen by
trials on the data sets of docs/rivals.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.arrays import Array

Floats = NDArray[np.floating[Any]]

#: Kinds of error: how often the wrong label is the second choice, and how much the chance of an error grows with doubt
#: (by so much of itself, from the mean over all rows to the most doubtful). Chance, people, and mix-ups of two classes.
KINDS = ((0.0, 0.0), (0.2, 0.0), (0.35, 0.4), (0.5, 0.6), (0.65, 0.6), (0.8, 0.4), (0.95, 0.0))
BY_CHANCE = 0.2
#: How often the label is the second choice where the network is mistaken.
SECOND = 0.68
#: What people's errors must gain in log-likelihood over errors by chance: they look much like honest mistakes.
PEOPLE = 2.0
#: What a share must gain over "nothing is wrong" to be believed, and what bounds a 90 % interval.
BELIEVED, INTERVAL = 1.0, 1.35
BINS = 10
RATES = np.arange(0, 0.951, 0.01)
PRECISION = np.float32  # logarithms are most of the work, and this is enough
#: E, A and B of honest mistakes. A network that cannot tell two classes apart is mistaken in half of the rows.
FLOORS, POWERS = np.array([0.0, 0.015, 0.03]), np.array([1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
GREATEST_OF_TWO, GREATEST = np.linspace(0, 0.5, 11), np.linspace(0, 0.8, 11)


class Estimate(NamedTuple):
    """The share of wrong labels, and an interval that should hold the true one nine times in ten.

    The interval knows the chance of the draw and what the model leaves open, not where the model itself is wrong.
    """

    rate: float
    low: float
    high: float


class Answers(NamedTuple):
    """What a network answered for rows: its choice, how sure it was, and whether the label differs or comes second."""

    said: Floats
    sure: Floats
    disagree: Floats
    second: Floats

    @classmethod
    def of(cls, p: Floats, given: NDArray[np.integer[Any]]) -> Answers:
        """By probabilities (rows, classes) and labels; of no rows there may be no classes."""
        if len(p) == 0:
            return cls(*np.empty((4, 0)))
        rows, said = np.arange(len(p)), p.argmax(1)
        sure = p[rows, said]
        others = p.copy()
        others[rows, said] = -1
        disagree = said != given
        return cls(said, sure, disagree, disagree & (others.argmax(1) == given))


class _Seen(NamedTuple):
    """By bin of doubt: rows, disagreements, and disagreements where the label is the second choice."""

    rows: Floats
    disagree: Floats
    second: Floats


def estimate_contamination(probabilities: Array, labels: Array, *, weights: Array | None = None) -> Estimate:
    """The share of wrong labels, from probabilities (rows, classes) of rows that the network did not learn from.

    0 if what disagrees is no more than honest mistakes could be: "nothing to remove". The network should have learned
    what generalises and not yet the wrong labels, as at the best epoch of a validation; `SampleWeights` sees to that.
    A network that is often mistaken even where it is sure cannot be told from wrong labels, and gives too high a share.

    A row of weight 2 counts like two that are equal, and equal confidences then share a rank; the share is one of mass.
    Weights whose mean is below 1 are no counts of rows, and are brought to 1.
    """
    p, given = _read(probabilities, labels)
    return estimate_from(Answers.of(p, given), p.shape[1], None if weights is None else _read_mass(weights, len(p)))


def estimate_from(answers: Answers, n_classes: int, mass: Floats | None = None) -> Estimate:
    """`estimate_contamination` by what is left of the probabilities when they have been read."""
    profile = _profile(_count(answers, mass), n_classes)
    best = int(profile.argmax())
    inside = np.flatnonzero(profile >= profile[best] - INTERVAL)
    low, high = float(RATES[inside[0]]), float(RATES[inside[-1]])
    if profile[best] - profile[0] < BELIEVED:
        return Estimate(0.0, 0.0, high)
    rate = _peak(profile, best)
    return Estimate(rate, min(low, rate), max(high, rate))


def _count(answers: Answers, mass: Floats | None) -> _Seen:
    _, sure, disagree, second = answers
    said = answers.said.astype(np.intp)
    doubt = _doubt(sure, said) if mass is None else _doubt_by_mass(sure, said, mass)
    bins = np.minimum((doubt * BINS).astype(int), BINS - 1)  # a row of hardly any mass can round to 1
    each = np.ones(len(said)) if mass is None else mass
    return _Seen(*(np.bincount(bins, part, BINS).astype(float) for part in (each, each * disagree, each * second)))


def _doubt(confidence: Floats, said: NDArray[np.intp]) -> Floats:
    """The rank of each row among those of which the same is said, the surest first, in (0, 1)."""
    order = np.lexsort((-confidence, said))
    sizes = np.bincount(said)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    doubt = np.empty(len(said))
    doubt[order] = (np.arange(len(said)) - starts[said[order]] + 0.5) / sizes[said[order]]
    return doubt


def _doubt_by_mass(confidence: Floats, said: NDArray[np.intp], mass: Floats) -> Floats:
    """The same rank as a share of mass, in the middle of all rows that are as sure."""
    sure = confidence.astype(PRECISION)  # or the last digit would tell equal rows apart
    order = np.lexsort((-sure, said))
    ordered_said, ordered_sure = said[order], sure[order]
    begins = np.append(True, (np.diff(ordered_said) != 0) | (np.diff(ordered_sure) != 0))
    tie = np.cumsum(begins) - 1
    of_tie, of_said = np.bincount(tie, mass[order]), np.bincount(said, mass)
    before = (np.cumsum(of_said) - of_said)[ordered_said[begins]]
    middle = (np.cumsum(of_tie) - of_tie / 2 - before) / of_said[ordered_said[begins]]
    doubt = np.empty(len(said))
    doubt[order] = middle[tie]
    return doubt


def _profile(seen: _Seen, n_classes: int) -> Floats:
    """For each of RATES the largest log-likelihood over honest mistakes and kinds of error."""
    q = ((np.arange(BINS) + 0.5) / BINS).astype(PRECISION)
    two = n_classes == 2
    greatest = GREATEST_OF_TWO if two else GREATEST
    mistaken = (
        (FLOORS[:, None, None, None] + greatest[:, None] * q ** POWERS[:, None, None])
        .reshape(-1, BINS)
        .astype(PRECISION)
    )
    profile = np.full(len(RATES), -np.inf)
    for second_of_wrong, growth in ((1.0, 0.0),) if two else KINDS:  # of two classes, the other is the second choice
        wrong = np.minimum(RATES[:, None] * (1 + growth * (2 * q - 1)), 0.97).astype(PRECISION)[:, None, :]
        honest = (1 - wrong) * mistaken
        second = max(second_of_wrong, 1 / (n_classes - 1)) * wrong + (1.0 if two else SECOND) * honest
        found = _log_likelihood(seen, wrong + honest, second).max(1)
        if not two and second_of_wrong > BY_CHANCE:
            found[1:] -= PEOPLE
        profile = np.maximum(profile, found)
    if two:
        profile[RATES >= 0.5] = -np.inf  # with more than that the classes have only changed their names
    return profile


def _log_likelihood(seen: _Seen, disagree: Floats, second: Floats) -> Floats:
    """Of each bin's rows so many agree, have the second choice as label, or a later one; summed over the bins."""
    terms = (
        (seen.rows - seen.disagree, 1 - disagree),
        (seen.second, second),
        (seen.disagree - seen.second, disagree - second),
    )
    logs = (np.log(np.maximum(chance, PRECISION(1e-4))) @ count.astype(PRECISION) for count, chance in terms)
    total: Floats = sum(logs)  # type: ignore[assignment]
    return total


def _peak(profile: Floats, best: int) -> float:
    """Where the parabola through the best rate and its neighbours peaks: finer than the steps of RATES."""
    if 0 < best < len(profile) - 1:
        before, at, after = profile[best - 1 : best + 2]
        bend = before - 2 * at + after
        if -np.inf < bend < 0:
            return float(RATES[best] + (RATES[1] - RATES[0]) * 0.5 * (before - after) / bend)
    return float(RATES[best])


def _read(probabilities: Array, labels: Array) -> tuple[Floats, NDArray[np.intp]]:
    p, given = (
        np.asarray(part.detach().cpu() if isinstance(part, Tensor) else part) for part in (probabilities, labels)
    )
    if p.ndim != 2 or p.shape[1] < 2 or given.shape != p.shape[:1] or len(p) == 0:
        raise ValueError(
            f"need probabilities (rows, classes) of two classes or more and one label a row, "
            f"got {p.shape} and {given.shape}"
        )
    if given.dtype.kind not in "iub" or given.min() < 0 or given.max() >= p.shape[1]:
        raise ValueError(f"need labels from 0 to {p.shape[1] - 1}, got {given.min()} to {given.max()} of {given.dtype}")
    if not (np.isfinite(p).all() and p.min() >= 0):
        raise ValueError("need probabilities >= 0, got negative or non-finite ones; apply softmax to logits first")
    return p.astype(np.float64), given.astype(np.intp)


def _read_mass(weights: Array, n: int) -> Floats:
    mass = np.asarray(weights.detach().cpu() if isinstance(weights, Tensor) else weights).astype(np.float64)
    if mass.shape != (n,) or not (np.isfinite(mass).all() and mass.min() > 0):
        raise ValueError(f"need {n} positive finite weights, one per row, got shape {mass.shape}; leave rows of 0 out")
    scaled: Floats = mass * max(1.0, n / mass.sum())
    return scaled
