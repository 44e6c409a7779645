"""The ceiling of the noise rate: what it is if every row has one right answer, so that confusions count as errors.

Where the predicted label is not the given one, either the label is wrong or the model is. Two things tell these apart:

- confidence. Rows are ranked among those with the same predicted label, from q = 0, the most confident, to 1. Model
  errors all but vanish towards q = 0, like E + A q^B with a small E; wrong labels do not.
- second choices. Where the model is wrong, the label is mostly its second choice; a label that is wrong at random is
  any class. People lie between: they confuse similar classes, and more often where the model is unsure.

The likelihood of the data under this model, maximized over E, A, B and the kind of error, has its maximum over the
noise rate at the estimate, and its width gives the interval. The constants below were chosen by trials on the data sets
of docs/rivals.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rockafellian.method.out_of_sample import PRECISION, Estimate, Floats, OutOfSample

#: Kinds of error: how often the wrong label is the second choice, and how much the probability of an error grows with q
#: (by so much of itself, from the mean over all rows to the least confident): random, by people, two classes confused.
KINDS = ((0.0, 0.0), (0.2, 0.0), (0.35, 0.4), (0.5, 0.6), (0.65, 0.6), (0.8, 0.4), (0.95, 0.0))
MAX_RANDOM = 0.2
#: How often the label is the second choice where the model is wrong.
SECOND = 0.68
#: What people's errors must gain in log-likelihood over random ones: they look much like model errors.
PEOPLE_PENALTY = 2.0
#: What a noise rate must gain in log-likelihood over 0, and what bounds a 90 % interval.
MIN_GAIN, INTERVAL_WIDTH = 1.0, 1.35
BINS = 10
RATES = np.arange(0, 0.951, 0.01)
#: E, A and B of model errors. A model that cannot tell two classes apart is wrong in half of the rows.
FLOORS, POWERS = np.array([0.0, 0.015, 0.03]), np.array([1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
MAX_ERROR_TWO_CLASSES, MAX_ERROR = np.linspace(0, 0.5, 11), np.linspace(0, 0.8, 11)


class _Seen(NamedTuple):
    """By bin of q: rows, disagreements, and disagreements where the label is the second choice."""

    rows: Floats
    disagree: Floats
    second: Floats


def estimate_ceiling(predictions: OutOfSample, n_classes: int, mass: Floats | None = None) -> Estimate:
    """The noise rate if every row has one right answer; 0 if model errors could explain all disagreements."""
    profile = _profile(_count(predictions, mass), n_classes)
    best = int(profile.argmax())
    inside = np.flatnonzero(profile >= profile[best] - INTERVAL_WIDTH)
    low, high = float(RATES[inside[0]]), float(RATES[inside[-1]])
    if profile[best] - profile[0] < MIN_GAIN:
        return Estimate(0.0, 0.0, high)
    rate = _peak(profile, best)
    return Estimate(rate, min(low, rate), max(high, rate))


def _count(predictions: OutOfSample, mass: Floats | None) -> _Seen:
    probability, disagree, second = predictions.probability, predictions.disagree, predictions.second
    predicted = predictions.predicted.astype(np.intp)
    rank = _rank(probability, predicted) if mass is None else _rank_by_mass(probability, predicted, mass)
    bins = np.minimum((rank * BINS).astype(int), BINS - 1)  # a row of hardly any mass can round to 1
    each = np.ones(len(predicted)) if mass is None else mass
    return _Seen(*(np.bincount(bins, part, BINS).astype(float) for part in (each, each * disagree, each * second)))


def _rank(confidence: Floats, predicted: NDArray[np.intp]) -> Floats:
    """The rank q of each row among those with the same predicted label, the most confident first, in (0, 1)."""
    order = np.lexsort((-confidence, predicted))
    sizes = np.bincount(predicted)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    rank = np.empty(len(predicted))
    rank[order] = (np.arange(len(predicted)) - starts[predicted[order]] + 0.5) / sizes[predicted[order]]
    return rank


def _rank_by_mass(confidence: Floats, predicted: NDArray[np.intp], mass: Floats) -> Floats:
    """The same rank as a fraction of mass, in the middle of all rows that are as confident."""
    probability = confidence.astype(PRECISION)  # or the last digit would tell equal rows apart
    order = np.lexsort((-probability, predicted))
    ordered_predicted, ordered_probability = predicted[order], probability[order]
    begins = np.append(True, (np.diff(ordered_predicted) != 0) | (np.diff(ordered_probability) != 0))
    tie = np.cumsum(begins) - 1
    of_tie, of_predicted = np.bincount(tie, mass[order]), np.bincount(predicted, mass)
    before = (np.cumsum(of_predicted) - of_predicted)[ordered_predicted[begins]]
    middle = (np.cumsum(of_tie) - of_tie / 2 - before) / of_predicted[ordered_predicted[begins]]
    rank = np.empty(len(predicted))
    rank[order] = middle[tie]
    return rank


def _profile(seen: _Seen, n_classes: int) -> Floats:
    """For each of RATES the largest log-likelihood over model errors and kinds of error."""
    q = ((np.arange(BINS) + 0.5) / BINS).astype(PRECISION)
    two = n_classes == 2
    largest = MAX_ERROR_TWO_CLASSES if two else MAX_ERROR
    model_error = (
        (FLOORS[:, None, None, None] + largest[:, None] * q ** POWERS[:, None, None])
        .reshape(-1, BINS)
        .astype(PRECISION)
    )
    profile = np.full(len(RATES), -np.inf)
    for second_of_wrong, growth in ((1.0, 0.0),) if two else KINDS:  # of two classes, the other is the second choice
        wrong = np.minimum(RATES[:, None] * (1 + growth * (2 * q - 1)), 0.97).astype(PRECISION)[:, None, :]
        model_errors = (1 - wrong) * model_error
        second = max(second_of_wrong, 1 / (n_classes - 1)) * wrong + (1.0 if two else SECOND) * model_errors
        found = _log_likelihood(seen, wrong + model_errors, second).max(1)
        if not two and second_of_wrong > MAX_RANDOM:
            found[1:] -= PEOPLE_PENALTY
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
    """Where the parabola through the best rate and its neighbors peaks: finer than the steps of RATES."""
    if 0 < best < len(profile) - 1:
        before, at, after = profile[best - 1 : best + 2]
        bend = before - 2 * at + after
        if -np.inf < bend < 0:
            return float(RATES[best] + (RATES[1] - RATES[0]) * 0.5 * (before - after) / bend)
    return float(RATES[best])
