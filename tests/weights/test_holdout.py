import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import rockafellian as rk
from rockafellian.weights import holdout as module
from rockafellian.weights.holdout import MAX_ROWS, DeviceSums, HoldOut
from rockafellian.weights.predictions import Predictions, predict

N = 500


def hear(holdout: HoldOut, rows: Tensor, logits: Tensor) -> None:
    mine, slots = holdout.slots_of(rows)
    assert torch.equal(mine, torch.isin(rows, holdout.rows))
    holdout.add(slots, logits[mine].softmax(1), torch.ones(len(slots)))


def say(holdout: HoldOut, predictions: Predictions, logits: Tensor, labels: Tensor, rows: Tensor | None = None) -> None:
    rows = torch.arange(len(predictions)) if rows is None else rows
    predictions.add(rows.numpy(), predict(logits[rows], labels[rows]).numpy())
    hear(holdout, rows, logits[rows])


def network(agrees: float, labels: Tensor, seed: int = 0) -> Tensor:
    """Logits that say the label of this share of the rows, whichever rows one looks at, and another class of others."""
    random = torch.Generator().manual_seed(seed)
    agreeing = torch.arange(len(labels)) % 100 < 100 * agrees
    said = torch.where(agreeing, labels, (labels + 1) % 3)
    return 4 * torch.nn.functional.one_hot(said, 3) + torch.rand(len(labels), 3, generator=random)


def some_labels(seed: int = 0) -> Tensor:
    return torch.randint(3, (N,), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("n", "size"),
    [
        (2, 1),
        (3, 1),
        (10, 4),
        (1000, 400),
        (1500, 500),
        (2500, 500),
        (10_000, 2_000),
        (5 * MAX_ROWS, MAX_ROWS),
        (20 * MAX_ROWS, MAX_ROWS),
    ],
)
def test_a_fifth_is_held_of_few_rows_more_and_never_more_than_enough(n: int, size: int) -> None:
    assert len(HoldOut(n, seed=0).rows) == size


@given(st.integers(2, 300), st.integers(0, 2**40))
def test_the_held_rows_are_sorted_distinct_and_follow_from_the_seed(n: int, seed: int) -> None:
    rows = HoldOut(n, seed).rows
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert rows.min() >= 0
    assert rows.max() < n
    assert len(rows) < n
    assert torch.equal(rows, HoldOut(n, seed).rows)


def test_another_seed_holds_other_rows_and_every_row_can_be_held() -> None:
    held = [frozenset(HoldOut(50, seed).rows.tolist()) for seed in range(100)]
    assert len(set(held)) > 90
    assert frozenset.union(*held) == set(range(50))


def test_the_draw_leaves_the_users_random_numbers_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    HoldOut(100, seed=3)
    assert torch.equal(torch.rand(1), expected)


def test_one_row_cannot_be_held_out() -> None:
    with pytest.raises(ValueError, match=r"at least two rows .* got 1"):
        HoldOut(1, seed=0)
    with pytest.raises(ValueError, match=r"at least two rows .* got 1"):
        rk.SampleWeights(1, rk.RRM(crisp=True))


@pytest.mark.parametrize("batches", [1, 7])
def test_the_estimate_is_of_the_mean_probabilities_of_the_held_rows_alone(batches: int) -> None:
    labels, holdout, predictions = some_labels(), HoldOut(N, seed=0), Predictions(N)
    epochs = [network(0.7, labels, seed) for seed in range(3)]
    for logits in epochs:
        for rows in torch.randperm(N, generator=torch.Generator().manual_seed(1)).chunk(batches):
            say(holdout, predictions, logits, labels, rows)
    mean = torch.stack([logits.softmax(1) for logits in epochs]).mean(0)
    held = holdout.rows
    assert holdout.estimate(predictions) == rk.estimate_noise_rate(mean[held], labels[held])
    assert holdout.estimate(predictions).ceiling.rate > 0.1


