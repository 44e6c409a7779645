"""One cell of a table, trained and measured: what `rockafellian reproduce` records."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import asdict
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from rockafellian._internal.arrays import Array
from rockafellian._internal.comm import LOCAL, Comm
from rockafellian._internal.validation import LossesLike, read_losses
from rockafellian.attacks import FGSM
from rockafellian.losses import ELR, LOSSES, cce
from rockafellian.method.reweight import RRM, RuleResult
from rockafellian.training.fit import fit
from rockafellian.training.history import History
from rockafellian.weights.sample_weights import SampleWeights
from rockafellian_reproduction.machine import machine
from rockafellian_reproduction.tables import Cell, Recipe, Scale, Table, Variant
from rockafellian_reproduction.tables.readings import options
from rockafellian_reproduction.training.batches import ShuffleBuffer, SmallerLastBatch
from rockafellian_reproduction.training.epoch_log import EpochLog
from rockafellian_reproduction.training.measures import MEASURES
from rockafellian_reproduction.training.problems import Problem, make

#: What a record keeps of a re-weighting, and under which name.
ROUND_FIELDS = {name: name for name in ("epoch", "threshold", "precision", "recall", "seconds", "rule_seconds")}
ROUND_FIELDS["removed"] = "removed_fraction"
#: The authors' script clips probabilities to [CLIP, 1 - CLIP] before it takes their logarithm.
CLIP = 1e-7


def train_cell(
    table: Table,
    scale: Scale,
    cell: Cell,
    seed: int,
    *,
    work: Path,
    folder: Path | None = None,
    variant: Variant | None = None,
) -> dict[str, Any]:
    """Train one cell and return its record.

    Args:
        work: the folder of its checkpoint; the same call resumes after an interruption
        folder: a folder with the data, if not the cache
        variant: readings other than the chosen ones
    """
    recipe = table.recipe(scale, variant)
    problem = make(recipe, cell["contamination"], seed, folder)
    torch.manual_seed(seed)
    model = problem.network()
    weights = make_weights(recipe, cell, len(problem.wrong), seed)
    log = EpochLog(work / "epochs.jsonl", recipe, model, problem, weights)
    about = {"table": table.number, "scale": scale, "cell": cell, "seed": seed}
    about |= {"variant": variant} if variant else {}
    about |= _describe(f"rockafellian reproduce {table.number} --scale {scale}{options(variant)}", recipe, problem)
    try:
        history = _fit(recipe, cell, problem, model, weights, seed=seed, work=work, log=log)
    except FloatingPointError as error:
        return {**about, "results": {}, "diverged": str(error), **log.record(), "rounds": [], "seconds": 0.0}
    return {
        **about,
        "results": MEASURES[table.measures](model, problem, history, log),
        **log.record(),
        "validation": [_rounded(epoch.valid_accuracy) for epoch in history.epochs if epoch.valid_accuracy is not None],
        "rounds": [
            {name: _rounded(getattr(made, field)) for name, field in ROUND_FIELDS.items()} for made in history.rounds
        ],
        "seconds": round(sum(epoch.seconds for epoch in history.epochs), 1),
    }


def _describe(command: str, recipe: Recipe, problem: Problem) -> dict[str, Any]:
    """Return what a record says of a training beside its cell and its results."""
    return {
        "command": command,
        "date": date.today().isoformat(),
        "machine": machine(),
        "recipe": asdict(recipe),
        "rows": {
            "train": len(problem.wrong),
            "wrong": int(problem.wrong.sum()),
            "validation": 0 if problem.valid is None else len(problem.valid[1]),
            "test": len(problem.test[1]),
        },
    }


def _fit(
    recipe: Recipe,
    cell: Cell,
    problem: Problem,
    model: nn.Module,
    weights: SampleWeights | None,
    *,
    seed: int,
    work: Path,
    log: EpochLog,
) -> History:
    attack = None if recipe.eps is None else FGSM(recipe.eps)
    loss, as_script = make_loss(recipe, cell, problem), recipe.batches == "script"
    if recipe.unattacked:
        _start_unattacked(recipe, model, problem, seed=seed, work=work)
    return fit(
        model,
        problem.train,
        loss=SmallerLastBatch(loss, recipe.batch_size) if as_script else loss,
        optimizer=make_optimizer(recipe, model, plain=weights is None),
        epochs=recipe.epochs,
        weights=weights,
        attack=attack,
        sampler=ShuffleBuffer(len(problem.wrong)) if as_script else None,
        valid=problem.valid,
        batch_size=recipe.batch_size,
        losses_from="training" if weights is None else recipe.losses_from,
        attack_valid=recipe.attack_valid and attack is not None and problem.valid is not None,
        wrong=problem.wrong,
        seed=seed,
        checkpoint=work,
        resume=True,
        progress="quiet",
        on_epoch=log,
    )


def _start_unattacked(recipe: Recipe, model: nn.Module, problem: Problem, *, seed: int, work: Path) -> None:
    """Train without attack for the first epochs: attacked from the start, a network learns nothing for many epochs."""
    fit(
        model,
        problem.train,
        loss="cce",
        optimizer=make_optimizer(recipe, model, plain=True),
        epochs=recipe.unattacked,
        batch_size=recipe.batch_size,
        seed=seed,
        checkpoint=work / "start",
        resume=True,
        progress="quiet",
    )


def make_weights(recipe: Recipe, cell: Cell, n: int, seed: int = 0) -> SampleWeights | None:
    """Return weights with the recipe's gamma and mu, or with C' = C plus the cell's excess; None for ERM and AT.

    Paper: no class has a limit. With `ours` the library's defaults hold, for labels of which one is right.
    """
    if cell["method"] in ("ERM", "AT"):
        return None
    if recipe.ours:
        return SampleWeights(n, RRM(crisp=True), per_class=recipe.per_class, seed=seed)
    kind, spread = (OneRow, "argmin") if recipe.spread == "one row" else (RRM, recipe.spread)
    if recipe.gamma is not None:
        rule = kind(gamma=recipe.gamma, mu=recipe.mu, spread=spread, penalty="l1")
    else:
        rule = kind(contamination=cell["contamination"] + cell.get("excess", 0.0), spread=spread)
    return SampleWeights(n, rule, class_limit=1, every=recipe.every)


class OneRow(RRM):
    """The rule with a vertex of the linear program: of several rows with the least loss, the first takes all."""

    def __call__(
        self, losses: LossesLike, weights: Array, prior: Array | None = None, comm: Comm = LOCAL
    ) -> RuleResult:
        """Return the next weights and the threshold."""
        c = read_losses(losses, comm=comm)
        values, least = c.values.copy(), np.flatnonzero(c.values == c.c_min)
        values[least[1:]] = np.nextafter(c.c_min, np.inf, dtype=values.dtype)
        return super().__call__(dataclasses.replace(c, values=values), weights, prior)


def make_loss(recipe: Recipe, cell: Cell, problem: Problem) -> Callable[..., Tensor]:
    """Return the loss function; mae and mse are sums over the classes."""
    name = cell.get("loss", "bce" if recipe.network == "comments" else "cce")
    clipped = recipe.reweighted_by == "clipped cce"
    if name == "elr":
        return ReweightedELR(len(problem.wrong), problem.n_classes, beta=recipe.elr_beta, clipped=clipped)
    loss = partial(summed, name=name, n_classes=problem.n_classes) if name in ("mae", "mse") else LOSSES[name]
    return ReweightedByClipped(loss) if clipped else loss


class ReweightedByClipped(nn.Module):
    """A loss for training; in evaluation mode, which gives the losses for re-weighting, the clipped cross-entropy."""

    def __init__(self, loss: Callable[..., Tensor]) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return one loss per row."""
        return self.loss(logits, labels) if self.training else clipped_cce(logits, labels)


