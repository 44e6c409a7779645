"""A loss that is NaN or -inf is an error once, and training can continue after it."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks
from torch import Tensor

import rockafellian as rk
from rockafellian.weights.buffer import BatchBuffer

N, CLASSES = 20, 3
UNDEFINED = [float("nan"), float("-inf")]


def show(weights: rk.SampleWeights, losses: Tensor, logits: Tensor | None = None) -> None:
    """One epoch in two batches, with labels if there are logits."""
    for rows in torch.arange(len(losses)).split(7):
        known = {} if logits is None else {"logits": logits[rows], "labels": rows % CLASSES}
        weights.reduce(losses[rows], rows, **known)


def finite() -> Tensor:
    return torch.linspace(0, 1, N)


def with_one(bad: float) -> Tensor:
    losses = finite()
    losses[11] = bad
    return losses


@pytest.mark.parametrize("bad", UNDEFINED)
@pytest.mark.parametrize("every", [1, 2])
def test_one_undefined_loss_is_an_error_once_and_later_rounds_work(bad: float, every: int) -> None:
    weights = rk.SampleWeights(N, rk.RRM(contamination=0.2), every=every)
    for epoch in range(every):
        show(weights, with_one(bad) if epoch == 0 else finite())
        if epoch < every - 1:
            weights.step()
    before = weights.state_dict()
    with pytest.raises(
        ValueError, match=rf"1 of {N * every} losses are NaN or -inf \(rows 11\): training has diverged"
    ):
        weights.step()
    after = weights.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    show(weights, finite())
    assert weights.step()
    assert weights.removed.nonzero()[:, 0].tolist() == [16, 17, 18, 19]
    assert weights.epoch == every


@pytest.mark.parametrize("bad", UNDEFINED)
def test_an_average_leaves_undefined_losses_out(bad: float) -> None:
    weights = rk.SampleWeights(N, rk.RRM(contamination=0.2), warmup=1)
    show(weights, with_one(bad))
    assert not weights.step()  # losses of the warmup decide nothing
    assert weights.average_losses.isnan().nonzero()[:, 0].tolist() == [11]
    show(weights, finite())
    assert weights.step()
    torch.testing.assert_close(weights.average_losses, finite())


def test_an_epoch_of_infinite_losses_is_an_error_once() -> None:
    weights = rk.SampleWeights(N, rk.RRM(contamination=0.2))
    show(weights, torch.full((N,), torch.inf))
    with pytest.raises(ValueError, match=r"all 20 losses are .inf: training has diverged"):
        weights.step()
    show(weights, finite())
    assert weights.step()
    assert weights.removed.nonzero()[:, 0].tolist() == [16, 17, 18, 19]


def test_losses_too_negative_to_be_summed_count_as_undefined() -> None:
    weights = rk.SampleWeights(N, rk.RRM(contamination=0.2))
    for _ in range(2):
        show(weights, with_one(-3e38))
        with pytest.raises(ValueError, match="training has diverged"):
            weights.step()
        with pytest.raises(ValueError, match=r"the smallest is -3e.38: training has diverged"):
            weights.step(with_one(-3e38))
    show(weights, finite())
    assert weights.step()
    assert weights.average_losses.isfinite().all()


def test_fresh_losses_can_take_the_place_of_undefined_ones() -> None:
    weights = rk.SampleWeights(N, rk.RRM(contamination=0.2))
    show(weights, with_one(float("nan")))
    assert weights.step(finite())
    show(weights, finite())
    assert weights.step()


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("rule", [rk.RRM(contamination=0.2), rk.RRM(crisp=True)], ids=["given", "auto"])
def test_logits_with_nan_are_no_predictions(rule: rk.RRM, on_device: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if on_device:
        monkeypatch.setattr(BatchBuffer, "add", BatchBuffer.add_from_device)
    weights = rk.SampleWeights(N, rule)
    logits = torch.randn(N, CLASSES, generator=torch.Generator().manual_seed(0))
    bad = logits.clone()
    bad[:, 1] = float("nan")
    show(weights, finite(), bad)
    with pytest.raises(ValueError, match="training has diverged"):
        weights.step()
    assert weights.predictions is None
    for _ in range(4):
        show(weights, finite(), logits)
        weights.step()
    assert weights.history
    assert weights.predictions is not None
    assert not weights.predictions.average_margin.isnan().any()


@pytest.mark.parametrize("bad", UNDEFINED)
def test_a_stream_refuses_an_undefined_loss_and_continues(bad: float) -> None:
    stream, expected = (rk.StreamWeights(rk.RRM(contamination=0.2), window=N, warmup=0, every=1) for _ in range(2))
    for batch in (finite(), finite() + 1):
        state = stream.state_dict()
        with pytest.raises(ValueError, match="NaN or -inf: training has diverged"):
            stream.reduce(with_one(bad))
        with pytest.raises(ValueError, match="logits are NaN: training has diverged"):
            stream.reduce(finite(), logits=torch.full((N, CLASSES), torch.nan), labels=torch.arange(N) % CLASSES)
        assert all(
            torch.equal(
                state[name],
                part,
            )
            or state[name].isnan().all()
            for name, part in stream.state_dict().items()
        )
        assert torch.equal(stream.reduce(batch), expected.reduce(batch))
    assert stream.threshold == expected.threshold < torch.inf


ROWS = {0: range(0, 12), 1: range(12, N)}


def train_in_processes(sharded: bool) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    rows = ROWS[rank]
    weights = rk.SampleWeights(N, rk.RRM(contamination=0.2), rows=rows if sharded else None)
    index = torch.arange(rows.start, rows.stop)
    for losses in (with_one(float("nan")), finite()):  # row 11 is shown in process 0
        weights.reduce(losses[index], index)
        if losses.isnan().any():
            with pytest.raises(ValueError, match="training has diverged"):
                weights.step()
    assert weights.step()
    removed = (weights.removed.nonzero()[:, 0] + weights.rows.start).tolist()
    assert removed == [row for row in (16, 17, 18, 19) if row in weights.rows]

    if not sharded:  # row 0 has one label in one process and another in the other
        weights.reduce(torch.ones(1), [0], logits=torch.ones(1, CLASSES), labels=torch.tensor([rank]))
        with pytest.raises(ValueError, match="row 0 changed its label from 0 to 1"):
            weights.step()
    labels = torch.tensor([CLASSES if rank == 0 else 0])  # out of range in one process
    weights.reduce(torch.ones(1), [rows.start], logits=torch.ones(1, CLASSES), labels=labels)
    with pytest.raises(ValueError, match="integers from 0 to 2" if rank == 0 else "process 0 got others"):
        weights.step()
    weights.reduce(torch.ones(1), [rows.stop - 1], logits=torch.ones(1, CLASSES), labels=torch.tensor([0]))
    weights.step()

    stream = rk.StreamWeights(rk.RRM(contamination=0.2), window=len(rows), warmup=0, every=1)
    with pytest.raises(ValueError, match="1 of 20 losses are NaN"):
        stream.reduce(with_one(float("nan"))[index])
    assert stream.reduce(finite()[index]).isfinite()
    assert stream.threshold < 1
    dist.destroy_process_group()


@pytest.mark.parametrize("sharded", [False, True])
def test_all_processes_stop_once_and_can_continue(sharded: bool, tmp_path: Path) -> None:
    run_ranks(train_in_processes, 2, sharded, folder=tmp_path)
