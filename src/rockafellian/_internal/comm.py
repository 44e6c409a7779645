"""What processes tell each other. Beside `replicas`, the only file that touches torch.distributed.

Rows can be everywhere (`gathered` brings together what each process saw of them), or each process has rows of its own
(`TOGETHER`): then the least loss, sums and the k-th largest loss are asked for, which takes a few kilobytes whatever
the number of rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.validation import Real, Vector

_OF_GLOO = re.compile(r"gloo|[Cc]onnection (closed|reset|refused)|timed? ?out", re.ASCII)
#: The 32 bits of the k-th largest are found in so many steps of so many bits: 2 KB of counts each.
STEPS, BITS = 4, 8


def is_distributed() -> bool:
    """Whether this process is one of several that train together."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def rank() -> int:
    """Which of the processes this is; 0 is the one that writes and speaks for all."""
    return dist.get_rank() if is_distributed() else 0


def processes() -> int:
    """How many processes train together."""
    return dist.get_world_size() if is_distributed() else 1


@contextmanager
def peer_failure(checkpoint: object) -> Iterator[None]:
    """Within the block, an error because another process ended becomes one that says so."""
    try:
        yield
    except RuntimeError as error:
        if not is_distributed() or not (isinstance(error, dist.DistError) or _OF_GLOO.search(str(error))):
            raise
        kept = "there is no checkpoint" if checkpoint is None else f"the last whole epoch is in {checkpoint}"
        raise ConnectionError(
            f"need all {processes()} processes to go on, but another one has ended, or cannot be reached; "
            f"see what it said; {kept}: start again with resume=True, with as many processes or others"
        ) from error


def shard(n: int) -> range:
    """The rows of this process, where n rows are shared out evenly among all, in the order of ranks."""
    return range(n * rank() // processes(), n * (rank() + 1) // processes())


@dataclass(frozen=True)
class BatchShard:
    """Which rows of a batch that all processes share are for this one: those that it holds, or its even part of any."""

    held: range | None = None

    def of(self, batch: Tensor) -> Tensor:
        """These rows."""
        if self.held is None:
            return batch[rank() :: processes()]
        return batch[(batch >= self.held.start) & (batch < self.held.stop)]


def gathered(matrix: Tensor) -> Tensor:
    """The rows of every process's matrix, one process after the other; all must call this, and all get the same.

    Heights may differ, and a matrix without rows may have any width.
    """
    if not is_distributed():
        return matrix
    shapes = _from_all(torch.tensor(matrix.shape)).tolist()
    height = max(rows for rows, _ in shapes)
    width = max((columns for rows, columns in shapes if rows), default=matrix.shape[1])
    if width == 0:
        return matrix.new_empty(sum(rows for rows, _ in shapes), 0)
    padded = torch.zeros(height, width, dtype=matrix.dtype)
    if len(matrix):
        padded[: len(matrix)] = matrix
    parts = _from_all(padded).to(matrix.device)
    return torch.cat([part[:rows] for part, (rows, _) in zip(parts, shapes, strict=True)])


class Processes:
    """Each process has rows of its own, or none; all ask the same at the same time, and get the same answer."""

    def total(self, number: float) -> float:
        """The sum of everyone's number, in the order of ranks, so that all get the same bits."""
        return sum(_everyones(number))

    def totals(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sums of everyone's whole numbers, place by place."""
        if not is_distributed():
            return numbers
        everyones = torch.from_numpy(numbers.astype(np.int64)).to(_device())
        dist.all_reduce(everyones)
        found: NDArray[np.int64] = everyones.cpu().numpy()
        return found

    def least(self, number: float | Real) -> float:
        """The least of everyone's number."""
        return min(_everyones(number))

    def greatest(self, number: float | Real) -> float:
        """The greatest of everyone's number."""
        return max(_everyones(number))

    def gathered(self, columns: Vector) -> Vector:
        """Everyone's columns (few, many), one after the other."""
        everyones: Vector = gathered(torch.from_numpy(np.ascontiguousarray(columns.T))).numpy().T
        return everyones

    def kth_largest(self, values: Vector, k: int) -> tuple[Real, Real]:
        """The k-th largest of everyone's float32 values, and the largest one strictly below it or -inf.

        Their bits, in an order in which whole numbers compare as the values do, are narrowed down from the highest
        bits: each process counts its values by the next few bits, and the sums of the counts tell which bits the k-th
        largest has.
        """
        if values.dtype != np.float32:
            raise ValueError(f"need float32 losses where processes have rows of their own, got {values.dtype}")
        keys = _sortable(values)
        left, prefix = keys, 0
        for step in range(1, STEPS + 1):
            free = np.uint32(32 - step * BITS)
            counts = self.totals(np.bincount((left >> free) & ((1 << BITS) - 1), minlength=1 << BITS))
            above = np.cumsum(counts[::-1])[::-1] - counts  # values with higher bits than these
            at = int(np.flatnonzero((above < k) & (above + counts >= k))[0])
            k -= int(above[at])
            prefix = (prefix << BITS) | at
            left = left[(left >> free) == prefix]
        found = _value(prefix)
        return found, np.float32(self.greatest(values[values < found].max(initial=-np.inf)))


PROCESSES = Processes()


def _sortable(values: Vector) -> NDArray[np.uint32]:
    """Whole numbers that compare as these float32 values do; -0 counts as 0."""
    bits = (values + np.float32(0)).view(np.uint32)
    keys: NDArray[np.uint32] = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
    return keys


def _value(key: int) -> Real:
    bits = key & 0x7FFFFFFF if key >> 31 else ~key & 0xFFFFFFFF
    value: Any = np.array(bits, np.uint32).view(np.float32)[()]
    return value  # type: ignore[no-any-return]


def _everyones(number: float | Real) -> list[float]:
    numbers: list[float] = _from_all(torch.tensor(float(number), dtype=torch.float64)).tolist()
    return numbers


def _from_all(tensor: Tensor) -> Tensor:
    """The tensors of all processes, which have one shape, stacked."""
    if not is_distributed():
        return tensor[None]
    tensor = tensor.to(_device())
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)
    return torch.stack(parts).cpu()


def _device() -> torch.device:
    """Where tensors must lie to be sent."""
    return torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else torch.device("cpu")
