import math
import random
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset

import rockafellian as rk
from rockafellian.attacks import FGSM, PGD
from rockafellian.losses import ELR, bce, cce, squared
from rockafellian.training.rng import seeded
from toy import Toy, make_toy

TOY = make_toy(n=300)
CLEAN = make_toy(seed=1, n=150)
TRAIN = (TOY.x, TOY.y)
VALID = (CLEAN.x, CLEAN.y)


def network(*layers: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 32), *layers, nn.ReLU(), nn.Linear(32, 3))


def sgd(model: nn.Module, lr: float = 0.1) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)


def rrm(n: int = 300, **options) -> rk.SampleWeights:
    return rk.SampleWeights(n, rk.RRM(contamination=0.4), **options)


def fit(model: nn.Module, train=TRAIN, **options) -> rk.History:
    settings = {"loss": cce, "optimizer": sgd(model), "epochs": 4, "batch_size": 50, "progress": "quiet"}
    return rk.fit(model, train, **{**settings, **options})


def same(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


def by_hand(
    model: nn.Module, epochs: int, weights: rk.SampleWeights | None = None, attack=None, grad_clip=None
) -> None:
    """Algorithms 1 and 2, written out."""
    optimizer = sgd(model)
    for epoch in range(1, epochs + 1):
        with seeded(0, epoch):
            if weights is not None and epoch > 1:
                weights.step()
            for index in torch.randperm(300).split(50):
                x, y = TOY.x[index], TOY.y[index]
                if attack is not None:
                    x = attack(model, cce, x, y)
                losses = cce(model(x), y)
                loss = losses.mean() if weights is None else weights.reduce(losses, index)
                optimizer.zero_grad()
                loss.backward()
                if grad_clip is not None:
                    nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
                optimizer.step()


@pytest.mark.parametrize("grad_clip", [None, 0.1])
@pytest.mark.parametrize("attack", [None, FGSM(0.5), PGD(0.5, steps=2)], ids=["clean", "fgsm", "pgd"])
@pytest.mark.parametrize("weighted", [False, True])
def test_fit_is_the_loop_one_would_write(weighted: bool, attack, grad_clip: float | None) -> None:
    ours, theirs = network(nn.Dropout(0.1)), network(nn.Dropout(0.1))
    weights, expected = (rrm(every=2), rrm(every=2)) if weighted else (None, None)
    fit(ours, weights=weights, attack=attack, grad_clip=grad_clip)
    by_hand(theirs, 4, expected, attack, grad_clip)
    assert same(ours, theirs)
    if weighted:
        assert torch.equal(weights.values, expected.values)
        assert weights.history == expected.history


class Rowwise(Dataset):
    """The toy rows one by one, with noise that a worker or the main process draws."""

    def __init__(self, toy: Toy, noise: float = 0.0) -> None:
        self.toy, self.noise = toy, noise

    def __len__(self) -> int:
        return len(self.toy.y)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        shift = torch.randn(2) + np.random.normal() + random.gauss() if self.noise else 0  # noqa: NPY002
        return self.toy.x[i] + self.noise * shift, int(self.toy.y[i])


@pytest.mark.parametrize("workers", [0, 2])
def test_rows_from_a_loader_give_what_rows_in_memory_give(workers: int) -> None:
    ours, theirs = network(), network()
    weights, expected = rrm(), rrm()
    history = fit(ours, Rowwise(TOY), weights=weights, num_workers=workers)
    assert history == fit(theirs, weights=expected)
    assert same(ours, theirs)
    assert torch.equal(weights.values, expected.values)


@pytest.mark.parametrize("workers", [0, 2])
def test_what_a_dataset_draws_follows_from_the_seed_too(workers: int) -> None:
    runs = [fit(network(), Rowwise(TOY, noise=0.1), num_workers=workers, seed=seed, epochs=2) for seed in (0, 0, 1)]
    assert runs[0] == runs[1] != runs[2]


def test_the_seed_alone_decides_and_the_users_random_numbers_go_on() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    losses = []
    for own_seed, seed in ((5, 0), (6, 0), (6, 1)):
        model = network(nn.Dropout())
        torch.manual_seed(own_seed)
        losses.append(fit(model, seed=seed).epochs[-1].loss)
        if own_seed == 5:
            assert torch.equal(torch.rand(3), expected)
    assert losses[0] == losses[1] != losses[2]


def test_training_is_in_training_mode_whatever_the_mode_was() -> None:
    assert fit(network(nn.Dropout()).eval()) == fit(network(nn.Dropout()))


def test_rows_are_not_reweighted_after_the_last_round() -> None:
    weights = rrm(every=2)
    history = fit(network(), weights=weights, epochs=6)
    assert [made.epoch for made in history.rounds] == [2, 4]
    assert [made.epoch for made in weights.history] == [2, 4]
    assert [epoch.removed_fraction for epoch in history.epochs] == pytest.approx([0, 0, 0.4, 0.4, 0.4, 0.4])


def test_history_has_precision_and_recall_of_the_removed_rows() -> None:
    weights = rrm()
    history = fit(network(), weights=weights, wrong=TOY.wrong, epochs=8)
    hits = int((weights.removed & TOY.wrong).sum())
    last = history.rounds[-1]
    assert (last.precision, last.recall) == (hits / int(weights.removed.sum()), hits / int(TOY.wrong.sum()))
    assert last.precision > 0.9
    assert (last.threshold, last.gap) == (weights.history[-1].threshold, weights.history[-1].gap)
    assert last.seconds > 0
    assert fit(network(), weights=rrm()).rounds[-1].precision is None


@pytest.mark.parametrize("losses_from", ["clean", "attacked"])
def test_a_fresh_pass_sees_each_row_in_evaluation_mode(losses_from: str) -> None:
    model, weights = network(nn.Dropout(0.3)), rrm()
    attack = FGSM(0.5)
    seen = []
    rule = weights.rule
    weights.rule = lambda losses, values: (seen.append(losses), rule(losses, values))[1]
    fit(model, weights=weights, attack=attack, losses_from=losses_from, epochs=1)
    fit_twice = network(nn.Dropout(0.3))
    fit(fit_twice, weights=weights, attack=attack, losses_from=losses_from, epochs=2)
    model.eval()
    x = attack(model, cce, TOY.x, TOY.y) if losses_from == "attacked" else TOY.x
    torch.testing.assert_close(seen[0], cce(model(x), TOY.y).detach())


def test_removed_rows_are_not_drawn_and_can_come_back() -> None:
    model, weights = network(), rrm(every=2)
    drawn: list[list[int]] = [[]]

    def counting(logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        if model.training and index is not None:
            drawn[-1] += index.tolist()
        return cce(logits, labels)

    counting.takes_index = True
    removed, losses_seen = [], []

    def on_epoch(_: rk.Epoch) -> None:
        drawn.append([])
        removed.append(weights.values == 0)
        weights.collect()
        losses_seen.append(weights.average_losses.isfinite().all())

    fit(model, weights=weights, loss=counting, skip_removed=True, epochs=8, on_epoch=on_epoch)
    for rows, gone in zip(drawn, removed, strict=False):
        assert sorted(rows) == (~gone).nonzero()[:, 0].tolist()
    assert [int(gone.sum()) for gone in removed] == [0, 0, *[120] * 6]  # of all rows, not of those drawn
    assert any(not torch.equal(removed[i], removed[i + 2]) for i in (2, 4))
    assert TOY.wrong[weights.removed].float().mean() > 0.9


def test_skipping_rows_leaves_the_expected_gradient_as_it_was() -> None:
    steps = []
    for skip in (False, True):
        model, weights = network(), rrm()
        weights.step(torch.arange(300.0))  # removes the last 120
        before = [parameter.detach().clone() for parameter in model.parameters()]
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        fit(model, weights=weights, optimizer=optimizer, skip_removed=skip, epochs=1, batch_size=300)
        steps.append([a - b.detach() for a, b in zip(before, model.parameters(), strict=True)])
    for plain, skipping in zip(*steps, strict=True):
        torch.testing.assert_close(plain, skipping)


def test_the_network_of_the_best_validation_is_kept_and_the_last_one_returned() -> None:
    model = network()
    states, found = [], []

    def on_epoch(epoch: rk.Epoch) -> None:
        states.append({name: value.clone() for name, value in model.state_dict().items()})
        found.append((-epoch.valid_accuracy, epoch.valid_loss, epoch.epoch))
        evaluation = rk.evaluate(model, VALID, loss=cce)
        assert (epoch.valid_loss, epoch.valid_accuracy) == evaluation

    history = fit(model, valid=VALID, epochs=12, optimizer=sgd(model, 0.5), on_epoch=on_epoch)
    best = min(found)[2]
    assert 1 <= best < 12
    assert history.best.epoch == best
    assert all(torch.equal(value, states[best - 1][name]) for name, value in history.best.model.items())
    assert not all(torch.equal(value, states[-1][name]) for name, value in history.best.model.items())
    assert all(torch.equal(value, states[-1][name]) for name, value in model.state_dict().items())


def test_validation_can_be_under_attack() -> None:
    model = network()
    history = fit(model, valid=VALID, attack=FGSM(1.0), attack_valid=True)
    expected = rk.evaluate(model, VALID, loss=cce, attack=FGSM(1.0))
    assert (history.epochs[-1].valid_loss, history.epochs[-1].valid_accuracy) == expected
    assert expected.accuracy < rk.evaluate(model, VALID, loss=cce).accuracy


def test_stop_ends_the_run_after_the_epoch_it_asks_for() -> None:
    history = fit(network(), valid=VALID, epochs=50, stop=lambda epoch: epoch.valid_loss < 1.0)
    assert history.epochs[-1].valid_loss < 1.0
    assert all(epoch.valid_loss >= 1.0 for epoch in history.epochs[:-1])
    assert len(history.epochs) < 50


def test_schedulers_move_each_epoch_each_batch_or_with_the_validation() -> None:
    def rates(scheduler, **options) -> list[float]:
        model = network()
        optimizer = sgd(model)
        history = fit(model, optimizer=optimizer, scheduler=scheduler(optimizer), epochs=3, **options)
        return [epoch.learning_rate for epoch in history.epochs]

    lr = torch.optim.lr_scheduler
    assert rates(partial(lr.StepLR, step_size=1, gamma=0.5)) == pytest.approx([0.1, 0.05, 0.025])
    by_batch = rates(partial(lr.StepLR, step_size=6, gamma=0.5), scheduler_every="batch")
    assert by_batch == pytest.approx([0.05, 0.025, 0.0125])
    plateau = partial(lr.ReduceLROnPlateau, patience=0, threshold=10.0, threshold_mode="abs", factor=0.5)
    assert rates(plateau, valid=VALID) == pytest.approx([0.1, 0.1, 0.05])
    improving = partial(lr.ReduceLROnPlateau, patience=0, threshold=0.0, factor=0.5)
    assert rates(improving, valid=VALID) == pytest.approx([0.1, 0.1, 0.1])


@pytest.mark.parametrize(
    ("loss", "targets", "accuracy"),
    [
        (bce, (TOY.y[:, None] == torch.arange(3)).long(), True),
        (nn.CrossEntropyLoss(reduction="none"), TOY.y, True),
        (squared, TOY.x[:, :1].expand(-1, 3).contiguous(), False),
        (ELR(300, 3), TOY.y, True),
    ],
    ids=["multi-label", "torch's", "regression", "ELR"],
)
def test_any_loss_with_one_value_a_row_is_wrapped(loss, targets: Tensor, accuracy: bool) -> None:
    weights = rrm()
    history = fit(network(), (TOY.x, targets), loss=loss, weights=weights, epochs=5)
    assert history.epochs[-1].loss < history.epochs[0].loss
    assert (history.epochs[-1].accuracy is not None) == accuracy
    assert int(weights.removed.sum()) == 120


def test_elr_remembers_predictions_of_the_training_only() -> None:
    loss = ELR(300, 3)
    calls = []
    loss.register_forward_hook(lambda module, *_: calls.append(module.training))
    fit(network(), loss=loss, attack=FGSM(0.5), valid=VALID, weights=rrm(), losses_from="attacked", epochs=2)
    assert calls.count(True) == 2 * 6
    assert loss.memory.sum(1).min() > 0


def test_a_frozen_part_of_the_network_stays_as_it_was() -> None:
    model = network(nn.BatchNorm1d(32))
    model[0].requires_grad_(False)
    before = model[0].weight.clone()
    fit(model, optimizer=torch.optim.SGD(model[3].parameters(), lr=0.1), attack=FGSM(0.5), epochs=1)
    assert torch.equal(model[0].weight, before)
    assert model[1].num_batches_tracked == 6  # one for each batch: the attack left no trace


def test_divergence_is_named_with_its_epoch_and_likely_cause(tmp_path) -> None:
    model = network()
    rule = rk.RRM(contamination=0.4, spread="argmin")

    def spoil(layer: nn.Module, _: object) -> None:
        layer.weight.data.fill_(math.nan)

    def on_epoch(epoch: rk.Epoch) -> None:
        if epoch.epoch == 2:
            model[0].register_forward_pre_hook(spoil)

    with pytest.raises(FloatingPointError, match=r"in epoch 3 .* learning rate .* spread='argmin'.*epoch 2") as caught:
        fit(
            model,
            weights=rk.SampleWeights(300, rule, warmup=5),
            checkpoint=tmp_path,
            epochs=5,
            on_epoch=on_epoch,
        )
    assert "\n" not in str(caught.value)
    recovered = network()
    history = fit(recovered, weights=rk.SampleWeights(300, rule, warmup=5), checkpoint=tmp_path, resume=True, epochs=2)
    assert len(history.epochs) == 2
    assert all(parameter.isfinite().all() for parameter in recovered.parameters())


def test_what_on_epoch_writes_is_never_behind_the_checkpoint(tmp_path) -> None:
    seen: list[int] = []

    def on_epoch(epoch: rk.Epoch) -> None:
        seen.append(epoch.epoch)
        if seen == [1, 2]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(network(), checkpoint=tmp_path, epochs=3, on_epoch=on_epoch)
    fit(network(), checkpoint=tmp_path, resume=True, epochs=3, on_epoch=on_epoch)
    assert seen == [1, 2, 2, 3]


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(TOY.x[0], 0)])


