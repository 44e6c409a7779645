"""Confident learning as users of cleanlab do it: cross-validate, find issues, drop them, train again."""

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
    """The network trained again without what cleanlab, with its defaults, finds; the time counts all trainings."""
    from cleanlab.count import num_label_issues
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    def clean() -> tuple[nn.Module, dict[str, Any]]:
        labels, chances = problem.y.numpy(), held_out_chances(problem, seed)
        flags = find_label_issues(labels, chances, n_jobs=1)
        found = {
            "flags": torch.from_numpy(flags),
            "quality": torch.from_numpy(get_label_quality_scores(labels, chances)),
            "rate": num_label_issues(labels, chances) / len(labels),
        }
        model = problem.network(seed)
        problem.train(model, rk.losses.cce, seed, rows=torch.from_numpy(np.flatnonzero(~flags)))
        return model, found

    (model, found), seconds = timed(clean)
    return Outcome(model, seconds, **found)


def held_out_chances(problem: Problem, seed: int) -> NDArray[np.float64]:
    """The chance of each class for each row from networks that were not trained on it.

    They are those of the epoch at which most rows get the label that was given.
    """
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(problem.x, problem.y)
    chances = torch.zeros(problem.setting.epochs, len(problem.y), problem.n_classes, dtype=torch.float64)
    for train, held_out in folds:
        _fill(problem, seed, torch.from_numpy(train), torch.from_numpy(held_out), chances)
    right = (chances.argmax(2) == problem.y).sum(1)
    best: NDArray[np.float64] = chances[right.argmax()].numpy()
    return best


def _fill(problem: Problem, seed: int, train: Tensor, held_out: Tensor, chances: Tensor) -> None:
    model = problem.network(seed)

    def keep(epoch: rk.Epoch) -> None:
        chances[epoch.epoch - 1, held_out] = outputs(model, problem.x[held_out]).double().softmax(1)

    problem.train(model, rk.losses.cce, seed, rows=train, on_epoch=keep)
