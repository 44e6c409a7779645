"""Rows of a dataset with their index, which is how weights find a row in a shuffled batch.

`Indexed` adds the index to the rows of any dataset. `Rows` gives batches in any order: data in memory is sliced,
anything else goes through a DataLoader.
"""

from __future__ import annotations

import operator
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, default_collate

from rockafellian._internal.comm import BatchShard, processes


class Indexed(Dataset[Any]):
    """The same rows with their index added: (x, y) -> (x, y, i); a dict gets the entry `key`, a named tuple the field.

    Args:
        dataset: any dataset with a length and rows by index.
        key: name of the index in rows that are dicts or named tuples.

    >>> Indexed([("a", 0), ("b", 1)])[1]
    ('b', 1, 1)
    >>> Indexed([{"text": "a"}])[0]
    {'text': 'a', 'index': 0}
    """

    def __init__(self, dataset: Any, *, key: str = "index") -> None:
        if isinstance(dataset, IterableDataset) or not (
            hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
        ):
            raise ValueError(
                f"need a dataset with a length and rows by index, got {type(dataset).__name__}; "
                "load a stream into a list or a map-style dataset"
            )
        self.dataset = dataset
        self.key = key

    def __repr__(self) -> str:
        return f"Indexed({type(self.dataset).__name__} of {len(self)} rows)"

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, i: int) -> Any:
        i = int(i)
        return self._with_index(self.dataset[i], i + len(self) if i < 0 else i)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Return several rows at once, which a DataLoader asks for; by the dataset's own such method if it has one."""
        own = getattr(self.dataset, "__getitems__", None)
        rows = [self.dataset[i] for i in indices] if own is None else own(indices)
        n = len(self)
        return [self._with_index(row, int(i) % n) for row, i in zip(rows, indices, strict=True)]

    def _with_index(self, row: Any, i: int) -> Any:
        if type(row) is tuple:  # first, because it is the usual case and this runs for each row
            return (*row, i)
        fields = row if isinstance(row, Mapping) else getattr(row, "_fields", ())
        if self.key in fields:
            raise ValueError(f"need a free name for the index, but rows have {self.key!r}; pass Indexed(..., key=)")
        if isinstance(row, Mapping):
            return {**row, self.key: i}
        if fields:
            return _extended(type(row), self.key)(*row, i)  # type: ignore[arg-type]
        if isinstance(row, tuple | list):
            return (*row, i)
        return row, i


@cache
def _extended(row_type: type, key: str) -> Any:
    """The named tuple with one more field. Workers send batches by pickle, which cannot find a type made on the fly."""
    base = namedtuple(row_type.__name__, (*row_type._fields, key))  # type: ignore[attr-defined, misc]
    return type(
        row_type.__name__, (base,), {"__slots__": (), "__reduce__": lambda row: (_extend, (row_type, key, *row))}
    )


def _extend(row_type: type, key: str, *values: Any) -> Any:
    return _extended(row_type, key)(*values)


#: Inputs, labels and indices of rows; inputs and labels on the device of the network, indices on the CPU.
Batch: TypeAlias = tuple[Any, Tensor, Tensor]


class OwnBatch(NamedTuple):
    """A batch of this process, and its share in an optimizer step.

    `weight` is that of its mean in the mean over the rows of the step; 0 if the process has no row in the batch and got
    one of another process, because each must take part in every step. `ends_step` marks the last batch of a step.
    """

    batch: Batch
    weight: float
    ends_step: bool


