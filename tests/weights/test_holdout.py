import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import rockafellian as rk
from rockafellian.weights import holdout as probation_module
from rockafellian.weights.holdout import MOST, HoldOut
from rockafellian.weights.predictions import Predictions, words_of

N = 500


def hear(probation: HoldOut, rows: Tensor, logits: Tensor) -> None:
    held = torch.isin(rows, probation.rows)
    probation.add(rows[held], logits[held].softmax(1))


def say(
    probation: HoldOut, predictions: Predictions, logits: Tensor, labels: Tensor, rows: Tensor | None = None
) -> None:
    rows = torch.arange(len(predictions)) if rows is None else rows
    predictions.add(rows, words_of(logits[rows], labels[rows]))
    hear(probation, rows, logits[rows])


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
    [(2, 1), (3, 1), (4, 1), (10, 2), (1500, 300), (5 * MOST, MOST), (5 * MOST + 100, MOST), (20 * MOST, MOST)],
)
def test_a_fifth_is_held_and_never_more_than_enough(n: int, size: int) -> None:
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
        rk.SampleWeights(1, rk.RRM())


@pytest.mark.parametrize("batches", [1, 7])
def test_the_estimate_is_of_the_mean_probabilities_of_the_held_rows_alone(batches: int) -> None:
    labels, probation, predictions = some_labels(), HoldOut(N, seed=0), Predictions(N)
    epochs = [network(0.7, labels, seed) for seed in range(3)]
    for logits in epochs:
        for rows in torch.randperm(N, generator=torch.Generator().manual_seed(1)).chunk(batches):
            say(probation, predictions, logits, labels, rows)
    mean = torch.stack([logits.softmax(1) for logits in epochs]).mean(0)
    held = probation.rows
    assert probation.estimate(predictions) == rk.estimate_contamination(mean[held], labels[held])
    assert probation.estimate(predictions).rate > 0.1


def test_what_is_said_of_other_rows_does_not_count() -> None:
    labels, probation, predictions = some_labels(), HoldOut(N, seed=0), Predictions(N)
    others = torch.ones(N, dtype=torch.bool)
    others[probation.rows] = False
    say(probation, predictions, network(0.9, labels), labels)
    before = probation.state_dict()
    expected = probation.estimate(predictions)
    say(probation, predictions, network(0.0, labels, seed=1), labels, others.nonzero()[:, 0])
    for name, part in before.items():
        assert torch.equal(probation.state_dict()[name], part), name
    assert probation.estimate(predictions) == expected


def test_held_rows_that_were_not_shown_are_left_out_of_the_estimate() -> None:
    labels, probation, predictions = some_labels(), HoldOut(N, seed=0), Predictions(N)
    logits, shown = network(0.7, labels), probation.rows[:60]
    say(probation, predictions, logits, labels, shown)
    assert probation.estimate(predictions) == rk.estimate_contamination(logits[shown].softmax(1), labels[shown])


def test_it_is_over_once_the_network_agrees_with_no_more_held_labels_than_before() -> None:
    labels, probation, predictions = some_labels(), HoldOut(N, seed=0), Predictions(N)
    for agrees, over in ((0.5, False), (0.6, False), (0.9, False), (0.9, True), (0.7, True), (0.95, False)):
        say(probation, predictions, network(agrees, labels), labels)
        assert probation.is_over(predictions) == over, agrees
        assert probation.is_over(predictions) == over  # to ask changes nothing
        if not over:
            probation.go_on(predictions)
            assert probation.is_over(predictions)  # as nothing new was said


def test_only_the_held_rows_tell_whether_it_is_over() -> None:
    labels, probation, predictions = some_labels(), HoldOut(N, seed=0), Predictions(N)
    say(probation, predictions, network(0.8, labels), labels)
    probation.go_on(predictions)
    learned_by_heart = network(1.0, labels)
    learned_by_heart[probation.rows] = network(0.8, labels)[probation.rows]
    say(probation, predictions, learned_by_heart, labels)
    assert probation.is_over(predictions)


def test_a_state_is_a_copy_and_another_probation_goes_on_from_it() -> None:
    labels, probation, predictions = some_labels(), HoldOut(N, seed=0), Predictions(N)
    fresh_state = probation.state_dict()
    say(probation, predictions, network(0.5, labels), labels)
    probation.go_on(predictions)
    state = probation.state_dict()
    resumed = HoldOut(N, seed=1)
    resumed.load_state_dict(state)
    for logits in (network(0.6, labels, 1), network(0.6, labels, 2)):
        for each in (probation, resumed):
            hear(each, torch.arange(N), logits)
    predictions.add(torch.arange(N), words_of(logits, labels))
    assert resumed.is_over(predictions) == probation.is_over(predictions) is False
    assert resumed.estimate(predictions) == probation.estimate(predictions)
    for name, part in probation.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], part), name
    assert not torch.equal(state["sums"], probation.state_dict()["sums"])
    early = HoldOut(N, seed=2)
    early.load_state_dict(fresh_state)  # saved before anything was said
    hear(early, torch.arange(N), logits)
    assert torch.equal(early.rows, probation.rows)


def test_the_share_and_the_most_that_are_held_are_the_modules_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probation_module, "MOST", 7)
    assert len(HoldOut(N, seed=0).rows) == 7
