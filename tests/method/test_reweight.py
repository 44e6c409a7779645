import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import Instance, instances

import highs
import rockafellian as rk

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
shares = st.floats(0, 1, exclude_max=True)


@settings(max_examples=300)
@given(instances() | instances(with_prior=True))
def test_the_closed_form_and_highs_agree(instance: Instance) -> None:
    losses, gamma, prior = instance
    optimum, solution = highs.solve(losses, gamma, prior)
    weights = rk.optimal_weights(losses, gamma=gamma, prior=prior)

    assert weights.min() >= 0
    assert float(weights.sum()) == pytest.approx(len(losses), abs=1e-9)
    assert float(rk.objective(losses, weights, gamma=gamma, prior=prior)) == pytest.approx(optimum, abs=1e-9)
    assert float(rk.optimal_value(losses, gamma=gamma, prior=prior)) == pytest.approx(optimum, abs=1e-9)
    assert rk.is_optimal(losses, weights, gamma, prior=prior)
    assert rk.is_optimal(losses, solution, gamma, prior=prior)
    assert float(rk.optimality_gap(losses, solution, gamma=gamma, prior=prior)) < 1e-9


@settings(max_examples=300)
@given(instances(with_prior=True), st.data())
def test_is_optimal_accepts_weights_without_a_gap_and_no_others(instance: Instance, data: st.DataObject) -> None:
    losses, gamma, prior = instance
    weights = rk.optimal_weights(losses, gamma=gamma, prior=prior).numpy()
    giver = data.draw(st.sampled_from(np.flatnonzero(weights > 0).tolist()))
    taker = data.draw(st.sampled_from(range(len(losses))))
    moved = data.draw(st.sampled_from([0.05, 0.5, 1.0])) * weights[giver]
    weights[giver] -= moved
    weights[taker] += moved

    gap = float(rk.optimality_gap(losses, weights, gamma=gamma, prior=prior))
    excess = rk.objective(losses, weights, gamma=gamma, prior=prior) - rk.optimal_value(
        losses, gamma=gamma, prior=prior
    )
    assert gap == pytest.approx(float(excess), abs=1e-9)
    assert rk.is_optimal(losses, weights, gamma, prior=prior) == (gap < 1e-9)


@settings(max_examples=200)
@given(instances(), st.randoms(use_true_random=False))
def test_every_combination_of_the_theorems_polytopes_is_optimal(instance: Instance, random) -> None:
    losses, gamma, _ = instance

    def member(groups: rk.Partition) -> np.ndarray:
        """Weights from U*_{S_1, S_2} for random S_1, S_2: rows in S_1 get nothing, rows in S_2 and above lose all."""
        weights = np.ones(len(losses))
        weights[groups.above.numpy()] = 0
        for i in np.flatnonzero(groups.edge):
            weights[i] = random.choice([0.0, 1.0, random.random()])
        rows = np.flatnonzero(groups.smallest).tolist()
        takers = random.sample(rows, random.randint(1, len(rows)))
        parts = np.array([random.random() + 1e-3 for _ in takers])
        weights[takers] += (len(losses) - weights.sum()) * parts / parts.sum()
        return weights

    groups = rk.partition(losses, gamma)
    members = [member(groups) for _ in range(3)]
    mix = np.array([random.random() + 1e-3 for _ in members])
    weights = mix @ np.array(members) / mix.sum()
    assert rk.is_optimal(losses, weights, gamma)
    assert float(rk.optimality_gap(losses, weights, gamma=gamma)) < 1e-9


@given(instances())
def test_the_partition_puts_each_row_in_one_group_by_its_loss(instance: Instance) -> None:
    losses, gamma, _ = instance
    groups = rk.partition(losses, gamma)
    assert torch.stack(groups).sum(0).eq(1).all()
    threshold = losses.min() + gamma
    assert groups.above.tolist() == (losses > threshold).tolist()
    assert groups.edge.tolist() == (losses == threshold).tolist()
    assert groups.smallest.tolist() == (losses == losses.min()).tolist()