class Rows:
    """The rows (x, y) of a pair of arrays, a TensorDataset or any dataset with a length, in any order.

    Args:
        data: the rows.
        num_workers: worker processes of the DataLoader, where data is not in memory.
        collate_fn: makes a batch (x, y) from a list of rows; given, also data in memory goes through a DataLoader.
        device: where inputs and labels are moved to.
    """

    def __init__(
        self,
        data: Any,
        *,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.device = torch.device(device)
        pair = _in_memory(data)
        self.in_memory = pair if collate_fn is None else None
        self.dataset = Indexed(data if pair is None else TensorDataset(*pair)) if self.in_memory is None else None
        self.num_workers = num_workers
        self.collate_fn = collate_fn or default_collate
        #: Number of classes that labels from the DataLoader are checked for; None checks nothing.
        self.n_classes: int | None = None
        if len(self) == 0:
            raise ValueError("need at least one row, got an empty data set")

    def __len__(self) -> int:
        return len(self.in_memory[1]) if self.in_memory is not None else len(self.dataset or ())

    def batches(self, order: Tensor, size: int) -> Iterator[Batch]:
        """Yield the rows with these indices, `size` at a time."""
        return self._read(_chunks(order, size))

    def all_batches(self, size: int) -> Iterator[Batch]:
        """Yield all rows in their order."""
        return self.batches(torch.arange(len(self)), size)

    def own_batches(
        self, order: Tensor, size: int, own: BatchShard | None = None, accumulate: int = 1
    ) -> Iterator[OwnBatch]:
        """Yield this process's part of each batch, with its weight in the mean over an optimizer step.

        Args:
            order: indices of the rows.
            size: rows of a batch, over all processes.
            own: which rows of a batch are this process's; None for all.
            accumulate: number of batches of an optimizer step.
        """
        chunks = _chunks(order, size)
        parts = chunks if own is None else [own.of(chunk) for chunk in chunks]
        shown = [part if len(part) else chunk[:1] for part, chunk in zip(parts, chunks, strict=True)]
        for number, (batch, part) in enumerate(zip(self._read(shown), parts, strict=True)):
            first = number - number % accumulate
            step = chunks[first : first + accumulate]
            weight = len(part) * (1 if own is None else processes()) / sum(map(len, step))
            yield OwnBatch(batch, weight, number == first + len(step) - 1)

    def _read(self, chunks: list[Tensor]) -> Iterator[Batch]:
        return self._slice(chunks) if self.in_memory is not None else self._load(chunks)

    def _slice(self, chunks: list[Tensor]) -> Iterator[Batch]:
        assert self.in_memory is not None
        x, y = self.in_memory
        for index in chunks:
            at = index.to(x.device, non_blocking=True)
            yield self._on_device(x.index_select(0, at), y.index_select(0, at), index)

    def _load(self, chunks: list[Tensor]) -> Iterator[Batch]:
        # New workers for every pass: random numbers of theirs must not outlive an epoch.
        loader: DataLoader[Any] = DataLoader(
            self.dataset,  # type: ignore[arg-type]
            batch_sampler=[chunk.tolist() for chunk in chunks],
            num_workers=self.num_workers,
            collate_fn=self._collate,
        )
        for x, y, index in loader:
            check_labels(y, self.n_classes)  # while they are on the CPU: a GPU would have to be waited for
            yield self._on_device(x, y, index)

    def _on_device(self, x: Any, y: Tensor, index: Tensor) -> Batch:
        return _moved(x, self.device), _moved(y, self.device), index

    def _collate(self, rows: list[Any]) -> tuple[Any, Tensor, Tensor]:
        if not isinstance(rows[0], tuple) or len(rows[0]) != 3:
            raise ValueError(
                f"need rows (x, y), got a {type(rows[0]).__name__} of {len(rows[0]) - 1}; wrap the dataset"
            )
        x, y = self.collate_fn([row[:2] for row in rows])
        return x, _as_labels(y), torch.tensor([row[2] for row in rows])


def draw_rows(sampler: Iterable[int] | None, n: int) -> Tensor:
    """Return the indices that a sampler gives for an epoch, checked; without one those of n rows in random order."""
    if sampler is None:
        return torch.randperm(n)
    try:
        order = torch.tensor([operator.index(row) for row in sampler], dtype=torch.int64)
    except TypeError:
        raise ValueError(f"need a sampler that gives one index after the other, got {sampler!r}; not batches") from None
    if len(order) == 0 or order.min() < 0 or order.max() >= n:
        shown = "none" if len(order) == 0 else f"{order.min()} to {order.max()}"
        raise ValueError(f"need a sampler that gives indices from 0 to {n - 1}, got {shown}")
    return order


def check_labels(labels: Tensor, n_classes: int | None) -> None:
    """Raise an error unless the labels are from 0 to n_classes - 1; None checks nothing."""
    if n_classes is None:
        return
    low, high = (int(bound) for bound in labels.aminmax())
    if low < 0 or high >= n_classes:
        raise ValueError(
            f"need labels from 0 to {n_classes - 1}, as the network has {n_classes} outputs; got {low} to {high}"
        )


def _in_memory(data: Any) -> tuple[Tensor, Tensor] | None:
    """Return inputs and labels if that is what was passed; a list of anything but arrays is a list of rows."""
    if isinstance(data, TensorDataset):
        data = data.tensors
    if isinstance(data, list) and len(data) == 2 and all(isinstance(part, Tensor | np.ndarray) for part in data):
        data = tuple(data)
    if not isinstance(data, tuple):
        return None
    if len(data) != 2:
        raise ValueError(f"need inputs and labels, got a tuple of {len(data)}; pass rows (x, y) as a list")
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
    # NumPy defaults to float64; cast to torch's default dtype.
    return torch.as_tensor(values, dtype=torch.get_default_dtype() if values.dtype == np.float64 else None)


def _as_labels(y: Tensor) -> Tensor:
    """Return whole numbers as int64, which torch's losses need, and others as they are."""
    whole = not (y.is_floating_point() or y.dtype == torch.bool)
    return y.long() if whole else y


def _chunks(order: Tensor, size: int) -> list[Tensor]:
    """Return parts of `size` rows; a batch of one row breaks BatchNorm, so it joins the batch before."""
    chunks = [order[start : start + size] for start in range(0, len(order), size)]
    if len(chunks) > 1 and len(chunks[-1]) == 1 < size:
        chunks[-2:] = [torch.cat(chunks[-2:])]
    return chunks


def _moved(x: Any, device: torch.device) -> Any:
    """Return the tensors in `x` on the device, without waiting for what the device has to do before."""
    if isinstance(x, Tensor):
        return x.to(device, non_blocking=True)
    if isinstance(x, Mapping):
        return {key: _moved(value, device) for key, value in x.items()}
    if isinstance(x, tuple | list):
        parts = [_moved(value, device) for value in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    return x
