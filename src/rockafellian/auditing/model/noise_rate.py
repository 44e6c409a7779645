"""How many labels are wrong in few rows, or in rows with several labels: by what networks say of rows they did not see.

`RRM()` holds out a fifth of the rows for that, which of a few hundred is too little to tell. Here each fifth is held
out in turn and a network is trained on the rest for as long as it comes to agree with more of the held labels.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian.auditing.model.classifier import Model
from rockafellian.auditing.model.fitting import choose_loss, new_model, train
from rockafellian.auditing.model.problem import Problem
from rockafellian.method.noise_rate import Estimate, estimate_contamination
from rockafellian.training.history import Epoch
from rockafellian.training.progress import Progress, counting

#: Up to so many rows, networks are trained within seconds and all fifths are asked; of more rows a part of one.
FEW, MOST_HELD = 2_000, 10_000
FOLDS = 5
#: Training goes on for so many epochs, and after the best one for so many.
LEAST, PATIENCE = 5, 3


def estimate_share(problem: Problem, progress: Progress = "quiet") -> Estimate:
    """The share of rows with a wrong label, and an interval."""
    said, targets = _said_of_unseen(problem, progress)
    if not problem.labels.several:
        return estimate_contamination(said, targets)
    # Each label of each row as a question of its own, with the answers 0 and 1; a row is right if all its labels are.
    yes = said.reshape(-1)
    found = estimate_contamination(np.column_stack([1 - yes, yes]), targets.reshape(-1).long())
    return Estimate(*(1 - (1 - share) ** targets.shape[1] for share in found))


@dataclass
class _Listener:
    """The mean of what the network says of held rows, epoch by epoch, and when to stop."""

    model: Model
    inputs: Tensor
    total: Tensor | float = 0.0
    best: tuple[float, int] = field(default=(-1.0, 0))
    epochs: int = 0

    def hear(self, epoch: Epoch) -> None:
        self.total = self.total + self.model.said(self.model.outputs(self.inputs))
        self.epochs = epoch.epoch

    def has_heard_enough(self, epoch: Epoch) -> bool:
        agreement = epoch.valid_accuracy or 0.0
        if agreement > self.best[0]:
            self.best = agreement, epoch.epoch
        return epoch.epoch >= max(LEAST, self.best[1] + PATIENCE)


def _said_of_unseen(problem: Problem, progress: Progress) -> tuple[NDArray[np.float32], Tensor]:
    """Probabilities of the classes for rows that the network was not trained on, and the labels of these rows."""
    n = len(problem.rows)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(problem.settings.seed))
    folds = order.chunk(FOLDS) if n <= FEW else [order[: min(n // FOLDS, MOST_HELD)]]
    said: list[Tensor] = []
    with counting(progress, "how many labels are wrong?") as tell:
        for held in folds:
            tell(len(said), len(folds))
            said.append(_said_of(held, problem))
    return torch.cat(said).numpy(), problem.targets[torch.cat(list(folds))]


def _said_of(held: Tensor, problem: Problem) -> Tensor:
    seen = torch.ones(len(problem.rows), dtype=torch.bool)
    seen[held] = False
    x, y = problem.inputs, problem.targets
    rest = replace(problem, rows=problem.rows[seen.numpy()], inputs=x[seen], targets=y[seen], valid=(x[held], y[held]))
    model = new_model(problem)
    listener = _Listener(model, x[held])
    watch = {"on_epoch": listener.hear, "stop": listener.has_heard_enough, "progress": "quiet"}
    train(rest, model, choose_loss(rest), None, **watch)
    return torch.as_tensor(listener.total) / listener.epochs
