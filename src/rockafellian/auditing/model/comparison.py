"""Two trainings compared on rows that neither was trained on: before and after people's decisions."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from rockafellian.auditing.model.problem import Problem
from rockafellian.auditing.model.rrm_training import new_weights
from rockafellian.auditing.model.training import choose_loss, fit_network, new_classifier
from rockafellian.training.progress import Progress

#: The fraction of the rows that is held out.
HELD_OUT = 0.2


def compare(before: Problem, after: Problem, progress: Progress = "quiet") -> tuple[float, float]:
    """Return the accuracy of both on held-out rows, by the labels after the decisions.

    Where rows may have several labels, it is the fraction of the rows of which all are right.
    """
    common = np.intersect1d(before.rows, after.rows)
    random = np.random.default_rng(after.settings.seed)
    held_out = random.choice(common, round(HELD_OUT * len(common)), replace=False)
    labels = after.labels.given[np.sort(held_out)]
    first, second = (_predict(each, np.sort(held_out), progress) for each in (before, after))
    return _accuracy(first, labels), _accuracy(second, labels)


def _accuracy(predicted: NDArray[np.integer], labels: NDArray[np.integer]) -> float:
    right = predicted == labels
    return float((right if right.ndim == 1 else right.all(1)).mean())


def _predict(problem: Problem, held_out: NDArray[np.int64], progress: Progress) -> NDArray[np.integer]:
    """Train on all other rows, and predict these."""
    out = np.isin(problem.rows, held_out)
    rest = problem.subset(~out)
    model = new_classifier(rest)
    fit_network(rest, model, choose_loss(rest), new_weights(rest, "quiet"), stop="settled", progress=progress)
    probabilities = model.to_probabilities(model.logits(problem.inputs[torch.from_numpy(out)])).numpy()
    return model.decide(probabilities)[0]
