"""Losses with one value per row, J(theta; x_i, y_i) of the paper, for the re-weighting and the attacks.

Classification takes logits (batch, classes) and labels as whole numbers (batch,). Any torch loss built with
`reduction="none"` works in the same place.
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

from rockafellian._internal.validation import is_integer, read_number


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
    """Binary cross-entropy of one logit per row, or its mean over the labels of a row that has several."""
    targets = labels.to(logits.dtype)
    return _mean_over_outputs(binary_cross_entropy_with_logits, logits, targets)


def gce(logits: Tensor, labels: Tensor, q: float = 0.7, k: float | None = None) -> Tensor:
    """Generalized cross-entropy (1 - p_y^q) / q of Zhang and Sabuncu (2018): cce as q -> 0, K / 2 times mae at 1.

    Args:
        logits: outputs of the network, (batch, classes).
        labels: whole numbers, (batch,).
        q: in (0, 1]; the larger, the less a row with a small p_y counts.
        k: in (0, 1), truncates the loss: a row with p_y <= k has the loss of p_y = k and no gradient.
    """
    if not 0 < q <= 1 or not (k is None or 0 < k < 1):
        raise ValueError(f"need q in (0, 1] and k in (0, 1) or None, got q={q} and k={k}")
    log_p = _log_p(logits, labels)
    losses = -torch.expm1(q * log_p) / q
    # `where` would copy its constant to the GPU and wait for it; `masked_fill` does not.
    return losses if k is None else losses.masked_fill(log_p <= math.log(k), (1 - k**q) / q)


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    """Squared error, for regression; its mean over the outputs of a row that has several."""
    return _mean_over_outputs(mse_loss, outputs, targets)


def huber(outputs: Tensor, targets: Tensor, delta: float = 1.0) -> Tensor:
    """Huber loss, for regression: quadratic up to `delta`, linear beyond."""
    return _mean_over_outputs(partial(huber_loss, delta=delta), outputs, targets)


class ELR(nn.Module):
    """Early-learning regularization of Liu et al. (2020): cce + lam * log(1 - <t_i, p_i>).

    t_i is a running average of the predicted probabilities of row i, kept by index: `loss(logits, labels, index)`. It
    moves in training mode only; in evaluation mode it is read. Without an index, as for the rows of a validation set,
    the loss is the cross-entropy alone. Memory: 4 bytes a row and class.

    Args:
        n_samples: number of rows of the training set.
        n_classes: number of classes.
        beta: how much of the running average each update keeps.
        lam: weight of the regularization.
    """

    takes_index = True
    memory: Tensor

    def __init__(self, n_samples: int, n_classes: int, *, beta: float = 0.7, lam: float = 3.0) -> None:
        super().__init__()
        if (
            not (is_integer(n_samples) and is_integer(n_classes) and n_samples >= 1 and n_classes >= 2)
            or not 0 <= read_number("beta", beta) < 1
            or not 0 <= read_number("lam", lam) < math.inf
        ):
            raise ValueError(
                f"need n_samples >= 1, n_classes >= 2, beta in [0, 1) and lam >= 0, "
                f"got {n_samples}, {n_classes}, {beta} and {lam}"
            )
        self.beta = beta
        self.lam = lam
        self.register_buffer("memory", torch.zeros(n_samples, n_classes))

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """Return one loss per row.

        Args:
            logits: outputs of the network, (batch, classes).
            labels: whole numbers, (batch,).
            index: indices of the rows in the training set; checked on the CPU, but not on a GPU, which would have to
                wait for it.
        """
        if index is None:
            if self.training:
                raise ValueError("need the index of each row, as ELR remembers rows; call loss(logits, labels, index)")
            return cce(logits, labels)
        rows = self._rows_of_memory(index, logits)
        p = logits.softmax(1, torch.promote_types(logits.dtype, torch.float32)).clamp(1e-4, 1 - 1e-4)
        if self.training:
            predicted = p.detach() / p.detach().sum(1, keepdim=True)
            before = self.memory.index_select(0, rows)
            self.memory.index_copy_(0, rows, self.beta * before + (1 - self.beta) * predicted.to(before))
        agreement = (self.memory.index_select(0, rows).to(p) * p).sum(1)
        return cce(logits, labels) + self.lam * torch.log1p(-agreement)

    def extra_repr(self) -> str:
        """Return the settings, for repr."""
        return f"{len(self.memory)}, {self.memory.shape[1]}, beta={self.beta}, lam={self.lam}"

    def _rows_of_memory(self, index: Tensor, logits: Tensor) -> Tensor:
        n_samples, n_classes = self.memory.shape
        if logits.shape != (len(index), n_classes) or index.shape != (len(logits),) or len(index) == 0:
            raise ValueError(
                f"need logits of {n_classes} classes and one index per row, got logits {tuple(logits.shape)} "
                f"and index {tuple(index.shape)}"
            )
        if index.is_cpu:
            _check_range(index, n_samples)
        # A blocking copy would wait until the GPU has done all it was given so far.
        return index.to(self.memory.device, non_blocking=True)


def for_rows(loss: Callable[..., Tensor], index: Tensor) -> Callable[..., Tensor]:
    """Return the loss of the rows with these indices: a loss with `takes_index`, such as ELR, is called with them."""
    return partial(loss, index=index) if getattr(loss, "takes_index", False) else loss


#: By name, for `fit(loss=...)`, for the command line and for the tests that every loss must pass.
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


def needs_sizes(name: str) -> bool:
    """Return whether the loss with this name remembers rows, so that it is made for a number of rows and classes."""
    return isinstance(LOSSES.get(name), type)


def loss_by_name(name: str, n_samples: int, n_classes: int | None) -> Callable[..., Tensor]:
    """Return the loss with this name in `LOSSES`.

    Args:
        name: one of the names in `LOSSES`.
        n_samples: number of rows of the training set, for a loss that remembers rows.
        n_classes: number of classes, for a loss that remembers rows; None if it is not known.
    """
    if name not in LOSSES:
        raise ValueError(f"need the name of a loss, one of {', '.join(LOSSES)}, or a function; got {name!r}")
    if not needs_sizes(name):
        return LOSSES[name]
    if n_classes is None:
        raise ValueError(
            f"need logits of one output per class to make the loss {name!r} by its name, got another shape; "
            f"pass {LOSSES[name].__name__}(n_samples, n_classes)"
        )
    made: Callable[..., Tensor] = LOSSES[name](n_samples, n_classes)
    return made


def _check_range(index: Tensor, n_samples: int) -> None:
    low, high = (int(bound) for bound in index.aminmax())
    if low < 0 or high >= n_samples:
        raise ValueError(
            f"need an index from 0 to {n_samples - 1}, got {low if low < 0 else high}; "
            "n_samples must be the length of the training set"
        )


def _log_p(logits: Tensor, labels: Tensor) -> Tensor:
    """The logarithm of p_y."""
    return -cross_entropy(logits, labels, reduction="none")


def _mean_over_outputs(loss: Callable[..., Tensor], outputs: Tensor, targets: Tensor) -> Tensor:
    """One value per row of (batch,), (batch, 1) or (batch, outputs); a single output may come without its axis."""
    single = {(len(outputs),), (len(outputs), 1)}
    if outputs.shape != targets.shape and not {tuple(outputs.shape), tuple(targets.shape)} <= single:
        raise ValueError(
            f"need outputs and targets of one shape, got {tuple(outputs.shape)} and {tuple(targets.shape)}"
        )
    return loss(outputs, targets.reshape(outputs.shape), reduction="none").reshape(len(outputs), -1).mean(1)
