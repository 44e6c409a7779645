from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import rockafellian as rk
from rockafellian._internal.kth_largest import max_count
from rockafellian._internal.validation import read_losses
from rockafellian.method.per_class import LabelEvidence, Reweighted, Rows, apply_rule


def evidence_of(labels: Tensor, disagrees: Tensor) -> LabelEvidence:
    return LabelEvidence(labels.int().numpy(), disagrees.numpy())


def apply_to(
    rule: Any,
    losses: Tensor,
    before: Tensor | None = None,
    prior: Tensor | None = None,
    evidence: LabelEvidence | None = None,
    **limits: Any,
) -> Reweighted:
    """`apply_rule` with tensors."""
    before = torch.ones_like(losses) if before is None else before
    rows = Rows(read_losses(losses), before.numpy(), None if prior is None else prior.numpy())
    made = apply_rule(rule, rows, evidence, **limits)
    return made._replace(weights=torch.from_numpy(made.weights), removed=torch.from_numpy(made.removed))


class Problem:
    """Distinct losses of rows in a few classes, and whether the network disagrees, in each class with its own share."""

    def __init__(self, sizes: list[int], disagreement: list[float], seed: int, with_prior: bool = False) -> None:
        random = torch.Generator().manual_seed(seed)
        self.labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
        shuffled = torch.randperm(len(self.labels), generator=random)
        self.labels = self.labels[shuffled]
        chance = torch.tensor(disagreement)[self.labels]
        disagrees = torch.rand(len(self), generator=random) < chance
        rank = torch.randperm(len(self), generator=random) / len(self)  # distinct
        self.losses = torch.where(disagrees, 2 + rank, rank).double()
        self.prior = 0.5 + torch.rand(len(self), generator=random).double() if with_prior else None
        self.evidence = evidence_of(self.labels, disagrees)

    def __len__(self) -> int:
        return len(self.labels)

    def apply_rule(self, rule: rk.RRM, before: Tensor | None = None, **limits: Any) -> Reweighted:
        return apply_to(rule, self.losses, before, self.prior, self.evidence, **limits)

    def classes(self) -> list[Tensor]:
        return [self.labels == label for label in self.labels.unique()]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=5))
    shares = st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), min_size=len(sizes), max_size=len(sizes))
    return Problem(sizes, draw(shares), draw(st.integers(0, 1000)), draw(st.booleans()))


limits = st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.0])
spreads = st.sampled_from(["kept", "argmin"])


@st.composite
def rules(draw: st.DrawFn) -> rk.RRM:
    told = draw(
        st.sampled_from([{"contamination": share} for share in (0.0, 0.05, 0.2, 0.4, 0.7)])
        | st.sampled_from([{"gamma": gamma} for gamma in (0.1, 0.5, 1.5)])
    )
    mu = draw(st.sampled_from([None, 0.5, 1.0]))
    return rk.RRM(**told, mu=mu, spread=draw(spreads))


by_class = st.fixed_dictionaries({"per_class": st.booleans(), "class_limit": limits})


@given(problems(), rules())
def test_without_evidence_it_is_the_rule_alone(problem: Problem, rule: rk.RRM) -> None:
    before = torch.ones_like(problem.losses)
    made = apply_to(rule, problem.losses, before, problem.prior, per_class=True, class_limit=0.1)
    assert torch.equal(made.weights, rule(problem.losses, before, prior=problem.prior).weights)
    assert torch.equal(made.removed, problem.losses > rule.threshold(problem.losses))
    assert made.threshold == rule.threshold(problem.losses)


@settings(max_examples=100)
@given(problems(), rules(), by_class)
def test_weights_are_a_distribution_whatever_the_rule_and_the_classes(
    problem: Problem, rule: rk.RRM, by_class: dict[str, Any]
) -> None:
    before = torch.rand(len(problem), generator=torch.Generator().manual_seed(0)).double()
    before /= before.mean()
    made = problem.apply_rule(rule, before, **by_class)
    assert made.weights.min() >= 0
    assert float(made.weights.mean()) == pytest.approx(1, abs=1e-6)
    assert made.gap >= 0
    if rule.mu == 1:
        assert made.weights[made.removed].count_nonzero() == 0


