"""Losses by name, scaled so that one learning rate fits all, and a loss that records margins."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

import rockafellian as rk
from rivals.problem import Problem
from rockafellian_reproduction.training.cells import summed

Loss = Callable[..., Tensor]


def make(name: str, problem: Problem) -> Loss:
    """Return a new loss; mse and mae are sums over the classes, as in the paper's tables."""
    if name == "elr":
        return rk.losses.ELR(len(problem.y), problem.n_classes)
    if name in ("mse", "mae"):
        return partial(summed, name=name, n_classes=problem.n_classes)
    return {"ce": rk.losses.cce, "gce": rk.losses.gce}[name]


def margins(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the logit of the given label minus the largest other one."""
    own = logits.gather(1, labels[:, None])
    others = logits.scatter(1, labels[:, None], -torch.inf)
    return own[:, 0] - others.amax(1)


class Recorded(nn.Module):
    """A loss that sums the margins of every row in training, as AUM (Pleiss et al., 2020) does."""

    takes_index = True

    def __init__(self, loss: Loss, n_samples: int) -> None:
        super().__init__()
        self.loss = loss
        self.total = torch.zeros(n_samples)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """Return one loss per row."""
        if index is None:
            return self.loss(logits, labels)
        if self.training:
            self.total[index] += margins(logits.detach(), labels)
        return rk.losses.for_rows(self.loss, index)(logits, labels)
