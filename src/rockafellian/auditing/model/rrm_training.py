"""Training with RRM: the noise rate, the weights, and a last pass over every row."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian.auditing.model.classifier import Classifier
from rockafellian.auditing.model.noise_rate import MAX_ROWS_TO_FOLD, estimate_noise_rate
from rockafellian.auditing.model.problem import Problem
from rockafellian.auditing.model.training import choose_loss, fit_network, new_classifier
from rockafellian.method.reweight import RRM
from rockafellian.training.data import Rows
from rockafellian.training.evaluation import Loss, eval_pass
from rockafellian.training.history import History
from rockafellian.training.progress import Progress
from rockafellian.weights.sample_weights import SampleWeights


class Trained(NamedTuple):
    """A trained classifier, the weights and losses of the labeled rows, and the probabilities of all rows."""

    model: Classifier
    weights: SampleWeights
    history: History
    losses: NDArray[np.float32]
    probabilities: NDArray[np.float32]


def train(
    problem: Problem, *, checkpoint: Path | None = None, resume: bool = False, progress: Progress = "auto"
) -> Trained:
    """Train with RRM, and re-weight once more by the losses after training.

    Args:
        problem: the data and settings.
        checkpoint: a folder; a run that is killed then loses one epoch at most.
        resume: whether to resume from the checkpoint.
        progress: as in `fit`.
    """
    weights = new_weights(problem, progress)
    model, loss = new_classifier(problem), choose_loss(problem)
    history = fit_network(
        problem, model, loss, weights, stop="settled", checkpoint=checkpoint, resume=resume, progress=progress
    )
    losses, logits = _evaluate(problem, model, loss, weights)
    _reweight(weights, losses, history)
    return Trained(model, weights, history, losses.numpy(), _probabilities(problem, model, logits))


def new_weights(problem: Problem, progress: Progress) -> SampleWeights:
    """Return weights with the noise rate that is set, or estimated before training, or estimated by RRM in training."""
    n, settings, trusted, review = len(problem.rows), problem.settings, problem.trusted, problem.review
    if review and review.noise_rate:  # a person has distinguished errors from ambiguous rows
        rule = RRM(crisp=True)
        return SampleWeights(n, rule, trusted=trusted, estimate=review.noise_rate, warmup=review.warmup)
    if settings.contamination != "auto":
        return SampleWeights(n, RRM(contamination=settings.contamination), trusted=trusted)
    rule = RRM(crisp=problem.crisp)
    if problem.labels.multilabel or n <= MAX_ROWS_TO_FOLD:
        return SampleWeights(n, rule, trusted=trusted, estimate=estimate_noise_rate(problem, progress))
    return SampleWeights(n, rule, trusted=trusted, seed=settings.seed)


def _evaluate(problem: Problem, model: Classifier, loss: Loss, weights: SampleWeights) -> tuple[Tensor, Tensor]:
    """The losses and logits of all labeled rows after training; the weights remember them too."""
    rows = Rows((problem.inputs, problem.targets), device=problem.settings.torch_device())
    parts = []
    for index, losses, logits, y in eval_pass(model.network, rows, torch.arange(len(rows)), loss):
        evidence = {} if problem.labels.multilabel else {"logits": logits, "labels": y}
        weights.remember(losses, index, **evidence)
        parts.append((losses.cpu(), logits.cpu()))
    all_losses, all_logits = (torch.cat(part) for part in zip(*parts, strict=True))
    return all_losses, all_logits


def _reweight(weights: SampleWeights, losses: Tensor, history: History) -> None:
    start = time.perf_counter()
    if weights.step(losses):
        seconds = time.perf_counter() - start
        made = replace(weights.history[-1], epoch=len(history.epochs), seconds=seconds, rule_seconds=seconds)
        history.rounds.append(made)


def _probabilities(problem: Problem, model: Classifier, logits: Tensor) -> NDArray[np.float32]:
    """Probabilities (rows, classes) for every row of the source; rows without a label were not evaluated before."""
    labeled = model.to_probabilities(logits).numpy()
    if problem.labels.known.all():
        return labeled
    probabilities = np.zeros((len(problem.source), logits.shape[1]), np.float32)
    probabilities[problem.rows] = labeled
    others = np.flatnonzero(~problem.labels.known)
    probabilities[others] = model.probabilities(problem.source.take(others))
    return probabilities
