"""The noise rate of few rows, and of rows with several labels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from samples import table

from rockafellian.auditing.data.settings import Settings
from rockafellian.auditing.model.noise_rate import MAX_ROWS_TO_FOLD, _predict_out_of_sample, estimate_noise_rate
from rockafellian.auditing.model.problem import Problem, prepare


def problem(rate: float, n: int = 400, seed: int = 0) -> Problem:
    return prepare(table(n, rate, seed)[0], Settings(label=("label",), epochs=12, seed=seed))


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.3])
def test_the_noise_rate_of_few_rows_is_found(rate: float) -> None:
    found = estimate_noise_rate(problem(rate)).ceiling
    assert abs(found.rate - rate) < 0.06
    assert 0 <= found.low <= found.rate <= found.high < 0.5
    assert found.low - 0.02 <= rate <= found.high + 0.02


def test_the_noise_rate_of_clean_rows_is_near_zero() -> None:
    assert estimate_noise_rate(problem(0.0)).ceiling.rate < 0.02


def test_equal_seeds_give_equal_estimates_and_leave_random_numbers_alone() -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = (estimate_noise_rate(problem(0.2, 200)) for _ in range(2))
    assert first == second
    assert torch.equal(before[0], torch.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002


def test_every_one_of_few_rows_is_predicted_once() -> None:
    made = problem(0.2, 101)
    predicted, targets = _predict_out_of_sample(made, "quiet")
    assert predicted.shape == (101, 2)
    np.testing.assert_allclose(predicted.sum(1), 1, atol=1e-5)
    assert targets.bincount().tolist() == made.targets.bincount().tolist()


def test_of_many_rows_with_several_labels_only_a_part_is_held_out() -> None:
    n, random = MAX_ROWS_TO_FOLD + 500, np.random.default_rng(0)
    has = random.random((n, 2)) < 0.5
    frame = pd.DataFrame({"x": 3 * has[:, 0] + random.normal(size=n), "p": has[:, 0] * 1, "q": has[:, 1] * 1})
    predicted, targets = _predict_out_of_sample(prepare(frame, Settings(label=("p", "q"), epochs=10)), "quiet")
    assert predicted.shape == targets.shape == (n // 5, 2)
