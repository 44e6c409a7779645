"""What is measured after each epoch: accuracy on the test rows, and the bins of Table 5."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rockafellian.attacks import FGSM
from rockafellian.losses import cce
from rockafellian.training.checkpoints import load, save
from rockafellian.training.evaluation import evaluate
from rockafellian.training.history import Epoch
from rockafellian.weights.sample_weights import SampleWeights
from rockafellian_reproduction.tables.recipes import Recipe
from rockafellian_reproduction.training.problems import Problem


class EpochLog:
    """Test accuracy and bins of the weights after each epoch, kept in a file beside the checkpoint."""

    def __init__(
        self, path: Path, recipe: Recipe, model: nn.Module, problem: Problem, weights: SampleWeights | None
    ) -> None:
        self.path, self.recipe, self.model, self.problem, self.weights = path, recipe, model, problem, weights

    def __call__(self, epoch: Epoch) -> None:
        """Add a line for this epoch; after an interruption the same epoch may come again and replaces it."""
        entry: dict[str, Any] = {"epoch": epoch.epoch}
        every, last = self.recipe.tested_every, epoch.epoch == self.recipe.epochs
        if every is not None and (last or epoch.epoch % every == 0):
            entry["accuracy"] = accuracy(self.model, self.problem.test)
        if self.attacked_valid is not None:
            entry["attacked validation"] = self._validate_attacked(epoch.epoch)
        if self.weights is not None and epoch.epoch > 1 and (epoch.epoch - 1) % self.recipe.every == 0:
            entry["bins"] = count_bins(self.weights.values, self.problem.wrong)
        if len(entry) > 1:
            with self.path.open("a") as file:
                file.write(json.dumps(entry) + "\n")

    @property
    def attacked_valid(self) -> tuple[Tensor, Tensor] | None:
        """The validation rows, if they are to be attacked here because the training does not do so."""
        return None if self.recipe.eps is None or self.recipe.attack_valid else self.problem.valid

    def load_best_attacked(self) -> bool:
        """Give the network the weights of the epoch with the best accuracy on attacked validation rows, if known."""
        if not self._best_attacked.exists():
            return False
        self.model.load_state_dict(load(self._best_attacked))
        return True

    def record(self) -> dict[str, Any]:
        """Return accuracies by epoch, and the rows in each bin of Table 5 by re-weighting."""
        ordered = self._entries()
        return {
            "tested": {str(entry["epoch"]): entry["accuracy"] for entry in ordered if "accuracy" in entry},
            "bins": [entry["bins"] for entry in ordered if "bins" in entry],
        }

    @property
    def _best_attacked(self) -> Path:
        return self.path.with_name("best-attacked.safetensors")

    def _entries(self) -> list[dict[str, Any]]:
        """Return what was written for each epoch, in order."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        entries = {entry["epoch"]: entry for entry in map(json.loads, lines)}
        return [entries[epoch] for epoch in sorted(entries)]

    def _validate_attacked(self, epoch: int) -> float:
        """Return the accuracy on attacked validation rows, and keep the network if it is the best so far."""
        assert self.attacked_valid is not None
        assert self.recipe.eps is not None
        found = accuracy(self.model, self.attacked_valid, self.recipe.eps)
        before = [entry["attacked validation"] for entry in self._entries() if entry["epoch"] < epoch]
        if found > max(before, default=-1.0):
            save(self._best_attacked, {name: part.clone() for name, part in self.model.state_dict().items()})
        return found


def count_bins(values: Tensor, wrong: Tensor) -> list[list[int]]:
    """Return how many mislabeled rows and how many clean ones are in each bin of Table 5, by u_i = (weight - 1) / N."""
    u = values.cpu().double() - 1
    edges = torch.tensor([-0.75, -0.5, -0.25, -1e-3, 1e-3], dtype=torch.float64)
    # Paper: "about 0" is taken as within a thousandth of 1/N; what argmin adds by ties is "well above 0".
    bins = 5 - torch.bucketize(u, edges)
    return [torch.bincount(bins[part], minlength=6).tolist() for part in (wrong, ~wrong)]


def accuracy(model: nn.Module, test: tuple[Tensor, Tensor], eps: float = 0.0) -> float:
    """Return the percentage of test rows that are classified correctly, attacked by FGSM or as they are."""
    found = evaluate(model, test, loss=cce, attack=FGSM(eps) if eps else None).accuracy
    assert found is not None
    return round(100 * found, 3)