WRONG_LABEL = TOY.y.clone()
WRONG_LABEL[-1] = 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train": (TOY.x, WRONG_LABEL)}, "labels from 0 to 2, as the network has 3 outputs; got 0 to 3"),
        ({"train": Rowwise(Toy(TOY.x, WRONG_LABEL, TOY.wrong))}, "labels from 0 to 2, .* got 0 to 3"),
        ({"valid": (TOY.x, WRONG_LABEL)}, "labels from 0 to 2, .* got 0 to 3"),
        ({"train": Stream()}, "need a dataset with a length"),
        ({"train": (TOY.x[:0], TOY.y[:0])}, "at least one row"),
        ({"valid": (TOY.x[:0], TOY.y[:0])}, "at least one row"),
        ({"loss": nn.CrossEntropyLoss()}, r"one loss per row, got shape \(\) .* reduction='none'"),
        ({"weights": rrm(10)}, "weights for the 300 rows of train, got 10"),
        ({"wrong": TOY.wrong[:5]}, "wrong for the 300 rows of train, got 5"),
        ({"epochs": -1}, "epochs >= 0, got -1"),
        ({"batch_size": 0}, "batch_size >= 1, got 0"),
        ({"grad_clip": 0.0}, "grad_clip > 0"),
        ({"losses_from": "attacked", "weights": rrm()}, "need an attack"),
        ({"losses_from": "memory"}, "losses_from to be one of training, clean, attacked; got 'memory'"),
        ({"scheduler_every": "step"}, "scheduler_every to be one of epoch, batch; got 'step'"),
        ({"skip_removed": True}, "need weights"),
        ({"progress": "loud"}, "progress to be one of"),
        ({"loss": ELR(10, 3)}, "index from 0 to 9"),
    ],
)
def test_bad_input_gets_one_clear_error_and_nothing_is_written(options, message: str, tmp_path) -> None:
    model = network()
    with pytest.raises(ValueError, match=message) as caught:
        fit(model, **{"checkpoint": tmp_path / "run", **options})
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()
    if options.keys() & {"train", "valid"} and not isinstance(options.get("train"), Rowwise):
        assert same(model, network())


