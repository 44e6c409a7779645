from collections import namedtuple
from typing import NamedTuple

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import rockafellian as rk

X, Y = torch.arange(12.0).reshape(6, 2), torch.arange(6) * 10


class Example(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", ["pair", "dict", "named tuple", "list", "bare"])
def test_the_number_travels_with_its_row_through_a_shuffling_loader(kind: str, workers: int) -> None:
    rows = {
        "pair": TensorDataset(X, Y),
        "dict": [{"x": x, "y": y} for x, y in zip(X, Y, strict=True)],
        "named tuple": [Example(x, y) for x, y in zip(X, Y, strict=True)],
        "list": [[x, y] for x, y in zip(X, Y, strict=True)],
        "bare": X,
    }[kind]
    loader = DataLoader(rk.Indexed(rows), batch_size=4, shuffle=True, num_workers=workers, timeout=60 * workers)
    seen = []
    for batch in loader:
        if kind == "dict":
            x, index = batch["x"], batch["index"]
        elif kind == "named tuple":
            x, index = batch.x, batch.index
        else:
            x, index = batch[0], batch[-1]
        assert torch.equal(x, X[index])
        seen += index.tolist()
    assert sorted(seen) == list(range(6))


def test_a_named_tuple_keeps_its_name_and_fields() -> None:
    row = rk.Indexed([Example(X[0], Y[0])])[0]
    assert type(row).__name__ == "Example"
    assert row._fields == ("x", "y", "index")


def test_a_number_from_the_end_is_counted_from_the_start() -> None:
    assert rk.Indexed([("a",), ("b",)])[-1] == ("b", 1)


def test_iteration_ends_where_the_dataset_ends() -> None:
    dataset = rk.Indexed([("a", 0), ("b", 1)])
    assert len(dataset) == 2
    assert list(dataset) == [("a", 0, 0), ("b", 1, 1)]


def test_rows_fetched_together_are_numbered_like_rows_fetched_one_by_one() -> None:
    class Batched(list):
        def __getitems__(self, indices: list[int]) -> list:
            return [self[i] for i in indices]

    dataset = rk.Indexed(Batched([("a", 0), ("b", 1), ("c", 2)]))
    assert dataset.__getitems__([2, 0]) == [dataset[2], dataset[0]] == [("c", 2, 2), ("a", 0, 0)]


def test_another_key_serves_where_index_is_taken() -> None:
    rows = [{"index": "a page of a book"}]
    with pytest.raises(ValueError, match=r"rows have 'index'; pass Indexed\(..., key=\)"):
        rk.Indexed(rows)[0]
    assert rk.Indexed(rows, key="row")[0] == {"index": "a page of a book", "row": 0}
    with pytest.raises(ValueError, match="rows have 'index'"):
        rk.Indexed([namedtuple("Page", "index")(3)])[0]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(3))


@pytest.mark.parametrize("dataset", [Stream(), iter([(1, 2)]), object()])
def test_a_stream_has_no_row_numbers(dataset: object) -> None:
    with pytest.raises(ValueError, match="need a dataset with a length"):
        rk.Indexed(dataset)