class ReweightedELR(ELR):
    """ELR for training; in evaluation mode, which gives the losses for re-weighting, the cross-entropy.

    Paper: not stated. The regularizer reaches 3 * log(1e-4) on some rows, and nearly all others are above c_min + 0.8.
    """

    def __init__(self, n_samples: int, n_classes: int, *, beta: float = 0.7, clipped: bool = False) -> None:
        super().__init__(n_samples, n_classes, beta=beta)
        self.clipped = clipped

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """Return one loss per row."""
        if self.training:
            return super().forward(logits, labels, index)
        return clipped_cce(logits, labels) if self.clipped else cce(logits, labels)


def clipped_cce(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the cross-entropy of probabilities clipped to [1e-7, 1 - 1e-7]; its gradient is that without clipping.

    An attack needs the gradient: clipped, a row that is classified with certainty could not be attacked.
    """
    losses = cce(logits, labels)
    clipped = losses.detach().clamp(-math.log1p(-CLIP), -math.log(CLIP))
    return losses + (clipped - losses.detach())


def summed(logits: Tensor, labels: Tensor, name: str, n_classes: int) -> Tensor:
    """Return |p - onehot| or (p - onehot)^2 summed over the classes.

    Paper: not stated. As means over 3 classes they stay below 2/3, so gamma = 0.4, which removes above c_min + 0.8,
    could remove nothing, and Table 3 prints gains of up to 42 points for MSE.
    """
    losses: Tensor = n_classes * LOSSES[name](logits, labels)
    return losses


def make_optimizer(recipe: Recipe, model: nn.Module, *, plain: bool) -> Optimizer:
    """Return SGD, with Nesterov momentum if the recipe has momentum, or Adam, on the trainable parameters."""
    parts = [part for part in model.parameters() if part.requires_grad]
    rate = recipe.plain_learning_rate if plain and recipe.plain_learning_rate else recipe.learning_rate
    if recipe.optimizer == "adam":
        return Adam(parts, rate)
    heavy = recipe.momentum > 0  # then a step in one pass over the memory saves a fifth of the time of a small network
    return SGD(parts, rate, recipe.momentum, weight_decay=recipe.weight_decay, nesterov=heavy, fused=heavy)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
