"""Communication between processes. Besides training/ddp.py, the only file that touches torch.distributed.

Rows can be replicated (`gather_chunks` brings together what each process saw of them) or sharded (`PROCESSES`): then
only minima, sums and the k-th largest loss are exchanged, a few kilobytes whatever the number of rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.arrays import Real, Vector
from rockafellian._internal.kth_largest import kth_largest

_OF_GLOO = re.compile(r"gloo|[Cc]onnection (closed|reset|refused)|timed? ?out", re.ASCII)
#: The 32 bits of the k-th largest are found in steps of so many bits: 2 KB of counts each.
BITS = (8, 8, 8, 8)
#: Rows that are exchanged at a time where all processes keep all rows.
CHUNK = 1 << 14


class Comm(Protocol):
    """Where the rows lie: all here (`LOCAL`), or sharded over processes that all call the same methods in turn."""

    def exchange(self, numbers: Sequence[float], /) -> NDArray[np.float64]:
        """Everyone's numbers, one row per process in the order of ranks."""

    def total(self, number: float, /) -> float:
        """The sum of everyone's number, in the order of ranks, so that all get the same bits."""

    def totals(self, counts: NDArray[np.int64], /) -> NDArray[np.int64]:
        """The sums of everyone's counts, element by element."""

    def least(self, number: float | Real, /) -> float:
        """The least of everyone's number."""

    def greatest(self, number: float | Real, /) -> float:
        """The greatest of everyone's number."""

    def gathered(self, columns: Vector, /) -> Vector:
        """Everyone's columns (few, many), one after the other."""

    def kth_largest(self, values: Vector, k: int, /) -> tuple[Real, Real]:
        """The k-th largest of everyone's values, and the largest one strictly below it or -inf."""


class Local:
    """All rows are here."""

    def exchange(self, numbers: Sequence[float]) -> NDArray[np.float64]:
        """One row: these numbers."""
        return np.array([numbers], dtype=np.float64)

    def total(self, number: float) -> float:
        """The number itself."""
        return number

    def totals(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The counts themselves."""
        return counts

    def least(self, number: float | Real) -> float:
        """The number itself."""
        return float(number)

    greatest = least

    def gathered(self, columns: Vector) -> Vector:
        """The columns themselves."""
        return columns

    def kth_largest(self, values: Vector, k: int) -> tuple[Real, Real]:
        """By selection in memory."""
        return kth_largest(values, k)


class Processes:
    """Each process has rows of its own, or none; all ask the same at the same time, and get the same answer."""

    def exchange(self, numbers: Sequence[float]) -> NDArray[np.float64]:
        """Everyone's numbers, by one collective."""
        everyones: NDArray[np.float64] = _from_all(torch.tensor(numbers, dtype=torch.float64)).numpy()
        return everyones

    def total(self, number: float) -> float:
        """The sum of everyone's number."""
        return float(sum(self.exchange([number])[:, 0].tolist()))

    def totals(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sums of everyone's counts."""
        if not is_distributed():
            return counts
        everyones = torch.from_numpy(counts.astype(np.int64)).to(_device())
        dist.all_reduce(everyones)
        found: NDArray[np.int64] = everyones.cpu().numpy()
        return found

    def least(self, number: float | Real) -> float:
        """The least of everyone's number."""
        return float(self.exchange([float(number)])[:, 0].min())

    def greatest(self, number: float | Real) -> float:
        """The greatest of everyone's number."""
        return float(self.exchange([float(number)])[:, 0].max())

    def gathered(self, columns: Vector) -> Vector:
        """Everyone's columns, one after the other."""
        everyones: Vector = gathered(torch.from_numpy(np.ascontiguousarray(columns.T))).numpy().T
        return everyones

    def kth_largest(self, values: Vector, k: int) -> tuple[Real, Real]:
        """The k-th largest of everyone's float32 values, by their bits.

        In an order in which integers compare as the values do, the bits are found from the highest down: each process
        counts its values by the next few bits, and the sums of the counts tell which bits the k-th largest has.
        """
        if values.dtype != np.float32:
            raise ValueError(f"need float32 losses where rows are sharded over processes, got {values.dtype}")
        left, prefix, free = _sortable(values), 0, 32
        for bits in BITS:
            free -= bits
            shift = np.uint32(free)
            counts = self.totals(np.bincount((left >> shift) & np.uint32((1 << bits) - 1), minlength=1 << bits))
            above = np.cumsum(counts[::-1])[::-1] - counts  # values with higher bits than these
            at = int(np.flatnonzero((above < k) & (above + counts >= k))[0])
            k -= int(above[at])
            prefix = (prefix << bits) | at
            left = left[(left >> shift) == prefix]
        found = _value(prefix)
        return found, np.float32(self.greatest(values[values < found].max(initial=-np.inf)))


LOCAL = Local()
PROCESSES = Processes()


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
            f"need all {processes()} processes to continue, but another one has ended or cannot be reached; "
            f"see its output; {kept}: start again with resume=True, with any number of processes"
        ) from error


def shard(n: int) -> range:
    """The rows of this process, where n rows are sharded evenly over all processes, in the order of ranks."""
    return range(n * rank() // processes(), n * (rank() + 1) // processes())


@dataclass(frozen=True)
class BatchShard:
    """Which rows of a common batch this process takes: those that it holds, or an even part if all hold all rows."""

    held: range | None = None

    def of(self, batch: Tensor) -> Tensor:
        """The rows of the batch that this process takes."""
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


def gather_chunks(n: int, width: int, read: Callable[[int, int], NDArray[np.float32]]) -> Iterator[NDArray[np.float32]]:
    """Every process's columns, some rows of each at a time, so that none needs memory for all; all must call this.

    Args:
        n: how many rows this process has; the number may differ between processes.
        width: how many columns there are.
        read: gives the columns (width, rows) from one row to another.
    """
    heights = PROCESSES.exchange([n])[:, 0]
    for start in range(0, int(heights.max()), CHUNK):
        own = read(min(start, n), min(start + CHUNK, n)).view(np.int32)  # bits, which no arithmetic touches
        padded = torch.zeros(width, min(CHUNK, int(heights.max()) - start), dtype=torch.int32)
        padded[:, : own.shape[1]] = torch.from_numpy(own)
        for everyones, height in zip(_from_all(padded), (heights - start).clip(0, CHUNK), strict=True):
            yield everyones[:, : int(height)].numpy().view(np.float32)


def _sortable(values: Vector) -> NDArray[np.uint32]:
    """Integers that compare as these float32 values do; -0 counts as 0."""
    bits = (values + np.float32(0)).view(np.uint32)
    keys: NDArray[np.uint32] = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
    return keys


def _value(key: int) -> Real:
    bits = key & 0x7FFFFFFF if key >> 31 else ~key & 0xFFFFFFFF
    value: Any = np.array(bits, np.uint32).view(np.float32)[()]
    return value  # type: ignore[no-any-return]


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
