import gc
import json
import weakref
from typing import NamedTuple

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import rockafellian as rk
from rockafellian import pending
from toy import Toy, make_toy, precision_and_recall

LOSSES = torch.tensor([0.1, 0.2, 0.3, 5.0])
EVERY_ROW = torch.arange(4)


def remove_a_quarter(**options) -> rk.SampleWeights:
    return rk.SampleWeights(4, rk.RRM(contamination=0.25), **options)


def test_reduce_is_the_weighted_mean_over_the_batch_size() -> None:
    weights = remove_a_quarter()
    weights.step(LOSSES)
    losses = torch.tensor([1.0, 1.0], requires_grad=True)
    loss = weights.reduce(losses, torch.tensor([3, 0]))
    loss.backward()
    assert loss.item() == pytest.approx((0 * 1.0 + 4 / 3 * 1.0) / 2)
    torch.testing.assert_close(losses.grad, torch.tensor([0.0, 2 / 3]))


def test_a_batch_of_removed_rows_costs_nothing_even_if_infinite() -> None:
    weights = remove_a_quarter()
    weights.step(LOSSES)
    assert weights.reduce(torch.tensor([torch.inf]), torch.tensor([3])) == 0


def test_weights_of_one_leave_the_loss_as_it_was() -> None:
    assert remove_a_quarter().reduce(LOSSES, EVERY_ROW) == LOSSES.mean()


def test_a_vector_a_closure_and_remembered_losses_give_the_same_weights() -> None:
    remembered, vector, closure = remove_a_quarter(), remove_a_quarter(), remove_a_quarter()
    for rows in (torch.tensor([2, 0]), torch.tensor([3, 1])):
        remembered.reduce(LOSSES[rows], rows)
    assert remembered.step()
    read_only = LOSSES.numpy().copy()
    read_only.flags.writeable = False
    assert vector.step(read_only)
    assert closure.step(lambda: LOSSES)
    assert remembered.values.tolist() == vector.values.tolist() == closure.values.tolist()
    assert remembered.values.tolist() == pytest.approx([4 / 3, 4 / 3, 4 / 3, 0])
    assert remembered.removed.tolist() == [False, False, False, True]
    assert remembered.history == vector.history == closure.history


@pytest.mark.parametrize(
    ("every", "warmup", "expected"),
    [(1, 0, "111111"), (2, 0, "010101"), (1, 3, "000111"), (2, 1, "001010"), (10, 0, "000000")],
)
def test_step_acts_every_so_many_epochs_after_the_warmup(every: int, warmup: int, expected: str) -> None:
    calls = []

    def losses() -> torch.Tensor:
        calls.append(1)
        return LOSSES

    weights = remove_a_quarter(every=every, warmup=warmup)
    acted = "".join(str(int(weights.step(losses))) for _ in range(6))
    assert acted == expected
    assert len(calls) == expected.count("1")
    assert [record.epoch for record in weights.history] == [i + 1 for i, c in enumerate(expected) if c == "1"]


def test_losses_of_the_warmup_do_not_count_at_the_first_re_weighting() -> None:
    weights = remove_a_quarter(warmup=1)
    weights.reduce(LOSSES.flip(0) * 100, EVERY_ROW)
    assert not weights.step()
    weights.reduce(LOSSES, EVERY_ROW)
    assert weights.step()
    assert weights.removed.tolist() == [False, False, False, True]


def test_losses_are_forgotten_after_a_re_weighting() -> None:
    weights = remove_a_quarter()
    weights.reduce(LOSSES * 100, EVERY_ROW)
    weights.step()
    weights.reduce(LOSSES.flip(0), EVERY_ROW)
    weights.step()
    assert weights.removed.tolist() == [True, False, False, False]


def test_a_row_that_comes_twice_counts_with_its_mean() -> None:
    weights = remove_a_quarter()
    weights.reduce(torch.tensor([4.0, 0.2, 0.0]), torch.tensor([0, 1, 0]))  # twice in one batch
    weights.reduce(torch.tensor([0.3, 3.0, 1.0]), torch.tensor([2, 3, 0]))  # and once more in the next
    weights.step()
    assert weights.removed.tolist() == [False, False, False, True]  # 5/3 < 3, though 4 > 3
    assert weights.history[-1].threshold == pytest.approx(5 / 3)


