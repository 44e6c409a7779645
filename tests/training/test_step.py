"""Options of an optimizer step: gradients of several batches, mixed precision, transformed inputs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import rockafellian as rk
from rockafellian.attacks import FGSM
from rockafellian.losses import LOSSES, cce
from rockafellian.training.data import Rows
from rockafellian.training.epoch import Run
from rockafellian.training.options import Options
from rockafellian.training.rng import seeded
from rockafellian.training.step import GradientStep
from toy import make_toy

SCRIPT = Path(__file__).with_name("mixed_precision.py")


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 3))


def fit(model: nn.Module, n: int = 300, **options) -> rk.History:
    toy = make_toy(n=n)
    optimizer = options.pop("optimizer", None) or torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    settings = {"train": (toy.x, toy.y), "loss": "cce", "epochs": 3, "batch_size": 50, "progress": "quiet"}
    return rk.fit(model, optimizer=optimizer, **{**settings, **options})


def parameters(model: nn.Module) -> Tensor:
    return torch.cat([part.detach().flatten() for part in model.parameters()])


@pytest.mark.parametrize("n", [300, 250, 326, 401], ids=lambda n: f"{n} rows")
@pytest.mark.parametrize("options", [{}, {"grad_clip": 0.2}, {"attack": FGSM(0.3)}], ids=["", "clipped", "attacked"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_four_batches_of_25_rows_make_the_step_of_one_of_100(weighted: bool, options: dict, n: int) -> None:
    found = []
    for batch_size, accumulate in ((100, 1), (25, 4)):
        model = network()
        weights = rk.SampleWeights(n, rk.RRM(contamination=0.4)) if weighted else None
        history = fit(model, n, weights=weights, batch_size=batch_size, accumulate=accumulate, **options)
        found.append((parameters(model), torch.tensor([epoch.loss for epoch in history.epochs])))
        assert weights is None or weights.removed_fraction == pytest.approx(0.4, abs=0.01)
    for large, accumulated in zip(*found, strict=True):
        torch.testing.assert_close(accumulated, large, rtol=0, atol=1e-6)


def test_rows_that_are_skipped_change_nothing_about_it() -> None:
    found = []
    for batch_size, accumulate in ((100, 1), (25, 4)):
        model, weights = network(), rk.SampleWeights(300, rk.RRM(contamination=0.4))
        fit(model, weights=weights, batch_size=batch_size, accumulate=accumulate, skip_removed=True)
        found.append(parameters(model))
    torch.testing.assert_close(*found, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("accumulate", "steps"), [(1, 12), (4, 3), (5, 3), (100, 1)])
def test_optimizer_and_scheduler_step_once_for_all_batches_of_a_step(accumulate: int, steps: int) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    calls: list[None] = []
    optimizer.register_step_post_hook(lambda *_: calls.append(None))
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    options = {"scheduler": scheduler, "scheduler_every": "batch", "accumulate": accumulate, "batch_size": 25}
    history = fit(model, optimizer=optimizer, epochs=1, **options)
    assert len(calls) == steps
    assert history.epochs[-1].learning_rate == pytest.approx(0.9**steps)


def test_a_step_forgets_the_gradients_of_the_one_before() -> None:
    layer = nn.Linear(1, 1, bias=False)
    step = GradientStep(layer, torch.optim.SGD(layer.parameters(), lr=0.0))
    for _ in range(2):
        step.add(layer.weight.sum())
        step.add(2 * layer.weight.sum())
        step.finish()
        assert layer.weight.grad.item() == 3


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_by_name_is_the_loss_itself(name: str) -> None:
    toy = make_toy(n=300)
    by_output = (toy.y[:, None] == torch.arange(3)).float()
    train = (toy.x, by_output if name in ("bce", "squared", "huber") else toy.y)
    loss = rk.losses.ELR(300, 3) if name == "elr" else LOSSES[name]
    models = network(), network()
    histories = [fit(model, loss=given, train=train) for model, given in zip(models, (name, loss), strict=True)]
    assert histories[0] == histories[1]
    assert torch.equal(*map(parameters, models))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "cross"}, "need the name of a loss, one of cce, .*got 'cross'"),
        ({"loss": "elr", "model": nn.Linear(2, 1)}, r"one output per class.*pass ELR\(n_samples, n_classes\)"),
        ({"amp": "half"}, "need amp to be one of None, bfloat16, float16; got 'half'"),
        ({"accumulate": 0}, "need accumulate >= 1, got 0"),
        ({"train": [(torch.zeros(2), 0)] * 9, "transform": torch.neg}, "need data in memory for transform"),
        ({"collate_fn": torch.utils.data.default_collate, "transform": torch.neg}, "need data in memory for transform"),
        ({"sampler": 5}, "need a sampler that gives one index after the other, got 5"),
        ({"sampler": [[0, 1], [2]]}, "need a sampler that gives one index after the other, got .*not batches"),
        ({"sampler": []}, "need a sampler that gives indices from 0 to 299, got none"),
        ({"sampler": [0, 300]}, "need a sampler that gives indices from 0 to 299, got 0 to 300"),
        ({"sampler": [3, -1]}, "need a sampler that gives indices from 0 to 299, got -1 to 3"),
    ],
)
def test_bad_options_get_one_clear_error(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        fit(options.pop("model", None) or network(), **options)
    assert "\n" not in str(caught.value)


def jitter(x: Tensor) -> Tensor:
    return x + 0.3 * torch.randn_like(x)


def test_a_transform_is_applied_in_training_only_and_before_an_attack() -> None:
    model, calls = network(), []
    toy = make_toy(n=300)

    def transform(x: Tensor) -> Tensor:
        calls.append(len(x))
        return x + 100

    def attack(network: nn.Module, loss, x: Tensor, y: Tensor) -> Tensor:
        assert (x.mean() > 50) == training
        return x

    training = True
    weights = rk.SampleWeights(300, rk.RRM(contamination=0.4))
    options = {"weights": weights, "losses_from": "clean", "valid": (toy.x, toy.y), "transform": transform}
    fit(model, optimizer=torch.optim.SGD(model.parameters(), lr=1e-6), attack=attack, epochs=2, **options)
    assert calls == [50] * 6 * 2
    training = False
    rk.evaluate(model, (toy.x, toy.y), loss="cce", attack=attack)


def test_a_sampler_gives_the_rows_of_each_epoch_in_their_order() -> None:
    toy, order = make_toy(n=300), [7, 3, 3, 250, *range(100, 150)]
    model, by_hand = network(), network()
    history = fit(model, sampler=order, batch_size=20)
    optimizer = torch.optim.SGD(by_hand.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        for index in torch.tensor(order).split(20):
            optimizer.zero_grad()
            cce(by_hand(toy.x[index]), toy.y[index]).mean().backward()
            optimizer.step()
    assert torch.equal(parameters(model), parameters(by_hand))
    assert history.epochs[-1].loss > 0


def test_a_sampler_of_torch_follows_from_the_seed_and_works_with_weights() -> None:
    toy = make_toy(n=300)
    chances = 1.0 + 5.0 * (toy.y == 0)
    runs = [network() for _ in range(3)]
    for model, seed in zip(runs, (0, 0, 1), strict=True):
        weights = rk.SampleWeights(300, rk.RRM(contamination=0.2))
        sampler = torch.utils.data.WeightedRandomSampler(chances.tolist(), 400)
        history = fit(model, weights=weights, sampler=sampler, seed=seed)
        assert 0 < weights.n_removed <= 60
        assert len(history.epochs) == 3
    same, again, other = map(parameters, runs)
    assert torch.equal(same, again)
    assert not torch.allclose(same, other)


def test_an_epoch_of_held_out_rows_only_is_an_error() -> None:
    weights = rk.SampleWeights(300)
    assert weights.held_out is not None
    with pytest.raises(ValueError, match="need rows to train on, but those of this epoch are all held out"):
        fit(network(), weights=weights, sampler=weights.held_out)


def test_a_transform_draws_from_the_seed_and_the_loop_is_the_one_one_would_write() -> None:
    toy = make_toy(n=300)
    runs = [network() for _ in range(4)]
    for model, seed in zip(runs[:3], (0, 0, 1), strict=True):
        fit(model, transform=jitter, seed=seed)
    by_hand = runs[3]
    optimizer = torch.optim.SGD(by_hand.parameters(), lr=0.1, momentum=0.9)
    for epoch in (1, 2, 3):
        with seeded(0, epoch):
            for index in torch.randperm(300).split(50):
                optimizer.zero_grad()
                cce(by_hand(jitter(toy.x[index])), toy.y[index]).mean().backward()
                optimizer.step()
    same, again, other, expected = map(parameters, runs)
    assert torch.equal(same, again)
    assert torch.equal(same, expected)
    assert not torch.allclose(same, other)


@pytest.mark.parametrize("options", [{"transform": jitter}, {"amp": "float16", "accumulate": 2}], ids=["", "float16"])
def test_a_run_with_these_options_is_resumed_as_if_never_interrupted(options: dict, tmp_path: Path) -> None:
    models = network(), network()
    whole = fit(models[0], epochs=4, **options)
    for epochs in (1, 3, 4):
        model = network()
        resumed = fit(model, epochs=epochs, checkpoint=tmp_path, resume=True, **options)
    assert resumed == whole
    assert torch.equal(parameters(model), parameters(models[0]))


class Spy(rk.SampleWeights):
    def reduce(self, losses: Tensor, index: Tensor, **predictions: Tensor) -> Tensor:
        assert {part.dtype for part in (losses, predictions["logits"])} == {torch.float32}
        return super().reduce(losses, index, **predictions)


@pytest.mark.parametrize("name", ["cce", "mae", "mse", "gce", "truncated_gce", "elr"])
def test_float16_comes_to_the_outcome_of_full_precision(name: str) -> None:
    outcomes = []
    for amp in (None, "float16"):
        model, weights = network(), Spy(300, rk.RRM(contamination=0.4))
        history = fit(model, loss=name, weights=weights, amp=amp, epochs=6, grad_clip=1.0)
        outcomes.append((history, weights.removed, parameters(model)))
    (full, removed, exact), (half, also_removed, rounded) = outcomes
    assert half.epochs[-1].loss == pytest.approx(full.epochs[-1].loss, rel=0.05)
    assert (removed & also_removed).sum() >= 0.95 * removed.sum()
    assert 0 < (exact - rounded).abs().max() < 0.1


def test_a_step_that_overflows_float16_is_skipped_and_the_scheduler_with_it() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
    step = GradientStep(model, optimizer, scheduler=scheduler, scaler=scaler)
    before = parameters(model)
    step.add(1e6 * model(torch.ones(1, 2)).sum())
    step.finish()
    assert torch.equal(parameters(model), before)
    assert optimizer.param_groups[0]["lr"] == 0.1
    scaler.update(1.0)
    step.add(model(torch.ones(1, 2)).sum())
    step.finish()
    assert not torch.equal(parameters(model), before)
    assert optimizer.param_groups[0]["lr"] == 0.05


def test_bfloat16_comes_to_the_outcome_of_full_precision() -> None:
    # In a process of its own: on some processors oneDNN takes bfloat16 instructions that the machine has not, and ends
    # the process, unless it is told so before torch starts.
    environment = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, str(SCRIPT)], env=os.environ | environment, check=True, timeout=120)


def test_without_amp_a_network_of_half_precision_stays_so() -> None:
    toy = make_toy(n=12)
    model = network().half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = Rows((toy.x.half(), toy.y))
    run = Run(model=model, forward=model, rows=rows, loss=cce, optimizer=optimizer, options=Options())
    mean, outputs = run.batch_loss(next(rows.all_batches(12)))
    assert mean.dtype == outputs.dtype == torch.float16