def test_weights_off_the_simplex_are_not_optimal() -> None:
    losses = torch.tensor([0.0, 1.0, 5.0])
    assert rk.is_optimal(losses, [2.0, 1.0, 0.0], 2.0)
    assert not rk.is_optimal(losses, [1.0, 1.0, 0.0], 2.0)  # the removed row's mass is lost
    assert not rk.is_optimal(losses, [3.5, 1.0, -1.5], 2.0)


@given(instances(), shares)
def test_the_threshold_is_the_largest_loss_with_enough_rows_above(instance: Instance, contamination: float) -> None:
    losses = instance.losses
    share_above = [(losses > loss).sum() / len(losses) for loss in losses]
    qualified = [loss for loss, share in zip(losses, share_above, strict=True) if share >= contamination]
    most = losses.min() if losses.min() < losses.max() else np.inf  # no more than all but the rows of least loss
    assert float(rk.threshold_for(losses, contamination)) == max(qualified, default=most)


@given(st.sampled_from([10, 100, 1000, 18_623]), st.integers(0, 99))
def test_a_share_of_distinct_losses_removes_exactly_its_rows(n: int, percent: int) -> None:
    losses = torch.randperm(n, generator=torch.Generator().manual_seed(n)).double()
    removed = int((rk.optimal_weights(losses, contamination=percent / 100) == 0).sum())
    expected = -(-n * percent // 100)  # rounded up, but 7 % of 100 is 7 though 0.07 * 100 > 7
    assert removed == min(expected, n - 1)  # the row of least loss stays


ROW = torch.tensor([0.0, 1.0, 2.0])
NEAR_ONE = [0.99, 0.999, np.nextafter(1, 0)]


@pytest.mark.parametrize("contamination", NEAR_ONE)
@pytest.mark.parametrize("spread", ["argmin", "kept"])
def test_a_noise_rate_near_one_keeps_only_the_rows_of_least_loss(contamination: float, spread: str) -> None:
    losses = torch.rand(60, generator=torch.Generator().manual_seed(0))
    weights = rk.optimal_weights(losses, contamination=contamination, spread=spread)
    assert weights.nonzero()[:, 0].tolist() == [int(losses.argmin())]
    assert float(weights.sum()) == pytest.approx(60)
    losses[[3, 5, 7]] = 0.0
    weights = rk.optimal_weights(losses, contamination=contamination, spread=spread)
    assert weights.nonzero()[:, 0].tolist() == [3, 5, 7]  # they tie
    assert torch.equal(weights, rk.optimal_weights(losses, gamma=1e-30))  # the most that the linear program removes
    losses[9] = torch.inf
    assert rk.optimal_weights(losses, contamination=contamination).nonzero()[:, 0].tolist() == [3, 5, 7]


def test_one_row_is_never_removed() -> None:
    assert rk.optimal_weights([1.0], contamination=0.999).tolist() == [1]
    assert rk.optimal_weights([1.0, 2.0], contamination=0.999).tolist() == [2, 0]


def test_more_ties_at_the_least_loss_than_are_to_stay_remove_all_others() -> None:
    losses = torch.tensor([0.0, 0.0, 0.0, 1.0, 2.0])
    assert rk.optimal_weights(losses, contamination=0.5, spread="kept").eq(0).tolist() == [False] * 3 + [True] * 2


def test_one_float_above_a_fraction_of_rows_removes_one_row_more() -> None:
    losses = torch.arange(60.0)
    for k in range(59):
        assert int(rk.optimal_weights(losses, contamination=k / 60).eq(0).sum()) == k
        assert int(rk.optimal_weights(losses, contamination=float(np.nextafter(k / 60, 1))).eq(0).sum()) == k + 1


def test_an_argument_without_a_name_is_refused() -> None:
    for call in (lambda: rk.RRM(0.2), lambda: rk.RRM("auto"), lambda: rk.RRM(0.2, mu=0.5), lambda: rk.RRM(None, 0.2)):
        with pytest.raises(
            TypeError, match=r"need RRM\(contamination=...\) or RRM\(gamma=...\), got RRM\(.*name the number"
        ):
            call()
    assert pickle.loads(pickle.dumps(rk.RRM(gamma=0.5))) == copy.deepcopy(rk.RRM(gamma=0.5)) == rk.RRM(gamma=0.5)  # noqa: S301


def test_numbers_of_any_kind_become_floats() -> None:
    assert (
        rk.RRM(contamination=np.float64(0.25)) == rk.RRM(contamination=torch.tensor(0.25)) == rk.RRM(contamination=0.25)
    )
    assert isinstance(rk.RRM(contamination=0).contamination, float)
    assert isinstance(rk.RRM(gamma=1).gamma, float)


LARGE = 1.7e308


@pytest.mark.parametrize("sign", [1, -1])
def test_no_mean_overflows_unless_it_is_too_large_itself(sign: int) -> None:
    losses, ones = np.full(4, sign * LARGE), np.ones(4)
    assert float(rk.objective(losses, ones, gamma=1.0)) == sign * LARGE
    assert float(rk.optimal_value(losses, gamma=1.0)) == sign * LARGE
    assert float(rk.objective(losses, [4.0, 0, 0, 0], gamma=LARGE)) == pytest.approx(sign * LARGE + LARGE * 0.75)
    assert float(rk.objective(losses, 3 * ones, gamma=1.0)) == sign * np.inf
    assert float(rk.optimality_gap(losses, ones, gamma=1.0)) == 0


@pytest.mark.parametrize(("dtype", "large"), [(np.float32, 3e38), (np.float64, LARGE)])
def test_losses_of_both_signs_near_the_largest_float_have_a_gap(dtype: type, large: float) -> None:
    losses = np.array([-large, 0, large], dtype=dtype)
    for contamination in (0.0, 0.3, 0.6, 0.999):
        weights = rk.optimal_weights(losses, contamination=contamination)
        threshold = rk.threshold_for(losses, contamination)
        assert float(rk.optimality_gap(losses, weights, threshold=threshold)) == 0
        assert float(rk.optimality_gap(losses, np.roll(weights, 1), threshold=threshold)) >= 0
    assert rk.is_optimal(losses, [3, 0, 0], 1.0)


def test_a_prior_of_any_scale_is_scaled_to_mean_one() -> None:
    for scale in (1e-300, 1.0, 0.5 * LARGE):
        weights = rk.optimal_weights(np.zeros(4), gamma=1.0, prior=scale * np.array([1.0, 1, 2, 2]))
        np.testing.assert_allclose(weights, [2 / 3, 2 / 3, 4 / 3, 4 / 3])


@pytest.mark.parametrize(
    "array",
    ["abc", ["a", "b", "c"], [1, 2, 3j], [[1, 2], [3]], None, [None, 1, 2], np.array(["2020"] * 3, "datetime64[Y]")],
)
def test_an_array_of_anything_but_real_numbers_is_refused(array: object) -> None:
    calls = [
        lambda: rk.optimal_weights(array, gamma=1.0),
        lambda: rk.threshold_for(array, 0.5),
        lambda: rk.objective(ROW, array, gamma=1.0),
        lambda: rk.RRM(gamma=1.0)(array, ROW),
        lambda: rk.RRM(gamma=1.0)(ROW, array),
        lambda: rk.SampleWeights(3, rk.RRM(gamma=1.0), prior="abc" if array is None else array),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="need an array of ") as caught:
            call()
        assert "\n" not in str(caught.value)


def test_ties_at_the_quantile_are_removed_together_or_not_at_all() -> None:
    losses = torch.tensor([0.0, 1.0, 1.0, 1.0, 2.0])
    assert rk.optimal_weights(losses, contamination=0.4).tolist() == [5, 0, 0, 0, 0]
    assert rk.optimal_weights(torch.ones(5), contamination=0.4).tolist() == [1] * 5


@given(instances(with_prior=True), shares)
def test_kept_rows_share_the_mass_in_the_proportions_of_the_prior(instance: Instance, contamination: float) -> None:
    losses, _, prior = instance
    kept = losses <= float(rk.threshold_for(losses, contamination))
    equation_2 = np.where(kept, len(losses) / kept.sum(), 0)
    np.testing.assert_allclose(rk.optimal_weights(losses, contamination=contamination, spread="kept"), equation_2)
    weights = rk.optimal_weights(losses, contamination=contamination, spread="kept", prior=prior)
    np.testing.assert_allclose(weights, np.where(kept, prior, 0) * len(losses) / prior[kept].sum())


@given(instances(with_prior=True))
def test_a_row_that_comes_twice_is_a_row_of_twice_the_prior(instance: Instance) -> None:
    losses, gamma, prior = instance
    copies = prior.astype(int)
    one_each = rk.optimal_weights(np.repeat(losses, copies), gamma=gamma)
    together = np.add.reduceat(one_each.numpy(), np.concatenate([[0], copies.cumsum()[:-1]]))
    weights = rk.optimal_weights(losses, gamma=gamma, prior=prior)
    np.testing.assert_allclose(weights / len(losses), together / copies.sum(), atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("spread", ["argmin", "kept"])
@pytest.mark.parametrize("mode", [{"gamma": 1.0}, {"contamination": 0.3}])
def test_every_kind_of_array_gets_the_same_weights(mode: dict, spread: str, device: str) -> None:
    losses = torch.empty(1000).exponential_(generator=torch.Generator().manual_seed(0)).half().float()
    weights = rk.optimal_weights(losses, **mode, spread=spread)
    assert weights.dtype == torch.float32
    assert torch.equal(rk.optimal_weights(losses.to(device), **mode, spread=spread), weights.to(device))
    assert torch.equal(rk.optimal_weights(losses.requires_grad_(), **mode, spread=spread), weights)
    assert torch.equal(rk.optimal_weights(losses.half(), **mode, spread=spread), weights)
    read_only = losses.detach().numpy().copy()
    read_only.flags.writeable = False
    assert torch.equal(rk.optimal_weights(read_only, **mode, spread=spread), weights)
    assert torch.equal(rk.RRM(**mode, mu=1.0, spread=spread)(read_only, read_only).weights, weights)
    doubled = rk.optimal_weights(losses.double(), **mode, spread=spread)
    assert doubled.dtype == torch.float64
    torch.testing.assert_close(doubled, weights.double(), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    "mode", [{"gamma": 1.0}, {"contamination": 0.0}, {"contamination": 0.25}, {"contamination": 0.9}]
)
def test_an_infinite_loss_is_a_removed_row(mode: dict) -> None:
    losses = torch.tensor([1.0, 1.0, 1.0, torch.inf])
    weights = rk.optimal_weights(losses, **mode)
    torch.testing.assert_close(weights, torch.tensor([4 / 3, 4 / 3, 4 / 3, 0]))
    assert rk.objective(losses, weights, gamma=1.0).isfinite()
    assert rk.optimality_gap(losses, weights, gamma=1.0) == 0
    assert rk.is_optimal(losses, weights, 1.0)
    assert rk.optimality_gap(losses, torch.ones(4), gamma=1.0) == torch.inf


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gap_of_the_corollary_is_exactly_zero_at_any_size(dtype: torch.dtype) -> None:
    losses = torch.empty(300_000, dtype=dtype).exponential_(generator=torch.Generator().manual_seed(0)) - 3
    weights = rk.optimal_weights(losses, gamma=0.1)
    assert rk.optimality_gap(losses, weights, gamma=0.1) == 0
    assert rk.is_optimal(losses, weights, 0.1)
    assert rk.optimality_gap(losses, rk.optimal_weights(losses, gamma=0.1, spread="kept"), gamma=0.1) > 0


def test_a_huge_gamma_changes_nothing() -> None:
    losses = torch.tensor([0.0, 1.0, 1e30])
    assert rk.optimal_weights(losses, gamma=1e300).tolist() == [1, 1, 1]


@settings(max_examples=150)
@given(instances(), st.floats(0, 3))
def test_the_wasserstein_value_of_a_budget_is_that_of_highs(instance: Instance, budget: float) -> None:
    optimum = highs.solve_wasserstein(instance.losses, budget)
    value, multiplier = rk.wasserstein_value(instance.losses, budget=budget)
    assert float(value) == pytest.approx(optimum, abs=1e-9)
    assert float(multiplier) >= max(-instance.losses.min(), 0)
    relaxed = rk.wasserstein_value(instance.losses, multiplier=float(multiplier)).value
    assert float(relaxed - budget * multiplier) == pytest.approx(optimum, abs=1e-9)  # strong duality


@given(instances(), st.floats(0, 10))
def test_rrm_is_less_optimistic_than_the_wasserstein_problem(instance: Instance, extra: float) -> None:
    losses = instance.losses
    gamma = max(-losses.min(), 0.125) + extra
    mixed = rk.wasserstein_value(losses, multiplier=gamma).value
    same_penalty = rk.optimal_value(losses, gamma=2 * gamma)  # gamma * ||u||_1, as in the Proposition
    assert same_penalty >= mixed - 1e-12
    if losses.min() >= 0:
        assert rk.optimal_value(losses, gamma=gamma) >= mixed - 1e-12


@given(instances(), st.floats(0.01, 1))
def test_the_rule_goes_mu_of_the_way_to_the_optimum(instance: Instance, mu: float) -> None:
    losses, gamma, _ = instance
    before = rk.optimal_weights(-losses, gamma=1.0, spread="kept")
    optimum = rk.optimal_weights(losses, gamma=gamma)
    after = rk.RRM(gamma=gamma, mu=mu, spread="argmin")(losses, before).weights
    torch.testing.assert_close(after, (1 - mu) * before + mu * optimum)
    assert float(after.sum()) == pytest.approx(len(losses))


def test_mu_is_a_half_with_gamma_and_one_with_a_contamination() -> None:
    assert rk.RRM(gamma=1.0).mu == 0.5
    assert rk.RRM(contamination=0.2).mu == 1.0
    assert rk.RRM(contamination=0.2, mu=0.3).mu == 0.3


def test_the_l1_penalty_removes_above_twice_gamma() -> None:
    losses = torch.tensor([0.0, 0.4, 0.79, 0.81])
    assert rk.RRM(gamma=0.4).threshold(losses) == pytest.approx(0.4)
    table_3 = rk.RRM(gamma=0.4, penalty="l1", mu=1.0)
    assert table_3.threshold(losses) == pytest.approx(0.8)
    assert table_3(losses, torch.ones(4)).weights.eq(0).tolist() == [False, False, False, True]


def test_the_first_half_step_leaves_removed_rows_at_half_their_weight() -> None:
    """Table 5, first column: half of -1/N after one re-weighting with mu = 0.5."""
    weights = rk.RRM(gamma=2.0, penalty="l1", spread="argmin")(torch.tensor([0.0, 1.0, 9.0]), torch.ones(3)).weights
    assert weights.tolist() == [1.5, 1.0, 0.5]


def test_the_rule_carries_a_prior() -> None:
    prior = torch.tensor([1.0, 2.0, 3.0])
    weights = rk.RRM(contamination=0.3)(torch.tensor([0.0, 1.0, 9.0]), torch.ones(3), prior=prior).weights
    torch.testing.assert_close(weights, torch.tensor([1.0, 2.0, 0.0]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rk.optimal_weights(ROW), "pass exactly one"),
        (lambda: rk.optimal_weights(ROW, gamma=1.0, contamination=0.1), "pass exactly one"),
        (lambda: rk.optimal_weights(ROW, gamma=0.0), "gamma > 0.*got 0.0"),
        (lambda: rk.optimal_weights(ROW, gamma=-1.0), "gamma > 0.*got -1.0"),
        (lambda: rk.optimal_weights(ROW, gamma=float("nan")), "gamma > 0.*got nan"),
        (lambda: rk.optimal_weights(ROW, gamma=float("inf")), "finite gamma.*got inf"),
        (lambda: rk.optimal_weights(ROW, contamination=1.0), r"\[0, 1\).*got 1.0"),
        (lambda: rk.optimal_weights(ROW, contamination=-0.1), r"\[0, 1\).*got -0.1"),
        (lambda: rk.optimal_weights(ROW, gamma=1.0, spread="even"), "one of 'argmin', 'kept'; got 'even'"),
        (lambda: rk.optimal_weights(ROW.mean(), gamma=1.0), r"shape \(\).*reduction='none'"),
        (lambda: rk.optimal_weights(ROW[:, None], gamma=1.0), r"shape \(3, 1\)"),
        (lambda: rk.optimal_weights(ROW[:0], gamma=1.0), "empty"),
        (lambda: rk.optimal_weights(ROW, gamma=1.0, prior=[1.0, 1.0]), r"shape \(2,\) for 3 losses"),
        (lambda: rk.optimal_weights(ROW, gamma=1.0, prior=[1.0, 0.0, 1.0]), "positive finite prior.*leave rows"),
        (lambda: rk.threshold_for(ROW, 1.5), r"\[0, 1\).*got 1.5"),
        (lambda: rk.partition(ROW, 0.0), "gamma > 0"),
        (lambda: rk.objective(ROW, [1.0, 1.0], gamma=1.0), r"shape \(2,\) for 3 losses"),
        (lambda: rk.objective(ROW, ROW, gamma=0.0), "gamma > 0"),
        (lambda: rk.optimality_gap(ROW, [1.0, 1.0, 1.0]), "pass exactly one"),
        (lambda: rk.optimality_gap(ROW, [0.2, 0.4, 0.4], gamma=1.0), "mean 1, got mean 0.33.*multiply"),
        (lambda: rk.optimality_gap(ROW, [2.0, 2.0, -1.0], gamma=1.0), "minimum -1"),
        (lambda: rk.wasserstein_value(ROW), "pass exactly one"),
        (lambda: rk.wasserstein_value(ROW, budget=-1.0), "budget >= 0.*got -1"),
        (lambda: rk.wasserstein_value(ROW - 5, multiplier=1.0), "multiplier >= 5.*got 1.0"),
        (lambda: rk.wasserstein_value([1.0, float("inf")], budget=0.1), "finite losses"),
        (lambda: rk.RRM(crisp=True)(ROW, torch.ones(3)), "RRM.* leaves to SampleWeights to estimate"),
        (lambda: rk.RRM(contamination="some"), "contamination in .*got 'some'"),
        (lambda: rk.RRM(gamma=1.0, contamination=0.1), "pass exactly one"),
        (lambda: rk.RRM(gamma=1.0, mu=0.0), r"mu in \(0, 1\], got 0.0"),
        (lambda: rk.RRM(gamma=1.0, penalty="l2"), "one of 'tv', 'l1'; got 'l2'"),
        (lambda: rk.RRM(gamma="1"), "need gamma to be a number, got '1'"),
        (lambda: rk.RRM(gamma=True), "need gamma to be a number, got True"),
        (lambda: rk.RRM(gamma=10**400), "need gamma to be a number"),
        (lambda: rk.RRM(contamination=[0.1, 0.2]), r"contamination in .* to be a number, got \[0.1, 0.2\]"),
        (lambda: rk.RRM(gamma=1.0, mu="x"), "need mu to be a number, got 'x'"),
        (lambda: rk.RRM(gamma=1.0, mu=float("nan")), r"mu in \(0, 1\], got nan"),
        (lambda: rk.RRM(gamma=1.0, spread=["kept"]), "one of 'argmin', 'kept'"),
        (lambda: rk.wasserstein_value(ROW, budget="x"), "need budget to be a number, got 'x'"),
        (lambda: rk.wasserstein_value(ROW, multiplier="x"), "need multiplier to be a number, got 'x'"),
        (lambda: rk.optimality_gap(ROW, [1.0] * 3, threshold=float("nan")), "at least the smallest loss, 0; got nan"),
        (lambda: rk.optimality_gap(ROW, [1.0] * 3, threshold="x"), "need threshold to be a number, got 'x'"),
        (lambda: rk.RRM(gamma=1.0)(ROW, torch.ones(2)), r"shape \(2,\) for 3 losses"),
    ],
)
def test_bad_input_is_answered_with_what_was_wanted_and_what_came(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("bad", [float("nan"), float("-inf")])
def test_undefined_losses_are_counted_and_named(bad: float) -> None:
    losses = torch.zeros(20)
    losses[[3, 5, 7, 9, 11, 13]] = bad
    with pytest.raises(
        ValueError, match=r"6 of 20 losses are NaN or -inf \(rows 3, 5, 7, 9, 11, \.\.\.\).*learning rate"
    ):
        rk.optimal_weights(losses, gamma=1.0)
    with pytest.raises(ValueError, match=r"all 2 losses are \+inf"):
        rk.threshold_for([float("inf")] * 2, 0.5)
