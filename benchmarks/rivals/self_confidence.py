"""Self-confidence on two halves: each is predicted by a network trained on the other."""

from __future__ import annotations

import torch
from torch import Tensor

from rivals.confident import out_of_sample_probabilities
from rivals.neighbors import Found, trained_without
from rivals.outcome import Outcome
from rivals.problem import Problem


def self_confidence(problem: Problem, seed: int) -> Outcome:
    """Return the network trained without the rows whose label the other half's network finds unlikely."""

    def find() -> Found:
        return judged(torch.from_numpy(out_of_sample_probabilities(problem, seed, folds=2)), problem.y)

    return trained_without(problem, seed, find)


def judged(probabilities: Tensor, labels: Tensor) -> Found:
    """Return the probability of the given label, and the flags.

    Flagged is a row with another predicted label whose probability is below the mean of the rows with its label.
    """
    confidence = probabilities.gather(1, labels[:, None]).squeeze(1)
    n_classes = probabilities.shape[1]
    total = torch.zeros(n_classes, dtype=confidence.dtype).index_add(0, labels, confidence)
    mean = total / labels.bincount(minlength=n_classes).clamp(min=1)
    return confidence, (confidence < mean[labels]) & (probabilities.argmax(1) != labels)
