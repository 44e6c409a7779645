"""The settings of an audit, checked before any data are read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from rockafellian.attacks import ATTACKS

#: Some epochs are needed to estimate the noise rate, and some to use the estimate.
MIN_EPOCHS = 10
LOSS_NAMES = ("cce", "mse", "mae", "gce", "truncated_gce", "elr")


@dataclass(frozen=True)
class Settings:
    """The settings of an audit; what is None is chosen to suit the data.

    Args:
        label: the label column, or several columns of 0 and 1.
        text: learn from the texts in this column only.
        image: learn from the images at the paths in this column only.
        id: the column that names the rows.
        separator: separator between several labels in one cell.
        contamination: the noise rate, if you know it; "auto" estimates it.
        loss: one of LOSS_NAMES, cross-entropy by default.
        attack: train against "fgsm" or "pgd", with `eps`.
        eps: the size of the attack, in standard deviations of the inputs.
        epochs: the number of epochs.
        encoder: "auto", "none", "efficientnet-lite0", or the folder of a transformers model for texts.
        seed: equal seeds give equal results.
        device: where to train; a GPU by default if there is one.
    """

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
    encoding: str | None = None

    def __post_init__(self) -> None:
        rate = self.contamination
        if rate != "auto" and not (isinstance(rate, float | int) and 0 <= rate < 1):
            raise ValueError(f"need a contamination (noise rate) in [0, 1), or auto; got {rate!r}")
        if self.loss is not None and self.loss not in LOSS_NAMES:
            raise ValueError(f"need a loss that is {', '.join(LOSS_NAMES)}; got {self.loss!r}")
        if self.attack is not None and self.attack not in ATTACKS:
            raise ValueError(f"need an attack that is {', '.join(ATTACKS)}; got {self.attack!r}")
        if (self.attack is None) != (self.eps is None):
            raise ValueError(
                f"need an attack and its eps together, got {self.attack} and {self.eps}; pass both or none"
            )
        if self.eps is not None and not 0 <= self.eps < math.inf:
            raise ValueError(f"need a finite eps >= 0, in standard deviations of the inputs; got {self.eps}")
        if self.epochs is not None and self.epochs < MIN_EPOCHS:
            raise ValueError(
                f"need at least {MIN_EPOCHS} epochs, to estimate the noise rate and use it; got {self.epochs}"
            )
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"need a seed >= 0, got {self.seed}")
        if self.separator == "":
            raise ValueError(
                "need a separator of one character or more, got none; leave it out where each row has one label"
            )
        self.torch_device()

    def torch_device(self) -> torch.device:
        """Return the device to train on: the one set, or a GPU if there is one, or the CPU."""
        if self.device is None:
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        try:
            torch.empty(0, device=self.device)
            return torch.device(self.device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise ValueError(f"need a device that torch has here, such as cpu; got {self.device!r}") from error
