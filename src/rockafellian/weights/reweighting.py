"""Reweighting: the record of one re-weighting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field

import torch
from torch import Tensor

from rockafellian.weights.states import damaged


@dataclass(frozen=True)
class Reweighting:
    """The record of one re-weighting, made after `epoch`.

    `threshold` and `gap` are None for a rule without a threshold. `n_changed` counts the rows that are removed now and
    were not before, or the reverse. `precision` and `recall` of the removed rows are
    known to `fit` where its argument `wrong` marks the mislabeled rows. Seconds do not count when records are compared:
    `seconds` is all of it, with a pass for fresh losses if there was one, `rule_seconds` the step alone.
    """

    epoch: int
    threshold: float | None
    c_min: float
    n_removed: int
    removed_fraction: float
    gap: float | None
    n_changed: int = 0
    precision: float | None = None
    recall: float | None = None
    seconds: float = field(default=0.0, compare=False)
    rule_seconds: float = field(default=0.0, compare=False)


#: The fields that SampleWeights fills, and so its state holds.
N_FIELDS = 7


def to_tensor(history: Sequence[Reweighting]) -> Tensor:
    """The records as numbers, a row each; NaN stands for None. What only `fit` knows is left out."""
    rows = [[math.nan if value is None else value for value in astuple(made)[:N_FIELDS]] for made in history]
    return torch.tensor(rows, dtype=torch.float64).reshape(-1, N_FIELDS)


def from_tensor(numbers: Tensor) -> list[Reweighting]:
    """The records that `to_tensor` wrote."""
    history = []
    for row in _table(numbers).tolist():
        epoch, threshold, c_min, n_removed, fraction, gap, n_changed = (
            None if math.isnan(value) else value for value in row
        )
        history.append(
            Reweighting(int(epoch), threshold, c_min, int(n_removed), fraction, gap, int(n_changed))  # type: ignore[arg-type]
        )
    return history


def check_history(numbers: Tensor, epoch: int, n_samples: int) -> None:
    """Raise unless these are the records of so many rows, until this epoch."""
    epochs, threshold, c_min, n_removed, fraction, gap, n_changed = _table(numbers).unbind(1)
    in_order = torch.cat([torch.zeros(1), epochs, torch.tensor([epoch + 1.0])]).diff() > 0
    right = [
        in_order.all() and c_min.isfinite().all(),
        ((n_removed >= 0) & (n_removed <= n_samples)).all() and torch.allclose(fraction * n_samples, n_removed),
        ((n_changed >= 0) & (n_changed <= n_samples)).all(),
        torch.equal(threshold.isnan(), gap.isnan()) and (gap[~gap.isnan()] >= 0).all(),
    ]
    if not all(map(bool, right)):
        raise damaged("SampleWeights", f"its history is not one of {epoch} epochs with {n_samples} rows")


def _table(numbers: Tensor) -> Tensor:
    """The numbers as a table in float64, with integers where there must be."""
    ok = isinstance(numbers, Tensor) and numbers.is_floating_point()
    if ok and numbers.shape == (0,):  # as JSON keeps a table without rows
        numbers = numbers.reshape(0, N_FIELDS)
    if not ok or numbers.ndim != 2 or numbers.shape[1] != N_FIELDS:
        raise damaged("SampleWeights", f"its history is no table of floats with {N_FIELDS} columns")
    table = numbers.detach().double().cpu()
    counts = table[:, [0, 3, 6]]
    if not bool((counts.isfinite() & (counts.floor() == counts)).all()):
        raise damaged("SampleWeights", "its history has epochs or numbers of rows that are not integers")
    return table
