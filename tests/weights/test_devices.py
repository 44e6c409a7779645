"""`reduce` never makes a GPU wait, shown on fake CUDA tensors; it is safe from several threads."""

import threading
from collections.abc import Callable

import pytest
import torch
from gpu_waits import fake_cuda
from torch import Tensor

import rockafellian as rk
from rockafellian.weights.buffer import BatchBuffer

N, CLASSES, BATCH = 100, 4, 10


def batch(device: str = "cuda") -> dict[str, Tensor]:
    logits = torch.empty(BATCH, CLASSES, device=device)
    labels = torch.empty(BATCH, dtype=torch.int64, device=device)
    return {"logits": logits, "labels": labels}


@pytest.mark.parametrize("rule", [rk.RRM(contamination=0.2), rk.RRM(crisp=True)], ids=["given", "auto"])
@pytest.mark.parametrize(("call", "index_on"), [("reduce", "cpu"), ("reduce", "cuda"), ("remember", "cuda")])
def test_sample_weights_do_not_wait(rule: rk.RRM, index_on: str, call: str) -> None:
    weights, index = rk.SampleWeights(N, rule), torch.arange(BATCH)
    with fake_cuda() as copies:
        at = index if index_on == "cpu" else torch.arange(BATCH, device="cuda")
        for more in (batch(), {}):
            found = getattr(weights, call)(torch.empty(BATCH, device="cuda"), at, **more)
            assert call == "remember" or found.device.type == "cuda"
    assert copies == {}
    assert weights.reports == 2


@pytest.mark.parametrize("spread", ["kept", "argmin"])
@pytest.mark.parametrize("told", [{"contamination": 0.2}, {"contamination": 0.0}, {"gamma": 1.0}])
@pytest.mark.parametrize("with_labels", [True, False])
def test_stream_weights_do_not_wait(told: dict[str, float], spread: str, with_labels: bool) -> None:
    stream = rk.StreamWeights(rk.RRM(**told, spread=spread), window=25, warmup=0, every=2)
    with fake_cuda() as copies:
        for _ in range(8):
            stream.reduce(torch.empty(BATCH, device="cuda"), **(batch() if with_labels else {}))
        assert stream.removed.device.type == "cuda"
    assert copies == {}


def test_a_stream_that_estimates_the_noise_rate_makes_one_copy_a_look_and_reads_it_later() -> None:
    stream = rk.StreamWeights(window=25, warmup=0, every=4)
    with fake_cuda() as copies:
        for _ in range(7):
            stream.reduce(torch.empty(BATCH, device="cuda"), **batch())
    assert copies == {"to the host": 1}
    assert stream.estimate is None


def test_what_a_device_kept_is_what_the_cpu_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of a GPU, taken on the CPU: the same numbers, in one matrix that is copied at once."""
    given, expected = rk.SampleWeights(N, seed=1), rk.SampleWeights(N, seed=1)
    random = torch.Generator().manual_seed(0)
    for step in range(4):
        for rows in torch.randperm(N, generator=random).split(30):
            losses, logits = torch.rand(len(rows), generator=random), torch.randn(len(rows), CLASSES, generator=random)
            expected.reduce(losses, rows, logits=logits, labels=rows % CLASSES)
            with monkeypatch.context() as patched:
                patched.setattr(BatchBuffer, "add", BatchBuffer.add_from_device)
                given.reduce(losses, rows, logits=logits, labels=rows % CLASSES)
        assert given.step() == expected.step(), step
    for name, part in expected.state_dict().items():
        torch.testing.assert_close(given.state_dict()[name], part, msg=name)


@pytest.mark.parametrize(
    ("index", "labels", "message"),
    [
        (torch.tensor([0, N]), torch.tensor([0, 1]), f"index from 0 to {N - 1}, got {N}"),
        (torch.tensor([0, -1]), torch.tensor([0, 1]), f"index from 0 to {N - 1}, got -1"),
        (torch.tensor([0, 1]), torch.tensor([0, CLASSES]), "integers from 0 to 3, .* got 0 to 4"),
    ],
)
def test_what_a_device_kept_is_checked_when_it_is_collected(
    index: Tensor, labels: Tensor, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = rk.SampleWeights(N, rk.RRM(contamination=0.2))
    buffer = weights._buffer
    buffer.add_from_device(index, torch.rand(2), torch.rand(2, CLASSES), labels, None)
    with pytest.raises(ValueError, match=message):
        weights.collect()
    assert weights.average_losses.isnan().all()


def test_reduce_from_several_threads_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rockafellian.weights.buffer.MAX_BUFFERED", 50)  # so that threads collect too
    weights, n_threads, rounds = rk.SampleWeights(N, rk.RRM(contamination=0.2)), 4, 50

    def work(first: int) -> None:
        index = torch.arange(first, N, n_threads)
        for _ in range(rounds):
            logits = torch.nn.functional.one_hot(index % CLASSES, CLASSES).float()
            weights.reduce(torch.ones(len(index)), index, logits=logits, labels=index % CLASSES)

    run_all([lambda first=first: work(first) for first in range(n_threads)])
    weights.collect()
    assert weights.reports == n_threads * rounds
    assert weights.state_dict()["round_count"].tolist() == [rounds] * N
    assert weights.state_dict()["round_sum"].tolist() == [rounds] * N
    assert weights.state_dict()["predictions.margin_weight"].tolist() == [rounds] * N


def run_all(jobs: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