def drawn_by_epoch(model: nn.Module, weights: rk.SampleWeights, **options) -> tuple[rk.History, list[list[int]], list]:
    """The rows drawn in each epoch, and the weights that they were drawn by."""
    drawn: list[list[int]] = [[]]
    states: list[tuple[bool, Tensor]] = []

    def spying(logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        if model.training and index is not None:
            drawn[-1] += index.tolist()
        return cce(logits, labels)

    spying.takes_index = True

    def on_epoch(_: rk.Epoch) -> None:
        drawn.append([])
        states.append((weights.held_out is not None, weights.values.clone()))

    history = fit(model, weights=weights, loss=spying, on_epoch=on_epoch, **options)
    return history, drawn[:-1], states


@pytest.mark.parametrize("options", [{}, {"losses_from": "clean"}, {"attack": FGSM(0.1)}], ids=["", "clean", "fgsm"])
@pytest.mark.parametrize("skip", [False, True])
def test_fit_estimates_the_noise_rate_and_finds_the_mislabeled_rows(skip: bool, options: dict) -> None:
    toy = make_toy()
    weights = rk.SampleWeights(1500, rk.RRM(crisp=True))
    held = weights.held_out
    history, drawn, states = drawn_by_epoch(
        network(), weights, train=(toy.x, toy.y), wrong=toy.wrong, epochs=10, skip_removed=skip, **options
    )
    assert weights.estimate.ceiling.rate == pytest.approx(0.4, abs=0.06)
    assert history.rounds[-1].precision > 0.9
    assert history.rounds[-1].recall > 0.9
    assert [holding for holding, _ in states] == sorted((holding for holding, _ in states), reverse=True)
    assert states[1][0]  # at least two epochs: the first is never the last
    assert not states[-1][0]
    kept_out = set(held.tolist())
    for rows, (holding, values) in zip(drawn, states, strict=True):
        if holding:
            assert sorted(rows) == sorted(set(range(1500)) - kept_out)
        else:
            assert sorted(rows) == ((values > 0) if skip else torch.ones(1500)).nonzero()[:, 0].tolist()
    assert kept_out & set(drawn[-1])


@pytest.mark.filterwarnings("ignore:the run ended before the noise rate")
def test_nothing_of_a_held_out_row_reaches_the_network() -> None:
    held = rk.SampleWeights(300, rk.RRM(crisp=True)).held_out
    x, y = TOY.x.clone(), TOY.y.clone()
    x[held], y[held] = 100.0, (y[held] + 1) % 3
    models = []
    for rows in (TRAIN, (x, y)):
        model, weights = network(), rk.SampleWeights(300, rk.RRM(crisp=True))
        fit(model, rows, weights=weights, epochs=2)
        assert torch.equal(weights.held_out, held)
        models.append(model)
    assert same(*models)


@pytest.mark.filterwarnings("ignore:the run ended before the noise rate")
def test_training_before_the_estimate_is_training_on_the_other_rows() -> None:
    weights = rk.SampleWeights(300, rk.RRM(crisp=True))
    others = torch.ones(300, dtype=torch.bool)
    others[weights.held_out] = False
    ours, theirs = network(), network()
    for model, rows, options in (
        (ours, TRAIN, {"weights": weights}),
        (theirs, (TOY.x[others], TOY.y[others]), {}),
    ):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        fit(model, rows, optimizer=optimizer, epochs=1, batch_size=300, **options)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_of_clean_labels_fit_removes_next_to_none() -> None:
    weights = rk.SampleWeights(1500, rk.RRM(crisp=True))
    toy = make_toy()
    fit(network(), (toy.x, torch.arange(1500) % 3), weights=weights, epochs=10)
    assert weights.held_out is None
    assert int(weights.removed.sum()) <= 0.02 * 1500


def test_a_run_too_short_to_estimate_the_noise_rate_says_so() -> None:
    weights = rk.SampleWeights(300)
    with pytest.warns(UserWarning, match="ended before the noise rate could be estimated.*train for more epochs"):
        fit(network(), weights=weights, epochs=1)
    assert weights.estimate is None
