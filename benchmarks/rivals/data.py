"""The data sets: rows to train and test on, drawn by seed and standardized, with the settings of their training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from rivals import encoded
from rockafellian_reproduction import datasets

SEEDS = (0, 1, 2)
UNIFORM = ("none", "uniform-0.1", "uniform-0.2", "uniform-0.4")
TWO_CLASSES = (*UNIFORM, "one-sided-0.3", "feature-0.2")
TEN_CLASSES = (*UNIFORM, "uniform-0.6", "kernel-0.3", "one-sided-0.3", "feature-0.2")
HUMAN = ("none", "uniform-0.2", "uniform-0.4")
HUMAN += tuple(f"human-{name}" for name in ("aggregate", "random1", "random2", "random3", "worst"))


class Clean(NamedTuple):
    """Rows with their true labels."""

    x: Tensor
    y: Tensor
    test_x: Tensor
    test_y: Tensor


@dataclass(frozen=True)
class Setting:
    """A data set and how every method is trained on it: SGD with momentum 0.9 on an MLP with one hidden layer."""

    load: Callable[[int], Clean]
    hidden: int
    lr: float
    epochs: int
    batch_size: int
    noises: tuple[str, ...]
    #: None: all of them.
    methods: tuple[str, ...] | None = None


def digits(seed: int) -> Clean:
    """1,297 and 500 of scikit-learn's small digits."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return _standardized(_split(torch.from_numpy(x).float(), torch.from_numpy(y).long(), 1297, 500, seed))


def cancer(seed: int) -> Clean:
    """400 and 169 rows of scikit-learn's breast cancer set; 1 is malignant. Each column has its own unit."""
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    x, malignant = torch.from_numpy(x).float(), torch.from_numpy(1 - y).long()
    return _standardized(_split(x, malignant, 400, 169, seed), by_column=True)


def mnist(seed: int) -> Clean:
    """10,000 and 5,000 digits of MNIST."""
    return _standardized(_images("mnist-10", seed))


def fashion(seed: int) -> Clean:
    """10,000 and 5,000 clothes of Fashion-MNIST."""
    return _standardized(_images("fashion-mnist", seed))


def imdb(seed: int) -> Clean:
    """6,000 and 4,000 reviews as vectors of MiniLM; 1 is positive."""
    return _standardized(_split(*encoded.reviews(), 6_000, 4_000, seed))


def cifar(seed: int) -> Clean:
    """10,000 and 5,000 images of CIFAR-10 as features of EfficientNet-Lite0, the same for every seed."""
    return _standardized(Clean(*encoded.pictures()))


def pixels(seed: int) -> Clean:
    """10,000 and 5,000 images of CIFAR-10 as they are, on which a network this small is less than half right."""
    return _standardized(_images("cifar-10", seed))


def rare(seed: int) -> Clean:
    """Shirts, 3 % of 10,000 and of 5,000 clothes of Fashion-MNIST: 1 is a shirt."""
    found = datasets.images("fashion-mnist")
    parts = []
    for x, y, n in ((found.train_x, found.train_y, 10_000), (found.test_x, found.test_y, 5_000)):
        shirt, order = y == SHIRT, _shuffled(len(y), seed)
        positive = round(PREVALENCE * n)
        rows = torch.cat([order[shirt[order]][:positive], order[~shirt[order]][: n - positive]])
        rows = rows[_shuffled(n, seed)]
        parts += [x[rows].flatten(1).float(), shirt[rows].long()]
    return _standardized(Clean(*parts))


SHIRT, PREVALENCE = 6, 0.03

#: Rates and epochs were chosen so that plain training has memorized most mislabeled rows at 40 % uniform noise.
DATA: dict[str, Setting] = {
    "digits": Setting(digits, 128, 0.1, 40, 64, TEN_CLASSES),
    "cancer": Setting(cancer, 64, 0.2, 100, 32, TWO_CLASSES),
    "mnist": Setting(mnist, 128, 0.05, 25, 128, TEN_CLASSES),
    "fashion": Setting(fashion, 128, 0.05, 25, 128, TEN_CLASSES),
    "imdb": Setting(imdb, 128, 0.05, 25, 128, TWO_CLASSES),
    "cifar": Setting(cifar, 256, 0.02, 20, 128, HUMAN),
    "pixels": Setting(
        pixels, 128, 0.005, 25, 128, ("none", "uniform-0.2"), ("ce", "cleanlab", "rrm", "rrm-mse", "rrm-default")
    ),
    "rare": Setting(rare, 128, 0.05, 25, 128, ("uniform-0.1",), ("ce", "rrm", "rrm-per-class", "rrm-default")),
}


def _images(name: str, seed: int) -> Clean:
    found = datasets.images(name)
    train, test = _shuffled(len(found.train_y), seed)[:10_000], _shuffled(len(found.test_y), seed)[:5_000]
    x, test_x = (part.flatten(1).float() for part in (found.train_x[train], found.test_x[test]))
    return Clean(x, found.train_y[train], test_x, found.test_y[test])


def _shuffled(n: int, seed: int) -> Tensor:
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed))


def _split(x: Tensor, y: Tensor, n_train: int, n_test: int, seed: int) -> Clean:
    order = _shuffled(len(y), seed)
    train, test = order[:n_train], order[n_train : n_train + n_test]
    return Clean(x[train], y[train], x[test], y[test])


def _standardized(rows: Clean, *, by_column: bool = False) -> Clean:
    """Return rows in units of the standard deviation from the mean of the training rows."""
    deviation, mean = torch.std_mean(rows.x, 0) if by_column else torch.std_mean(rows.x)
    return rows._replace(x=(rows.x - mean) / deviation, test_x=(rows.test_x - mean) / deviation)
