"""Weights can be shared by threads: no row is lost, whatever the others call meanwhile."""

import sys
import threading
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

import rockafellian as rk

THREADS, ROWS, BATCH, CLASSES = 4, 5_000, 20, 4
N = THREADS * ROWS


@pytest.fixture(autouse=True)
def switch_often() -> Iterator[None]:
    """Let threads interrupt each other as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def run_all(work: Callable[[int], None], meanwhile: Callable[[], object] | None = None) -> None:
    """Run the work in all threads, and something else in this one until they end."""
    failures: list[BaseException] = []

    def guarded(thread: int) -> None:
        try:
            work(thread)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(thread,)) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    while meanwhile is not None and any(thread.is_alive() for thread in threads):
        meanwhile()
    for thread in threads:
        thread.join()
    assert failures == []


def batches(thread: int) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Losses, index, logits and labels of the rows of a thread; losses are integers, so that sums are exact."""
    for index in torch.arange(thread * ROWS, (thread + 1) * ROWS).split(BATCH):
        labels = index % CLASSES
        yield (index % 97).float(), index, torch.nn.functional.one_hot(labels, CLASSES).float(), labels


MEANWHILE: dict[str, Callable[[rk.SampleWeights], object] | None] = {
    "nothing": None,
    "collect": rk.SampleWeights.collect,
    "step": rk.SampleWeights.step,
    "state": rk.SampleWeights.state_dict,
}


@pytest.mark.parametrize("name", MEANWHILE)
def test_every_row_of_every_thread_is_accounted_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rockafellian.weights.buffer.MAX_BUFFERED", 1_000)  # so that threads collect too
    weights = rk.SampleWeights(N, rk.RRM(contamination=0.2), warmup=10**9)
    other = MEANWHILE[name]

    def work(thread: int) -> None:
        for losses, index, logits, labels in batches(thread):
            weights.reduce(losses, index, logits=logits, labels=labels)

    run_all(work, None if other is None else lambda: other(weights))
    state = weights.state_dict()
    assert torch.equal(state["round_count"] + state["run_count"], torch.ones(N))
    assert torch.equal(weights.average_losses, (torch.arange(N) % 97).float())
    assert torch.equal(state["predictions.margin_weight"], torch.ones(N))
    assert torch.equal(state["predictions.labels"], (torch.arange(N) % CLASSES).int())
    assert weights.reports == N // BATCH


def test_steps_that_re_weight_lose_nothing_either() -> None:
    weights = rk.SampleWeights(N, rk.RRM(contamination=0.2))
    weights.remember(torch.arange(float(N)), range(N))

    def work(thread: int) -> None:
        for losses, index, _, _ in batches(thread):
            assert weights.reduce(losses, index).isfinite()

    run_all(work, lambda: weights.step(torch.arange(float(N))))
    state = weights.state_dict()
    steps = len(weights.history)
    assert steps
    assert torch.equal(state["round_count"] + state["run_count"], torch.full((N,), 2.0 + steps))
    assert float(weights.values.mean()) == pytest.approx(1)


def test_losses_from_a_function_may_come_from_other_threads() -> None:
    weights = rk.SampleWeights(N, rk.RRM(contamination=0.2))

    def evaluate() -> Tensor:
        run_all(lambda thread: weights.remember(torch.ones(ROWS), range(thread * ROWS, (thread + 1) * ROWS)))
        return torch.arange(float(N))

    assert weights.step(evaluate)
    assert weights.n_removed == N // 5


def test_a_stream_remembers_the_rows_of_all_threads() -> None:
    stream = rk.StreamWeights(rk.RRM(contamination=0.2), window=N, warmup=0, every=8)

    def work(thread: int) -> None:
        for _, index, logits, labels in batches(thread):
            stream.reduce(index.float(), logits=logits, labels=labels)

    run_all(work, stream.state_dict)
    assert stream.seen == N
    recent = stream.state_dict()["recent"]
    assert torch.equal(recent[0].sort().values, torch.arange(float(N)))
    assert torch.equal(recent[1], recent[0] % CLASSES)
