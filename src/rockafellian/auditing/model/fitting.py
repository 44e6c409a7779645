"""Which network suits a problem, by which loss, and how it is trained unless a user says otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from rockafellian.attacks import ATTACKS
from rockafellian.auditing.model.classifier import Model
from rockafellian.auditing.model.networks import build
from rockafellian.auditing.model.problem import Problem
from rockafellian.losses import ELR, LOSSES, bce
from rockafellian.training.evaluation import Loss
from rockafellian.training.fit import fit
from rockafellian.training.history import History
from rockafellian.training.rng import seeded
from rockafellian.weights.sample_weights import SampleWeights

DEFAULT_LOSS = "cce"
LEARNING_RATE, WEIGHT_DECAY, DROPOUT = 1e-3, 1e-4, 0.2
#: Numbers a row, up to which more threads do not help.
SMALL = 1024
#: How long to train unless told: so many steps, in a number of epochs between these.
STEPS, FEWEST, MOST = 3_000, 15, 40


@dataclass(frozen=True)
class PerClass:
    """A loss that is a mean over the classes, summed instead: its size does not shrink where there are many."""

    name: str

    def __call__(self, logits: Tensor, labels: Tensor) -> Tensor:
        """One loss per row."""
        losses: Tensor = LOSSES[self.name](logits, labels) * logits.shape[1]
        return losses


def new_model(problem: Problem) -> Model:
    """A network that suits the inputs: a small CNN for images, an MLP for rows of numbers."""
    shape, names = problem.inputs.shape[1:], problem.labels.names
    if len(shape) == 1:
        description = {"network": "mlp", "inputs": shape[0], "classes": len(names), "dropout": DROPOUT}
    else:
        description = {"network": "cnn", "channels": shape[0], "side": shape[1], "classes": len(names)}
    with seeded(problem.settings.seed, 0):
        network = build(description)
    return Model(problem.kind, problem.features, description, network, names, problem.labels.several)


def choose_loss(problem: Problem) -> Loss:
    """One loss per row: as told, or cross-entropy; that of each label where rows have several."""
    name = problem.settings.loss or DEFAULT_LOSS
    if problem.labels.several:
        return bce
    if name == "elr":
        return ELR(len(problem.rows), len(problem.labels.names))
    return PerClass(name) if name in ("mse", "mae") else cast(Loss, LOSSES[name])


def train(problem: Problem, model: Model, loss: Loss, weights: SampleWeights | None, **more: Any) -> History:
    """Train the model's network; `more` goes to `fit`."""
    settings, n = problem.settings, len(problem.rows)
    size = min(max(n // 50, 32), 512)
    epochs = settings.epochs or min(max(STEPS * size // n, FEWEST), MOST)
    where = settings.where()
    model.network.to(where)
    with _few_threads(problem.inputs[0].numel()):
        return fit(
            model.network,
            (problem.inputs, problem.targets),
            loss=loss,
            optimizer=torch.optim.AdamW(model.network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY),
            epochs=epochs,
            weights=weights,
            attack=None if settings.attack is None else ATTACKS[settings.attack](settings.eps),
            batch_size=size,
            device=where,
            seed=settings.seed,
            **{"valid": problem.valid, **more},
        )


@contextmanager
def _few_threads(inputs: int) -> Iterator[None]:
    """One thread where rows are small: a second one costs more than it brings, on a busy machine many times over."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if inputs > SMALL else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
