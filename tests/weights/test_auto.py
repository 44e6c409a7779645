"""SampleWeights with RRM(crisp=True), which estimates the noise rate from predictions for held-out rows."""

import gc
import json
import weakref
from typing import NamedTuple

import pytest
import safetensors.torch
import torch
from torch import Tensor

import rockafellian as rk
from rockafellian.weights import buffer
from toy import Toy, make_toy, precision_and_recall


class Told(NamedTuple):
    """What a loop tells in an epoch: losses, logits and labels of all rows, and the batches they come in."""

    losses: Tensor
    logits: Tensor
    labels: Tensor
    batches: tuple[Tensor, ...]


N_TOLD = 400
WRONG = torch.arange(N_TOLD) % 4 == 0


def told(epoch: int) -> Told:
    """A network that learns for three epochs, of three classes and a quarter of wrong labels; a row in four twice."""
    random = torch.Generator().manual_seed(epoch)
    truth = torch.arange(N_TOLD) // 4 % 3
    labels = torch.where(WRONG, (truth + 1) % 3, truth)
    skill = min(1.0 + 2 * epoch, 5.0)
    logits = skill * torch.nn.functional.one_hot(truth, 3) + torch.randn(N_TOLD, 3, generator=random)
    losses = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    order = torch.randperm(N_TOLD, generator=random)
    return Told(losses, logits, labels, torch.cat([order, order[::4]]).split(64))


def tell(weights: rk.SampleWeights, epochs: range, n_batches: int | None = None) -> rk.SampleWeights:
    """A step before each epoch but the first, so that it ends with much only remembered; the last may be cut short."""
    for epoch in epochs:
        if epoch:
            weights.step()
        losses, logits, labels, batches = told(epoch)
        for rows in batches[: n_batches if epoch == epochs[-1] else None]:
            weights.reduce(losses[rows], rows, logits=logits[rows], labels=labels[rows])
    return weights


def auto(seed: int = 0, **options) -> rk.SampleWeights:
    return rk.SampleWeights(N_TOLD, options.pop("rule", rk.RRM(crisp=True)), seed=seed, **options)


def same_state(a: rk.SampleWeights, b: rk.SampleWeights) -> None:
    ours, theirs = a.state_dict(), b.state_dict()
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert tensor.dtype == theirs[name].dtype, name
        assert torch.equal(tensor.nan_to_num(-7.0), theirs[name].nan_to_num(-7.0)), name


