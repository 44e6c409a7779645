"""Confident learning with cleanlab: cross-validate, find label issues, drop them, train again."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from torch import Tensor, nn

import rockafellian as rk
from rivals.outcome import Outcome, timed
from rivals.problem import Problem, outputs

FOLDS = 5


def confident(problem: Problem, seed: int) -> Outcome:
    """Return the network trained again without the issues that cleanlab finds; its time includes all trainings."""
    from cleanlab.count import num_label_issues
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    def clean() -> tuple[nn.Module, dict[str, Any]]:
        labels, probabilities = problem.y.numpy(), out_of_sample_probabilities(problem, seed)
        flags = find_label_issues(labels, probabilities, n_jobs=1)
        found = {
            "flags": torch.from_numpy(flags),
            "quality": torch.from_numpy(get_label_quality_scores(labels, probabilities)),
            "rate": num_label_issues(labels, probabilities) / len(labels),
        }
        model = problem.network(seed)
        problem.train(model, rk.losses.cce, seed, rows=torch.from_numpy(np.flatnonzero(~flags)))
        return model, found

    (model, found), seconds = timed(clean)
    return Outcome(model, seconds, **found)


def out_of_sample_probabilities(problem: Problem, seed: int, folds: int = FOLDS) -> NDArray[np.float64]:
    """Return out-of-sample probabilities (rows, classes), of the epoch whose predictions agree with most labels."""
    splits = StratifiedKFold(folds, shuffle=True, random_state=seed).split(problem.x, problem.y)
    probabilities = torch.zeros(problem.setting.epochs, len(problem.y), problem.n_classes, dtype=torch.float64)
    for train, held_out in splits:
        _fill(problem, seed, torch.from_numpy(train), torch.from_numpy(held_out), probabilities)
    right = (probabilities.argmax(2) == problem.y).sum(1)
    best: NDArray[np.float64] = probabilities[right.argmax()].numpy()
    return best


def _fill(problem: Problem, seed: int, train: Tensor, held_out: Tensor, probabilities: Tensor) -> None:
    model = problem.network(seed)

    def keep(epoch: rk.Epoch) -> None:
        probabilities[epoch.epoch - 1, held_out] = outputs(model, problem.x[held_out]).double().softmax(1)

    problem.train(model, rk.losses.cce, seed, rows=train, on_epoch=keep)
