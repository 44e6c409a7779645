"""One cell of a table, trained and measured: what `rockafellian reproduce` records."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from rockafellian._internal.modes import eval_mode
from rockafellian.attacks import FGSM
from rockafellian.losses import ELR, LOSSES, cce
from rockafellian.method.reweight import RRM
from rockafellian.training.batches import Rows
from rockafellian.training.evaluation import SIZE, evaluate
from rockafellian.training.fit import fit
from rockafellian.training.history import Epoch, History
from rockafellian.weights.sample_weights import SampleWeights
from rockafellian_reproduction.machine import machine
from rockafellian_reproduction.tables import Cell, Scale, Table
from rockafellian_reproduction.tables.figures import EPS
from rockafellian_reproduction.tables.recipes import Recipe
from rockafellian_reproduction.training.problems import Problem, make

#: Paper: the authors' public code adds each eps to the one before, so the rows of Tables 4 and 7 may be these.
SUMMED_EPS = (0.0, 0.1, 0.35, 0.85, 1.85)
CURVE_POINTS = 60


def train_cell(
    table: Table, scale: Scale, cell: Cell, seed: int, *, work: Path, folder: Path | None = None
) -> dict[str, Any]:
    """The record of one training. `work` keeps its state, so that the same call goes on after an interruption."""
    recipe = table.recipe(scale)
    problem = make(recipe, cell["contamination"], seed, folder)
    torch.manual_seed(seed)
    model = problem.network()
    weights = make_weights(recipe, cell, len(problem.wrong))
    seen = Seen(work / "epochs.jsonl", recipe, model, problem, weights)
    attack = None if recipe.eps is None else FGSM(recipe.eps)
    about = {
        "table": table.number,
        "scale": scale,
        "cell": cell,
        "seed": seed,
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
    try:
        history = fit(
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
            on_epoch=seen,
        )
    except FloatingPointError as error:
        return {**about, "results": {}, "diverged": str(error), **seen.record(), "rounds": [], "seconds": 0.0}
    return {
        **about,
        "results": MEASURES[table.measures](model, problem, history, seen),
        **seen.record(),
        "validation": [_rounded(epoch.valid_accuracy) for epoch in history.epochs if epoch.valid_accuracy is not None],
        "rounds": [
            {name: _rounded(getattr(made, field)) for name, field in ROUND_FIELDS.items()} for made in history.rounds
        ],
        "seconds": round(sum(epoch.seconds for epoch in history.epochs), 1),
    }


#: What a record keeps of a re-weighting, and under which name.
ROUND_FIELDS = {name: name for name in ("epoch", "threshold", "precision", "recall", "seconds", "rule_seconds")}
ROUND_FIELDS["removed"] = "removed_fraction"


def make_weights(recipe: Recipe, cell: Cell, n: int) -> SampleWeights | None:
    """The rule with the recipe's gamma and mu, or with C' = C plus the cell's excess; None for ERM and AT.

    Paper: no class is protected.
    """
    if cell["method"] in ("ERM", "AT"):
        return None
    if recipe.gamma is not None:
        rule = RRM(gamma=recipe.gamma, mu=recipe.mu, spread=recipe.spread, penalty="l1")
    else:
        share = cell["contamination"] + cell.get("excess", 0.0)
        rule = RRM(contamination=share, spread=recipe.spread)
    return SampleWeights(n, rule, class_limit=1, every=recipe.every)


def make_loss(recipe: Recipe, cell: Cell, problem: Problem) -> Callable[..., Tensor]:
    """The loss of each row; mae and mse as sums over the classes."""
    name = cell.get("loss", "bce" if recipe.network == "comments" else "cce")
    if name == "elr":
        return WeighedELR(len(problem.wrong), problem.n_classes)
    return partial(summed, name=name, n_classes=problem.n_classes) if name in ("mae", "mse") else LOSSES[name]


class WeighedELR(ELR):
    """ELR to train with; rows are weighed by their cross-entropy, which is what evaluation mode gives.

    Paper: not said. The regulariser reaches 3 * log(1e-4) on some rows, and nearly all others lie above c_min + 0.8.
    """

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """One loss per row."""
        return super().forward(logits, labels, index) if self.training else cce(logits, labels)


def summed(logits: Tensor, labels: Tensor, name: str, n_classes: int) -> Tensor:
    """|p - onehot| or (p - onehot)^2 summed over the classes.

    Paper: not said. As means over 3 classes they stay below 2/3, so that gamma = 0.4, which removes above c_min + 0.8,
    could remove nothing, and Table 3 prints gains of up to 42 points for MSE.
    """
    losses: Tensor = n_classes * LOSSES[name](logits, labels)
    return losses


def make_optimizer(recipe: Recipe, model: nn.Module, *, plain: bool) -> Optimizer:
    """SGD, with Nesterov's momentum where there is one, or Adam; on what is trainable."""
    parts = [part for part in model.parameters() if part.requires_grad]
    rate = recipe.plain_learning_rate if plain and recipe.plain_learning_rate else recipe.learning_rate
    if recipe.optimizer == "adam":
        return Adam(parts, rate)
    return SGD(parts, rate, recipe.momentum, weight_decay=recipe.weight_decay, nesterov=recipe.momentum > 0)


