"""Reweighting: the record of one re-weighting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class Reweighting:
    """The record of one re-weighting, made after `epoch`.

    `threshold` and `gap` are None for a rule without a threshold. `precision` and `recall` of the removed rows are
    known to `fit` where its argument `wrong` marks the mislabeled rows. Seconds do not count when records are compared:
    `seconds` is all of it, with a pass for fresh losses if there was one, `rule_seconds` the step alone.
    """

    epoch: int
    threshold: float | None
    c_min: float
    n_removed: int
    removed_fraction: float
    gap: float | None
    precision: float | None = None
    recall: float | None = None
    seconds: float = field(default=0.0, compare=False)
    rule_seconds: float = field(default=0.0, compare=False)


#: The fields that SampleWeights fills, and so its state holds.
N_FIELDS = 6


def to_tensor(history: Sequence[Reweighting]) -> Tensor:
    """The records as numbers, a row each; NaN stands for None. What only `fit` knows is left out."""
    rows = [[math.nan if value is None else value for value in astuple(made)[:N_FIELDS]] for made in history]
    return torch.tensor(rows, dtype=torch.float64).reshape(-1, N_FIELDS)


def from_tensor(numbers: Tensor) -> list[Reweighting]:
    """The records that `to_tensor` wrote."""
    history = []
    for row in numbers.tolist():
        epoch, threshold, c_min, n_removed, *others = (None if math.isnan(value) else value for value in row)
        history.append(Reweighting(int(epoch), threshold, c_min, int(n_removed), *others))  # type: ignore[arg-type]
    return history
