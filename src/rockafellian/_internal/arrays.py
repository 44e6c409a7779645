"""Vectors with one entry per row: their types, blocks of them, and the way between torch and NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

Array: TypeAlias = Tensor | ArrayLike
Vector: TypeAlias = NDArray[np.floating[Any]]
Real: TypeAlias = np.floating[Any]

#: The label of a row that has not been seen.
UNKNOWN = -1


def blocks(n: int, size: int = 1 << 15) -> Iterator[slice]:
    """Slices small enough to stay in the cache: temporaries on one cost neither memory nor bandwidth."""
    return (slice(start, start + size) for start in range(0, n, size))


def read_array(array: Array) -> NDArray[Any]:
    """The array in NumPy, if it holds real numbers; no copy if it is on the CPU."""
    if isinstance(array, Tensor):
        array = array.detach().cpu()
        array = (array.float() if array.dtype == torch.bfloat16 else array).numpy()
    try:
        values = np.asarray(array)
    except ValueError:
        raise ValueError("need an array of numbers, got rows of different lengths") from None
    if values.dtype.kind not in "fiub":
        kind = type(array).__name__ if array is None or isinstance(array, str) else values.dtype
        raise ValueError(f"need an array of real numbers, got {kind}")
    return values


def as_numpy(array: Array) -> Vector:
    """The values in float32 or float64, whichever holds them; no copy if they are on the CPU and in one of these."""
    values = read_array(array)
    if values.dtype == np.float16:
        return values.astype(np.float32)
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def to_tensor(values: NDArray[Any], like: Array) -> Tensor:
    """A tensor on the device of `like`, without a copy if that is the CPU."""
    return torch.from_numpy(values).to(like.device if isinstance(like, Tensor) else "cpu")


def to_scalar(value: float | Real, like: Array) -> Tensor:
    """A tensor with one number in it, in float64 unless the number has a precision of its own."""
    return to_tensor(np.asarray(value), like)
