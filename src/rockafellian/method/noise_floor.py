"""The floor of the noise rate: errors that neither ambiguity nor a weak model explains.

An ambiguous row gets its second or third choice as label, more rarely a later one, and seldom where the model is
confident. A label that is wrong at random is any class, wherever. So the rate of random errors shows where nothing else
does: among the last ranks, and among confident rows. Two estimates use this, and the floor is their mean, or the first
if that is smaller; its interval holds those of both:

- tails. For the most confident fraction of the rows and for the last ranks, the rows whose label stands there, divided
  by how many would if all labels were random. Ambiguity only adds to it. Of many such ratios the one from most rows
  counts that no other contradicts by being clearly smaller.
- a likelihood. Random errors at a rate, plus errors that fade with confidence, like those of a model of overlapping
  normal classes, and geometrically by rank.

Labels that people confuse are mostly second choices: the floor leaves them out, and the ceiling counts them.

All this needs a model that knows something of most rows. One that hardly predicts anything but the most frequent label
ranks rare classes last everywhere, right or wrong: then the lower end of the floor is 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rockafellian.method.out_of_sample import PRECISION, Estimate, Floats, OutOfSample, confidence_rank

#: The most confident fractions of the rows, and numbers of last ranks, whose ratios are compared.
FRACTIONS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
LAST_RANKS = (1, 2, 3, 4, 6, 9, 14, 20, 30, 50, 70, 99)
#: A ratio needs so many rows that would stand there if all labels were random, and this many standard deviations below
#: another to contradict it.
MIN_ROWS, CONTRADICTS = 20.0, 2.0
#: Bins of the rank by confidence, and the first ranks of groups of ranks, the last of which ends with the last class.
EDGES = np.array([0, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
GROUPS = (1, 2, 3, 5, 8, 12, 20, 35, 60)
#: The grid of the likelihood: rates; other errors in the least confident rows, relative to random labels, and
#: how fast they fade with confidence; how rare the last rank is compared with the second one, and how much faster ranks
#: fade where the model is confident.
RATES = np.concatenate([np.arange(0, 0.02, 0.0025), np.arange(0.02, 0.951, 0.01)])
SIZES, SLOPES = np.linspace(0, 1, 15) ** 1.3, (0.4, 0.6, 0.8, 1.0, 1.25, 1.6, 2.0, 2.5, 3.5, 5.0)
#: Errors that fade slowly mean that classes overlap, and then labels of the least confident rows are almost random.
SLOW, MIN_SIZE_IF_SLOW = 1.0, 0.8
LAST_TO_SECOND, FADING = (0.0, 0.01, 0.05, 0.15, 0.3), (0.0, 0.5, 1.0)
#: The least skill of a model that is trusted: the fraction of the rows without the most frequent label that it gains on
#: always predicting that label.
MIN_SKILL = 0.1
#: The interval: in log-likelihood, and in standard deviations. The first is wide, as ambiguity has no known shape.
LIKELIHOOD_WIDTH, Z_SCORE = 3.0, 1.645


class _Tail(NamedTuple):
    """The rows of a tail by mass, how many would be there if all labels were random, and what part of the rows."""

    observed: Floats
    random: Floats
    part: Floats


def estimate_floor(predictions: OutOfSample, n_classes: int, mass: Floats) -> Estimate:
    """The rate of errors that nothing but a random label explains."""
    rank = confidence_rank(predictions, mass)
    tails = _from_tails(_count_tails(predictions, n_classes, mass, rank))
    likely = _from_likelihood(_count_groups(predictions, n_classes, mass, rank), n_classes)
    rate = min(tails.rate, (tails.rate + likely.rate) / 2)
    low = min(tails.low, likely.low, rate) if estimate_skill(predictions, mass) > MIN_SKILL else 0.0
    return Estimate(rate, low, max(tails.high, likely.high, rate))


def estimate_skill(predictions: OutOfSample, mass: Floats, noise_rate: float = 0.0) -> float:
    """What the model gains on always predicting the most frequent label, of what is to be gained, from 0 to 1.

    It is the lower end of a 90 % interval. With a noise rate, so many random errors are left out.
    """
    total = float(mass.sum())
    frequent = float(np.bincount(predictions.given.astype(np.intp), mass).max()) / total
    agree = float(mass[~predictions.disagree].sum()) / total
    spread = Z_SCORE * math.sqrt(agree * (1 - agree) / total)
    if frequent == 1 or noise_rate == 1:
        return 0.0
    return min(max(((agree - spread) / (1 - noise_rate) - frequent) / (1 - frequent), 0.0), 1.0)


def _count_tails(predictions: OutOfSample, n_classes: int, mass: Floats, rank: Floats) -> _Tail:
    counts = []
    for last in (each for each in LAST_RANKS if each < n_classes):
        inside = mass * predictions.share_from(n_classes - last)
        part = last / (n_classes - 1)
        for most in FRACTIONS:
            confident = rank <= most
            counts.append((inside[confident].sum(), part * mass[confident].sum(), part))
    return _Tail(*np.array(counts).T)


def _from_tails(tails: _Tail) -> Estimate:
    enough = tails.random >= min(MIN_ROWS, tails.random.max())
    observed, random, part = (each[enough] for each in tails)
    rate = np.minimum(observed / random, 1)
    deviation = np.sqrt(rate[:, None] * (1 - rate[:, None] * part) / random)  # of each ratio, if a rate were true
    contradicted = (rate[:, None] - rate > CONTRADICTS * deviation + 1e-12).any(1)
    best = np.where(contradicted, -np.inf, random).argmax()
    own = np.sqrt((observed[best] + 0.5) * (1 - min(rate[best] * part[best], 1))) / random[best]
    spread = Z_SCORE * max(own, 0.5 / random[best])
    return Estimate(*np.clip([rate[best], rate[best] - spread, rate[best] + spread], 0, 1).tolist())


def _boundaries(n_classes: int) -> list[int]:
    return [*(each for each in GROUPS if each < n_classes), n_classes]


def _count_groups(predictions: OutOfSample, n_classes: int, mass: Floats, rank: Floats) -> Floats:
    """The mass (bins, groups) of rows by confidence and by the rank of their label; agreeing rows are group 0."""
    n_bins = len(EDGES) - 1
    bins = np.clip(np.searchsorted(EDGES, rank, side="right") - 1, 0, n_bins - 1)
    behind = [np.bincount(bins, mass * predictions.share_from(each), n_bins) for each in (0, *_boundaries(n_classes))]
    return -np.diff(behind, axis=0).T


def _from_likelihood(counts: Floats, n_classes: int) -> Estimate:
    boundaries = np.array(_boundaries(n_classes))
    at_random = (np.diff(boundaries) / (n_classes - 1)).astype(PRECISION)
    rates = RATES.astype(PRECISION)[:, None, None, None]
    profile = np.full(len(RATES), -np.inf)
    for ambiguity in _ambiguities(n_classes):
        found = rates * at_random + (1 - rates) * ambiguity
        agree = np.maximum(1 - found.sum(3), PRECISION(1e-6))
        logs = np.log(np.maximum(found, PRECISION(1e-7)))
        likelihood = np.einsum("rsbg,bg->rs", logs, counts[:, 1:].astype(PRECISION))
        likelihood += np.log(agree) @ counts[:, 0].astype(PRECISION)
        profile = np.maximum(profile, likelihood.max(1))
    if n_classes == 2:
        profile[RATES >= 0.5] = -np.inf  # with more than that the classes have only changed their names
    best = profile.argmax()
    inside = np.flatnonzero(profile >= profile[best] - LIKELIHOOD_WIDTH)
    return Estimate(float(RATES[best]), float(RATES[inside[0]]), float(RATES[inside[-1]]))


def _ambiguities(n_classes: int) -> Iterator[Floats]:
    """Errors that are not random: their probabilities (sizes, bins, groups), for each way to fade.

    With two overlapping normal classes, the model's logit grows in proportion to the distance from the border, so that
    the probability of an error is logistic in the normal quantile of the rank by confidence.
    """
    boundaries, middle = np.array(_boundaries(n_classes)), (EDGES[1:] + EDGES[:-1]) / 2
    distance = np.array([NormalDist().inv_cdf(1 - each / 2) for each in middle])
    for by_rank, slope in product(_shares_by_rank(n_classes, boundaries, middle), SLOPES):
        sizes = SIZES[SIZES >= MIN_SIZE_IF_SLOW] if slope < SLOW else SIZES
        size = (n_classes - 1) / n_classes * sizes[:, None] * 2 / (1 + np.exp(slope * distance))
        yield (size[:, :, None] * by_rank).astype(PRECISION)


def _shares_by_rank(n_classes: int, boundaries: NDArray[np.intp], middle: Floats) -> Iterator[Floats]:
    """How errors that are not random spread over the groups of ranks (bins, groups)."""
    behind_first = np.arange(n_classes - 1)
    for last_to_second in LAST_TO_SECOND if n_classes > 2 else (0.0,):
        ratio = last_to_second ** (1 / max(n_classes - 2, 1))
        for fading in FADING if last_to_second else (0.0,):
            share = (ratio * middle[:, None] ** fading) ** behind_first
            share /= share.sum(1, keepdims=True)
            yield np.add.reduceat(share, boundaries[:-1] - 1, axis=1)