def test_half_precision_losses_are_accumulated_in_float32() -> None:
    weights = rk.SampleWeights(1, rk.RRM(gamma=1.0))
    for _ in range(3000):  # 3000 is no sum of float16 ones: it stops at 2048
        loss = weights.reduce(torch.ones(1, dtype=torch.float16), torch.tensor([0]))
    assert loss.dtype == torch.float32
    assert weights.average_losses.item() == 1
    weights.step()
    assert weights.history[0].c_min == 1


def test_rows_never_seen_keep_their_weight_and_the_mean_stays_one() -> None:
    weights = remove_a_quarter()
    weights.step(LOSSES)
    seen = torch.tensor([0, 2])
    weights.reduce(torch.tensor([9.0, 0.1]), seen)
    weights.step()
    torch.testing.assert_close(weights.values, torch.tensor([0.0, 4 / 3, 8 / 3, 0.0]))
    assert weights.removed.tolist() == [True, False, False, True]
    assert weights.last_removed.tolist() == [2, 0, 0, 2]


def test_removed_rows_alone_have_no_mass_to_share() -> None:
    weights = remove_a_quarter()
    weights.step(LOSSES)
    weights.reduce(torch.tensor([0.1]), torch.tensor([3]))
    weights.step()
    torch.testing.assert_close(weights.values, torch.tensor([4 / 3, 4 / 3, 4 / 3, 0]))


@given(st.data())
def test_the_mean_is_one_and_no_weight_negative_whatever_is_seen(data: st.DataObject) -> None:
    rule = data.draw(
        st.sampled_from([rk.RRM(gamma=0.5), rk.RRM(gamma=0.5, spread="argmin"), rk.RRM(contamination=0.3)])
    )
    weights = rk.SampleWeights(12, rule)
    for _ in range(data.draw(st.integers(1, 5))):
        rows = data.draw(st.lists(st.integers(0, 11), min_size=1, max_size=20))
        losses = data.draw(st.lists(st.floats(0, 4, width=16), min_size=len(rows), max_size=len(rows)))
        weights.reduce(torch.tensor(losses), torch.tensor(rows))
        weights.step()
    assert weights.values.min() >= 0
    assert weights.values.mean().item() == pytest.approx(1, abs=1e-5)


def test_history_has_one_record_a_re_weighting_and_the_round_of_removal_by_row() -> None:
    weights = rk.SampleWeights(4, rk.RRM(gamma=1.0, spread="argmin"))
    weights.step(torch.tensor([0.5, 1.0, 9.0, 9.0]))
    weights.step(torch.tensor([0.5, 1.0, 0.5, 9.0]))
    first, second = weights.history
    assert first == rk.Reweighting(epoch=1, threshold=1.5, c_min=0.5, removed=2, gap=first.gap)
    assert first.gap == pytest.approx(0.5 * 2 * 7.5 / 4)  # half of two rows' mass is still above the threshold, by 7.5
    assert second.removed == 1
    assert weights.last_removed.tolist() == [0, 0, 1, 2]
    assert weights.removed.tolist() == [False, False, False, True]


def test_an_optimum_has_no_gap() -> None:
    weights = rk.SampleWeights(4, rk.RRM(contamination=0.25, spread="argmin"))
    weights.step(LOSSES)
    assert weights.history[0].gap == 0


def test_the_average_runs_over_every_loss_seen() -> None:
    weights = remove_a_quarter(warmup=1)
    assert weights.average_losses.isnan().all()
    for factor in (1, 2, 6):
        weights.reduce(factor * LOSSES[:3], torch.arange(3))
        weights.step()
    torch.testing.assert_close(weights.average_losses[:3], 3 * LOSSES[:3])
    assert weights.average_losses[3].isnan()
    weights.step(torch.ones(4))
    assert weights.average_losses[3] == 1


def test_any_callable_is_a_rule() -> None:
    weights = rk.SampleWeights(4, lambda losses, weights: weights * (losses < 1) * 4 / 3)
    weights.step(LOSSES)
    assert weights.removed.tolist() == [False, False, False, True]
    assert weights.history[0].removed == 1
    assert weights.history[0].threshold != weights.history[0].threshold  # NaN: this rule has none


