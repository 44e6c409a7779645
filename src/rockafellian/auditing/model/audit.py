"""The audit itself: train with RRM, look at every row once more, and say of each what was found."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian.auditing.data.labels import Classes
from rockafellian.auditing.model.classifier import Model
from rockafellian.auditing.model.fitting import choose_loss, new_model, train
from rockafellian.auditing.model.noise_rate import FEW, estimate_share
from rockafellian.auditing.model.problem import Problem
from rockafellian.label_issues import Findings, findings
from rockafellian.method.noise_rate import Estimate
from rockafellian.method.reweight import RRM
from rockafellian.training.data import Rows
from rockafellian.training.evaluation import Loss, eval_pass
from rockafellian.training.history import History
from rockafellian.training.progress import Progress
from rockafellian.weights.sample_weights import SampleWeights

TOO_SHORT = "training ended before it could tell how many labels are wrong: nothing is flagged; raise --epochs"


@dataclass(frozen=True, eq=False)
class Audit:
    """What was found. `found` has the rows with a label, in their order; the rest goes by row of the source."""

    problem: Problem
    model: Model
    history: History
    found: Findings
    estimate: Estimate | None
    suggested: Classes  # in the form of the labels given
    probability: NDArray[np.float32]
    losses: NDArray[np.float32]  # of the rows with a label, after training
    threshold: float | None
    notices: list[str]
    seconds: float

    @property
    def flagged(self) -> NDArray[np.bool_]:
        """The rows whose label looks wrong."""
        marked = np.zeros(len(self.problem.source), bool)
        marked[self.problem.rows] = self.found.is_label_issue
        return marked

    @property
    def to_relabel(self) -> NDArray[np.bool_]:
        """Those of them for which the network has another label."""
        differ = (self.suggested != self.problem.labels.given).reshape(len(self.suggested), -1).any(1)
        marked: NDArray[np.bool_] = self.flagged & differ
        return marked


def audit_problem(
    problem: Problem, *, checkpoint: Path | None = None, resume: bool = False, progress: Progress = "auto"
) -> Audit:
    """Train on the problem and look at every row once more; with a checkpoint, a kill costs one epoch."""
    start, labels = time.perf_counter(), problem.labels
    weights = _weights(problem, progress)
    model, loss = new_model(problem), choose_loss(problem)
    history = train(problem, model, loss, weights, checkpoint=checkpoint, resume=resume, progress=progress)
    losses, logits = _last_look(problem, model, loss, weights, history)
    suggested, probability = _suggestions(problem, model, logits)
    found = findings(weights, names=None if labels.several else labels.names)
    found = found[np.argsort(found.number)]
    if labels.several:
        found = _named(found, problem, suggested, probability)
    return Audit(
        problem=problem,
        model=model,
        history=history,
        found=found,
        estimate=weights.estimate,
        suggested=suggested,
        probability=probability,
        losses=losses,
        threshold=weights.history[-1].threshold if weights.history else None,
        notices=problem.notices + ([] if weights.history else [TOO_SHORT]),
        seconds=time.perf_counter() - start,
    )


def _weights(problem: Problem, progress: Progress) -> SampleWeights:
    """By the share told, by one found beforehand where rows are few or have several labels, or by RRM's own way."""
    n, settings, several = len(problem.rows), problem.settings, problem.labels.several
    if settings.contamination != "auto":
        return SampleWeights(n, RRM(contamination=settings.contamination))
    if several or n <= FEW:
        return SampleWeights(n, RRM(), estimate=estimate_share(problem, progress))
    return SampleWeights(n, RRM(), seed=settings.seed)


def _last_look(
    problem: Problem, model: Model, loss: Loss, weights: SampleWeights, history: History
) -> tuple[NDArray[np.float32], Tensor]:
    """The losses and logits of all rows after training, and a last re-weighting by these losses."""
    rows = Rows((problem.inputs, problem.targets), device=problem.settings.where())
    parts = []
    for index, losses, logits, y in eval_pass(model.network, rows, torch.arange(len(rows)), loss):
        evidence = {} if problem.labels.several else {"logits": logits, "labels": y}
        weights.remember(losses, index, **evidence)
        parts.append((losses.cpu(), logits.cpu()))
    all_losses, all_logits = (torch.cat(part) for part in zip(*parts, strict=True))
    start = time.perf_counter()
    if weights.step(all_losses):
        seconds = time.perf_counter() - start
        made = replace(weights.history[-1], epoch=len(history.epochs), seconds=seconds, rule_seconds=seconds)
        history.rounds.append(made)
    return all_losses.numpy(), all_logits


def _suggestions(problem: Problem, model: Model, logits: Tensor) -> tuple[Classes, NDArray[np.float32]]:
    """What the network says of every row of the source, also of those without a label, and how surely."""
    source, rows = problem.source, problem.rows
    said = np.zeros((len(source), logits.shape[1]), np.float32)
    said[rows] = model.said(logits).numpy()
    if len(rows) < len(source):
        others = np.flatnonzero(~problem.labels.known)
        said[others] = model.probabilities(source.take(others))
    return model.decided(said)


def _named(found: Findings, problem: Problem, suggested: Classes, probability: NDArray[np.float32]) -> Findings:
    """Findings of rows with several labels, where each set of labels stands for a class."""
    labels, rows = problem.labels, problem.rows
    both = np.concatenate([labels.written(labels.given[rows]), labels.written(suggested[rows])])
    names, codes = np.unique(both.astype(str), return_inverse=True)
    given, predicted = np.split(codes.astype(np.int32), 2)
    called = np.array([*names.tolist(), None], dtype=object)
    return replace(found, given=given, predicted=predicted, predicted_probability=probability[rows], names=called)
