"""Synthetic label noise for experiments: each function takes true labels and returns noisy ones.

The same arguments give the same labels. `Noisy.mask` marks the mislabeled rows.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.arrays import Array, read_array
from rockafellian._internal.validation import is_integer, read_number

Labels = NDArray[np.int64]
MAX_CLASSES = 1 << 24


class Noisy(NamedTuple):
    """Noisy labels, and a boolean mask of the mislabeled rows."""

    labels: Tensor
    mask: Tensor


def uniform(labels: Array, contamination: float, *, n_classes: int | None = None, seed: int = 0) -> Noisy:
    """Return labels of which exactly round(contamination * N) are replaced by another one: section 3.1 of the paper.

    Every other label is equally likely.

    Args:
        labels: true labels, whole numbers from 0.
        contamination: noise rate, in [0, 1).
        n_classes: number of classes; None is the largest label plus one.
        seed: of the random numbers.

    >>> noisy = uniform([0, 1, 2, 0, 1, 2], contamination=0.5)
    >>> int(noisy.mask.sum())
    3
    """
    true, random = _read(labels), _generator(seed)
    k = _count_classes(true, n_classes)
    rows = _draw_rows(true, contamination, random)
    given = true.copy()
    given[rows] = (true[rows] + random.integers(1, k, len(rows))) % k
    return _noisy(true, given)


def transition(labels: Array, kernel: Array, contamination: float | None = None, *, seed: int = 0) -> Noisy:
    """Return labels drawn from the row of `kernel` that belongs to the true label.

    With zeros on the diagonal of the kernel, as in Table 6 of the paper, every row drawn is mislabeled; otherwise those
    whose label changed.

    Args:
        labels: true labels, whole numbers from 0.
        kernel: square matrix of probabilities, (true label, new label).
        contamination: draws a new label for exactly round(contamination * N) rows; None for all rows.
        seed: of the random numbers.
    """
    true, random = _read(labels), _generator(seed)
    kernel_rows = _read_kernel(kernel)
    _count_classes(true, len(kernel_rows))
    rows = np.arange(len(true)) if contamination is None else _draw_rows(true, contamination, random)
    given = true.copy()
    for label, probabilities in enumerate(kernel_rows):
        drawn = rows[true[rows] == label]
        given[drawn] = random.choice(len(kernel_rows), len(drawn), p=probabilities)
    return _noisy(true, given)


def flip(labels: Array, contamination: float, *, seed: int = 0) -> Noisy:
    """Return binary labels of which exactly round(contamination * N) are flipped."""
    _count_classes(_read(labels), 2)
    return uniform(labels, contamination, n_classes=2, seed=seed)


def one_sided(labels: Array, contamination: float, *, seed: int = 0) -> Noisy:
    """Return weak binary labels: negatives labeled 1, until a fraction `contamination` of the labels 1 is wrong.

    As in the tissue images of the paper, where every part of a slide gets the label "diseased" of the whole slide.
    """
    true, random = _read(labels), _generator(seed)
    _count_classes(true, 2)
    _check_contamination(contamination)
    negatives = np.flatnonzero(true == 0)
    if len(negatives) == len(true):
        raise ValueError("need at least one positive (label 1), got none; check the labels")
    wanted = round(contamination / (1 - contamination) * (len(true) - len(negatives)))
    if wanted > len(negatives):
        raise ValueError(
            f"need {wanted} negatives to mislabel for a contamination of {contamination:.0%} of the positives, "
            f"got {len(negatives)}; lower the contamination or leave out some positives"
        )
    given = true.copy()
    given[random.choice(negatives, wanted, replace=False)] = 1
    return _noisy(true, given)


def feature_dependent(
    labels: Array, features: Array, contamination: float, *, sharpness: float = 5.0, seed: int = 0
) -> Noisy:
    """Return labels of which exactly round(contamination * N) are replaced by the most similar other class.

    Rows near a decision boundary are replaced more often, as when people label. The margin of a row comes from a linear
    classifier (ridge regression on the labels) and is about 1 where the classifier is sure.

    Args:
        labels: true labels, whole numbers from 0.
        features: inputs, one row per label.
        contamination: noise rate, in [0, 1).
        sharpness: the odds of a row grow by a factor e for each 1 / `sharpness` by which its margin shrinks.
        seed: of the random numbers.
    """
    if not 0 <= read_number("sharpness", sharpness) < math.inf:
        raise ValueError(f"need a finite sharpness >= 0, got {sharpness}")
    true, random = _read(labels), _generator(seed)
    k = _count_classes(true, None)
    if true.min() == true.max():
        raise ValueError(f"need rows of at least two classes, got only label {true[0]}")
    rows = np.arange(len(true))
    others = _linear_scores(_read_features(features, len(true)), (true[:, None] == np.arange(k)).astype(float))
    own = others[rows, true].copy()
    others[rows, true] = -np.inf
    others[:, np.bincount(true, minlength=k) == 0] = -np.inf  # a class without rows has no features to resemble
    nearest = others.argmax(1)
    # The largest sums of log odds and Gumbel noise are a weighted draw without replacement.
    keys = sharpness * (others[rows, nearest] - own) + random.gumbel(size=len(true))
    chosen = np.argsort(-keys, kind="stable")[: _round_rows(contamination, len(true))]
    given = true.copy()
    given[chosen] = nearest[chosen]
    return _noisy(true, given)


def _read(labels: Array) -> Labels:
    values = read_array(labels)
    if values.ndim != 1 or len(values) == 0 or values.dtype.kind not in "iub":
        raise ValueError(
            f"need one whole number per row as its label, got shape {values.shape} of {values.dtype}; "
            "number the classes from 0"
        )
    if values.max() >= MAX_CLASSES:
        raise ValueError(f"need labels numbered from 0, below {MAX_CLASSES}; got {values.max()}")
    return values.astype(np.int64)


def _count_classes(labels: Labels, n_classes: int | None) -> int:
    low, high = int(labels.min()), int(labels.max())
    k = max(high + 1, 2) if n_classes is None else n_classes
    if not is_integer(k) or k > MAX_CLASSES:
        raise ValueError(f"need n_classes to be an integer from 2 to {MAX_CLASSES}, got {n_classes!r}")
    if low < 0 or high >= k or k < 2:
        raise ValueError(f"need labels from 0 to {k - 1} in at least 2 classes, got {low} to {high}")
    return k


def _generator(seed: int) -> np.random.Generator:
    if not is_integer(seed) or seed < 0:
        raise ValueError(f"need a seed that is an integer >= 0, got {seed!r}")
    return np.random.default_rng(int(seed))


def _check_contamination(contamination: float) -> None:
    read_number("contamination in [0, 1), a fraction of the rows,", contamination)
    if not 0 <= contamination < 1:
        raise ValueError(f"need a contamination in [0, 1), a fraction of the rows; got {contamination}")


def _round_rows(contamination: float, n: int) -> int:
    _check_contamination(contamination)
    return round(contamination * n)


def _draw_rows(labels: Labels, contamination: float, random: np.random.Generator) -> NDArray[np.int64]:
    return random.permutation(len(labels))[: _round_rows(contamination, len(labels))]


def _read_kernel(kernel: Array) -> NDArray[np.float64]:
    kernel_rows = read_array(kernel).astype(np.float64)
    if kernel_rows.ndim != 2 or kernel_rows.shape[0] != kernel_rows.shape[1] or len(kernel_rows) < 2:
        raise ValueError(f"need a square kernel, a row per true label; got shape {kernel_rows.shape}")
    sums = kernel_rows.sum(1)
    if not (kernel_rows.min() >= 0 and abs(sums - 1).max() < 1e-3):
        raise ValueError(
            f"need a kernel of probabilities whose rows sum to 1, got sums from {sums.min():g} to {sums.max():g}"
        )
    normed: NDArray[np.float64] = kernel_rows / sums[:, None]
    return normed


def _read_features(features: Array, n: int) -> NDArray[np.float64]:
    values = read_array(features).astype(np.float64)
    if values.ndim < 2 or len(values) != n or not np.isfinite(values).all():
        raise ValueError(f"need finite features, a row of them for each of {n} labels; got shape {values.shape}")
    return values.reshape(n, -1)


def _linear_scores(features: NDArray[np.float64], targets: NDArray[Any]) -> NDArray[np.float64]:
    """Return the predictions of a ridge regression of the targets on the standardized features."""
    largest = abs(features).max(initial=0)
    features = features / largest if largest > 1e100 else features  # squares would overflow
    deviation = features.std(0)
    x = (features - features.mean(0)) / np.where(deviation > 0, deviation, 1)
    mean = targets.mean(0)
    penalty = 1e-2 * len(x) * np.eye(x.shape[1])
    slope = np.linalg.solve(x.T @ x + penalty, x.T @ (targets - mean))
    scores: NDArray[np.float64] = x @ slope + mean
    return scores


def _noisy(true: Labels, given: Labels) -> Noisy:
    return Noisy(torch.from_numpy(given), torch.from_numpy(given != true))