def test_a_prior_is_where_weights_begin_and_what_they_return_to() -> None:
    weights = remove_a_quarter(prior=[1.0, 1.0, 2.0, 4.0])
    assert weights.values.tolist() == [0.5, 0.5, 1.0, 2.0]
    weights.step(LOSSES)
    assert weights.values.tolist() == [1.0, 1.0, 2.0, 0.0]
    weights.step(torch.ones(4))
    assert weights.values.tolist() == [0.5, 0.5, 1.0, 2.0]


def train(weights: rk.SampleWeights, epochs: range) -> rk.SampleWeights:
    """Batches with repeated and missing rows; a step before each, so that it ends with losses remembered."""
    for epoch in epochs:
        if epoch:
            weights.step()
        random = torch.Generator().manual_seed(epoch)
        weights.reduce(torch.rand(60, generator=random), torch.randint(0, 50, (60,), generator=random))
    return weights


def test_a_state_goes_through_safetensors_and_json_and_training_goes_on_alike(tmp_path) -> None:
    def fresh() -> rk.SampleWeights:
        return rk.SampleWeights(50, rk.RRM(gamma=0.3), every=2, warmup=1)

    expected = train(fresh(), range(12))
    state = train(fresh(), range(6)).state_dict()
    safetensors.torch.save_file(state, tmp_path / "weights.safetensors")
    as_json = json.dumps({name: tensor.tolist() for name, tensor in state.items()})
    for saved in (
        safetensors.torch.load_file(tmp_path / "weights.safetensors"),
        {name: torch.tensor(values, dtype=torch.float64) for name, values in json.loads(as_json).items()},
    ):
        resumed = fresh()
        resumed.load_state_dict(saved)
        train(resumed, range(6, 12))
        assert len(resumed.history) == 5
        assert resumed.history == expected.history
        for name, tensor in expected.state_dict().items():
            assert torch.equal(tensor, resumed.state_dict()[name]), name


def test_a_state_is_a_copy() -> None:
    weights = remove_a_quarter()
    state = weights.state_dict()
    weights.step(LOSSES)
    assert state["values"].tolist() == [1, 1, 1, 1]
    weights.load_state_dict({name: torch.tensor(tensor.tolist()) for name, tensor in state.items()})
    assert weights.values.tolist() == [1, 1, 1, 1]
    assert weights.history == []


@pytest.mark.parametrize("bad", [float("nan"), float("-inf")])
@pytest.mark.parametrize("how", ["remembered", "given"])
def test_undefined_losses_are_named_by_row_and_the_state_is_unchanged(how: str, bad: float) -> None:
    weights = rk.SampleWeights(10, rk.RRM(contamination=0.2))
    weights.step(torch.arange(10.0))
    rows, losses = torch.tensor([9, 4, 6]), torch.tensor([0.5, bad, bad])
    if how == "remembered":
        weights.reduce(losses, rows)
    before = weights.state_dict()
    given = torch.zeros(10).index_copy(0, rows, losses) if how == "given" else None
    with pytest.raises(ValueError, match=r"2 of \d+ losses are NaN or -inf \(rows 4, 6\)"):
        weights.step(given)
    after = weights.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name].nan_to_num(7.0), after[name].nan_to_num(7.0)) for name in before)


