"""Plain settings of a run, checked when they are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from rockafellian.training.step import Amp

LossesFrom: TypeAlias = Literal["training", "clean", "attacked"]
Moment: TypeAlias = Literal["epoch", "batch"]


@dataclass(frozen=True)
class Options:
    """Plain settings of a run, explained in `fit`; a resumed run must have equal ones."""

    batch_size: int = 100
    accumulate: int = 1
    amp: Amp | None = None
    grad_clip: float | None = None
    scheduler_every: Moment = "epoch"
    losses_from: LossesFrom = "training"
    skip_removed: bool = False
    attack_valid: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check_at_least(batch_size=(self.batch_size, 1), accumulate=(self.accumulate, 1), seed=(self.seed, 0))
        for name, allowed in (
            ("losses_from", get_args(LossesFrom)),
            ("scheduler_every", get_args(Moment)),
            ("amp", (None, *get_args(Amp))),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"need {name} to be one of {', '.join(map(str, allowed))}; got {getattr(self, name)!r}"
                )
        if self.grad_clip is not None and not self.grad_clip > 0:
            raise ValueError(f"need grad_clip > 0, the largest norm of a gradient; got {self.grad_clip}")


def check_at_least(**values: tuple[int, int]) -> None:
    """Raise an error for the first name whose value is below its minimum."""
    for name, (value, minimum) in values.items():
        if value < minimum:
            raise ValueError(f"need {name} >= {minimum}, got {value}")
