"""One cell of a table, trained and measured: what `rockafellian reproduce` records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from rockafellian.attacks import FGSM
from rockafellian.losses import ELR, LOSSES, cce
from rockafellian.method.reweight import RRM
from rockafellian.training.fit import fit
from rockafellian.training.history import History
from rockafellian.weights.sample_weights import SampleWeights
from rockafellian_reproduction.machine import machine
from rockafellian_reproduction.tables import Cell, Recipe, Scale, Table
from rockafellian_reproduction.training.epoch_log import EpochLog
from rockafellian_reproduction.training.measures import MEASURES
from rockafellian_reproduction.training.problems import Problem, make

#: What a record keeps of a re-weighting, and under which name.
ROUND_FIELDS = {name: name for name in ("epoch", "threshold", "precision", "recall", "seconds", "rule_seconds")}
ROUND_FIELDS["removed"] = "removed_fraction"


def train_cell(
    table: Table, scale: Scale, cell: Cell, seed: int, *, work: Path, folder: Path | None = None
) -> dict[str, Any]:
    """Train one cell and return its record.

    Args:
        work: the folder of its checkpoint; the same call resumes after an interruption
        folder: a folder with the data, if not the cache
    """
    recipe = table.recipe(scale)
    problem = make(recipe, cell["contamination"], seed, folder)
    torch.manual_seed(seed)
    model = problem.network()
    weights = make_weights(recipe, cell, len(problem.wrong))
    log = EpochLog(work / "epochs.jsonl", recipe, model, problem, weights)
    about = {"table": table.number, "scale": scale, "cell": cell, "seed": seed}
    about |= _describe(table, scale, recipe, problem)
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


def _describe(table: Table, scale: Scale, recipe: Recipe, problem: Problem) -> dict[str, Any]:
    """Return what a record says of a training beside its cell and its results."""
    return {
        "command": f"rockafellian reproduce {table.number} --scale {scale}",
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
    return fit(
        model,
        problem.train,
        loss=make_loss(recipe, cell, problem),
        optimizer=make_optimizer(recipe, model, plain=weights is None),
        epochs=recipe.epochs,
        weights=weights,
        attack=attack,
        valid=problem.valid,
        batch_size=recipe.batch_size,
        losses_from="training" if weights is None else recipe.losses_from,
        attack_valid=attack is not None and problem.valid is not None,
        wrong=problem.wrong,
        seed=seed,
        checkpoint=work,
        resume=True,
        progress="quiet",
        on_epoch=log,
    )


def make_weights(recipe: Recipe, cell: Cell, n: int) -> SampleWeights | None:
    """Return weights with the recipe's gamma and mu, or with C' = C plus the cell's excess; None for ERM and AT.

    Paper: no class has a limit.
    """
    if cell["method"] in ("ERM", "AT"):
        return None
    if recipe.gamma is not None:
        rule = RRM(gamma=recipe.gamma, mu=recipe.mu, spread=recipe.spread, penalty="l1")
    else:
        rate = cell["contamination"] + cell.get("excess", 0.0)
        rule = RRM(contamination=rate, spread=recipe.spread)
    return SampleWeights(n, rule, class_limit=1, every=recipe.every)


def make_loss(recipe: Recipe, cell: Cell, problem: Problem) -> Callable[..., Tensor]:
    """Return the loss function; mae and mse are sums over the classes."""
    name = cell.get("loss", "bce" if recipe.network == "comments" else "cce")
    if name == "elr":
        return ReweightedELR(len(problem.wrong), problem.n_classes)
    return partial(summed, name=name, n_classes=problem.n_classes) if name in ("mae", "mse") else LOSSES[name]


class ReweightedELR(ELR):
    """ELR for training; in evaluation mode, which gives the losses for re-weighting, the cross-entropy.

    Paper: not stated. The regularizer reaches 3 * log(1e-4) on some rows, and nearly all others are above c_min + 0.8.
    """

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """Return one loss per row."""
        return super().forward(logits, labels, index) if self.training else cce(logits, labels)


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
    return SGD(parts, rate, recipe.momentum, weight_decay=recipe.weight_decay, nesterov=recipe.momentum > 0)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
