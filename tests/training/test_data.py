from collections import namedtuple
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, default_collate, get_worker_info

import rockafellian as rk
from rockafellian.training import data
from rockafellian.training.data import Rows, check_labels

X = torch.arange(14.0).reshape(7, 2)
Y = torch.tensor([3, 1, 4, 1, 5, 9, 2])
ORDER = torch.tensor([4, 0, 6, 2, 5, 1, 3])


class MapStyle(Dataset):
    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, i: int) -> tuple[np.ndarray, np.int32]:
        return X[i].numpy(), np.int32(Y[i])


class TellsWhere(MapStyle):
    def __getitem__(self, i: int) -> tuple[np.ndarray, bool]:
        return X[i].numpy(), get_worker_info() is not None


class Example(NamedTuple):
    image: Tensor
    label: int


class Stream(IterableDataset):
    def __iter__(self):
        return iter(zip(X, Y, strict=True))


PAIRS = [(x, int(y)) for x, y in zip(X, Y, strict=True)]
IN_MEMORY = {
    "tensors": (X, Y),
    "list of tensors": [X, Y],
    "arrays": (X.double().numpy(), Y.int().numpy()),
    "tensor and array": (X, Y.numpy().astype(np.uint8)),
    "TensorDataset": TensorDataset(X, Y.int()),
}
BY_LOADER = {
    "map-style": MapStyle(),
    "pairs": PAIRS,
    "lists": [list(row) for row in PAIRS],
    "named tuples": [Example(*row) for row in PAIRS],
}


@pytest.fixture(autouse=True)
def _a_worker_that_hangs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def loader(*args, num_workers: int, **options) -> DataLoader:
        return DataLoader(*args, num_workers=num_workers, timeout=60 * num_workers, **options)

    monkeypatch.setattr(data, "DataLoader", loader)


SIX_X, SIX_Y = torch.arange(12.0).reshape(6, 2), torch.arange(6) * 10


