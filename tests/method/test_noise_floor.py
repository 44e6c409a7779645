from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from test_noise_rate import simulate

import rockafellian as rk
from rockafellian.method.out_of_sample import OutOfSample, confidence_rank

SEEDS = st.integers(0, 999)


def rating(n_classes: int, n: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Labels drawn from the very probabilities of a model: nothing is wrong, and half of them disagree."""
    random = np.random.default_rng(seed)
    middle = random.uniform(0, n_classes, n)[:, None]
    p = np.exp(-((np.arange(n_classes) + 0.5 - middle) ** 2) / 1.5)
    p /= p.sum(1, keepdims=True)
    return p, (p.cumsum(1) > random.random((n, 1))).argmax(1)


def mislabeled(labels: NDArray[np.intp], n_classes: int, rate: float, seed: int) -> tuple[NDArray[np.intp], float]:
    random = np.random.default_rng(seed)
    wrong = random.random(len(labels)) < rate
    other = (labels + random.integers(1, n_classes, len(labels))) % n_classes
    return np.where(wrong, other, labels), float(wrong.mean())


@pytest.mark.parametrize("n_classes", [3, 5, 10])
@settings(max_examples=3)
@given(seed=SEEDS)
def test_ambiguity_is_not_taken_for_errors_by_the_floor_but_by_the_ceiling(n_classes: int, seed: int) -> None:
    p, labels = rating(n_classes, 3_000, seed)
    found = rk.estimate_noise_rate(p, labels)
    assert (p.argmax(1) != labels).mean() > 0.3
    assert found.floor.low <= 0.02
    assert found.floor.rate <= 0.06
    assert found.ceiling.rate > 0.15
    assert found.fraction_to_remove(0.4, crisp=False) <= 0.02


@pytest.mark.parametrize(
    ("n_classes", "skill", "most"), [(2, 1.0, 0.03), (3, 1.5, 0.03), (10, 1.5, 0.06), (10, 2.0, 0.03)]
)
@settings(max_examples=3)
@given(seed=SEEDS)
def test_errors_of_a_weak_model_are_hardly_taken_for_errors_by_the_floor(
    n_classes: int, skill: float, most: float, seed: int
) -> None:
    draw = simulate(n_classes, skill, "uniform", 0.0, seed)
    assert rk.estimate_noise_rate(draw.probabilities, draw.labels).floor.low <= most


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.9, 0.1), (0.57, 0.31, 0.12), (0.3, 0.25, 0.2, 0.15, 0.1)])
@settings(max_examples=3)
@given(seed=SEEDS)
def test_a_model_that_predicts_only_the_most_frequent_label_is_sure_of_no_error(
    shares: tuple[float, ...], seed: int
) -> None:
    """A rare class is ranked last everywhere, although all its labels are right."""
    random, n = np.random.default_rng(seed), 3_000
    labels = random.choice(len(shares), n, p=shares)
    p = np.array(shares) * np.exp(0.1 * random.normal(size=(n, len(shares))))
    found = rk.estimate_noise_rate(p / p.sum(1, keepdims=True), labels)
    assert found.floor.low == 0
    assert found.floor.rate > 0.03
    assert "too weak a model" in found.verdict


def test_a_model_with_skill_is_sure_of_random_errors_though_classes_are_unbalanced() -> None:
    draw = simulate(3, 4.0, "uniform", 0.2, 0)
    kept = np.flatnonzero((draw.labels != 0) | (np.arange(len(draw.labels)) % 4 == 0))
    found = rk.estimate_noise_rate(draw.probabilities[kept], draw.labels[kept])
    assert 0.1 < found.floor.low < 0.25


@pytest.mark.parametrize("n_classes", [3, 5, 10])
@settings(max_examples=3)
@given(rate=st.floats(0, 0.5), seed=SEEDS)
def test_random_errors_in_ambiguous_labels_are_counted_by_the_floor(n_classes: int, rate: float, seed: int) -> None:
    p, labels = rating(n_classes, 4_000, seed)
    given_labels, wrong = mislabeled(labels, n_classes, rate, seed + 1)
    assert rk.estimate_noise_rate(p, given_labels).floor.rate == pytest.approx(wrong, abs=0.16)


@pytest.mark.parametrize(
    ("n_classes", "skill", "near"),
    [(2, 2.5, 0.05), (3, 2.5, 0.05), (10, 2.5, 0.05), (10, 4.0, 0.05), (100, 4.0, 0.12)],  # 40 rows of each of 100
)
@settings(max_examples=3)
@given(rate=st.floats(0, 0.4), seed=SEEDS)
def test_the_floor_of_random_errors_is_near_the_rate(
    n_classes: int, skill: float, near: float, rate: float, seed: int
) -> None:
    draw = simulate(n_classes, skill, "uniform", rate, seed)
    found = rk.estimate_noise_rate(draw.probabilities, draw.labels)
    assert found.floor.rate == pytest.approx(draw.wrong, abs=near)
    assert found.floor.low < found.floor.high
    assert found.floor.rate <= found.ceiling.rate


@settings(max_examples=4)
@given(st.sampled_from([3, 10]), st.floats(0.1, 0.4), SEEDS)
def test_the_floor_of_what_people_confuse_is_a_lower_bound(n_classes: int, rate: float, seed: int) -> None:
    draw = simulate(n_classes, 2.5, "human", rate, seed)
    found = rk.estimate_noise_rate(draw.probabilities, draw.labels)
    assert found.floor.low <= draw.wrong


def test_the_floor_does_not_depend_on_the_order_of_rows_and_classes() -> None:
    draw, random = simulate(10, 2.5, "uniform", 0.2), np.random.default_rng(5)
    rows, classes = random.permutation(len(draw.labels)), random.permutation(10)
    expected = pytest.approx(rk.estimate_noise_rate(draw.probabilities, draw.labels).floor, abs=1e-6)
    assert rk.estimate_noise_rate(draw.probabilities[rows], draw.labels[rows]).floor == expected
    assert rk.estimate_noise_rate(draw.probabilities[:, classes], classes.argsort()[draw.labels]).floor == expected


def test_a_label_among_equals_stands_at_each_of_their_ranks_in_part() -> None:
    p = np.array([[0.6, 0.4, 0.0, 0.0, 0.0]] * 4)
    found = OutOfSample.of(p, np.array([0, 1, 2, 4]))
    assert found.disagree.tolist() == [False, True, True, True]
    assert found.second.tolist() == [0, 1, 0, 0]
    assert found.share_from(1).tolist() == [0, 1, 1, 1]
    np.testing.assert_allclose(found.share_from(2), [0, 0, 1, 1])
    np.testing.assert_allclose(found.share_from(4), [0, 0, 1 / 3, 1 / 3])


def test_equally_confident_rows_share_a_rank() -> None:
    found = OutOfSample.of(np.array([[0.9, 0.1], [0.8, 0.2], [0.8, 0.2], [0.6, 0.4]]), np.zeros(4, int))
    np.testing.assert_allclose(confidence_rank(found, np.ones(4)), [0.125, 0.5, 0.5, 0.875])


@pytest.mark.parametrize(
    ("floor", "ceiling", "verdict"),
    [
        (
            (0, 0, 0.004),
            (0, 0, 0.006),
            "no errors to be seen; up to 0.6 % of the labels may be wrong, more where the model is unsure",
        ),
        ((0.2, 0.18, 0.22), (0.21, 0.2, 0.23), "about 20 % of the labels are wrong (18 % to 23 %)"),
        (
            (0.18, 0.16, 0.2),
            (0.49, 0.45, 0.5),
            "errors of at least 18 % (16 % to 20 %); up to 49 % if every row has one right answer",
        ),
        (
            (0.09, 0, 0.23),
            (0.1, 0, 0.25),
            "too few rows or too weak a model to tell: 0.0 % to 23 % of the labels are wrong, up to 25 % if every row "
            "has one right answer",
        ),
    ],
)
def test_the_verdict_says_what_is_known(floor: tuple[float, ...], ceiling: tuple[float, ...], verdict: str) -> None:
    assert rk.NoiseRate(rk.Estimate(*floor), rk.Estimate(*ceiling)).verdict == verdict


def test_crisp_labels_are_removed_up_to_the_ceiling_and_others_by_what_the_floor_is_sure_of() -> None:
    found = rk.NoiseRate(rk.Estimate(0.1, 0.08, 0.12), rk.Estimate(0.3, 0.25, 0.35))
    assert [found.fraction_to_remove(rate, crisp=False) for rate in (0.0, 0.3, 0.9)] == [0.08] * 3
    assert [found.fraction_to_remove(rate, crisp=True) for rate in (0.0, 0.3, 0.9)] == [0.25, 0.3, 0.35]
    clean = rk.NoiseRate(rk.Estimate(0.0, 0.0, 0.01), rk.Estimate(0.0, 0.0, 0.02))
    assert clean.fraction_to_remove(0.3, crisp=True) == 0
    hardly = rk.NoiseRate(rk.Estimate(0.002, 0.0, 0.01), rk.Estimate(0.002, 0.0, 0.02))
    assert hardly.fraction_to_remove(0.3, crisp=True) == 0


def test_with_few_rows_a_large_rate_is_removed_from_crisp_labels_although_none_would_be_possible() -> None:
    few = rk.NoiseRate(rk.Estimate(0.12, 0.0, 0.23), rk.Estimate(0.12, 0.0, 0.23))
    assert [few.fraction_to_remove(rate, crisp=True) for rate in (0.0, 0.3)] == [0.12, 0.12]
    assert few.fraction_to_remove(0.3, crisp=False) == 0
    small = rk.NoiseRate(rk.Estimate(0.04, 0.0, 0.08), rk.Estimate(0.04, 0.0, 0.08))
    assert small.fraction_to_remove(0.3, crisp=True) == 0


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_wrong_labels_do_not_lower_the_skill_of_a_model(rate: float) -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 10, 4_000)
    given, _ = mislabeled(labels, 10, rate, seed=0)
    strong = np.full((4_000, 10), 0.01)
    strong[np.arange(4_000), labels] = random.uniform(0.5, 0.91, 4_000)
    weak = np.where(random.random((4_000, 1)) < 0.3, strong, random.dirichlet(np.ones(10), 4_000))
    nothing = random.dirichlet(np.ones(10), 4_000)
    skills = [rk.estimate_noise_rate(p / p.sum(1, keepdims=True), given).skill for p in (strong, weak, nothing)]
    assert skills[0] > 0.9
    assert 0.1 < skills[1] < 0.5
    assert skills[2] == 0
