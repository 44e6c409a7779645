"""What loops pass to `SampleWeights`: arguments and batches, checked before anything is kept."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.arrays import Array, read_array
from rockafellian._internal.validation import is_integer
from rockafellian.method.noise_rate import NoiseRate
from rockafellian.method.per_class import Rule
from rockafellian.method.reweight import RRM
from rockafellian.weights.predictions import read_logits
from rockafellian.weights.states import is_possible

#: Types of integers that are used as they are; others, some of which torch hardly knows, are made int64.
_INTEGERS = {torch.int64, torch.int32}
MAX_SAMPLES = 2**48


def check_arguments(
    n_samples: int,
    rule: Rule,
    per_class: bool,
    every: int,
    warmup: int,
    seed: int,
    estimate: NoiseRate | None,
    rows: range | None,
) -> None:
    """Raise unless these can be arguments of `SampleWeights`."""
    for name, value, least in (("n_samples", n_samples, 1), ("every", every, 1), ("warmup", warmup, 0)):
        if not is_integer(value) or value < least:
            raise ValueError(f"need {name} to be an integer >= {least}, got {value!r}")
    if n_samples > MAX_SAMPLES:
        raise ValueError(f"need at most {MAX_SAMPLES:,} rows, got {n_samples}")
    if not isinstance(per_class, bool | np.bool_) or not is_integer(seed):
        raise ValueError(f"need per_class to be True or False and seed an integer, got {per_class!r} and {seed!r}")
    if not callable(rule) or isinstance(rule, type):
        raise ValueError(
            f"need a rule (losses, weights) -> (weights, threshold), such as RRM(contamination=0.2); got {rule!r}"
        )
    if estimate is not None and not (isinstance(rule, RRM) and rule.auto):
        raise ValueError(f"need the rule RRM() to go with an estimate, got {rule!r}; leave the estimate out")
    if estimate is not None and not (isinstance(estimate, NoiseRate) and is_possible(estimate)):
        raise ValueError(
            "need a NoiseRate(floor, ceiling, skill) of two Estimate(rate, low, high) with 0 <= low <= rate <= high "
            f"<= 1, the ceiling at least the floor, and a skill from 0 to 1; got {estimate!r}"
        )
    if rows is not None and not (
        isinstance(rows, range) and rows.step == 1 and 0 <= rows.start <= rows.stop <= n_samples
    ):
        raise ValueError(f"need rows to be a part of range({n_samples}), got {rows}; use shard({n_samples})")


def read_mask(name: str, mask: Array, n: int) -> NDArray[np.bool_]:
    """Return one bool per row."""
    found = read_array(mask)
    if found.dtype != bool or found.shape != (n,):
        raise ValueError(f"need {name} to be {n} bools, one per row; got {found.dtype} of shape {found.shape}")
    return found


def read_batch(
    losses: Tensor, index: Array, logits: Tensor | None, labels: Array | None, n_outputs: int
) -> tuple[Tensor, Tensor | None]:
    """Return index and labels of a batch as tensors, once all is of the right shape.

    Args:
        losses: one per row of the batch.
        index: the indices of the rows.
        logits: with `labels`, or None.
        labels: with `logits`, or None; their values are checked at `collect`.
        n_outputs: the outputs of the network in earlier batches; 0 if there was none.
    """
    rows = as_tensor("index", index)
    if not isinstance(losses, Tensor) or losses.ndim != 1 or losses.shape != rows.shape or losses.dtype.is_complex:
        raise ValueError(
            f"need one loss per index, got losses {_describe(losses)} and index {_describe(rows)}; "
            "build the loss with reduction='none'"
        )
    if rows.dtype not in _INTEGERS or rows.shape[0] == 0:
        rows = _as_integers(rows)
    if (logits is None) != (labels is None):
        raise ValueError("need logits and labels together, got only one of them; pass both or neither")
    given = None
    if logits is not None and labels is not None:
        given = _read_labels(logits, as_tensor("labels", labels), len(rows), n_outputs)
    return rows, given


def _read_labels(logits: Tensor, labels: Tensor, n: int, n_outputs: int) -> Tensor:
    """The labels, once they and the logits are of the right shape."""
    if not isinstance(logits, Tensor) or logits.dtype.is_complex or labels.dtype.is_complex:
        raise ValueError(f"need logits and labels as real numbers, got {_describe(logits)} and {_describe(labels)}")
    for name, part in (("logits", logits), ("labels", labels)):
        if part.shape[:1] != (n,):
            raise ValueError(f"need {name} for each of {n} rows, got shape {tuple(part.shape)}")
    outputs = 1 if logits.ndim == 1 else logits.shape[1]
    if outputs != n_outputs or logits.ndim > 2 or labels.ndim != 1:
        read_logits(logits, labels)
        if n_outputs not in (0, outputs):
            raise ValueError(
                f"need logits of {n_outputs} outputs as before, got {outputs}; "
                "a network must not change its number of outputs in a run"
            )
    return labels if labels.is_floating_point() or labels.dtype in _INTEGERS else labels.long()


def weighted_mean(losses: Tensor, weights: Tensor) -> Tensor:
    """mean(weights * losses); a row of weight 0 counts for nothing, even at +inf."""
    if losses.is_cpu:  # fewer nodes to go back through, which small networks feel; asking a GPU would make it wait
        if losses.dtype != weights.dtype:
            dtype = torch.promote_types(losses.dtype, weights.dtype)
            losses, weights = losses.to(dtype), weights.to(dtype)
        mean = torch.dot(weights, losses) / losses.shape[0]
        if math.isfinite(mean.item()):
            return mean
    return (weights * losses.masked_fill(weights == 0, 0)).mean()


def as_tensor(name: str, array: Array) -> Tensor:
    """The array as a tensor."""
    if isinstance(array, Tensor):
        return array
    try:
        return torch.tensor(np.asarray(array))
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ValueError(f"need {name} as numbers, one per row; got {type(array).__name__}") from error


def _as_integers(index: Tensor) -> Tensor:
    """The indices in int64, if they are integers of any size."""
    if index.is_floating_point() or index.dtype.is_complex or index.dtype == torch.bool or len(index) == 0:
        raise ValueError(f"need the rows' indices as integers, got {len(index)} of {index.dtype}")
    return index.long()


def _describe(part: object) -> str:
    if not isinstance(part, Tensor):
        return f"of type {type(part).__name__}"
    return f"{tuple(part.shape)}" + (f" of {part.dtype}" if part.is_complex() else "")
