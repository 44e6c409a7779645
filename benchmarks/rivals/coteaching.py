"""Co-teaching (Han et al., 2018): two networks, each trained on the rows on which the other has the least loss."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import rockafellian as rk
from rivals.outcome import Outcome, timed
from rivals.problem import Problem

RAMP = 10  # epochs until as many rows are left out as are mislabeled
OTHER = 1_000  # added to the seed of the second network


def coteaching(problem: Problem, seed: int) -> Outcome:
    """Return the first of two networks; both are given the true noise rate."""
    models = [problem.network(seed), problem.network(seed + OTHER)]
    (average, last), seconds = timed(lambda: _teach(problem, models, seed))
    flags = torch.zeros(len(last), dtype=torch.bool)
    flags[last.argsort(descending=True)[: round(problem.rate * len(last))]] = True
    return Outcome(models[0], seconds, quality=-average, flags=flags)


def kept_share(epoch: int, rate: float) -> float:
    """Return the fraction of a batch to train on in an epoch, counted from 0."""
    return 1 - rate * min(1.0, epoch / RAMP)


def _teach(problem: Problem, models: list[nn.Module], seed: int) -> tuple[Tensor, Tensor]:
    """Train both; return the mean loss of both for each row: over the run, and in the last epoch."""
    setting, optimizers = problem.setting, [problem.optimizer(model) for model in models]
    random = torch.Generator().manual_seed(seed)
    total, last = torch.zeros(2, len(problem.y)).unbind()
    for epoch in range(setting.epochs):
        share = kept_share(epoch, problem.rate)
        for rows in torch.randperm(len(problem.y), generator=random).split(setting.batch_size):
            x, y = problem.x[rows], problem.y[rows]
            losses = [rk.losses.cce(model(x), y) for model in models]
            kept = [each.detach().argsort()[: max(1, round(share * len(rows)))] for each in losses]
            for own, others, optimizer in zip(losses, reversed(kept), optimizers, strict=True):
                optimizer.zero_grad()
                own[others].mean().backward()
                optimizer.step()
            last[rows] = (losses[0].detach() + losses[1].detach()) / 2
        total += last
    return total / setting.epochs, last
