"""What training again gains on held-out rows, and how much of it may be chance."""

import numpy as np
import pytest

from rockafellian.auditing.model.comparison import judge

LABELS = np.array([0, 1] * 50)


def flipped(n: int) -> np.ndarray:
    """The labels with the first n flipped."""
    predicted = LABELS.copy()
    predicted[:n] = 1 - predicted[:n]
    return predicted


def test_chance_comes_from_the_rows_on_which_only_one_of_two_trainings_agrees() -> None:
    found = judge(flipped(20), flipped(4), LABELS)
    assert (found.before, found.after, found.rows) == (0.8, 0.96, 100)
    assert found.chance == pytest.approx(1.645 * 4 / 100)
    assert judge(flipped(20), flipped(20), LABELS).chance == 0


def test_of_several_labels_all_must_agree() -> None:
    labels = np.stack([LABELS, LABELS], 1)
    half = np.stack([LABELS, flipped(10)], 1)
    assert judge(half, labels, labels)[:2] == (0.9, 1.0)


def test_the_comparison_is_one_line_that_says_what_may_be_chance() -> None:
    shown = str(judge(flipped(20), flipped(4), LABELS))
    assert shown.endswith("80.0% before, 96.0% after your decisions (up to 6.6 points may be chance)")
