"""Wrong labels on purpose, to test with: each function takes true labels and returns them with a known part wrong.

Seeded: the same arguments give the same labels. `Noisy.mask` marks the rows whose label is wrong.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.arrays import Array

Labels = NDArray[np.int64]


class Noisy(NamedTuple):
    """Labels as given to the training, and the rows where they are wrong."""

    labels: Tensor
    mask: Tensor


def uniform(labels: Array, contamination: float, *, n_classes: int | None = None, seed: int = 0) -> Noisy:
    """Exactly round(C * N) rows get another label, each of the others alike: section 3.1 of the paper.

    >>> noisy = uniform([0, 1, 2, 0, 1, 2], contamination=0.5)
    >>> int(noisy.mask.sum())
    3
    """
    true, random = _read(labels), np.random.default_rng(seed)
    k = _count_classes(true, n_classes)
    rows = _draw_rows(true, contamination, random)
    given = true.copy()
    given[rows] = (true[rows] + random.integers(1, k, len(rows))) % k
    return _noisy(true, given)


def transition(labels: Array, kernel: Array, contamination: float | None = None, *, seed: int = 0) -> Noisy:
    """New labels drawn from the row of `kernel` that belongs to the true one, for round(C * N) rows or, without C, all.

    A kernel with zeros on its diagonal, as Table 6 of the paper, makes every row drawn wrong; with a kernel that has a
    diagonal, only those that changed are.
    """
    true, random = _read(labels), np.random.default_rng(seed)
    chances = _read_kernel(kernel)
    _count_classes(true, len(chances))
    rows = np.arange(len(true)) if contamination is None else _draw_rows(true, contamination, random)
    given = true.copy()
    for label, row_of_kernel in enumerate(chances):
        drawn = rows[true[rows] == label]
        given[drawn] = random.choice(len(chances), len(drawn), p=row_of_kernel)
    return _noisy(true, given)


def flip(labels: Array, contamination: float, *, seed: int = 0) -> Noisy:
    """Exactly round(C * N) of binary labels turned round."""
    _count_classes(_read(labels), 2)
    return uniform(labels, contamination, n_classes=2, seed=seed)


def one_sided(labels: Array, contamination: float, *, seed: int = 0) -> Noisy:
    """Weak labels: negatives called positive until a share `contamination` of the positives is really negative.

    As in the tissue images of the paper, where a whole slide is called diseased though most of its parts are not.
    """
    true, random = _read(labels), np.random.default_rng(seed)
    _count_classes(true, 2)
    _check_share(contamination)
    negatives = np.flatnonzero(true == 0)
    if len(negatives) == len(true):
        raise ValueError("need at least one positive, label 1, to call negatives by its name; got none")
    wanted = round(contamination / (1 - contamination) * (len(true) - len(negatives)))
    if wanted > len(negatives):
        raise ValueError(
            f"need {wanted} negatives to make {contamination:.0%} of the positives wrong, got {len(negatives)}; "
            "lower the contamination or leave out some positives"
        )
    given = true.copy()
    given[random.choice(negatives, wanted, replace=False)] = 1
    return _noisy(true, given)


def feature_dependent(
    labels: Array, features: Array, contamination: float, *, sharpness: float = 5.0, seed: int = 0
) -> Noisy:
    """Exactly round(C * N) rows get the label they look most like beside their own, rows near a boundary more often.

    How people err. A linear classifier (ridge regression on the labels) says how near: a row's chance grows by a factor
    e per 1 / `sharpness` that its margin shrinks, where a row that the classifier is sure of has a margin about 1.
    """
    if not 0 <= sharpness < math.inf:
        raise ValueError(f"need a finite sharpness >= 0, got {sharpness}")
    true, random = _read(labels), np.random.default_rng(seed)
    k = _count_classes(true, None)
    if true.min() == true.max():
        raise ValueError(f"need rows of at least two classes to confuse, got only label {true[0]}")
    rows = np.arange(len(true))
    others = _linear_scores(_read_features(features, len(true)), np.eye(k)[true])
    own = others[rows, true].copy()
    others[rows, true] = -np.inf
    others[:, np.bincount(true, minlength=k) == 0] = -np.inf  # nothing looks like a class that has no row
    nearest = others.argmax(1)
    # Gumbel noise on log chances, and the largest sums: a draw without replacement, all at once.
    keys = sharpness * (others[rows, nearest] - own) + random.gumbel(size=len(true))
    chosen = np.argsort(-keys, kind="stable")[: _round_rows(contamination, len(true))]
    given = true.copy()
    given[chosen] = nearest[chosen]
    return _noisy(true, given)


def _as_numpy(array: Array) -> NDArray[Any]:
    return np.asarray(array.detach().cpu() if isinstance(array, Tensor) else array)


def _read(labels: Array) -> Labels:
    values = _as_numpy(labels)
    if values.ndim != 1 or len(values) == 0 or values.dtype.kind not in "iub":
        raise ValueError(
            f"need one whole number per row as its label, got shape {values.shape} of {values.dtype}; "
            "number the classes from 0"
        )
    return values.astype(np.int64)


def _count_classes(labels: Labels, n_classes: int | None) -> int:
    low, high = int(labels.min()), int(labels.max())
    k = max(high + 1, 2) if n_classes is None else n_classes
    if low < 0 or high >= k or k < 2:
        raise ValueError(f"need labels from 0 to {k - 1} in at least 2 classes, got {low} to {high}")
    return k


def _check_share(contamination: float) -> None:
    if not 0 <= contamination < 1:
        raise ValueError(f"need a contamination in [0, 1), a share of the rows; got {contamination}")


def _round_rows(contamination: float, n: int) -> int:
    _check_share(contamination)
    return round(contamination * n)


def _draw_rows(labels: Labels, contamination: float, random: np.random.Generator) -> NDArray[np.int64]:
    return random.permutation(len(labels))[: _round_rows(contamination, len(labels))]


def _read_kernel(kernel: Array) -> NDArray[np.float64]:
    chances = _as_numpy(kernel).astype(np.float64)
    if chances.ndim != 2 or chances.shape[0] != chances.shape[1] or len(chances) < 2:
        raise ValueError(f"need a square kernel, a row per true label; got shape {chances.shape}")
    sums = chances.sum(1)
    if not (chances.min() >= 0 and abs(sums - 1).max() < 1e-3):
        raise ValueError(
            f"need a kernel of chances whose rows sum to 1, got sums from {sums.min():g} to {sums.max():g}"
        )
    normed: NDArray[np.float64] = chances / sums[:, None]
    return normed


def _read_features(features: Array, n: int) -> NDArray[np.float64]:
    values = _as_numpy(features).astype(np.float64)
    if values.ndim < 2 or len(values) != n or not np.isfinite(values).all():
        raise ValueError(f"need finite features, a row of them for each of {n} labels; got shape {values.shape}")
    return values.reshape(n, -1)


def _linear_scores(features: NDArray[np.float64], targets: NDArray[Any]) -> NDArray[np.float64]:
    """What a ridge regression of the targets on the standardised features says of each row."""
    deviation = features.std(0)
    x = (features - features.mean(0)) / np.where(deviation > 0, deviation, 1)
    mean = targets.mean(0)
    penalty = 1e-2 * len(x) * np.eye(x.shape[1])
    slope = np.linalg.solve(x.T @ x + penalty, x.T @ (targets - mean))
    scores: NDArray[np.float64] = x @ slope + mean
    return scores


def _noisy(true: Labels, given: Labels) -> Noisy:
    return Noisy(torch.from_numpy(given), torch.from_numpy(given != true))
