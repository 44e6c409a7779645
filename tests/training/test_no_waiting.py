"""The loop over batches never waits for a GPU: no value of a tensor there is read, none is copied to the host.

Shown with fake CUDA tensors, without backward: a build of torch for the CPU aborts there.
"""

import pytest
import torch
from gpu_waits import CUDA, fake_cuda, on_cuda
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DataDependentOutputException

from rockafellian import losses
from rockafellian.attacks import FGSM
from rockafellian.losses import LOSSES, for_rows, loss_by_name
from rockafellian.training.data import Batch, Rows
from rockafellian.training.epoch import Run
from rockafellian.training.evaluation import Task, _same_class, _same_side, eval_pass
from rockafellian.training.options import Options
from rockafellian.training.step import GradientStep
from rockafellian.weights.sample_weights import SampleWeights

N, K, BATCH = 12, 4, 5
CLASSES = Task(K, _same_class, True)
OUTPUTS = Task(None, _same_side, False)


@pytest.fixture(autouse=True)
def _an_index_is_checked_on_the_cpu_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the fake mode a CPU tensor has no values either, so the check is replaced by one of where it is made."""

    def check(index: Tensor, _: int) -> None:
        assert index.is_cpu

    monkeypatch.setattr(losses, "_check_range", check)


def make_run(loss: str, *, train, weights: SampleWeights | None = None, task: Task = CLASSES, **options) -> Run:
    model = on_cuda(nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, K)))
    made = loss_by_name(loss, N, K)
    run = Run(
        model=model,
        forward=model,
        rows=Rows(train, device=CUDA),
        loss=on_cuda(made) if isinstance(made, nn.Module) else made,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        options=Options(batch_size=BATCH, **options),
        weights=weights,
        transform=lambda x: x + torch.randn_like(x),
    )
    run.task = task
    return run


def batches(run: Run) -> list[Batch]:
    return [batch for batch, _, _ in run.rows.own_batches(torch.arange(N), BATCH, None)]


def targets(name: str, where: torch.device | str) -> Tensor:
    if name in ("bce", "squared", "huber"):
        return torch.rand(N, K, device=where)
    return torch.zeros(N, dtype=torch.int64, device=where)


@pytest.mark.parametrize("where", ["cpu", "cuda:0"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_a_batch_is_trained_on_without_waiting(name: str, weighted: bool, where: str) -> None:
    weights = SampleWeights(N) if weighted and targets(name, "cpu").ndim == 1 else None
    with fake_cuda() as copies:
        task = CLASSES if targets(name, "cpu").ndim == 1 else OUTPUTS
        x, y = torch.randn(N, 2, device=where), targets(name, where)
        run = make_run(name, train=(x, y), weights=weights, task=task)
        copies.clear()  # making the network and the data may wait
        for batch in batches(run):
            mean, outputs = run.batch_loss(batch)
            assert mean.device == outputs.device == CUDA
            assert mean.shape == ()
            task.score(outputs, batch[1]).sum()
            assert batch[2].is_cpu
        assert weights is None or weights.reports == 3
        assert copies == {}


def test_a_pass_in_evaluation_mode_does_not_wait() -> None:
    with fake_cuda() as copies:
        x, y = torch.randn(N, 2), torch.zeros(N, dtype=torch.int64)
        run = make_run("elr", train=(x, y))
        copies.clear()
        seen = list(eval_pass(run.model, run.rows, torch.arange(N), run.loss))
        assert [part.device.type for part in seen[0]] == ["cpu", "cuda", "cuda", "cuda"]
        assert copies == {}


@pytest.mark.parametrize("bounds", [None, (0.0, 1.0), ([0.0, 0.1], [0.9, 1.0])], ids=["none", "numbers", "per channel"])
def test_the_bounds_of_an_attack_are_applied_without_waiting(bounds) -> None:
    with fake_cuda() as copies:
        x = torch.rand(3, 2, 4, device=CUDA)
        copies.clear()
        assert FGSM(0.1, bounds=bounds)._clipping(x)(x).device == CUDA
        assert copies == {}


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_an_optimizer_step_with_a_clipped_gradient_does_not_wait(optimizer) -> None:
    with fake_cuda() as copies:
        model = on_cuda(nn.Linear(2, K))
        parameters = list(model.parameters())
        step = GradientStep(model, optimizer(parameters, lr=0.1), grad_clip=1.0)
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        copies.clear()
        step.finish()
        assert copies == {}


def test_rows_from_a_loader_are_checked_before_they_are_moved() -> None:
    rows = Rows([(torch.randn(2), i % K) for i in range(N)], device=CUDA)
    rows.n_classes = K
    loaded = []
    rows._on_device = lambda x, y, index: loaded.append((x, y, index)) or (x, y, index)  # type: ignore[method-assign]
    list(rows.batches(torch.arange(N), BATCH))  # labels and index are read where they are: on the CPU
    with fake_cuda() as copies:
        for x, y, index in loaded:
            on_device = Rows._on_device(rows, x, y, index)
            assert [part.device.type for part in on_device] == ["cuda", "cuda", "cpu"]
        assert copies == {}


def test_elr_takes_an_index_on_the_device_without_checking_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("an index on a GPU was checked")

    monkeypatch.setattr(losses, "_check_range", refuse)
    with fake_cuda() as copies:
        loss = on_cuda(losses.ELR(N, K))
        logits, labels = torch.randn(3, K, device=CUDA), torch.zeros(3, dtype=torch.int64, device=CUDA)
        index = torch.zeros(3, dtype=torch.int64, device=CUDA)
        copies.clear()
        assert for_rows(loss, index)(logits, labels).shape == (3,)
        assert copies == {}


@pytest.mark.parametrize(
    "read",
    [
        lambda tensor: tensor.sum().item(),
        lambda tensor: int(tensor.sum()),
        lambda tensor: bool(tensor.any()),
        lambda tensor: tensor.nonzero(),
    ],
    ids=["item", "int", "bool", "nonzero"],
)
def test_these_tests_would_notice_that_a_value_is_read(read) -> None:
    with fake_cuda():
        tensor = torch.ones(3, device=CUDA)
        with pytest.raises((DataDependentOutputException, RuntimeError)):
            read(tensor)


@pytest.mark.parametrize("copy", [lambda tensor: tensor.cpu(), lambda tensor: torch.zeros(3).to(tensor.device)])
def test_these_tests_would_notice_a_copy_that_waits(copy) -> None:
    with fake_cuda() as copies:
        tensor = torch.ones(3, device=CUDA)
        copies.clear()
        copy(tensor)
        assert sum(copies.values()) == 1
