"""The settings of a training: everything that decides a run beside its cell and its seed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from rockafellian.method.reweight import Spread
from rockafellian.training.options import LossesFrom


@dataclass(frozen=True)
class Recipe:
    """Settings of a training; None means all rows, an option that is off, or one that does not apply.

    Args:
        learning_rate: that of the mean loss: eta * batch / N for the paper's sums of (1/N + u_i) * J_i (Algorithm 2)
        plain_learning_rate: that of runs without re-weighting, if it differs
        components: how many principal components of an encoder's features are used
        gamma: as in Algorithm 3, which removes rows above c_min + 2 * gamma; without it C' is used
        spread: which rows get the freed weight; "one row" is the first of those with the least loss
        reweighted_by: the loss of the training, or cross-entropy of probabilities clipped to [1e-7, 1 - 1e-7]
        batches: whether rows are shuffled, and a smaller last batch counts, as usual or as in the authors' script
        unattacked: how many epochs of plain training come before the first attack; the other numbers do not count them
        attack_valid: whether the epoch with the best validation accuracy is chosen under attack
        per_class: whether each class keeps its weight
        ours: re-weight as this library does by default, with an estimated noise rate, in place of gamma or C'
    """

    data: str
    network: str
    epochs: int
    every: int
    learning_rate: float
    plain_learning_rate: float | None = None
    batch_size: int = 100
    train_rows: int | None = None
    test_rows: int | None = None
    valid_share: float | None = None
    encoder: str | None = None
    tokens: int | None = None
    image_size: int | None = None
    components: int | None = None
    prevalence: float | None = None
    noise: str = "uniform"
    gamma: float | None = None
    mu: float | None = None
    spread: Spread | Literal["one row"] = "argmin"
    optimizer: Literal["sgd", "adam"] = "sgd"
    momentum: float = 0.0
    weight_decay: float = 0.0
    augment: bool = False
    eps: float | None = None
    unattacked: int = 0
    losses_from: LossesFrom = "clean"
    start: Literal["tensorflow", "torch", "he"] = "tensorflow"
    tested_every: int | None = None
    reweighted_by: Literal["own", "clipped cce"] = "own"
    attack_valid: bool = True
    batches: Literal["usual", "script"] = "usual"
    elr_beta: float = 0.7
    per_class: bool = False
    ours: bool = False

    def stated(self) -> dict[str, object]:
        """Return the settings that are not at their default: those in the digest of a record."""
        return {part.name: value for part in fields(self) if (value := getattr(self, part.name)) != part.default}

    def changes(self, other: Recipe) -> list[str]:
        """Return what the other changes, one line per setting."""
        pairs = [(part.name, getattr(self, part.name), getattr(other, part.name)) for part in fields(self)]
        return [
            f"{name.replace('_', ' ')}: {_format(ours)} -> {_format(its)}" for name, ours, its in pairs if ours != its
        ]


def _format(value: object) -> str:
    if value is None:
        return "all or none"
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
