"""What a batch may be made of: integers of any type as index and labels; all else is an error that changes nothing."""

import numpy as np
import pytest
import torch
from torch import Tensor

import rockafellian as rk
from rockafellian.weights.buffer import BatchBuffer

N, CLASSES = 200, 3
LOSSES = torch.tensor([0.4, 0.3, 0.2, 0.1])
LOGITS = torch.eye(4, CLASSES)
LABELS = torch.tensor([0, 1, 2, 1])
ROWS = [5, 1, 0, 126]
INTEGERS = [
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.uint16,
    torch.int32,
    torch.uint32,
    torch.int64,
    torch.uint64,
]


def fresh() -> rk.SampleWeights:
    return rk.SampleWeights(N, rk.RRM(contamination=0.2))


def show(weights: rk.SampleWeights, logits: Tensor, labels: Tensor) -> None:
    """One batch; labels are compared with the number of classes when it is collected."""
    weights.reduce(LOSSES, ROWS, logits=logits, labels=labels)
    weights.collect()


def state_of(weights: rk.SampleWeights) -> dict[str, list[float]]:
    return {name: part.nan_to_num(-7).tolist() for name, part in weights.state_dict().items()}


def expected_state() -> dict[str, list[float]]:
    weights = fresh()
    weights.reduce(LOSSES, torch.tensor(ROWS), logits=LOGITS, labels=LABELS)
    weights.step()
    return state_of(weights)


@pytest.mark.parametrize("call", ["reduce", "remember"])
@pytest.mark.parametrize(
    "index",
    [
        *(torch.tensor(ROWS).to(dtype) for dtype in INTEGERS),
        *(np.array(ROWS, dtype=dtype) for dtype in ("int8", "uint16", "uint32", "uint64")),
        ROWS,
        tuple(ROWS),
        [np.int64(row) for row in ROWS],
    ],
    ids=lambda index: f"{type(index).__name__} {getattr(index, 'dtype', '')}",
)
def test_an_index_of_any_integers_will_do(index: Tensor, call: str) -> None:
    weights = fresh()
    getattr(weights, call)(LOSSES, index, logits=LOGITS, labels=LABELS)
    weights.step()
    assert state_of(weights) == expected_state()


def test_a_range_will_do() -> None:
    weights, expected = fresh(), fresh()
    assert torch.equal(weights.reduce(LOSSES, range(4)), expected.reduce(LOSSES, torch.arange(4)))
    assert state_of(weights) == state_of(expected)


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.float32, torch.float16])
def test_labels_of_any_type_will_do_if_they_are_integers(dtype: torch.dtype) -> None:
    weights = fresh()
    weights.reduce(LOSSES, ROWS, logits=LOGITS, labels=LABELS.to(dtype))
    weights.step()
    assert state_of(weights) == expected_state()
    stream, expected = (rk.StreamWeights(rk.RRM(contamination=0.2), window=4, warmup=0, every=1) for _ in range(2))
    stream.reduce(LOSSES, logits=LOGITS, labels=LABELS.to(dtype))
    expected.reduce(LOSSES, logits=LOGITS, labels=LABELS)
    assert torch.equal(stream.state_dict()["recent"], expected.state_dict()["recent"])


@pytest.mark.parametrize(
    "index",
    [
        torch.tensor([True, False, True, True]),
        torch.tensor(ROWS).float(),
        torch.tensor(ROWS).to(torch.complex64),
        [-1, 0, 1, 2],
        [0, 1, 2, N],
        [0, 1, 2, 2**40],
        [0, 1, 2, 2**70],
        np.array([0, 1, 2, 2**64 - 1], dtype=np.uint64),
        ["a", "b", "c", "d"],
        [None] * 4,
        [[0, 1], [2]],
        "abcd",
        None,
        3,
        [],
    ],
    ids=str,
)
@pytest.mark.parametrize("call", ["reduce", "remember"])
def test_an_index_of_anything_else_is_refused(index: object, call: str) -> None:
    weights = fresh()
    before = state_of(weights)
    with pytest.raises(ValueError, match="need") as caught:
        getattr(weights, call)(LOSSES, index)
    assert "\n" not in str(caught.value)
    assert state_of(weights) == before
    assert weights.reports == 0


