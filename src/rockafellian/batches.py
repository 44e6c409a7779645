"""Batches of rows in any order: data in memory is sliced, anything else goes through a DataLoader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset, default_collate

from rockafellian.data import Indexed

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
        self.in_memory = _in_memory(data) if collate is None else None
        self.dataset = Indexed(data) if self.in_memory is None else None
        self.workers = workers
        self.collate = collate or default_collate
        if len(self) == 0:
            raise ValueError("need at least one row, got an empty data set")

    def __len__(self) -> int:
        return len(self.in_memory[1]) if self.in_memory is not None else len(self.dataset or ())

    def batches(self, order: Tensor, size: int) -> Iterator[Batch]:
        """The rows with these numbers, `size` at a time."""
        chunks = _chunks(order, size)
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
    if isinstance(data, TensorDataset):
        data = data.tensors
    if not isinstance(data, tuple | list) or not all(isinstance(part, Tensor | np.ndarray) for part in data):
        return None
    if len(data) != 2 or len(data[0]) != len(data[1]):
        raise ValueError(
            f"need inputs and labels of equal length, got {', '.join(str(tuple(part.shape)) for part in data)}"
        )
    x = data[0] if isinstance(data[0], Tensor) else torch.from_numpy(data[0])
    if isinstance(data[0], np.ndarray) and x.dtype == torch.float64:
        x = x.to(torch.get_default_dtype())  # numpy's habit, not the user's wish
    return x, _as_labels(torch.as_tensor(data[1], device=x.device))


def _as_labels(y: Tensor) -> Tensor:
    """Whole numbers in the one type that torch's losses take."""
    whole = not (y.is_floating_point() or y.dtype == torch.bool)
    return y.long() if whole else y


def _chunks(order: Tensor, size: int) -> list[Tensor]:
    """Parts of `size` rows; a last row alone, of which BatchNorm can make nothing, joins the part before."""
    chunks = [order[start : start + size] for start in range(0, len(order), size)]
    if len(chunks) > 1 and len(chunks[-1]) == 1:
        chunks[-2:] = [torch.cat(chunks[-2:])]
    return chunks


def _moved(x: Any, device: torch.device) -> Any:
    if isinstance(x, Tensor):
        return x.to(device, non_blocking=True)
    if isinstance(x, Mapping):
        return {key: _moved(value, device) for key, value in x.items()}
    return type(x)(_moved(value, device) for value in x) if isinstance(x, tuple | list) else x