class Pair(NamedTuple):
    x: Tensor
    y: Tensor


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", ["pair", "dict", "named tuple", "list", "bare"])
def test_the_index_travels_with_its_row_through_a_shuffling_loader(kind: str, workers: int) -> None:
    rows = {
        "pair": TensorDataset(SIX_X, SIX_Y),
        "dict": [{"x": x, "y": y} for x, y in zip(SIX_X, SIX_Y, strict=True)],
        "named tuple": [Pair(x, y) for x, y in zip(SIX_X, SIX_Y, strict=True)],
        "list": [[x, y] for x, y in zip(SIX_X, SIX_Y, strict=True)],
        "bare": SIX_X,
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
        assert torch.equal(x, SIX_X[index])
        seen += index.tolist()
    assert sorted(seen) == list(range(6))


def test_a_named_tuple_keeps_its_name_and_fields() -> None:
    row = rk.Indexed([Pair(SIX_X[0], SIX_Y[0])])[0]
    assert type(row).__name__ == "Pair"
    assert row._fields == ("x", "y", "index")


def test_an_index_from_the_end_is_counted_from_the_start() -> None:
    assert rk.Indexed([("a",), ("b",)])[-1] == ("b", 1)


def test_iteration_ends_where_the_dataset_ends() -> None:
    dataset = rk.Indexed([("a", 0), ("b", 1)])
    assert len(dataset) == 2
    assert list(dataset) == [("a", 0, 0), ("b", 1, 1)]


def test_rows_fetched_together_have_the_index_of_rows_fetched_one_by_one() -> None:
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


@pytest.mark.parametrize("dataset", [Stream(), iter([(1, 2)]), object()])
def test_a_stream_has_no_index(dataset: object) -> None:
    with pytest.raises(ValueError, match="need a dataset with a length"):
        rk.Indexed(dataset)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", [*IN_MEMORY, *BY_LOADER])
def test_any_kind_of_rows_gives_the_same_batches_in_the_order_asked_for(kind: str, workers: int) -> None:
    rows = Rows((IN_MEMORY | BY_LOADER)[kind], num_workers=workers)
    assert len(rows) == 7
    assert (rows.in_memory is not None) == (kind in IN_MEMORY)
    found = list(rows.batches(ORDER, 3))
    for (x, y, index), expected in zip(found, (ORDER[:3], ORDER[3:]), strict=True):
        assert index.tolist() == expected.tolist()
        assert x.dtype == torch.float32
        assert y.dtype == index.dtype == torch.int64
        assert torch.equal(x, X[expected])
        assert torch.equal(y, Y[expected])


@pytest.mark.parametrize("workers", [0, 1])
def test_rows_are_fetched_by_workers_if_there_are_any(workers: int) -> None:
    [(_, by_worker, _)] = Rows(TellsWhere(), num_workers=workers).all_batches(7)
    assert by_worker.tolist() == [bool(workers)] * 7


@given(st.integers(1, 30), st.integers(1, 9), st.booleans(), st.randoms(use_true_random=False))
def test_every_row_comes_once_and_no_last_one_comes_alone(n: int, size: int, in_memory: bool, random) -> None:
    order = torch.tensor(random.sample(range(n), n))
    x = torch.arange(float(n))
    rows = Rows((x, x) if in_memory else list(zip(x, x, strict=True)))
    found = [index for _, _, index in rows.batches(order, size)]
    assert torch.equal(torch.cat(found), order)
    assert all(len(index) == size for index in found[:-1])
    assert 2 <= len(found[-1]) <= size + 1 or 1 in (n, size)
    assert size > 1 or len(found) == n


@pytest.mark.parametrize("source", [(X, Y), PAIRS], ids=["in memory", "by loader"])
def test_some_of_the_rows_one_of_them_or_all_can_be_had(source) -> None:
    rows = Rows(source)
    assert [index.tolist() for _, _, index in rows.batches(torch.tensor([6, 2, 2]), 2)] == [[6, 2, 2]]
    [(x, y, index)] = rows.batches(torch.tensor([5]), 2)
    assert (x.tolist(), y.tolist(), index.tolist()) == ([[10.0, 11.0]], [9], [5])
    assert [index.tolist() for _, _, index in rows.all_batches(4)] == [[0, 1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.int32, torch.int64),
        (np.uint8, torch.int64),
        (np.int64, torch.int64),
        (np.bool_, torch.bool),
        (np.float32, torch.float32),
    ],
)
def test_labels_that_are_whole_numbers_become_int64_and_others_stay(given: type, expected: torch.dtype) -> None:
    y = np.array([0, 1, 1]).astype(given)
    x = torch.zeros(3)
    for source in ((x, y), (x, torch.from_numpy(y)), list(zip(x, y, strict=True))):
        [(_, found, _)] = Rows(source).all_batches(3)
        assert found.dtype == expected
        assert found.tolist() == y.tolist()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.zeros(3), torch.float32),
        (np.zeros(3, np.float16), torch.float16),
        (np.zeros(3, np.uint8), torch.uint8),
        (torch.zeros(3, dtype=torch.float64), torch.float64),
    ],
)
def test_arrays_keep_their_type_but_for_the_float64_that_numpy_makes_of_all(given, expected: torch.dtype) -> None:
    assert next(Rows((given, torch.zeros(3))).all_batches(3))[0].dtype == expected
    labels = next(Rows((torch.zeros(3), given)).all_batches(3))[1].dtype
    assert labels == (torch.int64 if expected == torch.uint8 else expected)


def test_a_collate_fn_gets_rows_without_their_index() -> None:
    texts = [([1], 0), ([2, 3], 1), ([4, 5, 6], 0)]
    seen = []

    def padded(rows: list) -> tuple[Tensor, Tensor]:
        seen.extend(rows)
        x, y = zip(*rows, strict=True)
        return torch.nn.utils.rnn.pad_sequence([torch.tensor(words) for words in x], batch_first=True), torch.tensor(y)

    [(x, y, index)] = Rows(texts, collate_fn=padded).batches(torch.tensor([2, 0]), 2)
    assert seen == [texts[2], texts[0]]
    assert x.tolist() == [[4, 5, 6], [1, 0, 0]]
    assert (y.tolist(), index.tolist()) == ([0, 0], [2, 0])


@pytest.mark.parametrize("kind", IN_MEMORY)
def test_a_collate_fn_is_used_on_data_in_memory_too(kind: str) -> None:
    rows = Rows(IN_MEMORY[kind], collate_fn=lambda rows: [-part for part in default_collate(rows)])
    assert len(rows) == 7
    [(x, y, index)] = rows.batches(ORDER, 7)
    assert torch.equal(x, -X[ORDER])
    assert torch.equal(y, -Y[ORDER])
    assert torch.equal(index, ORDER)


INPUTS = {
    "dict": lambda x: {"a": x, "b": {"c": 2 * x}},
    "tuple": lambda x: (x, 2 * x),
    "list": lambda x: [x, (2 * x,)],
    "named tuple": lambda x: Example(x, 2 * x),
}


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("kind", INPUTS)
def test_inputs_of_several_parts_arrive_whole_on_the_device(kind: str, device: str) -> None:
    [(x, y, index)] = Rows([(INPUTS[kind](x), y) for x, y in PAIRS], device=device).batches(ORDER, 7)
    assert repr(x) == repr(default_collate([INPUTS[kind](X[i].to(device)) for i in ORDER]))
    assert y.device.type == device
    assert index.device.type == "cpu"


