"""Vectors with one entry per row: what callers pass, checked once and read as numpy; what they get, as tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

Array: TypeAlias = Tensor | ArrayLike
Vector: TypeAlias = NDArray[np.floating[Any]]
Real: TypeAlias = np.floating[Any]

#: The label of a row that has not been seen.
UNKNOWN = -1


class Comm(Protocol):
    """Where the rows lie: all here, or shared out over processes, of which all must ask the same at the same time."""

    def total(self, number: float, /) -> float:
        """The sum of everyone's number."""

    def totals(self, numbers: NDArray[np.int64], /) -> NDArray[np.int64]:
        """The sums of everyone's whole numbers, place by place."""

    def least(self, number: float | Real, /) -> float:
        """The least of everyone's number."""

    def greatest(self, number: float | Real, /) -> float:
        """The greatest of everyone's number."""

    def gathered(self, columns: Vector, /) -> Vector:
        """Everyone's columns (few, many), one after the other."""

    def kth_largest(self, values: Vector, k: int, /) -> tuple[Real, Real]:
        """The k-th largest of everyone's values, and the largest one strictly below it or -inf."""


def read_losses(losses: Array, *, rows: Tensor | None = None, comm: Comm | None = None) -> tuple[Vector, Real]:
    """One loss per row, finite or `+inf`, in float32 or float64, and the least of all. `rows` are names for errors."""
    values = _as_numpy(losses)
    if values.ndim != 1:
        raise ValueError(
            f"need one loss per row, a vector; got shape {values.shape}; build the loss with reduction='none'"
        )
    if (len(values) if comm is None else comm.total(len(values))) == 0:
        raise ValueError("need at least one loss, got an empty vector")
    c_min = values.min(initial=np.inf)
    if comm is not None:  # one process that has diverged stops all of them
        c_min = values.dtype.type(comm.least(-np.inf if np.isnan(c_min) else c_min))
    if not math.isfinite(c_min):  # NaN and -inf both win a minimum
        raise ValueError(_diverged(values, rows))
    return values, c_min


def read_weights(weights: Array, losses: Vector) -> Vector:
    """One weight per loss, in the precision of the losses."""
    values = _as_numpy(weights).astype(losses.dtype, copy=False)
    if values.shape != losses.shape:
        raise ValueError(f"need one weight per loss, got shape {values.shape} for {len(losses)} losses")
    return values


def read_prior(prior: Array | None, losses: Vector, comm: Comm | None = None) -> Vector:
    """The prior weights q, scaled to mean 1; without a prior, ones that take no memory."""
    if prior is None:
        return np.broadcast_to(losses.dtype.type(1), losses.shape)
    q = read_weights(prior, losses)
    if len(q) and not (np.isfinite(q).all() and q.min() > 0):
        raise ValueError(f"need positive finite prior weights, got {q.min()} to {q.max()}; leave rows of weight 0 out")
    scaled: Vector = q / q.dtype.type(mean_of(q, comm))
    return scaled


def check_distribution(weights: Vector, comm: Comm | None = None) -> None:
    """An error unless the weights are a distribution on the scale N * p."""
    mean, least = mean_of(weights, comm), weights.min(initial=0)
    if not (abs(mean - 1) < 1e-3 and least >= -1e-6):
        raise ValueError(f"need weights >= 0 with mean 1, got mean {mean:g} and minimum {least:g}; multiply p_i by N")


def mean_of(values: Vector, comm: Comm | None = None) -> float:
    """The mean over all rows, wherever they lie."""
    if comm is None:
        return float(values.mean(dtype=np.float64))
    return comm.total(float(values.sum(dtype=np.float64))) / comm.total(len(values))


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
