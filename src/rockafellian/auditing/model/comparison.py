"""Two trainings compared on rows that neither was trained on: before and after people's decisions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rockafellian.auditing.model.problem import Problem
from rockafellian.auditing.model.rrm_training import new_weights
from rockafellian.auditing.model.training import choose_loss, fit_network, new_classifier
from rockafellian.training.progress import Progress

#: The fraction of the rows that is held out.
HELD_OUT = 0.2
#: How many standard deviations a difference may have by chance: nine of ten have fewer.
Z_SCORE = 1.645


class Compared(NamedTuple):
    """How often two trainings agree with the labels of held-out rows.

    Args:
        before: the fraction of the rows, before the decisions
        after: the same, after them
        rows: how many rows are held out
        chance: how large a difference may be by chance (90 %), from the rows on which only one of the two agrees
    """

    before: float
    after: float
    rows: int
    chance: float

    def __str__(self) -> str:
        return (
            f"agreement with the labels of {self.rows:,} held-out rows: {self.before:.1%} before, {self.after:.1%} "
            f"after your decisions (up to {100 * self.chance:.1f} points may be chance)"
        )


def compare(before: Problem, after: Problem, progress: Progress = "quiet") -> Compared:
    """Return how often both agree with the labels of held-out rows, as these are after the decisions.

    A row that may have several labels counts if all of them agree.
    """
    common = np.intersect1d(before.rows, after.rows)
    random = np.random.default_rng(after.settings.seed)
    held_out = random.choice(common, round(HELD_OUT * len(common)), replace=False)
    labels = after.labels.given[np.sort(held_out)]
    first, second = (_predict(each, np.sort(held_out), progress) for each in (before, after))
    return judge(first, second, labels)


def judge(before: NDArray[np.integer], after: NDArray[np.integer], labels: NDArray[np.integer]) -> Compared:
    """Return how often two predictions agree with the labels, and how much of the difference may be chance."""
    n = len(labels)
    first, second = ((predicted == labels).reshape(n, -1).all(1) for predicted in (before, after))
    chance = Z_SCORE * float(np.sqrt(np.count_nonzero(first != second))) / n
    return Compared(float(first.mean()), float(second.mean()), n, chance)


def _predict(problem: Problem, held_out: NDArray[np.int64], progress: Progress) -> NDArray[np.integer]:
    """Train on all other rows, and predict these."""
    out = np.isin(problem.rows, held_out)
    rest = problem.subset(~out)
    model = new_classifier(rest)
    fit_network(rest, model, choose_loss(rest), new_weights(rest, "quiet"), stop="settled", progress=progress)
    probabilities = model.to_probabilities(model.logits(problem.inputs[torch.from_numpy(out)])).numpy()
    return model.decide(probabilities)[0]
