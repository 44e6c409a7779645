"""Votes of nearest neighbors, the idea of SimiFeat: no network is trained to find the wrong labels.

Z. Zhu, Z. Dong and Y. Liu, "Detecting Corrupted Labels Without Training a Model to Predict", ICML 2022. Written from
the paper's description. The paper repeats its vote on augmented images; inputs here are fixed, so there is one vote.
Its other variant, which flags the worst rows of each class by an estimated noise rate, is left out.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

import rockafellian as rk
from rivals.outcome import Outcome, timed
from rivals.problem import Problem

K = 10
BLOCK = 1024  # rows that are compared with all others at once

#: Quality and flags of all rows.
Found = tuple[Tensor, Tensor]


def neighbors(problem: Problem, seed: int) -> Outcome:
    """Return the network trained without the rows that their neighbors vote against."""
    return trained_without(problem, seed, lambda: judged(votes(problem.x, problem.y, problem.n_classes), problem.y))


def trained_without(problem: Problem, seed: int, find: Callable[[], Found]) -> Outcome:
    """Return the network trained without the flagged rows; its time includes finding them."""
    model = problem.network(seed)

    def clean() -> Found:
        quality, flags = find()
        problem.train(model, rk.losses.cce, seed, rows=(~flags).nonzero().flatten())
        return quality, flags

    (quality, flags), seconds = timed(clean)
    return Outcome(model, seconds, quality, flags, rate=float(flags.double().mean()))


def judged(shares: Tensor, labels: Tensor) -> Found:
    """Return the cosine between votes and given label, and whether another label has more votes than that."""
    own = shares.gather(1, labels[:, None]).squeeze(1)
    return own / shares.norm(dim=1), shares.amax(1) > own


def votes(x: Tensor, labels: Tensor, n_classes: int, k: int = K) -> Tensor:
    """Return the share of each label (rows, classes) among the k other rows with the greatest cosine."""
    directions, given = normalize(x.flatten(1)), one_hot(labels, n_classes).double()
    parts = []
    for rows in torch.arange(len(x)).split(BLOCK):
        cosines = directions[rows] @ directions.T
        cosines[torch.arange(len(rows)), rows] = -torch.inf  # no row votes for itself
        parts.append(given[cosines.topk(min(k, len(x) - 1)).indices].mean(1))
    return torch.cat(parts)
