"""What every method of a cell gets: the same rows, mislabeled rows, network and optimizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import rockafellian as rk
from rivals.data import DATA, Clean, Setting
from rivals.noise import mislabel

MOMENTUM = 0.9


@dataclass(frozen=True)
class Problem:
    """Rows with given labels, which of these are wrong, clean test rows, and the settings of the training."""

    x: Tensor
    y: Tensor
    wrong: Tensor
    test_x: Tensor
    test_y: Tensor
    n_classes: int
    setting: Setting

    @property
    def rate(self) -> float:
        """The true noise rate."""
        return float(self.wrong.double().mean())

    def network(self, seed: int) -> nn.Module:
        """Return an MLP with one hidden layer, initialized by this seed."""
        hidden = self.setting.hidden
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return nn.Sequential(nn.Linear(self.x.shape[1], hidden), nn.ReLU(), nn.Linear(hidden, self.n_classes))

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return SGD with momentum."""
        return torch.optim.SGD(model.parameters(), lr=self.setting.lr, momentum=MOMENTUM)

    def train(
        self,
        model: nn.Module,
        loss: Callable[..., Tensor],
        seed: int,
        *,
        rows: Tensor | None = None,
        epochs: int | None = None,
        **options: Any,
    ) -> None:
        """Train on all rows, or some, for all epochs, or some; `options` are those of `rk.fit`."""
        x, y = (self.x, self.y) if rows is None else (self.x[rows], self.y[rows])
        rk.fit(
            model,
            (x, y),
            loss=loss,
            optimizer=self.optimizer(model),
            epochs=self.setting.epochs if epochs is None else epochs,
            batch_size=self.setting.batch_size,
            seed=seed,
            progress="quiet",
            **options,
        )


def make(data: str, noise: str, seed: int) -> Problem:
    """Return the problem of a cell; the seed draws rows and noise."""
    setting = DATA[data]
    return with_noise(setting.load(seed), noise, seed, setting)


def with_noise(rows: Clean, noise: str, seed: int, setting: Setting) -> Problem:
    """Return rows with label noise of this name."""
    noisy = mislabel(noise, rows.x, rows.y, seed)
    n_classes = int(torch.cat([rows.y, rows.test_y]).max()) + 1
    return Problem(rows.x, noisy.labels, noisy.mask, rows.test_x, rows.test_y, n_classes, setting)


def outputs(model: nn.Module, x: Tensor) -> Tensor:
    """Return the logits of a trained network."""
    with torch.no_grad():
        return torch.cat([model(part) for part in x.split(1024)])
