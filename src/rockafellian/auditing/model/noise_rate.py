"""The noise rate of few rows, or of rows with several labels, from out-of-sample predictions.

`RRM()` holds out a part of the rows during training, which is too few if there are a few hundred. Here each fifth is
held out in turn, and a network is trained on the rest until its agreement with the held-out labels stops rising.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian.auditing.model.classifier import Classifier
from rockafellian.auditing.model.problem import Problem
from rockafellian.auditing.model.training import choose_loss, fit_network, new_classifier
from rockafellian.method import noise_rate
from rockafellian.method.noise_rate import NoiseRate
from rockafellian.method.out_of_sample import Estimate
from rockafellian.training.history import Epoch
from rockafellian.training.progress import Progress, counting

#: Up to this number of rows, each fifth is held out in turn; of more rows, one part of at most this size.
MAX_ROWS_TO_FOLD, MAX_HELD_OUT = 2_000, 10_000
FOLDS = 5
#: Training takes this number of epochs at least, and continues for this number after the best one.
MIN_EPOCHS, PATIENCE = 5, 3


def estimate_noise_rate(problem: Problem, progress: Progress = "quiet") -> NoiseRate:
    """Return the estimated fraction of mislabeled rows: floor and ceiling."""
    probabilities, targets = _predict_out_of_sample(problem, progress)
    if not problem.labels.multilabel:
        return noise_rate.estimate_noise_rate(probabilities, targets)
    # Each label of each row is a binary problem of its own; a row is mislabeled if one of its labels is wrong.
    yes = probabilities.reshape(-1)
    found = noise_rate.estimate_noise_rate(np.column_stack([1 - yes, yes]), targets.reshape(-1).long())
    floor, ceiling = (Estimate(*(1 - (1 - rate) ** targets.shape[1] for rate in end)) for end in found[:2])
    return NoiseRate(floor, ceiling, found.skill)


@dataclass
class _HeldOutPredictions:
    """The probabilities of held-out rows, summed over the epochs, and when to stop training."""

    model: Classifier
    inputs: Tensor
    total: Tensor | float = 0.0
    best: tuple[float, int] = field(default=(-1.0, 0))  # agreement with the held-out labels, and its epoch
    epochs: int = 0

    def add(self, epoch: Epoch) -> None:
        self.total = self.total + self.model.to_probabilities(self.model.logits(self.inputs))
        self.epochs = epoch.epoch

    def should_stop(self, epoch: Epoch) -> bool:
        agreement = epoch.valid_accuracy or 0.0
        if agreement > self.best[0]:
            self.best = agreement, epoch.epoch
        return epoch.epoch >= max(MIN_EPOCHS, self.best[1] + PATIENCE)

    def mean(self) -> Tensor:
        return torch.as_tensor(self.total) / self.epochs


def _predict_out_of_sample(problem: Problem, progress: Progress) -> tuple[NDArray[np.float32], Tensor]:
    """Probabilities of the classes for rows that the network was not trained on, and the labels of these rows."""
    n = len(problem.rows)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(problem.settings.seed))
    folds = order.chunk(FOLDS) if n <= MAX_ROWS_TO_FOLD else [order[: min(n // FOLDS, MAX_HELD_OUT)]]
    predicted: list[Tensor] = []
    with counting(progress, "estimating the noise rate") as on_progress:
        for held_out in folds:
            on_progress(len(predicted), len(folds))
            predicted.append(predict_fold(held_out, problem))
    return torch.cat(predicted).numpy(), problem.targets[torch.cat(list(folds))]


def predict_fold(held_out: Tensor, problem: Problem) -> Tensor:
    """Return the probabilities of the classes for some rows, by a network trained on all others."""
    kept = np.ones(len(problem.rows), bool)
    kept[held_out.numpy()] = False
    valid = problem.inputs[held_out], problem.targets[held_out]
    rest = replace(problem.subset(kept), valid=valid)
    model = new_classifier(problem)
    predictions = _HeldOutPredictions(model, valid[0])
    fit_network(
        rest,
        model,
        choose_loss(rest),
        None,
        on_epoch=predictions.add,
        stop=predictions.should_stop,
        progress="quiet",
    )
    return predictions.mean()