@settings(max_examples=100)
@given(problems(), rules(), by_class)
def test_no_class_loses_more_than_its_limit(problem: Problem, rule: rk.RRM, by_class: dict[str, Any]) -> None:
    made = problem.apply_rule(rule, **by_class)
    for rows in problem.classes():
        assert int(made.removed[rows].sum()) <= by_class["class_limit"] * int(rows.sum()) + 1e-9


@settings(max_examples=100)
@given(problems(), rules())
def test_with_per_class_each_class_keeps_its_mass(problem: Problem, rule: rk.RRM) -> None:
    made = problem.apply_rule(rule, per_class=True)
    for rows in problem.classes():
        nominal = 1.0 if problem.prior is None else float(problem.prior[rows].mean() / problem.prior.mean())
        assert float(made.weights[rows].mean()) == pytest.approx(nominal, rel=1e-6)


@given(
    st.lists(st.tuples(st.integers(30, 80), st.sampled_from([0.05, 0.2, 0.3, 0.5])), min_size=2, max_size=5),
    st.sampled_from([0.05, 0.1, 0.2]),
    st.integers(0, 100),
)
def test_with_per_class_the_total_is_the_rules_and_more_goes_where_the_network_disagrees_more(
    classes: list[tuple[int, float]], contamination: float, seed: int
) -> None:
    problem = Problem([size for size, _ in classes], [share for _, share in classes], seed)
    disagrees = torch.from_numpy(problem.evidence.disagrees).double()
    if disagrees.sum() == 0:
        return
    made = problem.apply_rule(rk.RRM(contamination=contamination), per_class=True, class_limit=0.99)
    expected = [contamination * float(disagrees[rows].mean() / disagrees.mean()) for rows in problem.classes()]
    if max(expected) > 0.9:
        return
    for rows, share in zip(problem.classes(), expected, strict=True):
        assert int(made.removed[rows].sum()) == pytest.approx(share * int(rows.sum()), abs=1 + 1e-6)
    total = int(made.removed.sum())
    assert contamination * len(problem) - 1e-6 <= total <= contamination * len(problem) + len(classes)


def test_with_per_class_and_a_gamma_each_class_has_its_own_least_loss() -> None:
    problem = Problem([20, 20], [0.2, 0.2], seed=0)
    problem.losses[problem.labels == 1] += 10
    made = problem.apply_rule(rk.RRM(gamma=1.2), per_class=True)
    for rows in problem.classes():
        losses = problem.losses[rows]
        assert made.removed[rows].tolist() == (losses > losses.min() + 1.2).tolist()
    assert 0 < int(made.removed.sum()) < 20


def test_with_per_class_nothing_is_removed_where_the_network_agrees_with_all() -> None:
    problem = Problem([20, 20], [0.0, 0.0], seed=0)
    made = problem.apply_rule(rk.RRM(contamination=0.3), per_class=True)
    assert not made.removed.any()
    assert made.weights.tolist() == [1.0] * 40


def test_with_per_class_a_class_may_be_removed_whole_only_if_the_limit_is_one() -> None:
    problem = Problem([10, 10], [1.0, 0.0], seed=0)
    made = problem.apply_rule(rk.RRM(contamination=0.5), per_class=True, class_limit=1.0)  # all of class 0 is suspect
    assert float(made.weights.mean()) == pytest.approx(1)
    assert int(made.removed[problem.labels == 1].sum()) == 0


@pytest.mark.parametrize(
    ("size", "limit", "lost"), [(20, 0.9, 18), (20, 0.5, 10), (15, 0.9, 13), (5, 0.9, 4), (7, 0.0, 0)]
)
@pytest.mark.parametrize("told", [{"contamination": 0.35}, {"gamma": 1.5}])
def test_a_class_that_would_vanish_loses_its_limit_and_the_others_what_they_would_have_lost(
    told: dict, size: int, limit: float, lost: int
) -> None:
    problem = Problem([size, 2 * size, 2 * size], [1.0, 0.0, 0.3], seed=0)
    vanishing = problem.labels == 0
    problem.losses[vanishing] += 1
    unlimited = problem.apply_rule(rk.RRM(**told), class_limit=1.0)
    assert unlimited.removed[vanishing].all()
    made = problem.apply_rule(rk.RRM(**told), class_limit=limit)
    assert int(made.removed[vanishing].sum()) == lost == max_count(limit, size)
    if lost:
        assert problem.losses[vanishing & made.removed].min() > problem.losses[vanishing & ~made.removed].max()
    if limit >= 0.3 + 0.2:  # where no other class is over it
        assert torch.equal(made.removed[~vanishing], unlimited.removed[~vanishing])
    assert float(made.weights[vanishing].mean()) == pytest.approx(1)  # it keeps its mass


