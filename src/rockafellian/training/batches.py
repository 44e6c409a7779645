"""Batches of rows in any order: data in memory is sliced, anything else goes through a DataLoader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset, default_collate

from rockafellian._internal.comm import BatchShard, processes
from rockafellian.training.data import Indexed

#: Inputs, labels and the numbers of the rows; the first two on the device of the network.
Batch: TypeAlias = tuple[Any, Tensor, Tensor]


class Rows:
    """The rows (x, y) of a pair of arrays, a TensorDataset or any dataset with a length, in any order."""

    def __init__(
        self,
        data: Any,
        *,
        workers: int = 0,
        collate: Callable[[list[Any]], Any] | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.device = torch.device(device)
        pair = _in_memory(data)
        self.in_memory = pair if collate is None else None
        self.dataset = Indexed(data if pair is None else TensorDataset(*pair)) if self.in_memory is None else None
        self.workers = workers
        self.collate = collate or default_collate
        if len(self) == 0:
            raise ValueError("need at least one row, got an empty data set")

    def __len__(self) -> int:
        return len(self.in_memory[1]) if self.in_memory is not None else len(self.dataset or ())

    def batches(self, order: Tensor, size: int) -> Iterator[Batch]:
        """The rows with these numbers, `size` at a time."""
        return self._read(_chunks(order, size))

    def own_batches(self, order: Tensor, size: int, own: BatchShard | None) -> Iterator[tuple[Batch, float]]:
        """The rows of each batch that are this process's, and what their mean weighs in the mean over processes.

        So weighed it is the mean over the batch. A process that has no row in a batch gets one of another's, of weight
        0: each must take part in every step. Without `own` all rows are this process's.
        """
        chunks = _chunks(order, size)
        if own is None:
            return ((batch, 1.0) for batch in self._read(chunks))
        parts = [own.of(chunk) for chunk in chunks]
        weights = [len(part) * processes() / len(chunk) for part, chunk in zip(parts, chunks, strict=True)]
        shown = [part if len(part) else chunk[:1] for part, chunk in zip(parts, chunks, strict=True)]
        return zip(self._read(shown), weights, strict=True)

    def _read(self, chunks: list[Tensor]) -> Iterator[Batch]:
        if self.in_memory is not None:
            x, y = self.in_memory
            for index in chunks:
                at = index.to(x.device)
                yield self._on_device(x.index_select(0, at), y.index_select(0, at), index)
        else:
            # New workers for every pass: theirs are the only random numbers that could outlive an epoch.
            loader: DataLoader[Any] = DataLoader(
                self.dataset,  # type: ignore[arg-type]
                batch_sampler=[chunk.tolist() for chunk in chunks],
                num_workers=self.workers,
                collate_fn=self._collated,
            )
            for x, y, index in loader:
                yield self._on_device(x, y, index)

    def all_batches(self, size: int) -> Iterator[Batch]:
        """All rows in their order."""
        return self.batches(torch.arange(len(self)), size)

    def _on_device(self, x: Any, y: Tensor, index: Tensor) -> Batch:
        return _moved(x, self.device), y.to(self.device, non_blocking=True), index

    def _collated(self, rows: list[Any]) -> tuple[Any, Tensor, Tensor]:
        if not isinstance(rows[0], tuple) or len(rows[0]) != 3:
            raise ValueError(
                f"need rows (x, y), got a {type(rows[0]).__name__} of {len(rows[0]) - 1}; wrap the dataset"
            )
        x, y = self.collate([row[:2] for row in rows])
        return x, _as_labels(y), torch.tensor([row[2] for row in rows])


def _in_memory(data: Any) -> tuple[Tensor, Tensor] | None:
    """Inputs and labels, if that is what was passed; a list of anything else than arrays is a list of rows."""
    if isinstance(data, TensorDataset):
        data = data.tensors
    if isinstance(data, list) and len(data) == 2 and all(isinstance(part, Tensor | np.ndarray) for part in data):
        data = tuple(data)
    if not isinstance(data, tuple):
        return None
    if len(data) != 2:
        raise ValueError(f"need inputs and labels, got a tuple of {len(data)}; rows (x, y) can come as a list")
    x, y = (_as_tensor(part) for part in data)
    if x.ndim == 0 or x.shape[:1] != y.shape[:1]:
        raise ValueError(f"need inputs and labels of equal length, got {tuple(x.shape)} and {tuple(y.shape)}")
    return x, _as_labels(y).to(x.device)


def _as_tensor(part: Any) -> Tensor:
    if isinstance(part, Tensor):
        return part
    values = np.asarray(part)
    if values.dtype.kind not in "fiub":
        raise ValueError(f"need numbers as inputs and labels, got an array of {values.dtype}; encode them first")
    values = np.require(values, values.dtype.newbyteorder("="), ["C_CONTIGUOUS", "WRITEABLE"])  # what torch can share
    # Doubles are numpy's habit, not the user's wish.
    return torch.as_tensor(values, dtype=torch.get_default_dtype() if values.dtype == np.float64 else None)


def _as_labels(y: Tensor) -> Tensor:
    """Whole numbers in the one type that torch's losses take."""
    whole = not (y.is_floating_point() or y.dtype == torch.bool)
    return y.long() if whole else y


def _chunks(order: Tensor, size: int) -> list[Tensor]:
    """Parts of `size` rows; a last row alone, of which BatchNorm can make nothing, joins the part before."""
    chunks = [order[start : start + size] for start in range(0, len(order), size)]
    if len(chunks) > 1 and len(chunks[-1]) == 1 < size:
        chunks[-2:] = [torch.cat(chunks[-2:])]
    return chunks


def _moved(x: Any, device: torch.device) -> Any:
    if isinstance(x, Tensor):
        return x.to(device, non_blocking=True)
    if isinstance(x, Mapping):
        return {key: _moved(value, device) for key, value in x.items()}
    if isinstance(x, tuple | list):
        parts = [_moved(value, device) for value in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    return x