@pytest.mark.parametrize(
    ("logits", "labels"),
    [
        (LOGITS, LABELS + 1),
        (LOGITS, LABELS - 1),
        (LOGITS, LABELS + 0.5),
        (LOGITS, LABELS * torch.nan),
        (LOGITS, LABELS.to(torch.complex64)),
        (LOGITS, LABELS[:3]),
        (LOGITS, LABELS.reshape(2, 2)),
        (LOGITS, LOGITS),
        (LOGITS, "abcd"),
        (LOGITS[:3], LABELS),
        (LOGITS[:, :, None], LABELS),
        (LOGITS[:, :0], LABELS),
        (LOGITS.to(torch.complex64), LABELS),
        (torch.tensor(1.0), LABELS),
        ([[1.0, 2.0]] * 4, LABELS),
        (torch.eye(4), LABELS),
        (LOGITS[:, :2], LABELS % 2),
        (LOGITS[:, 0], LABELS % 2),
    ],
    ids=lambda part: str(getattr(part, "shape", part)),
)
def test_wrong_labels_and_logits_are_refused_and_forgotten(logits: Tensor, labels: Tensor) -> None:
    weights, stream = fresh(), rk.StreamWeights(rk.RRM(contamination=0.2), window=4)
    weights.reduce(LOSSES, ROWS, logits=LOGITS, labels=LABELS)
    stream.reduce(LOSSES, logits=LOGITS, labels=LABELS)
    before, seen = state_of(weights), stream.state_dict()
    with pytest.raises(ValueError, match="need") as caught:
        show(weights, logits, labels)
    assert "\n" not in str(caught.value)
    assert state_of(weights) == before
    with pytest.raises(ValueError, match="need"):
        stream.reduce(LOSSES, logits=logits, labels=labels)
    assert torch.equal(stream.state_dict()["recent"], seen["recent"])
    assert torch.equal(stream.state_dict()["counts"], seen["counts"])
    weights.reduce(LOSSES, ROWS, logits=LOGITS, labels=LABELS)
    assert weights.step()


def test_logits_of_another_width_are_named() -> None:
    weights = fresh()
    weights.reduce(LOSSES, ROWS, logits=LOGITS, labels=LABELS)
    with pytest.raises(ValueError, match="need logits of 3 outputs as before, got 4"):
        weights.reduce(LOSSES, ROWS, logits=torch.eye(4), labels=LABELS)
    resumed = rk.SampleWeights(N)
    resumed.reduce(torch.ones(N), range(N), logits=torch.rand(N, 3), labels=torch.arange(N) % 3)
    state = resumed.state_dict()
    resumed = rk.SampleWeights(N)
    resumed.load_state_dict(state)
    resumed.reduce(torch.ones(N), range(N), logits=torch.rand(N, 4), labels=torch.arange(N) % 3)
    with pytest.raises(ValueError, match="need logits of 3 classes as before, got 4"):
        resumed.step()


@pytest.mark.parametrize(
    "losses", [[0.1] * 4, np.ones(4), None, LOSSES.to(torch.complex64), LOSSES[:, None], LOSSES[0]]
)
def test_losses_that_are_no_vector_of_real_numbers_are_refused(losses: object) -> None:
    weights, stream = fresh(), rk.StreamWeights(rk.RRM(contamination=0.2))
    with pytest.raises(ValueError, match="need one loss per index"):
        weights.reduce(losses, ROWS)
    with pytest.raises(ValueError, match="need one loss per row"):
        stream.reduce(losses)
    assert stream.seen == weights.reports == 0


@pytest.mark.parametrize("index", [2**32, 2**32 + 5, -(2**32), -1, N])
def test_an_index_of_a_device_does_not_wrap_around(index: int) -> None:
    weights = fresh()
    weights._buffer.add_from_device(torch.tensor([0, index]), torch.rand(2), None, None, None)
    with pytest.raises(ValueError, match=f"need an index from 0 to {N - 1}"):
        weights.collect()
    assert weights.average_losses.isnan().all()


def test_a_label_of_minus_one_is_noticed_on_a_device_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BatchBuffer, "add", BatchBuffer.add_from_device)
    weights = fresh()
    weights.reduce(LOSSES, ROWS, logits=LOGITS, labels=torch.tensor([0, 1, -1, 2]))
    with pytest.raises(ValueError, match="got -1 to 2"):
        weights.step()


@pytest.mark.parametrize("how", ["one batch", "two batches", "two epochs", "a flush between", "two devices"])
def test_a_row_with_two_labels_is_noticed(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = fresh()
    weights.reduce(LOSSES, ROWS, logits=LOGITS, labels=LABELS)
    first, second = {"logits": LOGITS[:1], "labels": torch.tensor([2])}, {"logits": LOGITS[:1], "labels": LABELS[:1]}
    if how == "one batch":
        weights.reduce(LOSSES[:2], [17, 17], logits=LOGITS[:2], labels=torch.tensor([2, 0]))
    else:
        weights.reduce(LOSSES[:1], [17], **first)
        if how == "two epochs":
            weights.step()
        if how == "a flush between":
            weights.collect()
        if how == "two devices":
            monkeypatch.setattr(BatchBuffer, "add", BatchBuffer.add_from_device)
        weights.reduce(LOSSES[:1], [17], **second)
    with pytest.raises(ValueError, match="row 17 changed its label from 2 to 0"):
        weights.step()
    monkeypatch.undo()
    weights.reduce(LOSSES, ROWS, logits=LOGITS, labels=LABELS)  # and training can continue
    assert weights.step()