def test_the_others_lose_the_same_though_the_least_loss_is_in_the_class_that_would_vanish() -> None:
    labels = torch.tensor([0] * 20 + [1] * 20)
    losses = torch.cat([torch.tensor([0.0]), torch.linspace(8, 9, 19), torch.linspace(0.5, 1.4, 20)]).double()
    evidence = evidence_of(labels, losses > 5)
    unlimited, made = (
        apply_to(rk.RRM(gamma=1.0), losses, evidence=evidence, class_limit=limit) for limit in (1.0, 0.9)
    )
    assert int(made.removed[:20].sum()) == 18
    assert made.removed[20:].tolist() == unlimited.removed[20:].tolist() == (losses[20:] > 1.0).tolist()


def test_a_class_of_tied_losses_does_not_lose_more_than_its_limit() -> None:
    labels = torch.tensor([0] * 10 + [1] * 10)
    losses = torch.tensor([9.0] + [10.0] * 9 + [0.0] * 10)
    evidence = evidence_of(labels, labels == 0)
    made = apply_to(rk.RRM(contamination=0.5), losses, evidence=evidence, class_limit=0.5)
    assert int(made.removed[:10].sum()) <= 5


def test_where_no_class_would_vanish_the_classes_do_not_matter() -> None:
    problem = Problem([30, 30], [0.2, 0.4], seed=0)
    rule = rk.RRM(contamination=0.3)
    assert torch.equal(problem.apply_rule(rule).weights, rule(problem.losses, torch.ones(60)).weights)


def test_rows_of_unknown_label_are_a_class_of_their_own() -> None:
    problem = Problem([20, 20, 20], [0.2, 0.2, 1.0], seed=0)
    labels = torch.where(problem.labels == 2, -1, problem.labels)
    evidence = evidence_of(labels, torch.from_numpy(problem.evidence.disagrees) & (labels >= 0))
    for contamination, per_class in ((0.4, False), (0.1, True)):
        rule = rk.RRM(contamination=contamination)
        made = apply_to(rule, problem.losses, evidence=evidence, per_class=per_class)
        assert float(made.weights.mean()) == pytest.approx(1)
        assert int(made.removed[labels == -1].sum()) <= 18


@given(problems())
def test_a_rule_that_is_not_rrm_is_left_alone(problem: Problem) -> None:
    def rule(losses: Tensor, weights: Tensor, prior: Tensor | None = None) -> tuple[Tensor, None]:
        return weights * (losses <= losses.median()), None

    before = torch.ones_like(problem.losses)
    made = apply_to(rule, problem.losses, before, problem.prior, problem.evidence)
    assert torch.equal(made.weights, rule(problem.losses, before)[0])
    assert torch.equal(made.removed, made.weights == 0)
    assert made.threshold is None
    assert made.gap is None


def test_a_rule_with_a_threshold_is_certified() -> None:
    losses = torch.tensor([0.0, 1.0, 2.0, 9.0])
    made = apply_to(lambda losses, weights: (torch.tensor([2.0, 1.0, 1.0, 0.0]), 2.0), losses)
    assert made.removed.tolist() == [False, False, False, True]
    assert made.gap == 0


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda losses, weights: (-weights, None), "rule to return 10 finite weights >= 0"),
        (lambda losses, weights: (weights[1:], None), "rule to return 10 finite weights >= 0"),
        (lambda losses, weights: weights, r"return \(weights, threshold\), got Tensor"),
    ],
)
def test_what_a_rule_returns_is_checked(rule: Any, message: str) -> None:
    problem = Problem([5, 5], [0.0, 0.0], seed=0)
    with pytest.raises(ValueError, match=message):
        apply_to(rule, problem.losses, evidence=problem.evidence)