def test_an_infinite_loss_at_step_is_a_removed_row() -> None:
    weights = remove_a_quarter()
    weights.reduce(torch.tensor([0.1, 0.2, 0.3, torch.inf]), EVERY_ROW)
    weights.step()
    assert weights.removed.tolist() == [False, False, False, True]
    assert weights.values[3] == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: w.reduce(LOSSES.mean(), EVERY_ROW), r"losses \(\) and index \(4,\).*reduction='none'"),
        (lambda w: w.reduce(LOSSES[:3], EVERY_ROW), r"losses \(3,\) and index \(4,\)"),
        (lambda w: w.reduce(LOSSES[:, None], EVERY_ROW[:, None]), "one loss per index"),
        (lambda w: w.reduce(LOSSES, EVERY_ROW + 1), "index from 0 to 3, got 4.*length of the dataset"),
        (lambda w: w.reduce(LOSSES, EVERY_ROW - 1), "index from 0 to 3, got -1"),
        (lambda w: w.reduce(LOSSES, EVERY_ROW.float()), "whole numbers, got 4 of torch.float32"),
        (lambda w: w.reduce(LOSSES[:0], EVERY_ROW[:0]), "got 0 of torch.int64"),
        (lambda w: w.step(), "no loss was seen.*call reduce"),
        (lambda w: w.step(LOSSES[:3]), r"need 4 losses.*got shape \(3,\)"),
        (lambda w: w.step(lambda: LOSSES.mean()), r"need 4 losses.*got shape \(\)"),
        (lambda w: w.load_state_dict(rk.SampleWeights(5, w.rule).state_dict()), r"state of 4 rows, got .* \(5,\)"),
        (lambda w: w.load_state_dict({"values": LOSSES}), "lacks epoch, history, last_removed"),
        (lambda w: rk.SampleWeights(0, w.rule), "n_samples to be a whole number >= 1, got 0"),
        (lambda w: rk.SampleWeights(4, w.rule, every=0), "every to be a whole number >= 1, got 0"),
        (lambda w: rk.SampleWeights(4, w.rule, warmup=-1), "warmup to be a whole number >= 0, got -1"),
        (lambda w: rk.SampleWeights(4, 0.25), "need a rule.*got 0.25"),
        (lambda w: rk.SampleWeights(4, w.rule, prior=[1.0]), r"shape \(1,\) for 4"),
        (lambda w: rk.SampleWeights(4, lambda c, w: -w).step(LOSSES), "rule to return 4 finite weights >= 0.*from -1"),
        (lambda w: rk.SampleWeights(4, lambda c, w: w[:2]).step(LOSSES), "rule to return 4 finite weights.*(2,)"),
    ],
)
def test_bad_input_is_an_error_and_changes_nothing(call, message: str) -> None:
    weights = remove_a_quarter()
    with pytest.raises(ValueError, match=message):
        call(weights)
    assert weights.epoch == 0
    assert weights.average_losses.isnan().all()
    assert weights.values.tolist() == [1, 1, 1, 1]


def test_losses_of_rows_that_the_loop_left_out_can_be_remembered() -> None:
    weights = remove_a_quarter()
    weights.reduce(LOSSES[:3], torch.arange(3))
    rows = weights.remember(LOSSES[3:].requires_grad_(), torch.tensor([3]))
    assert rows.tolist() == [3]
    weights.step()
    assert weights.removed.tolist() == [False, False, False, True]
    assert not weights.average_losses.requires_grad


def test_due_says_what_the_next_step_will_do() -> None:
    weights = remove_a_quarter(every=2, warmup=1)
    for _ in range(8):
        said = weights.due
        assert weights.step(LOSSES) == said


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
            weights.reduce(losses[rows], rows, logits[rows], labels[rows])
    return weights


def auto(seed: int = 0, **options) -> rk.SampleWeights:
    return rk.SampleWeights(N_TOLD, options.pop("rule", rk.RRM()), seed=seed, **options)


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
    weights = rk.SampleWeights(len(toy.y), rk.RRM(), seed=seed)
    for _ in range(12):
        for index in torch.randperm(len(toy.y)).split(50):
            logits = model(toy.x[index])
            losses = torch.nn.functional.cross_entropy(logits, toy.y[index], reduction="none")
            optimizer.zero_grad()
            weights.reduce(losses, index, logits, toy.y[index]).backward()
            optimizer.step()
        weights.step()
    return weights


@pytest.mark.parametrize("seed", range(3))
def test_the_share_of_wrong_labels_is_found_and_with_it_the_wrong_rows(seed: int) -> None:
    toy = make_toy(seed)
    weights = train_on_toy(toy, seed)
    assert weights.held is None
    assert weights.estimate.rate == pytest.approx(0.4, abs=0.06)
    assert min(precision_and_recall(weights.removed, toy.wrong)) > 0.9


@pytest.mark.parametrize("seed", range(3))
def test_of_right_labels_next_to_none_is_removed(seed: int) -> None:
    toy = make_toy(seed)
    weights = train_on_toy(toy._replace(y=torch.arange(len(toy.y)) % 3), seed)
    assert weights.held is None
    assert int(weights.removed.sum()) <= 0.02 * len(toy.y)


