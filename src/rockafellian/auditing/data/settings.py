"""What a user may say of an audit, checked before anything is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from rockafellian.attacks import ATTACKS

#: A training that is told nothing needs some epochs to find the share of wrong labels, and some to use it.
LEAST_EPOCHS = 10
LOSSES_BY_NAME = ("cce", "mse", "mae", "gce", "truncated_gce", "elr")


@dataclass(frozen=True)
class Settings:
    """All that tells one audit of the same data from another. None leaves the choice to us."""

    label: tuple[str, ...] = ()
    text: str | None = None
    image: str | None = None
    id: str | None = None
    separator: str | None = None
    contamination: float | Literal["auto"] = "auto"
    loss: str | None = None
    attack: str | None = None
    eps: float | None = None
    epochs: int | None = None
    encoder: str = "auto"
    seed: int = 0
    device: str | None = None

    def __post_init__(self) -> None:
        share = self.contamination
        if share != "auto" and not (isinstance(share, float | int) and 0 <= share < 1):
            raise ValueError(f"need a contamination in [0, 1), a share of the rows, or auto; got {share!r}")
        if self.loss is not None and self.loss not in LOSSES_BY_NAME:
            raise ValueError(f"need a loss that is {', '.join(LOSSES_BY_NAME)}; got {self.loss!r}")
        if self.attack is not None and self.attack not in ATTACKS:
            raise ValueError(f"need an attack that is {', '.join(ATTACKS)}; got {self.attack!r}")
        if (self.attack is None) != (self.eps is None):
            raise ValueError(
                f"need an attack and its eps together, got {self.attack} and {self.eps}; pass both or none"
            )
        if self.eps is not None and not 0 <= self.eps < math.inf:
            raise ValueError(f"need a finite eps >= 0, in standard deviations of the inputs; got {self.eps}")
        if self.epochs is not None and self.epochs < LEAST_EPOCHS:
            raise ValueError(
                f"need at least {LEAST_EPOCHS} epochs, to find how many labels are wrong and use it; got {self.epochs}"
            )
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"need a seed >= 0, got {self.seed}")
        if self.separator == "":
            raise ValueError("need a separator of one character or more, got none; leave it out for one label a row")
        self.where()

    def where(self) -> torch.device:
        """The device to train on: a GPU if there is one, unless told otherwise."""
        if self.device is None:
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        try:
            torch.empty(0, device=self.device)
            return torch.device(self.device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise ValueError(f"need a device that torch has here, such as cpu; got {self.device!r}") from error