class Seen:
    """What is looked at after each epoch: accuracy on the test rows and where the weights are. Kept in a file."""

    def __init__(
        self, path: Path, recipe: Recipe, model: nn.Module, problem: Problem, weights: SampleWeights | None
    ) -> None:
        self.path, self.recipe, self.model, self.problem, self.weights = path, recipe, model, problem, weights

    def __call__(self, epoch: Epoch) -> None:
        """Note this epoch; one that was interrupted after its note comes again and takes its place."""
        note: dict[str, Any] = {"epoch": epoch.epoch}
        every, last = self.recipe.tested_every, epoch.epoch == self.recipe.epochs
        if every is not None and (last or epoch.epoch % every == 0):
            note["accuracy"] = accuracy(self.model, self.problem.test)
        if self.weights is not None and epoch.epoch > 1 and (epoch.epoch - 1) % self.recipe.every == 0:
            note["bins"] = count_bins(self.weights.values, self.problem.wrong)
        if len(note) > 1:
            with self.path.open("a") as file:
                file.write(json.dumps(note) + "\n")

    def record(self) -> dict[str, Any]:
        """Accuracies by epoch, and the rows in each bin of Table 5 by re-weighting."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        predictions = {note["epoch"]: note for note in map(json.loads, lines)}
        ordered = [predictions[epoch] for epoch in sorted(predictions)]
        return {
            "tested": {str(note["epoch"]): note["accuracy"] for note in ordered if "accuracy" in note},
            "bins": [note["bins"] for note in ordered if "bins" in note],
        }


def count_bins(values: Tensor, wrong: Tensor) -> list[list[int]]:
    """How many wrong rows, and how many clean ones, lie in each bin of Table 5, by u_i = (weight - 1) / N."""
    u = values.cpu().double() - 1
    edges = torch.tensor([-0.75, -0.5, -0.25, -1e-3, 1e-3], dtype=torch.float64)
    # "About 0" is the paper's word: within a thousandth of 1/N here. What argmin adds by ties is "well above".
    bins = 5 - torch.bucketize(u, edges)
    return [torch.bincount(bins[part], minlength=6).tolist() for part in (wrong, ~wrong)]


def accuracy(model: nn.Module, test: tuple[Tensor, Tensor], eps: float = 0.0) -> float:
    """Per cent of the test rows that are right, attacked by FGSM or as they are."""
    found = evaluate(model, test, loss=cce, attack=FGSM(eps) if eps else None).accuracy
    assert found is not None
    return round(100 * found, 3)


def measure_last(model: nn.Module, problem: Problem, history: History, seen: Seen) -> dict[str, Any]:
    """Accuracy after the last epoch."""
    return {"test accuracy": accuracy(model, problem.test)}


def measure_eps(model: nn.Module, problem: Problem, history: History, seen: Seen) -> dict[str, Any]:
    """Accuracy under attack by every eps in both readings, at the best validation and after the last epoch."""
    found = {f"last, eps {eps:g}": accuracy(model, problem.test, eps) for eps in EPS}
    _to_best(model, history)
    found |= {f"eps {eps:g}": accuracy(model, problem.test, eps) for eps in EPS}
    summed = {
        f"summed eps {eps:g}": accuracy(model, problem.test, more) for eps, more in zip(EPS, SUMMED_EPS, strict=True)
    }
    return {**found, **summed}


def measure_peak(model: nn.Module, problem: Problem, history: History, seen: Seen) -> dict[str, Any]:
    """Accuracy at the best validation, the best on the test rows themselves, and after the last epoch."""
    tested = list(seen.record()["tested"].values())
    last = accuracy(model, problem.test)
    _to_best(model, history)
    at_best = accuracy(model, problem.test)
    return {"at best validation": at_best, "best on test": max(*tested, at_best, last), "last": last}


def measure_ranking(model: nn.Module, problem: Problem, history: History, seen: Seen) -> dict[str, Any]:
    """Areas under the precision-recall curves: of the test, and of the training rows with the labels given.

    Paper: how the training rows count is not said; each counts with its weight, and all alike in a second figure.
    """
    from sklearn.metrics import average_precision_score, precision_recall_curve

    weights = None if seen.weights is None else seen.weights.values.numpy()
    (scores, labels), (test_scores, test_labels) = (_scores(model, part) for part in (problem.train, problem.test))
    precision, recall, _ = precision_recall_curve(test_labels, test_scores)
    points = torch.linspace(0, len(recall) - 1, CURVE_POINTS).long()
    return {
        "PR-AUC, test": float(average_precision_score(test_labels, test_scores)),
        "PR-AUC, train": float(average_precision_score(labels, scores, sample_weight=weights)),
        "PR-AUC, train, all rows alike": float(average_precision_score(labels, scores)),
        "curve": [[round(float(part[i]), 4) for i in points] for part in (recall, precision)],
    }


MEASURES: dict[str, Callable[[nn.Module, Problem, History, Seen], dict[str, Any]]] = {
    "last": measure_last,
    "eps": measure_eps,
    "peak": measure_peak,
    "ranking": measure_ranking,
}


def _to_best(model: nn.Module, history: History) -> None:
    assert history.best is not None
    model.load_state_dict(history.best.model)


def _scores(model: nn.Module, data: tuple[Tensor, Tensor]) -> tuple[Any, Any]:
    """The mean logit of each row, and its label."""
    with eval_mode(model), torch.no_grad():
        found = [model(x).mean(1) for x, _, _ in Rows(data).all_batches(SIZE)]
    return torch.cat(found).numpy(), data[1][:, 0].long().numpy()


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
