"""`reduce` never makes a GPU wait, shown on fake CUDA tensors; it is safe from several threads."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import rockafellian as rk
from rockafellian.weights.buffer import BatchBuffer

N, CLASSES, BATCH = 100, 4, 10


class CopiesToHost(TorchDispatchMode):
    """Counts tensors that leave a GPU: under the fake mode a copy passes silently, what waits raises."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        tensors = [part for part in args if isinstance(part, Tensor)]
        moved = func in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
        if moved and made.device.type == "cpu" and any(part.device.type == "cuda" for part in tensors):
            self.count += 1
        return made


@contextmanager
def fake_gpu() -> Iterator[CopiesToHost]:
    # A CPU build of torch aborts in backward with fake CUDA tensors.
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad(), CopiesToHost() as copies:
        yield copies


def batch(device: str = "cuda") -> dict[str, Tensor]:
    logits = torch.empty(BATCH, CLASSES, device=device)
    labels = torch.empty(BATCH, dtype=torch.int64, device=device)
    return {"logits": logits, "labels": labels}


def test_the_fake_gpu_notices_what_waits() -> None:
    with fake_gpu() as copies:
        losses = torch.empty(BATCH, device="cuda")
        total = losses.sum()
        for waits in (total.item, total.__int__, total.__bool__):
            with pytest.raises(Exception, match=r"aten\._local_scalar_dense|not linked with support for cuda"):
                waits()
        assert copies.count == 0
        losses.cpu()
        assert copies.count == 1


@pytest.mark.parametrize("rule", [rk.RRM(contamination=0.2), rk.RRM()], ids=["given", "auto"])
@pytest.mark.parametrize(("call", "index_on"), [("reduce", "cpu"), ("reduce", "cuda"), ("remember", "cuda")])
def test_sample_weights_do_not_wait(rule: rk.RRM, index_on: str, call: str) -> None:
    weights, index = rk.SampleWeights(N, rule), torch.arange(BATCH)
    with fake_gpu() as copies:
        at = index if index_on == "cpu" else torch.arange(BATCH, device="cuda")
        for more in (batch(), {}):
            found = getattr(weights, call)(torch.empty(BATCH, device="cuda"), at, **more)
            assert call == "remember" or found.device.type == "cuda"
    assert copies.count == 0
    assert weights.reports == 2


@pytest.mark.parametrize("spread", ["kept", "argmin"])
@pytest.mark.parametrize("told", [{"contamination": 0.2}, {"contamination": 0.0}, {"gamma": 1.0}])
@pytest.mark.parametrize("with_labels", [True, False])
def test_stream_weights_do_not_wait(told: dict[str, float], spread: str, with_labels: bool) -> None:
    stream = rk.StreamWeights(rk.RRM(**told, spread=spread), window=25, warmup=0, every=2)
    with fake_gpu() as copies:
        for _ in range(8):
            stream.reduce(torch.empty(BATCH, device="cuda"), **(batch() if with_labels else {}))
        assert stream.removed.device.type == "cuda"
    assert copies.count == 0


def test_a_stream_that_estimates_the_noise_rate_makes_one_copy_a_look_and_reads_it_later() -> None:
    stream = rk.StreamWeights(window=25, warmup=0, every=4)
    with fake_gpu() as copies:
        for _ in range(7):
            stream.reduce(torch.empty(BATCH, device="cuda"), **batch())
    assert copies.count == 1
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
    assert weights.state_dict()["predictions.count"].tolist() == [rounds] * N


def run_all(jobs: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
