"""Label noise by name, such as `uniform-0.2` or `human-worst`, from true labels, inputs and a seed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rockafellian import contamination
from rockafellian.contamination import Noisy
from rockafellian_reproduction import datasets
from rockafellian_reproduction.tables.kernel import KERNEL

Mislabel = Callable[[Tensor, Tensor, float, int], Noisy]


def mislabel(name: str, x: Tensor, y: Tensor, seed: int) -> Noisy:
    """Return labels with the noise of this name, and which rows are mislabeled."""
    kind, _, detail = name.rpartition("-")
    if name == "none":
        return Noisy(y, torch.zeros(len(y), dtype=torch.bool))
    if kind == "human":
        given = datasets.human_labels()[detail][: len(y)]
        return Noisy(given, given != y)
    return KINDS[kind](x, y, float(detail), seed)


def kind_of(name: str) -> str:
    """Return the kind of noise, without its rate."""
    return name.rpartition("-")[0] or name


def _uniform(x: Tensor, y: Tensor, share: float, seed: int) -> Noisy:
    return contamination.uniform(y, share, seed=seed)


def _kernel(x: Tensor, y: Tensor, share: float, seed: int) -> Noisy:
    return contamination.transition(y, KERNEL, share, seed=seed)


def _one_sided(x: Tensor, y: Tensor, share: float, seed: int) -> Noisy:
    """Mislabel a part of the given positives; with more than two classes, give a part of each odd class the next."""
    n_classes = int(y.max()) + 1
    if n_classes == 2:
        return contamination.one_sided(y, share, seed=seed)
    kernel = torch.eye(n_classes, dtype=torch.float64)
    for odd in range(1, n_classes, 2):
        kernel[odd, odd], kernel[odd, (odd + 1) % n_classes] = 1 - share, share
    return contamination.transition(y, kernel, seed=seed)


def _feature(x: Tensor, y: Tensor, share: float, seed: int) -> Noisy:
    return contamination.feature_dependent(y, x, share, seed=seed)


KINDS: dict[str, Mislabel] = {
    "uniform": _uniform,
    "kernel": _kernel,
    "one-sided": _one_sided,
    "feature": _feature,
}