def test_a_share_can_only_be_found_if_the_loop_tells_what_the_network_says() -> None:
    weights = rk.SampleWeights(10, rk.RRM())
    weights.reduce(torch.rand(10), torch.arange(10))
    before = weights.state_dict()
    with pytest.raises(
        ValueError, match=r"told what the network says.*reduce\(losses, index, logits, labels\)"
    ) as caught:
        weights.step()
    assert "\n" not in str(caught.value)
    assert weights.epoch == 0
    assert all(torch.equal(before[name], tensor) for name, tensor in weights.state_dict().items())
    per_class = rk.SampleWeights(10, rk.RRM(contamination=0.2, per_class=True))
    per_class.reduce(torch.rand(10), torch.arange(10))
    with pytest.raises(ValueError, match="or to weigh each class"):
        per_class.step()


def test_logits_and_labels_come_together_or_not_at_all() -> None:
    weights = rk.SampleWeights(10, rk.RRM())
    with pytest.raises(ValueError, match="logits and labels together"):
        weights.reduce(torch.rand(10), torch.arange(10), torch.rand(10, 3))
    with pytest.raises(ValueError, match="logits and labels together"):
        weights.remember(torch.rand(10), torch.arange(10), labels=torch.zeros(10).long())
    assert weights.average_losses.isnan().all()


PROBATION = 3  # epochs that `told` takes until the share is found


@pytest.mark.parametrize("with_prior", [False, True])
def test_held_rows_weigh_nothing_until_the_share_is_found(with_prior: bool) -> None:
    prior = torch.linspace(0.5, 1.5, N_TOLD) if with_prior else torch.ones(N_TOLD)
    weights = auto(prior=prior if with_prior else None)
    held = weights.held
    lent = prior.clone()
    lent[held] = 0
    for epoch in range(PROBATION):
        tell(weights, range(epoch, epoch + 1))
        assert torch.equal(weights.held, held)
        torch.testing.assert_close(weights.values, lent / lent.mean())
        assert (weights.estimate, weights.history) == (None, [])
        assert not weights.removed.any()
    assert weights.due
    assert weights.step()
    assert weights.held is None
    assert min(precision_and_recall(weights.removed, WRONG)) > 0.9
    kept = prior * ~weights.removed
    torch.testing.assert_close(weights.values, kept / kept.mean())  # the held rows among them
    for epoch in range(PROBATION, 8):
        losses, logits, labels, _ = told(epoch)
        weights.reduce(losses, torch.arange(N_TOLD), logits, labels)
        assert weights.step()
        assert weights.values.mean().item() == pytest.approx(1, abs=1e-5)


def test_held_rows_get_back_what_they_had_lent_when_weights_go_only_half_way() -> None:
    weights = tell(auto(rule=rk.RRM(mu=0.5)), range(PROBATION))
    held = weights.held
    weights.step()
    target = ~weights.removed / (~weights.removed).float().mean()
    torch.testing.assert_close(weights.values, 0.5 + 0.5 * target)
    assert weights.values[held].min() == pytest.approx(0.5)


def test_the_warmup_comes_before_the_share_is_found_and_every_counts_from_there() -> None:
    weights = tell(auto(warmup=6, every=2), range(12))
    first, *later = [made.epoch for made in weights.history]
    assert first > 6
    assert later == list(range(first + 2, 12, 2))


def test_as_many_rows_go_as_the_network_disagrees_with_within_the_interval() -> None:
    weights = tell(auto(), range(PROBATION))
    weights.step()
    disagrees = int(weights.notes.disagrees.sum())
    assert weights.estimate.low < disagrees / N_TOLD < weights.estimate.high
    assert weights.history[0].removed == disagrees
    losses, _, labels, _ = told(PROBATION)
    every_row = torch.arange(N_TOLD)
    agreeing = torch.nn.functional.one_hot(labels, 3).float()
    for says, share in ((agreeing, weights.estimate.low), (agreeing.roll(1, dims=1), weights.estimate.high)):
        weights.reduce(losses, every_row, says, labels)
        weights.step()
        assert weights.history[-1].removed == pytest.approx(share * N_TOLD, abs=1)


def test_the_seed_decides_which_rows_are_held_and_all_that_follows() -> None:
    same_state(tell(auto(seed=3), range(6)), tell(auto(seed=3), range(6)))
    assert not torch.equal(auto(seed=3).held, auto(seed=4).held)