def test_what_is_said_of_other_rows_does_not_count() -> None:
    labels, holdout, predictions = some_labels(), HoldOut(N, seed=0), Predictions(N)
    others = torch.ones(N, dtype=torch.bool)
    others[holdout.rows] = False
    say(holdout, predictions, network(0.9, labels), labels)
    before = holdout.state_dict()
    expected = holdout.estimate(predictions)
    say(holdout, predictions, network(0.0, labels, seed=1), labels, others.nonzero()[:, 0])
    for name, part in before.items():
        assert torch.equal(holdout.state_dict()[name], part), name
    assert holdout.estimate(predictions) == expected


def test_held_rows_that_were_not_shown_are_left_out_of_the_estimate() -> None:
    labels, holdout, predictions = some_labels(), HoldOut(N, seed=0), Predictions(N)
    logits, shown = network(0.7, labels), holdout.rows[:60]
    say(holdout, predictions, logits, labels, shown)
    assert holdout.estimate(predictions) == rk.estimate_noise_rate(logits[shown].softmax(1), labels[shown])


def test_it_is_over_once_the_network_agrees_with_no_more_held_labels_than_before() -> None:
    labels, holdout, predictions = some_labels(), HoldOut(N, seed=0), Predictions(N)
    for agrees, over in ((0.5, False), (0.6, False), (0.9, False), (0.9, True), (0.7, True), (0.95, False)):
        say(holdout, predictions, network(agrees, labels), labels)
        assert holdout.is_over(predictions) == over, agrees
        assert holdout.is_over(predictions) == over  # to ask changes nothing
        if not over:
            holdout.start_epoch(predictions)
            assert holdout.is_over(predictions)  # as nothing new was said


def test_only_the_held_rows_tell_whether_it_is_over() -> None:
    labels, holdout, predictions = some_labels(), HoldOut(N, seed=0), Predictions(N)
    say(holdout, predictions, network(0.8, labels), labels)
    holdout.start_epoch(predictions)
    memorized = network(1.0, labels)
    memorized[holdout.rows] = network(0.8, labels)[holdout.rows]
    say(holdout, predictions, memorized, labels)
    assert holdout.is_over(predictions)


def test_a_state_is_a_copy_and_another_resumes_from_it() -> None:
    labels, holdout, predictions = some_labels(), HoldOut(N, seed=0), Predictions(N)
    fresh_state = holdout.state_dict()
    say(holdout, predictions, network(0.5, labels), labels)
    holdout.start_epoch(predictions)
    state = holdout.state_dict()
    resumed = HoldOut(N, seed=1)
    resumed.load_state_dict(state)
    for logits in (network(0.6, labels, 1), network(0.6, labels, 2)):
        for each in (holdout, resumed):
            hear(each, torch.arange(N), logits)
    predictions.add(np.arange(N), predict(logits, labels).numpy())
    assert resumed.is_over(predictions) == holdout.is_over(predictions) is False
    assert resumed.estimate(predictions) == holdout.estimate(predictions)
    for name, part in holdout.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], part), name
    assert not torch.equal(state["sums"], holdout.state_dict()["sums"])
    early = HoldOut(N, seed=2)
    early.load_state_dict(fresh_state)  # saved before anything was said
    hear(early, torch.arange(N), logits)
    assert torch.equal(early.rows, holdout.rows)


def test_the_number_of_held_out_rows_has_a_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 7)
    assert len(HoldOut(N, seed=0).rows) == 7


def test_sums_on_a_device_are_those_of_the_rows_one_by_one() -> None:
    labels, holdout, expected = some_labels(), HoldOut(N, seed=0), HoldOut(N, seed=0)
    logits = network(0.7, labels)
    sums = DeviceSums(holdout, N, logits)
    for rows in (torch.arange(N), torch.arange(0, N, 2)):
        sums.add(rows, logits[rows])
        hear(expected, rows, logits[rows])
    holdout.add(*sums.on_host())
    for name, part in expected.state_dict().items():
        torch.testing.assert_close(holdout.state_dict()[name], part, msg=name)