def test_what_is_no_tensor_passes_as_it_is() -> None:
    [(x, y, _)] = Rows([("a", 1.0), ("b", 0.0)]).all_batches(2)
    assert list(x) == ["a", "b"]
    assert y.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((X, Y[:3]), r"equal length, got \(7, 2\) and \(3,\)"),
        ((X.numpy(), Y[:3].numpy()), r"equal length, got \(7, 2\) and \(3,\)"),
        ((X, X, Y), "inputs and labels, got a tuple of 3"),
        (TensorDataset(X, Y, Y), "inputs and labels, got a tuple of 3"),
        ((X[:0], Y[:0]), "at least one row, got an empty data set"),
        (TensorDataset(X[:0], Y[:0]), "at least one row, got an empty data set"),
        ([], "at least one row, got an empty data set"),
        ((), "inputs and labels, got a tuple of 0"),
        ((X, Y[0]), r"equal length, got \(7, 2\) and \(\)"),
        ((np.array(["a", "b"]), Y[:2]), "need numbers as inputs and labels, got an array of <U1"),
        (Stream(), "a length and rows by index, got Stream"),
        ((row for row in PAIRS), "a length and rows by index, got generator"),
    ],
)
def test_data_without_rows_is_an_error(rows, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rows(rows)


@pytest.mark.parametrize(
    ("row", "message", "workers"),
    [
        ("a", "got a tuple of 1; wrap the dataset", 0),
        ((X[0], 1, 2), "got a tuple of 3; wrap the dataset", 0),
        ((X[0], 1, 2), "got a tuple of 3; wrap the dataset", 1),
        ({"x": X[0], "y": 1}, "got a dict of 2; wrap the dataset", 0),
    ],
)
def test_rows_that_are_no_pairs_are_an_error(row, message: str, workers: int) -> None:
    with pytest.raises(ValueError, match=rf"need rows \(x, y\), {message}"):
        list(Rows([row, row], num_workers=workers).all_batches(2))


@pytest.mark.parametrize(
    "x",
    [
        np.broadcast_to(np.float32(1), (7, 2)),
        np.arange(14, dtype=">f4").reshape(7, 2),
        np.arange(14, dtype=np.float32).reshape(7, 2)[::-1],
    ],
    ids=["read-only", "big-endian", "backwards"],
)
def test_any_array_of_numbers_is_read(x: np.ndarray) -> None:
    [(read, _, _)] = Rows((x, np.arange(7))).all_batches(7)
    assert read.tolist() == x.tolist()


def test_a_list_of_labels_goes_with_inputs_and_words_are_refused() -> None:
    [(_, y, _)] = Rows((X, list(range(7)))).all_batches(7)
    assert y.tolist() == list(range(7))
    with pytest.raises(ValueError, match="need numbers as inputs and labels, got an array of <U"):
        Rows((X, ["a"] * 7))


@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 5))
def test_the_batches_of_an_optimizer_step_weigh_as_much_as_their_rows(n: int, size: int, accumulate: int) -> None:
    rows = Rows((torch.zeros(n), torch.zeros(n)))
    steps: list[list[tuple[int, float]]] = [[]]
    for (_, _, index), weight, ends_step in rows.own_batches(torch.randperm(n), size, None, accumulate):
        steps[-1].append((len(index), weight))
        if ends_step:
            steps.append([])
    assert steps.pop() == []
    assert all(len(step) == accumulate for step in steps[:-1])
    assert 1 <= len(steps[-1]) <= accumulate
    for step in steps:
        in_all = sum(length for length, _ in step)
        assert [weight for _, weight in step] == [length / in_all for length, _ in step]


def test_labels_from_a_loader_are_checked_before_they_are_moved() -> None:
    rows = Rows(PAIRS, device="meta")  # a label there has no value to check
    rows.n_classes = 10
    assert len(list(rows.batches(ORDER, 3))) == 2
    rows.n_classes = 9
    with pytest.raises(ValueError, match="need labels from 0 to 8, as the network has 9 outputs; got 1 to 9"):
        list(rows.batches(ORDER, 3))


@pytest.mark.parametrize(("labels", "message"), [([0, 4], "got 0 to 4"), ([-1, 3], "got -1 to 3")])
def test_a_label_that_is_no_class_is_an_error(labels: list[int], message: str) -> None:
    check_labels(torch.tensor([0, 3]), 4)
    check_labels(torch.tensor(labels), None)
    with pytest.raises(ValueError, match=f"labels from 0 to 3, as the network has 4 outputs; {message}"):
        check_labels(torch.tensor(labels), 4)
