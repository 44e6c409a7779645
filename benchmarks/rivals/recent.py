"""Likelihood ratios of Gaussians, the idea of Adaptive Label Error Detection (ALED), of January 2026.

Z. Chaudhry, N. Rotenberg, B. Caffo, C. Jones and H. Sair, "Adaptive Label Error Detection: A Bayesian Approach to
Mislabeled Data Detection", arXiv:2601.10084; the authors' own code is the module aled of the package statlab. Written
anew, with their settings: ten projections, one random direction in each, and a ratio of 2.

A network is trained on the given labels, up to the epoch with the least loss on rows held out. The values before its
last activation are projected on the difference between the class means and on a random direction. There, each class is
a Gaussian by the minimum covariance determinant, which outliers hardly move. The paper has two classes. With more,
the differences between all class means are used here, so that two classes are as in the paper.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.covariance import MinCovDet
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import rockafellian as rk
from rivals.neighbors import Found, trained_without
from rivals.outcome import Outcome
from rivals.problem import Problem, outputs

PROJECTIONS, RANDOM, RATIO = 10, 1, 2.0
HELD_OUT = 0.2

Floats = NDArray[np.float64]


def gaussians(problem: Problem, seed: int) -> Outcome:
    """Return the network trained without the rows that are far likelier under the Gaussian of another class."""

    def find() -> Found:
        hidden = outputs(stopped_early(problem, seed)[0], problem.x)
        return judged(log_posteriors(hidden.double().numpy(), problem.y.numpy(), seed), problem.y)

    return trained_without(problem, seed, find)


def judged(log_posterior: Tensor, labels: Tensor) -> Found:
    """Return the log-odds of the given label against the best other one, and whether that is likelier by the ratio."""
    own = log_posterior.gather(1, labels[:, None]).squeeze(1)
    other = log_posterior.scatter(1, labels[:, None], -torch.inf).amax(1)
    return own - other, other - own > np.log(RATIO)


def stopped_early(problem: Problem, seed: int) -> nn.Sequential:
    """Return a network trained on four fifths of the rows, of the epoch with the least loss on the others."""
    rows = np.arange(len(problem.y))
    train, rest = (torch.from_numpy(part) for part in train_test_split(rows, test_size=HELD_OUT, random_state=seed))
    model, losses, states = problem.network(seed), [], []

    def keep(epoch: rk.Epoch) -> None:
        losses.append(float(rk.losses.cce(outputs(model, problem.x[rest]), problem.y[rest]).mean()))
        states.append(copy.deepcopy(model.state_dict()))

    problem.train(model, rk.losses.cce, seed, rows=train, on_epoch=keep)
    model.load_state_dict(states[int(np.argmin(losses))])
    assert isinstance(model, nn.Sequential)
    return model


def log_posteriors(features: Floats, labels: NDArray[np.int64], seed: int) -> Tensor:
    """Return log-probabilities (rows, classes) up to a constant per row; likelihoods are means over projections."""
    random, classes = np.random.default_rng(seed), np.arange(labels.max() + 1)
    means = np.stack([features[labels == label].mean(0) for label in classes])
    differences = (means[1:] - means[0]).T
    parts = []
    for _ in range(PROJECTIONS):
        directions = np.hstack([differences, random.standard_normal((features.shape[1], RANDOM))])
        projected = features @ np.linalg.qr(directions)[0]
        parts.append(np.stack([_log_likelihood(projected, labels == label, seed) for label in classes], 1))
    priors = np.bincount(labels) / len(labels)
    return torch.from_numpy(np.stack(parts)).logsumexp(0) + torch.from_numpy(np.log(priors))


def _log_likelihood(projected: Floats, members: NDArray[np.bool_], seed: int) -> Floats:
    """Return the log-density of all rows, up to a constant, under the robust Gaussian of some."""
    robust = MinCovDet(random_state=seed).fit(projected[members])
    found: Floats = -0.5 * (robust.mahalanobis(projected) + np.linalg.slogdet(robust.covariance_)[1])
    return found
