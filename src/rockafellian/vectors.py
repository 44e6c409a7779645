"""Vectors with one entry per row: what callers pass, checked once and read as numpy; what they get, as tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

Array: TypeAlias = Tensor | ArrayLike
Vector: TypeAlias = NDArray[np.floating[Any]]
Real: TypeAlias = np.floating[Any]


def read_losses(losses: Array, *, rows: Tensor | None = None) -> tuple[Vector, Real]:
    """One loss per row, finite or `+inf`, in float32 or float64, and the least of them. `rows` are names for errors."""
    values = _as_numpy(losses)
    if values.ndim != 1:
        raise ValueError(
            f"need one loss per row, a vector; got shape {values.shape}; build the loss with reduction='none'"
        )
    if len(values) == 0:
        raise ValueError("need at least one loss, got an empty vector")
    c_min = values.min()
    if not math.isfinite(c_min):  # NaN and -inf both win a minimum
        raise ValueError(_diverged(values, rows))
    return values, c_min


def read_weights(weights: Array, losses: Vector) -> Vector:
    """One weight per loss, in the precision of the losses."""
    values = _as_numpy(weights).astype(losses.dtype, copy=False)
    if values.shape != losses.shape:
        raise ValueError(f"need one weight per loss, got shape {values.shape} for {len(losses)} losses")
    return values


def read_prior(prior: Array | None, losses: Vector) -> Vector:
    """The prior weights q, scaled to mean 1; without a prior, ones that take no memory."""
    if prior is None:
        return np.broadcast_to(losses.dtype.type(1), losses.shape)
    q = read_weights(prior, losses)
    if not (np.isfinite(q).all() and q.min() > 0):
        raise ValueError(f"need positive finite prior weights, got {q.min()} to {q.max()}; leave rows of weight 0 out")
    scaled: Vector = q / q.dtype.type(q.mean(dtype=np.float64))
    return scaled


def check_distribution(weights: Vector) -> None:
    """An error unless the weights are a distribution on the scale N * p."""
    mean = float(weights.mean(dtype=np.float64))
    if not (abs(mean - 1) < 1e-3 and weights.min() >= -1e-6):
        raise ValueError(
            f"need weights >= 0 with mean 1, got mean {mean:g} and minimum {weights.min():g}; multiply p_i by N"
        )


def blocks(n: int, size: int = 1 << 17) -> Iterator[slice]:
    """Slices small enough to stay in the cache: what is computed on one costs no memory, nor a trip to it."""
    return (slice(start, start + size) for start in range(0, n, size))


def to_tensor(values: NDArray[Any], like: Array) -> Tensor:
    """A tensor on the device of `like`, without a copy if that is the CPU."""
    return torch.from_numpy(values).to(like.device if isinstance(like, Tensor) else "cpu")


def to_scalar(value: float | Real, like: Array) -> Tensor:
    """A tensor with one number in it, in float64 unless the number has a precision of its own."""
    return to_tensor(np.asarray(value), like)


def _as_numpy(array: Array) -> Vector:
    if isinstance(array, Tensor):
        array = array.detach().cpu()
        array = (array.float() if array.dtype in (torch.float16, torch.bfloat16) else array).numpy()
    values = np.asarray(array)
    if values.dtype == np.float16:
        return values.astype(np.float32)
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def _diverged(losses: Vector, rows: Tensor | None) -> str:
    bad = np.flatnonzero(np.isnan(losses) | np.isneginf(losses))
    found = f"all {len(losses)} losses are +inf"
    if len(bad):
        names = (bad if rows is None else rows.cpu().numpy()[bad])[:5].tolist()
        more = ", ..." if len(bad) > len(names) else ""
        found = f"{len(bad)} of {len(losses)} losses are NaN or -inf (rows {', '.join(map(str, names))}{more})"
    return (
        f"need finite losses, but {found}: training has diverged; lower the learning rate, "
        "and with spread='argmin', where one row can weigh as much as all removed ones, use spread='kept'"
    )