@pytest.mark.parametrize("n_batches", [None, 3])
@pytest.mark.parametrize("epochs", [1, 2, PROBATION, PROBATION + 1, 6])
@pytest.mark.parametrize("rule", [rk.RRM(), rk.RRM(mu=0.5, per_class=True)], ids=["plain", "per class"])
def test_a_state_saved_during_the_probation_or_after_it_goes_on_bit_for_bit(
    rule: rk.RRM, epochs: int, n_batches: int | None, tmp_path
) -> None:
    whole = tell(auto(rule=rule, every=2), range(epochs), n_batches)
    safetensors.torch.save_file(whole.state_dict(), tmp_path / "weights.safetensors")
    resumed = auto(seed=1, rule=rule, every=2)
    resumed.load_state_dict(safetensors.torch.load_file(tmp_path / "weights.safetensors"))
    assert (resumed.held is None) == (epochs > PROBATION) == (resumed.estimate is not None)
    for weights in (whole, resumed):
        tell(weights, range(epochs, 9))
    same_state(whole, resumed)
    assert whole.history == resumed.history
    assert whole.estimate == resumed.estimate is not None


def test_a_state_of_the_probation_goes_through_json() -> None:
    whole = tell(auto(), range(2))
    as_json = json.dumps({name: tensor.tolist() for name, tensor in whole.state_dict().items()})
    resumed = auto(seed=1)
    resumed.load_state_dict({name: torch.tensor(v, dtype=torch.float64) for name, v in json.loads(as_json).items()})
    for weights in (whole, resumed):
        tell(weights, range(2, 6))
    same_state(whole, resumed)


@pytest.mark.parametrize("enough", [0, 500, 1 << 30])
@pytest.mark.parametrize("rule", [rk.RRM(), rk.RRM(contamination=0.2)], ids=["auto", "told"])
def test_it_does_not_matter_how_much_is_gathered_before_it_is_taken_down(
    rule: rk.RRM, enough: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = tell(auto(rule=rule), range(6))
    monkeypatch.setattr(pending, "ENOUGH", enough)
    same_state(tell(auto(rule=rule), range(6)), expected)


def test_to_look_at_what_was_gathered_changes_nothing() -> None:
    curious, expected = auto(), tell(auto(), range(6))
    for epoch in range(6):
        if epoch:
            curious.step()
        losses, logits, labels, batches = told(epoch)
        for rows in batches:
            curious.reduce(losses[rows], rows, logits[rows], labels[rows])
            assert curious.notes.seen[rows].all()
            assert curious.average_losses[rows].isfinite().all()
            assert curious.due in (True, False)
    same_state(curious, expected)


def test_what_is_gathered_keeps_no_graph_of_the_network() -> None:
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
    weights.remember(logits.sum(1), torch.arange(2), logits, torch.tensor([0, 1]))
    assert alive[0]() is not None
    del logits
    gc.collect()
    assert alive[0]() is None


def test_a_bad_label_is_an_error_at_once_or_at_the_step_and_changes_nothing() -> None:
    weights = remove_a_quarter()

    def epoch() -> None:
        weights.reduce(LOSSES, EVERY_ROW, torch.rand(4, 3), torch.tensor([0, 1, 2, 3]))
        weights.step()

    with pytest.raises(ValueError, match="whole numbers from 0 to 2"):
        epoch()
    assert weights.epoch == 0
    assert weights.history == []
    assert weights.values.tolist() == [1, 1, 1, 1]


def test_an_infinite_loss_of_a_held_or_removed_row_moves_nothing() -> None:
    weights = tell(auto(), range(1))
    for gone in (int(weights.held[0]), None):
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
def test_a_rule_that_was_told_the_share_does_not_mind_what_the_network_says(share: dict, spread: str) -> None:
    hearing, deaf = (auto(rule=rk.RRM(**share, spread=spread, class_limit=1.0)) for _ in range(2))
    tell(hearing, range(5))
    for epoch in range(5):
        if epoch:
            deaf.step()
        losses, _, _, batches = told(epoch)
        for rows in batches:
            deaf.reduce(losses[rows], rows)
    assert hearing.held is deaf.held is deaf.notes is None
    assert hearing.history == deaf.history
    for name, tensor in deaf.state_dict().items():
        assert torch.equal(tensor, hearing.state_dict()[name]), name
