"""How many labels are wrong in few rows, or in rows with several labels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from samples import table

from rockafellian.auditing.data.settings import Settings
from rockafellian.auditing.model.noise_rate import FEW, _said_of_unseen, estimate_share
from rockafellian.auditing.model.problem import Problem, prepare


def problem(share: float, n: int = 400, seed: int = 0) -> Problem:
    return prepare(table(n, share, seed)[0], Settings(label=("label",), epochs=12, seed=seed))


@pytest.mark.parametrize("share", [0.1, 0.2, 0.3])
def test_the_share_of_wrong_labels_is_found_in_few_rows(share: float) -> None:
    found = estimate_share(problem(share))
    assert abs(found.rate - share) < 0.06
    assert 0 <= found.low <= found.rate <= found.high < 0.5
    assert found.low - 0.02 <= share <= found.high + 0.02


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert estimate_share(problem(0.0)).rate < 0.02


def test_equal_seeds_give_equal_estimates_and_leave_random_numbers_alone() -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = (estimate_share(problem(0.2, 200)) for _ in range(2))
    assert first == second
    assert torch.equal(before[0], torch.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002


def test_every_row_is_asked_once_if_they_are_few() -> None:
    made = problem(0.2, 101)
    said, targets = _said_of_unseen(made, "quiet")
    assert said.shape == (101, 2)
    np.testing.assert_allclose(said.sum(1), 1, atol=1e-5)
    assert targets.bincount().tolist() == made.targets.bincount().tolist()


def test_of_many_rows_with_several_labels_only_a_part_is_held() -> None:
    n, random = FEW + 500, np.random.default_rng(0)
    has = random.random((n, 2)) < 0.5
    frame = pd.DataFrame({"x": 3 * has[:, 0] + random.normal(size=n), "p": has[:, 0] * 1, "q": has[:, 1] * 1})
    said, targets = _said_of_unseen(prepare(frame, Settings(label=("p", "q"), epochs=10)), "quiet")
    assert said.shape == targets.shape == (n // 5, 2)
