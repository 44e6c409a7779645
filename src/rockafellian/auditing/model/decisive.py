"""What speaks most for the suggested and against the given label of a row.

The margin between both labels is split among the inputs of the network by integrated gradients (Sundararajan, Taly and
Yan, 2017): the mean slope of the margin on the way from the average row to this one, times the difference of the two.
The parts add up to the difference of their margins.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.modes import eval_mode
from rockafellian.auditing.data.labels import Classes
from rockafellian.auditing.features.decisive import Decisive
from rockafellian.auditing.model.classifier import BATCH_SIZE, Classifier
from rockafellian.auditing.model.problem import Problem

STEPS = 8


def find_decisive(problem: Problem, model: Classifier, rows: NDArray[np.int64], predicted: Classes) -> list[Decisive]:
    """Return what speaks most for the predicted and against the given label of some rows; nothing where they agree.

    Args:
        problem: the data.
        model: the trained classifier.
        rows: indices of rows that have a label.
        predicted: the predicted labels of these rows.
    """
    if problem.inputs.ndim > 2:  # no one pixel decides
        return [Decisive()] * len(rows)
    direction = _one_hot(predicted, problem) - _one_hot(problem.labels.given[rows], problem)
    inputs, average = problem.inputs[np.searchsorted(problem.rows, rows)], problem.inputs.mean(0)
    parts = zip(*(torch.split(each, BATCH_SIZE) for each in (inputs, direction)), strict=True)
    slopes = torch.cat([_mean_slopes(model, part, average, towards) for part, towards in parts])
    content = problem.kind.content(problem.source.take(rows))
    return problem.kind.decisive(model.features, content, slopes, inputs - average)


def _one_hot(classes: Classes, problem: Problem) -> Tensor:
    """By row, 1 for each of its labels."""
    found = torch.from_numpy(np.asarray(classes))
    if not problem.labels.multilabel:
        found = torch.nn.functional.one_hot(found.long(), len(problem.labels.names))
    return found.float()


def _mean_slopes(model: Classifier, inputs: Tensor, start: Tensor, direction: Tensor) -> Tensor:
    """How much the margin rises with each input, on average over the straight way from `start`."""
    device = next(model.network.parameters()).device
    total = torch.zeros_like(inputs)
    with eval_mode(model.network):
        for step in range(STEPS):
            at = (start + (step + 0.5) / STEPS * (inputs - start)).to(device).requires_grad_()
            margin = (model.network(at) * direction.to(device)).sum()
            total += torch.autograd.grad(margin, at)[0].cpu()
    return total / STEPS
