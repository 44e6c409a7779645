"""The toy problem of the tests: three Gaussian classes, 40 % of the labels flipped."""

from typing import NamedTuple

import torch
from torch import Tensor

import rockafellian as rk


class Toy(NamedTuple):
    """Rows, their given labels, and the mask of the wrong ones."""

    x: Tensor
    y: Tensor
    wrong: Tensor


def make_toy(seed: int = 0, n: int = 1500) -> Toy:
    random = torch.Generator().manual_seed(seed)
    truth = torch.arange(n) % 3
    angle = 2 * torch.pi / 3 * truth
    x = 3 * torch.stack([angle.cos(), angle.sin()], dim=1) + torch.randn(n, 2, generator=random)
    wrong = torch.randperm(n, generator=random) < round(0.4 * n)
    flipped = (truth + torch.randint(1, 3, (n,), generator=random)) % 3
    return Toy(x, torch.where(wrong, flipped, truth), wrong)


def train(toy: Toy, rule: rk.RRM, *, lr: float = 0.1, epochs: int = 10) -> rk.SampleWeights:
    """Train in a plain loop and return the weights."""
    torch.manual_seed(0)
    hidden = [layer for size in (2, 64, 64) for layer in (torch.nn.Linear(size, 64), torch.nn.ReLU())]
    model = torch.nn.Sequential(*hidden, torch.nn.Linear(64, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    weights = rk.SampleWeights(len(toy.y), rule)
    for _ in range(epochs):
        for index in torch.randperm(len(toy.y)).split(50):
            losses = torch.nn.functional.cross_entropy(model(toy.x[index]), toy.y[index], reduction="none")
            optimizer.zero_grad()
            weights.reduce(losses, index).backward()
            optimizer.step()
        weights.step()
    return weights


def precision_and_recall(removed: Tensor, wrong: Tensor) -> tuple[float, float]:
    hits = float((removed & wrong).sum())
    return hits / max(int(removed.sum()), 1), hits / int(wrong.sum())
