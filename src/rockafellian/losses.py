"""One loss per row, J(theta; x_i, y_i) of the paper: what the re-weighting and every attack work on.

Classification takes logits (batch, classes) and labels as whole numbers (batch,). Any torch loss built with
`reduction="none"` serves in the same place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    mse_loss,
    one_hot,
)


def cce(logits: Tensor, labels: Tensor) -> Tensor:
    """Categorical cross-entropy, -log p_y."""
    return cross_entropy(logits, labels, reduction="none")


def mae(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean over the classes of |p - onehot|: 2 (1 - p_y) / K."""
    return -2 / logits.shape[1] * torch.expm1(_log_p(logits, labels))


def mse(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean over the classes of (p - onehot)^2."""
    error = logits.softmax(1) - one_hot(labels, logits.shape[1])
    return error.square().mean(1)


def bce(logits: Tensor, labels: Tensor) -> Tensor:
    """Binary cross-entropy of one logit a row, or its mean over the labels of a row that has several."""
    targets = labels.to(logits.dtype)
    return _mean_over_outputs(binary_cross_entropy_with_logits, logits, targets)


def gce(logits: Tensor, labels: Tensor, q: float = 0.7, k: float | None = None) -> Tensor:
    """Generalized cross-entropy (1 - p_y^q) / q of Zhang and Sabuncu (2018): cce as q -> 0, K / 2 times mae at 1.

    `k` gives its truncated form: rows with p_y <= k cost what p_y = k would, and pull no more.
    """
    if not 0 < q <= 1 or not (k is None or 0 < k < 1):
        raise ValueError(f"need q in (0, 1] and k in (0, 1) or None, got q={q} and k={k}")
    log_p = _log_p(logits, labels)
    losses = -torch.expm1(q * log_p) / q
    return losses if k is None else losses.where(log_p > math.log(k), (1 - k**q) / q)


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    """Squared error, for regression; its mean over the outputs of a row that has several."""
    return _mean_over_outputs(mse_loss, outputs, targets)


def huber(outputs: Tensor, targets: Tensor, delta: float = 1.0) -> Tensor:
    """Huber's error, for regression: quadratic up to `delta`, linear beyond."""
    return _mean_over_outputs(partial(huber_loss, delta=delta), outputs, targets)


class ELR(nn.Module):
    """Early-learning regularization of Liu et al. (2020): cce + lam * log(1 - <t_i, p_i>).

    t_i, a running average of what the network said of row i, is kept by index: `loss(logits, labels, index)`. It moves
    in training mode only; in evaluation mode it is read, and without an index, as for rows of a validation set, the
    loss is the cross-entropy alone. Memory: 4 bytes a row and class.
    """

    takes_index = True
    memory: Tensor

    def __init__(self, n_samples: int, n_classes: int, *, beta: float = 0.7, lam: float = 3.0) -> None:
        super().__init__()
        if n_samples < 1 or n_classes < 2 or not 0 <= beta < 1 or not lam >= 0:
            raise ValueError(
                f"need n_samples >= 1, n_classes >= 2, beta in [0, 1) and lam >= 0, "
                f"got {n_samples}, {n_classes}, {beta} and {lam}"
            )
        self.beta = beta
        self.lam = lam
        self.register_buffer("memory", torch.zeros(n_samples, n_classes))

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """One loss per row."""
        if index is None:
            if self.training:
                raise ValueError("need the rows' numbers, as ELR remembers each row; call loss(logits, labels, index)")
            return cce(logits, labels)
        rows = self._checked(index, logits)
        p = logits.softmax(1, torch.promote_types(logits.dtype, torch.float32)).clamp(1e-4, 1 - 1e-4)
        if self.training:
            said = p.detach() / p.detach().sum(1, keepdim=True)
            self.memory[rows] = self.beta * self.memory[rows] + (1 - self.beta) * said.to(self.memory)
        agreement = (self.memory[rows].to(p) * p).sum(1)
        return cce(logits, labels) + self.lam * torch.log1p(-agreement)

    def extra_repr(self) -> str:
        """The settings, for repr."""
        return f"{len(self.memory)}, {self.memory.shape[1]}, beta={self.beta}, lam={self.lam}"

    def _checked(self, index: Tensor, logits: Tensor) -> Tensor:
        rows, classes = self.memory.shape
        if logits.shape != (len(index), classes) or index.shape != (len(logits),) or len(index) == 0:
            raise ValueError(
                f"need logits of {classes} classes and one index per row, got logits {tuple(logits.shape)} "
                f"and index {tuple(index.shape)}"
            )
        low, high = (int(bound) for bound in index.aminmax())
        if low < 0 or high >= rows:
            raise ValueError(
                f"need an index from 0 to {rows - 1}, got {low if low < 0 else high}; "
                "n_samples must be the length of the training set"
            )
        return index.to(self.memory.device)


def for_rows(loss: Callable[..., Tensor], index: Tensor) -> Callable[..., Tensor]:
    """The loss of the rows with these numbers: a loss that says `takes_index`, as ELR does, is told them."""
    return partial(loss, index=index) if getattr(loss, "takes_index", False) else loss


#: By name, for the command line and for the tests that every loss must pass.
LOSSES: dict[str, Callable[..., Any]] = {
    "cce": cce,
    "mae": mae,
    "mse": mse,
    "bce": bce,
    "gce": gce,
    "truncated_gce": partial(gce, k=0.5),
    "elr": ELR,
    "squared": squared,
    "huber": huber,
}


def _log_p(logits: Tensor, labels: Tensor) -> Tensor:
    """The logarithm of p_y."""
    return -cross_entropy(logits, labels, reduction="none")


def _mean_over_outputs(loss: Callable[..., Tensor], outputs: Tensor, targets: Tensor) -> Tensor:
    """One value a row of (batch,), (batch, 1) or (batch, outputs); a lone output may come with or without its axis."""
    lone = {(len(outputs),), (len(outputs), 1)}
    if outputs.shape != targets.shape and not {tuple(outputs.shape), tuple(targets.shape)} <= lone:
        raise ValueError(
            f"need outputs and targets of one shape, got {tuple(outputs.shape)} and {tuple(targets.shape)}"
        )
    return loss(outputs, targets.reshape(outputs.shape), reduction="none").reshape(len(outputs), -1).mean(1)
