"""Out-of-sample predictions, and what the estimates of the noise rate count in them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
PRECISION = np.float32  # logarithms are most of the work, and this is enough


class Estimate(NamedTuple):
    """A noise rate and its 90 % interval."""

    rate: float
    low: float
    high: float


class OutOfSample(NamedTuple):
    """By row: given and predicted label, its probability, and at which ranks the given label stands among the classes.

    Rank 0 is the predicted label, 1 the second choice. Where classes are equally probable, the given label may stand
    at any rank from `best` to `worst`; `second` is 1 if it is the second choice by the order of the classes.
    """

    given: Floats
    predicted: Floats
    probability: Floats
    second: Floats
    best: Floats
    worst: Floats

    @classmethod
    def of(cls, p: Floats, given: NDArray[np.integer[Any]]) -> OutOfSample:
        """From probabilities (rows, classes) and given labels; without rows there may be no classes."""
        if len(p) == 0:
            return cls(*np.empty((6, 0)))
        rows, predicted = np.arange(len(p)), p.argmax(1)
        own = p[rows, given][:, None]
        disagree = predicted != given
        best = np.where(disagree, np.maximum((p > own).sum(1), 1), 0)
        worst = np.where(disagree, (p >= own).sum(1) - 1, 0)
        before = ((p == own) & (np.arange(p.shape[1]) < given[:, None])).sum(1)
        second = disagree & ((p > own).sum(1) + before == 1)
        parts = (given, predicted, p[rows, predicted], second, best, worst)
        return cls(*(part.astype(np.float64) for part in parts))

    @property
    def disagree(self) -> NDArray[np.bool_]:
        """The rows for which another label is predicted."""
        return self.worst > 0

    def share_from(self, rank: int) -> Floats:
        """By row, how much of the ranks at which its label may stand lies at this one or behind."""
        return np.clip((self.worst + 1 - np.maximum(rank, self.best)) / (self.worst - self.best + 1), 0, 1)


def confidence_rank(predictions: OutOfSample, mass: Floats) -> Floats:
    """The rank of each row by confidence, from 0, the most confident, to 1, as a fraction of the mass.

    Rows that are equally confident share the middle of their ranks.
    """
    probability = predictions.probability.astype(PRECISION)  # or the last digit would tell equal rows apart
    _, tie = np.unique(-probability, return_inverse=True)
    of_tie = np.bincount(tie, mass)
    middle: Floats = (np.cumsum(of_tie) - of_tie / 2) / of_tie.sum()
    return middle[tie]