def train_on_toy(toy: Toy, seed: int = 0) -> rk.SampleWeights:
    """The loop of examples/toy.py, in which the weights hear what the network says."""
    torch.manual_seed(seed)
    hidden = [layer for size in (2, 64, 64) for layer in (torch.nn.Linear(size, 64), torch.nn.ReLU())]
    model = torch.nn.Sequential(*hidden, torch.nn.Linear(64, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    weights = rk.SampleWeights(len(toy.y), rk.RRM(crisp=True), seed=seed)
    for _ in range(12):
        for index in torch.randperm(len(toy.y)).split(50):
            logits = model(toy.x[index])
            losses = torch.nn.functional.cross_entropy(logits, toy.y[index], reduction="none")
            optimizer.zero_grad()
            weights.reduce(losses, index, logits=logits, labels=toy.y[index]).backward()
            optimizer.step()
        weights.step()
    return weights


@pytest.mark.parametrize("seed", range(3))
def test_the_noise_rate_is_estimated_and_the_mislabeled_rows_are_found(seed: int) -> None:
    toy = make_toy(seed)
    weights = train_on_toy(toy, seed)
    assert weights.held_out is None
    assert weights.estimate.ceiling.rate == pytest.approx(0.4, abs=0.1)  # 500 held-out rows, three classes
    assert min(precision_and_recall(weights.removed, toy.wrong)) > 0.9


@pytest.mark.parametrize("seed", range(3))
def test_of_clean_labels_next_to_none_is_removed(seed: int) -> None:
    toy = make_toy(seed)
    weights = train_on_toy(toy._replace(y=torch.arange(len(toy.y)) % 3), seed)
    assert weights.held_out is None
    assert int(weights.removed.sum()) <= 0.02 * len(toy.y)


def test_the_noise_rate_needs_logits_and_labels() -> None:
    weights = rk.SampleWeights(10, rk.RRM(crisp=True))
    weights.reduce(torch.rand(10), torch.arange(10))
    before = weights.state_dict()
    with pytest.raises(
        ValueError, match=r"need logits and labels.*reduce\(losses, index, logits=logits, labels=labels\)"
    ) as caught:
        weights.step()
    assert "\n" not in str(caught.value)
    assert weights.epoch == 0
    assert all(torch.equal(before[name], tensor) for name, tensor in weights.state_dict().items())
    per_class = rk.SampleWeights(10, rk.RRM(contamination=0.2), per_class=True)
    per_class.reduce(torch.rand(10), torch.arange(10))
    with pytest.raises(ValueError, match="or to weight each class"):
        per_class.step()


def test_logits_and_labels_come_together_or_not_at_all() -> None:
    weights = rk.SampleWeights(10, rk.RRM(crisp=True))
    with pytest.raises(ValueError, match="logits and labels together"):
        weights.reduce(torch.rand(10), torch.arange(10), logits=torch.rand(10, 3))
    with pytest.raises(ValueError, match="logits and labels together"):
        weights.remember(torch.rand(10), torch.arange(10), labels=torch.zeros(10).long())
    weights.collect()
    assert weights.average_losses.isnan().all()


HOLD_OUT = 4  # epochs that `told` takes until the share is found


@pytest.mark.parametrize("with_prior", [False, True])
def test_held_out_rows_have_no_weight_until_the_noise_rate_is_estimated(with_prior: bool) -> None:
    prior = torch.linspace(0.5, 1.5, N_TOLD) if with_prior else torch.ones(N_TOLD)
    weights = auto(prior=prior if with_prior else None)
    held = weights.held_out
    lent = prior.clone()
    lent[held] = 0
    for epoch in range(HOLD_OUT):
        tell(weights, range(epoch, epoch + 1))
        assert torch.equal(weights.held_out, held)
        torch.testing.assert_close(weights.values, lent / lent.mean())
        assert (weights.estimate, weights.history) == (None, [])
        assert not weights.removed.any()
    weights.collect()
    assert weights.due
    assert weights.step()
    assert weights.held_out is None
    assert min(precision_and_recall(weights.removed, WRONG)) > 0.9
    kept = prior * ~weights.removed
    torch.testing.assert_close(weights.values, kept / kept.mean())  # the held rows among them
    for epoch in range(HOLD_OUT, 8):
        losses, logits, labels, _ = told(epoch)
        weights.reduce(losses, torch.arange(N_TOLD), logits=logits, labels=labels)
        assert weights.step()
        assert weights.values.mean().item() == pytest.approx(1, abs=1e-5)


def test_held_rows_get_back_what_they_had_lent_when_weights_go_only_half_way() -> None:
    weights = tell(auto(rule=rk.RRM(mu=0.5)), range(HOLD_OUT))
    held = weights.held_out
    weights.step()
    target = ~weights.removed / (~weights.removed).float().mean()
    torch.testing.assert_close(weights.values, 0.5 + 0.5 * target)
    assert weights.values[held].min() == pytest.approx(0.5)


def test_the_warmup_comes_before_the_estimate_and_every_counts_from_there() -> None:
    weights = tell(auto(warmup=6, every=2), range(12))
    first, *later = [made.epoch for made in weights.history]
    assert first > 6
    assert later == list(range(first + 2, 12, 2))


def test_as_many_rows_go_as_the_network_disagrees_with_within_the_interval() -> None:
    weights = tell(auto(), range(HOLD_OUT))
    weights.step()
    disagrees = int(weights.predictions.disagrees.sum())
    ceiling = weights.estimate.ceiling
    assert ceiling.low < disagrees / N_TOLD < ceiling.high
    assert weights.history[0].n_removed == disagrees
    losses, _, labels, _ = told(HOLD_OUT)
    every_row = torch.arange(N_TOLD)
    agreeing = torch.nn.functional.one_hot(labels, 3).float()
    for says, share in ((agreeing, ceiling.low), (agreeing.roll(1, dims=1), ceiling.high)):
        weights.reduce(losses, every_row, logits=says, labels=labels)
        weights.step()
        assert weights.history[-1].n_removed == pytest.approx(share * N_TOLD, abs=1)


def test_the_seed_decides_which_rows_are_held_and_all_that_follows() -> None:
    same_state(tell(auto(seed=3), range(6)), tell(auto(seed=3), range(6)))
    assert not torch.equal(auto(seed=3).held_out, auto(seed=4).held_out)


@pytest.mark.parametrize("n_batches", [None, 3])
@pytest.mark.parametrize("epochs", [1, 2, HOLD_OUT, HOLD_OUT + 1, 6])
@pytest.mark.parametrize("settings", [{}, {"rule": rk.RRM(mu=0.5), "per_class": True}], ids=["plain", "per class"])
def test_a_state_saved_while_rows_are_held_out_or_after_it_resumes_bit_for_bit(
    settings: dict, epochs: int, n_batches: int | None, tmp_path
) -> None:
    whole = tell(auto(**settings, every=2), range(epochs), n_batches)
    safetensors.torch.save_file(whole.state_dict(), tmp_path / "weights.safetensors")
    resumed = auto(seed=1, **settings, every=2)
    resumed.load_state_dict(safetensors.torch.load_file(tmp_path / "weights.safetensors"))
    assert (resumed.held_out is None) == (epochs > HOLD_OUT) == (resumed.estimate is not None)
    for weights in (whole, resumed):
        tell(weights, range(epochs, 9))
    same_state(whole, resumed)
    assert whole.history == resumed.history
    assert whole.estimate == resumed.estimate is not None


def test_a_state_with_held_out_rows_goes_through_json() -> None:
    whole = tell(auto(), range(2))
    as_json = json.dumps({name: tensor.tolist() for name, tensor in whole.state_dict().items()})
    resumed = auto(seed=1)
    resumed.load_state_dict({name: torch.tensor(v, dtype=torch.float64) for name, v in json.loads(as_json).items()})
    for weights in (whole, resumed):
        tell(weights, range(2, 6))
    same_state(whole, resumed)


@pytest.mark.parametrize("enough", [0, 500, 1 << 30])
@pytest.mark.parametrize("rule", [rk.RRM(crisp=True), rk.RRM(contamination=0.2)], ids=["auto", "told"])
def test_the_size_of_the_buffer_does_not_matter(rule: rk.RRM, enough: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = tell(auto(rule=rule), range(6))
    monkeypatch.setattr(buffer, "MAX_BUFFERED", enough)
    same_state(tell(auto(rule=rule), range(6)), expected)


def test_collecting_early_changes_nothing() -> None:
    curious, expected = auto(), tell(auto(), range(6))
    for epoch in range(6):
        if epoch:
            curious.step()
        losses, logits, labels, batches = told(epoch)
        for rows in batches:
            curious.reduce(losses[rows], rows, logits=logits[rows], labels=labels[rows])
            curious.collect()
            assert curious.predictions.seen[rows].all()
            assert curious.average_losses[rows].isfinite().all()
            assert curious.due in (True, False)
    same_state(curious, expected)


def test_the_buffer_keeps_no_graph_of_the_network() -> None:
    class Activations:
        """What a layer keeps for the way back."""

    alive = []

    class Layer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x: Tensor) -> Tensor:
            ctx.activations = Activations()
            alive.append(weakref.ref(ctx.activations))
            return x * 1

    weights = auto()
    logits = Layer.apply(torch.ones(2, 3, requires_grad=True))
    weights.remember(logits.sum(1), torch.arange(2), logits=logits, labels=torch.tensor([0, 1]))
    assert alive[0]() is not None
    del logits
    gc.collect()
    assert alive[0]() is None


def test_a_bad_label_is_an_error_at_once_or_at_the_step_and_changes_nothing() -> None:
    weights = rk.SampleWeights(4, rk.RRM(contamination=0.25))

    def epoch() -> None:
        weights.reduce(torch.rand(4), torch.arange(4), logits=torch.rand(4, 3), labels=torch.tensor([0, 1, 2, 3]))
        weights.step()

    with pytest.raises(ValueError, match="integers from 0 to 2"):
        epoch()
    assert weights.epoch == 0
    assert weights.history == []
    assert weights.values.tolist() == [1, 1, 1, 1]


def test_an_infinite_loss_of_a_held_or_removed_row_moves_nothing() -> None:
    weights = tell(auto(), range(1))
    for gone in (int(weights.held_out[0]), None):
        if gone is None:
            tell(weights, range(1, 6))
            gone = int(weights.removed.nonzero()[0, 0])
        kept = int((weights.values > 0).nonzero()[0, 0])
        losses = torch.tensor([torch.inf, 2.0], requires_grad=True)
        loss = weights.reduce(losses, torch.tensor([gone, kept]))
        loss.backward()
        assert loss.item() == pytest.approx(float(weights.values[kept]))
        assert losses.grad.tolist() == pytest.approx([0, float(weights.values[kept]) / 2])


@pytest.mark.parametrize("spread", ["kept", "argmin"])
@pytest.mark.parametrize("share", [{"contamination": 0.3}, {"gamma": 1.0}])
def test_a_rule_with_a_given_contamination_does_not_depend_on_predictions(share: dict, spread: str) -> None:
    hearing, deaf = (auto(rule=rk.RRM(**share, spread=spread), class_limit=1.0) for _ in range(2))
    tell(hearing, range(5))
    for epoch in range(5):
        if epoch:
            deaf.step()
        losses, _, _, batches = told(epoch)
        for rows in batches:
            deaf.reduce(losses[rows], rows)
    assert hearing.held_out is deaf.held_out is deaf.predictions is None
    assert hearing.history == deaf.history
    for name, tensor in deaf.state_dict().items():
        assert torch.equal(tensor, hearing.state_dict()[name]), name


def test_labels_that_are_not_crisp_lose_what_the_floor_is_sure_of() -> None:
    weights = tell(rk.SampleWeights(N_TOLD), range(HOLD_OUT))
    weights.step()
    assert weights.estimate.floor.low < weights.estimate.ceiling.low
    assert weights.history[0].n_removed == pytest.approx(weights.estimate.floor.low * N_TOLD, abs=1)


ESTIMATE = rk.NoiseRate(rk.Estimate(0.1, 0.1, 0.12), rk.Estimate(0.1, 0.1, 0.12))


@pytest.mark.parametrize(("crisp", "of_the_rare"), [(False, 0.3), (True, 0.9)])
def test_no_class_loses_rows_out_of_proportion_unless_labels_are_crisp(crisp: bool, of_the_rare: float) -> None:
    labels = torch.arange(1000) % 10
    labels = torch.where(labels == 0, 0, 1)  # a rare class, which the network never predicts
    losses = torch.where(labels == 0, 5.0, 0.1) + torch.linspace(0, 0.01, 1000)
    weights = rk.SampleWeights(1000, rk.RRM(crisp=crisp), estimate=ESTIMATE)
    logits = torch.tensor([0.0, 2.0]).expand(1000, 2)
    weights.reduce(losses, torch.arange(1000), logits=logits, labels=labels)
    weights.step()
    assert weights.removed[labels == 0].float().mean() == pytest.approx(of_the_rare)
    assert weights.values[labels == 0].mean() == pytest.approx(1, rel=1e-5)  # the class keeps its mass


def margins_after(rule: rk.RRM, epochs: list[float]) -> float:
    """The average margin of a row whose margin was this in each epoch."""
    weights = rk.SampleWeights(4, rule, estimate=ESTIMATE if rule.auto else None)
    for margin in epochs:
        logits = torch.tensor([[margin, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
        weights.reduce(torch.arange(4.0), torch.arange(4), logits=logits, labels=torch.zeros(4).long())
        weights.step()
    return float(weights.predictions.average_margin[0])


def test_margins_count_less_and_less_once_rows_are_removed_by_an_estimated_noise_rate() -> None:
    assert margins_after(rk.RRM(), [-2.0]) == -2
    assert margins_after(rk.RRM(), [-2.0, 8.0]) == pytest.approx((-2 + 0.9 * 8) / 1.9)
    memorized = margins_after(rk.RRM(), [-2.0] * 5 + [8.0] * 50)
    assert memorized == pytest.approx(margins_after(rk.RRM(), [-2.0] * 5 + [8.0] * 200), abs=0.05)
    assert margins_after(rk.RRM(contamination=0.25), [-2.0, 8.0, 0.0]) == 2


def test_the_ranking_is_no_worse_after_four_times_as_many_epochs() -> None:
    toy = make_toy(0)

    def ranked(epochs: int) -> float:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(2, 256), torch.nn.ReLU(), torch.nn.Linear(256, 3))
        weights = rk.SampleWeights(len(toy.y))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        rk.fit(model, (toy.x, toy.y), loss="cce", optimizer=optimizer, epochs=epochs, weights=weights, progress="quiet")
        worst = rk.findings(weights).worst(int(toy.wrong.sum())).index
        return float(toy.wrong[worst].double().mean())

    assert ranked(80) >= ranked(20) - 0.01
