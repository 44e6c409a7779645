"""Indexed: a dataset whose rows carry their own number, which is how weights find them in a shuffled batch."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from torch.utils.data import Dataset, IterableDataset


class Indexed(Dataset[Any]):
    """The same rows with their number added: (x, y) -> (x, y, i), a dict gets the entry `key`, a named tuple the field.

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
                f"need a dataset with a length and rows by number, got {type(dataset).__name__}; "
                "a stream has no row numbers: load it into a list or a map-style dataset"
            )
        self.dataset = dataset
        self.key = key

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, i: int) -> Any:
        i = int(i)
        number = i + len(self) if i < 0 else i
        return self._with_number(self.dataset[i], number)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """What a DataLoader asks for: the rows of a batch at once, from the dataset's own such method if it has one."""
        own = getattr(self.dataset, "__getitems__", None)
        rows = [self.dataset[i] for i in indices] if own is None else own(indices)
        n = len(self)
        return [self._with_number(row, int(i) % n) for row, i in zip(rows, indices, strict=True)]

    def _with_number(self, row: Any, i: int) -> Any:
        if type(row) is tuple:  # nearly always, and each row is felt
            return (*row, i)
        fields = row if isinstance(row, Mapping) else getattr(row, "_fields", ())
        if self.key in fields:
            raise ValueError(
                f"need a free name for the row number, but rows have {self.key!r}; pass Indexed(..., key=)"
            )
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
