"""What callers pass as losses, weights and priors, checked once and read as NumPy vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from rockafellian._internal.arrays import Array, Real, Vector, as_numpy, blocks
from rockafellian._internal.comm import LOCAL, Comm


@dataclass(frozen=True, eq=False)
class Losses:
    """One checked loss per row, finite or +inf, in float32 or float64, and what is known of all rows together."""

    values: Vector
    n: int
    c_min: Real
    largest: Real
    largest_finite: Real
    comm: Comm


#: What the functions of the method take: anything like an array, or losses that were checked before.
LossesLike: TypeAlias = Array | Losses


def read_losses(
    losses: LossesLike,
    *,
    rows: NDArray[np.int64] | None = None,
    comm: Comm = LOCAL,
    if_empty: str = "need at least one loss, got an empty vector",
) -> Losses:
    """The losses, checked; if they were checked before, themselves.

    Args:
        losses: one per row.
        rows: the indices of the rows, for errors.
        comm: where the rows lie.
        if_empty: the error if there is no row.
    """
    if isinstance(losses, Losses):
        return losses
    values = as_numpy(losses)
    if values.ndim != 1:
        raise ValueError(
            f"need one loss per row, a vector; got shape {values.shape}; build the loss with reduction='none'"
        )
    least, largest = _extremes(values)
    finite = largest if largest < np.inf else values[np.isfinite(values)].max(initial=-np.inf)
    diverged = -np.inf if np.isnan(least) else least  # one process that has diverged stops all of them
    everyones = comm.exchange([len(values), float(diverged), float(largest), float(finite)])
    n = int(everyones[:, 0].sum())
    if n == 0:
        raise ValueError(if_empty)
    real = values.dtype.type
    c_min, largest, finite = real(everyones[:, 1].min()), real(everyones[:, 2].max()), real(everyones[:, 3].max())
    if not math.isfinite(c_min):
        raise ValueError(describe_divergence(_find_divergence(values, rows, c_min)))
    return Losses(values, n, c_min, largest, finite, comm)


def read_weights(weights: Array, losses: Vector) -> Vector:
    """One weight per loss, in the precision of the losses."""
    with np.errstate(over="ignore"):
        values = as_numpy(weights).astype(losses.dtype, copy=False)
    if values.shape != losses.shape:
        raise ValueError(f"need one weight per loss, got shape {values.shape} for {len(losses)} losses")
    return values


def read_prior(prior: Array | None, losses: Vector, comm: Comm = LOCAL) -> Vector:
    """The prior weights q, scaled to mean 1; without a prior, ones that take no memory."""
    if prior is None:
        return np.broadcast_to(losses.dtype.type(1), losses.shape)
    q = read_weights(prior, losses)
    if len(q) and not (np.isfinite(q).all() and q.min() > 0):
        raise ValueError(f"need positive finite prior weights, got {q.min()} to {q.max()}; leave rows of weight 0 out")
    mean = mean_of(q, comm)
    if math.isinf(mean):  # the sum overflows
        q = q / q.dtype.type(comm.greatest(q.max(initial=0)))
        mean = mean_of(q, comm)
    scaled: Vector = q / q.dtype.type(mean)
    return scaled


def mean_of(values: Vector, comm: Comm = LOCAL) -> float:
    """The mean over all rows, wherever they lie."""
    with np.errstate(over="ignore", invalid="ignore"):  # of infinities of both signs, as a caller may pass
        total = float(values.sum(dtype=np.float64))
    everyones = comm.exchange([total, len(values)])
    return float(sum(everyones[:, 0].tolist()) / sum(everyones[:, 1].tolist()))


def safe_mean(values: Vector, weights: Vector | None = None) -> float:
    """The mean of values, or of weights * values; no sum on the way to it overflows, unless the mean does too."""
    with np.errstate(over="ignore", invalid="ignore"):
        for scale in (1.0, 2.0**-128):  # a power of two: nothing is rounded
            parts = values if scale == 1 else values * scale
            total = parts.sum(dtype=np.float64) if weights is None else parts.astype(np.float64) @ weights
            if np.isfinite(total):
                break
        return float(total / len(values) / scale)


def read_number(name: str, value: object) -> float:
    """The value as a float, if it is one number."""
    try:
        if not isinstance(value, str | bytes | bool):
            return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError, OverflowError):
        pass
    raise ValueError(f"need {name} to be a number, got {value!r}")


def is_integer(value: object) -> bool:
    """Whether the value is an integer, of Python or NumPy; True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def read_fraction(name: str, value: object) -> float:
    """The value as a float from 0 to 1."""
    number = read_number(name, value)
    if not 0 <= number <= 1:
        raise ValueError(f"need a {name} in [0, 1], a fraction of a class; got {value}")
    return number


def check_choice(name: str, value: object, choices: tuple[Any, ...]) -> None:
    """Raise unless the value is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"need {name} to be one of {', '.join(map(repr, choices))}; got {value!r}")


def usable_device(device: object) -> torch.device:
    """Return the device of this name, if torch has it here and can keep numbers on it."""
    try:
        torch.zeros(1, device=device).item()  # type: ignore[call-overload] # the device "meta" holds no numbers
        return torch.device(device)  # type: ignore[call-overload,no-any-return]
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        raise ValueError(f"need a device that torch has here, such as cpu; got {device!r}") from error


def _extremes(values: Vector) -> tuple[Real, Real]:
    """The least and the largest value in one pass over memory; NaN wins the first."""
    least, largest = values.dtype.type(np.inf), values.dtype.type(-np.inf)
    for rows in blocks(len(values)):
        least, largest = np.minimum(least, values[rows].min()), np.maximum(largest, values[rows].max())
    return least, largest


def describe_divergence(found: str) -> str:
    """The error for losses that are no numbers."""
    return (
        f"need finite losses, but {found}: training has diverged; lower the learning rate, "
        "and with spread='argmin', where one row can weigh as much as all removed ones, use spread='kept'"
    )


def _find_divergence(losses: Vector, rows: NDArray[np.int64] | None, c_min: Real) -> str:
    """Which losses are no numbers."""
    bad = np.flatnonzero(np.isnan(losses) | np.isneginf(losses))
    if len(bad) == 0:
        return "losses in another process are NaN or -inf" if c_min < 0 else f"all {len(losses)} losses are +inf"
    names = (bad if rows is None else rows[bad])[:5].tolist()
    more = ", ..." if len(bad) > len(names) else ""
    return f"{len(bad)} of {len(losses)} losses are NaN or -inf (rows {', '.join(map(str, names))}{more})"
