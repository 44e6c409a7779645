"""The network and the loss that suit a problem, and the defaults of its training."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from rockafellian.attacks import ATTACKS
from rockafellian.auditing.model.classifier import Classifier
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
#: Up to this number of inputs a row, more threads do not help.
MAX_SMALL_INPUTS = 1024
#: The default number of steps, in a number of epochs between these.
N_STEPS, MIN_EPOCHS, MAX_EPOCHS = 1_500, 10, 40


@dataclass(frozen=True)
class SummedOverClasses:
    """A loss that is a mean over the classes, as a sum instead, so that it does not shrink with many classes."""

    name: str

    def __call__(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return one loss per row."""
        losses: Tensor = LOSSES[self.name](logits, labels) * logits.shape[1]
        return losses


class AdamW(torch.optim.AdamW):
    """AdamW without what torch wraps around its methods: the first call would import its compiler, for a second."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))
    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)


def new_classifier(problem: Problem) -> Classifier:
    """Return an untrained classifier that suits the inputs: a small CNN for images, an MLP for rows of numbers."""
    shape, names = problem.inputs.shape[1:], problem.labels.names
    if len(shape) == 1:
        description = {"network": "mlp", "inputs": shape[0], "classes": len(names), "dropout": DROPOUT}
    else:
        description = {"network": "cnn", "channels": shape[0], "side": shape[1], "classes": len(names)}
    with seeded(problem.settings.seed, 0):
        network = build(description)
    return Classifier(problem.kind, problem.features, description, network, names, problem.labels.multilabel)


def choose_loss(problem: Problem) -> Loss:
    """Return the loss that is set, or cross-entropy; binary cross-entropy where rows may have several labels."""
    name = problem.settings.loss or DEFAULT_LOSS
    if problem.labels.multilabel:
        return bce
    if name == "elr":
        return ELR(len(problem.rows), len(problem.labels.names))
    return SummedOverClasses(name) if name in ("mse", "mae") else cast(Loss, LOSSES[name])


def fit_network(
    problem: Problem, model: Classifier, loss: Loss, weights: SampleWeights | None, **options: Any
) -> History:
    """Train the network of the model; `options` go to `fit`."""
    settings, n = problem.settings, len(problem.rows)
    batch_size = min(max(n // 50, 32), 1024)
    epochs = settings.epochs or min(max(N_STEPS * batch_size // n, MIN_EPOCHS), MAX_EPOCHS)
    device = settings.torch_device()
    model.network.to(device)
    chosen = {
        "optimizer": AdamW(model.network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True),
        "attack": None if settings.attack is None else ATTACKS[settings.attack](settings.eps),
        "valid": problem.valid,
        **options,
    }
    with _few_threads(problem.inputs[0].numel()), _divergence_in_one_line():
        return fit(
            model.network,
            (problem.inputs, problem.targets),
            loss=loss,
            epochs=epochs,
            weights=weights,
            batch_size=batch_size,
            device=device,
            seed=settings.seed,
            **chosen,
        )


@contextmanager
def _divergence_in_one_line() -> Iterator[None]:
    """Turn the error of `fit`, whose advice is for those who choose the optimizer, into one for users of an audit."""
    try:
        yield
    except FloatingPointError as error:
        raise FloatingPointError(
            "need finite losses, but training has diverged; lower --eps if there is one, choose another --loss, or "
            "correct extreme values in the data. A run resumed with the same settings diverges again"
        ) from error


@contextmanager
def _few_threads(inputs: int) -> Iterator[None]:
    """Use one thread where rows are small: a second one costs more time than it saves."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if inputs > MAX_SMALL_INPUTS else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
