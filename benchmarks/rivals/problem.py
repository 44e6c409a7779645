"""What every method of a cell gets: the same rows with the same wrong labels, the same network, the same optimiser."""

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
    """Rows with labels as given, those of them that are wrong, clean rows for the test, and the training's settings."""

    x: Tensor
    y: Tensor
    wrong: Tensor
    test_x: Tensor
    test_y: Tensor
    n_classes: int
    setting: Setting

    @property
    def rate(self) -> float:
        """The true share of wrong labels."""
        return float(self.wrong.double().mean())

    def network(self, seed: int) -> nn.Module:
        """An MLP with one hidden layer, started by this seed."""
        hidden = self.setting.hidden
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return nn.Sequential(nn.Linear(self.x.shape[1], hidden), nn.ReLU(), nn.Linear(hidden, self.n_classes))

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """SGD with momentum."""
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
    """The problem of a cell: the seed draws rows and noise."""
    setting = DATA[data]
    return with_noise(setting.load(seed), noise, seed, setting)


def with_noise(rows: Clean, noise: str, seed: int, setting: Setting) -> Problem:
    """These rows with wrong labels of this name."""
    noisy = mislabel(noise, rows.x, rows.y, seed)
    n_classes = int(torch.cat([rows.y, rows.test_y]).max()) + 1
    return Problem(rows.x, noisy.labels, noisy.mask, rows.test_x, rows.test_y, n_classes, setting)


def outputs(model: nn.Module, x: Tensor) -> Tensor:
    """What the network says of these rows, after training."""
    with torch.no_grad():
        return torch.cat([model(part) for part in x.split(1024)])
