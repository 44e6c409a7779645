import copy
import json
import pickle

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from instances import known_rate

import rockafellian as rk

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
    torch.testing.assert_close(remove_a_quarter().reduce(LOSSES, EVERY_ROW), LOSSES.mean())


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
    weights.collect()
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
    assert first == rk.Reweighting(
        epoch=1, threshold=1.5, c_min=0.5, n_removed=2, removed_fraction=0.5, gap=first.gap, n_changed=2
    )
    assert first.gap == pytest.approx(0.5 * 2 * 7.5 / 4)  # half of two rows' mass is still above the threshold, by 7.5
    assert second.n_removed == 1
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
    weights = rk.SampleWeights(4, lambda losses, weights: (weights * (losses < 1) * 4 / 3, None))
    weights.step(LOSSES)
    assert weights.removed.tolist() == [False, False, False, True]
    assert weights.history[0].n_removed == 1
    assert weights.history[0].threshold is None
    assert weights.history[0].gap is None


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
        (lambda w: w.reduce(LOSSES, EVERY_ROW.float()), "integers, got 4 of torch.float32"),
        (lambda w: w.reduce(LOSSES[:0], EVERY_ROW[:0]), "got 0 of torch.int64"),
        (lambda w: w.step(), "no loss was seen.*call reduce"),
        (lambda w: w.step(LOSSES[:3]), r"need 4 losses.*got shape \(3,\)"),
        (lambda w: w.step(lambda: LOSSES.mean()), r"need 4 losses.*got shape \(\)"),
        (lambda w: w.load_state_dict(rk.SampleWeights(5, w.rule).state_dict()), r"state of 4 rows, got .* \(5,\)"),
        (lambda w: w.load_state_dict({"values": LOSSES}), "lacks epoch, history, last_removed"),
        (lambda w: rk.SampleWeights(0, w.rule), "n_samples to be an integer >= 1, got 0"),
        (lambda w: rk.SampleWeights(4, w.rule, every=0), "every to be an integer >= 1, got 0"),
        (lambda w: rk.SampleWeights(4, w.rule, warmup=-1), "warmup to be an integer >= 0, got -1"),
        (lambda w: rk.SampleWeights(4, 0.25), "need a rule.*got 0.25"),
        (lambda w: rk.SampleWeights(4, w.rule, prior=[1.0]), r"shape \(1,\) for 4"),
        (
            lambda w: rk.SampleWeights(4, lambda c, w: (-w, None)).step(LOSSES),
            "rule to return 4 finite weights >= 0.*from -1",
        ),
        (
            lambda w: rk.SampleWeights(4, lambda c, w: (w[:2], None)).step(LOSSES),
            "rule to return 4 finite weights.*(2,)",
        ),
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
    weights.remember(LOSSES[3:].requires_grad_(), torch.tensor([3]))
    weights.step()
    assert weights.removed.tolist() == [False, False, False, True]
    assert not weights.average_losses.requires_grad


def test_due_says_what_the_next_step_will_do() -> None:
    weights = remove_a_quarter(every=2, warmup=1)
    for _ in range(8):
        said = weights.due
        assert weights.step(LOSSES) == said


def test_an_estimate_made_elsewhere_is_used_and_nothing_is_held_out() -> None:
    weights = rk.SampleWeights(10, rk.RRM(crisp=True), estimate=known_rate(0.2, 0.1, 0.3))
    assert weights.held_out is None
    assert weights.values.tolist() == [1.0] * 10
    losses, labels = torch.arange(10.0), torch.zeros(10, dtype=torch.int64)
    logits = torch.tensor([[1.0, 0.0]] * 8 + [[0.0, 1.0]] * 2)
    weights.reduce(losses, torch.arange(10), logits=logits, labels=labels)
    assert weights.step()
    assert weights.removed.nonzero()[:, 0].tolist() == [8, 9]  # as many as the network disagrees with
    again = rk.SampleWeights(10, rk.RRM(crisp=True))
    again.load_state_dict(weights.state_dict())
    assert again.estimate == weights.estimate
    assert again.held_out is None


def test_an_estimate_beside_a_share_that_is_told_is_refused() -> None:
    with pytest.raises(ValueError, match="leave the estimate out"):
        rk.SampleWeights(10, rk.RRM(contamination=0.2), estimate=known_rate(0.2, 0.1, 0.3))


def test_an_estimate_made_elsewhere_is_what_is_removed_if_the_loop_does_not_tell_what_the_network_says() -> None:
    weights = rk.SampleWeights(10, rk.RRM(crisp=True), warmup=1, estimate=known_rate(0.3, 0.1, 0.5))
    assert not weights.step(torch.arange(10.0))
    assert weights.step(torch.arange(10.0))
    assert weights.removed.nonzero()[:, 0].tolist() == [7, 8, 9]
    assert weights.estimate == known_rate(0.3, 0.1, 0.5)


def test_training_by_an_estimate_goes_on_alike_from_its_state() -> None:
    def fresh() -> rk.SampleWeights:
        return rk.SampleWeights(50, rk.RRM(crisp=True), every=2, warmup=1, estimate=known_rate(0.2, 0.1, 0.3))

    expected, resumed = train(fresh(), range(12)), fresh()
    resumed.load_state_dict(train(fresh(), range(6)).state_dict())
    train(resumed, range(6, 12))
    assert resumed.history == expected.history
    assert len(resumed.history) == 5
    assert torch.equal(resumed.values, expected.values)
    assert resumed.estimate == expected.estimate


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda weights: pickle.loads(pickle.dumps(weights))])  # noqa: S301
def test_a_copy_is_re_weighted_on_its_own(copied) -> None:
    weights = remove_a_quarter()
    weights.reduce(LOSSES, EVERY_ROW)
    other = copied(weights)
    other.step()
    assert other.removed.tolist() == [False, False, False, True]
    assert other.values[3] == 0
    assert weights.values.tolist() == [1, 1, 1, 1]
    weights.step()
    assert torch.equal(weights.values, other.values)


def test_trusted_rows_are_never_removed() -> None:
    trusted = torch.tensor([False, False, False, True])
    weights = remove_a_quarter(trusted=trusted)
    weights.step(LOSSES)
    assert weights.removed.tolist() == [False, False, True, False]
    assert weights.values[3] > 1
    everything = remove_a_quarter(trusted=torch.ones(4, dtype=torch.bool))
    everything.step(LOSSES)
    assert everything.n_removed == 0


@pytest.mark.parametrize("mask", [[True], [1, 0, 0, 0], [[True, False, False, False]]])
def test_a_mask_of_trusted_rows_has_one_bool_per_row(mask: list[object]) -> None:
    with pytest.raises(ValueError, match="need trusted to be 4 bools, one per row"):
        remove_a_quarter(trusted=mask)
