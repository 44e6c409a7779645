"""The settings of an audit, checked before any data are read."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal

import torch

from rockafellian._internal.extras import missing
from rockafellian._internal.validation import usable_device
from rockafellian.attacks import ATTACKS

try:
    from msgspec import ValidationError, convert
except ImportError as error:
    raise missing("msgspec to read settings", "audit") from error

#: Some epochs are needed to estimate the noise rate, and some to use the estimate.
MIN_EPOCHS, MAX_EPOCHS = 10, 1_000_000
#: More standard deviations than this overflow in the network.
MAX_EPS = 1e6
LOSS_NAMES = ("cce", "mse", "mae", "gce", "truncated_gce", "elr")
#: Encoders by name; any other is a folder.
ENCODERS = ("auto", "none", "efficientnet-lite0")


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
        epochs: the largest number of epochs; training ends earlier when nothing changes any more.
        encoder: "auto", "none", "efficientnet-lite0", or the folder of a transformers model for texts.
        seed: equal seeds give equal results.
        device: where to train; a GPU by default if there is one.
        encoding: the encoding of text files.
        crisp: whether every row has one right answer; by default so of images and texts, and not of tables.
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
    crisp: bool | None = None

    def __post_init__(self) -> None:
        for name in ("contamination", "eps", "epochs", "seed", "encoder"):
            object.__setattr__(self, name, _plain(getattr(self, name)))
        self._check_names()
        self._check_numbers()
        self._check_encoder()
        self.torch_device()

    def _check_names(self) -> None:
        """Raise an error unless columns and choices are named by texts that can be right."""
        if not isinstance(self.label, tuple) or not all(isinstance(name, str) and name for name in self.label):
            raise ValueError(f"need label columns by name, got {self.label!r}; pass texts of one character or more")
        for name in ("text", "image", "id", "separator", "encoding", "device"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and value):
                article = "an" if name[0] in "aei" else "a"
                raise ValueError(
                    f"need {article} {name} of one character or more, got {value!r}; leave it out if there is none"
                )
        if self.crisp is not None and not isinstance(self.crisp, bool):
            raise ValueError(f"need crisp to be True, False or None, got {self.crisp!r}")
        for name, known in (("loss", LOSS_NAMES), ("attack", tuple(ATTACKS))):
            value = getattr(self, name)
            if value is not None and value not in known:
                article = "an" if name == "attack" else "a"
                raise ValueError(f"need {article} {name} that is {', '.join(known)}; got {value!r}")
        try:
            "".encode(self.encoding or "utf-8")
        except (LookupError, ValueError) as error:
            raise ValueError(f"need an encoding such as utf-8 or latin-1, got {self.encoding!r}") from error

    def _check_numbers(self) -> None:
        """Raise an error unless numbers are numbers and in their ranges."""
        rate, eps = self.contamination, self.eps
        if rate != "auto" and not (_is_number(rate) and 0 <= rate < 1):
            raise ValueError(f"need a contamination (noise rate) in [0, 1), or auto; got {rate!r}")
        if (self.attack is None) != (eps is None):
            raise ValueError(f"need an attack and its eps together, got {self.attack} and {eps}; pass both or none")
        if eps is not None and not (_is_number(eps) and 0 <= eps <= MAX_EPS):
            raise ValueError(
                f"need a finite eps >= 0 and <= {MAX_EPS:,.0f}, in standard deviations of the inputs; got {eps!r}"
            )
        if self.epochs is not None and not (type(self.epochs) is int and MIN_EPOCHS <= self.epochs <= MAX_EPOCHS):
            raise ValueError(
                f"need at least {MIN_EPOCHS} epochs, to estimate the noise rate and use it, and at most "
                f"{MAX_EPOCHS:,}; got {self.epochs!r}"
            )
        if not (type(self.seed) is int and 0 <= self.seed < 2**63):
            raise ValueError(f"need a seed >= 0 and below 2**63, got {self.seed!r}")

    def _check_encoder(self) -> None:
        encoder = self.encoder
        if not (isinstance(encoder, str) and encoder and "\0" not in encoder):
            raise ValueError(f"need an encoder that is auto, none, efficientnet-lite0 or a folder; got {encoder!r}")
        if encoder not in ENCODERS and Path(encoder).exists() and not Path(encoder).is_dir():
            raise ValueError(f"need the folder of a transformers model as encoder, but {encoder} is none; name another")

    def torch_device(self) -> torch.device:
        """Return the device to train on: the one set, or a GPU if there is one, or the CPU."""
        if self.device is None:
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return usable_device(self.device)


def settings_from_json(values: Any) -> Settings:
    """Return the settings that were written as JSON, such as by `dataclasses.asdict`; anything else is an error."""
    if isinstance(values, dict) and (unknown := values.keys() - {each.name for each in fields(Settings)}):
        raise ValueError(f"need the settings of an audit, got {', '.join(sorted(map(str, unknown)))} too; train again")
    try:
        return convert(values, Settings)
    except (ValidationError, RecursionError) as error:
        raise ValueError(f"need the settings of an audit, got others: {error}; train again") from error


def _plain(value: Any) -> Any:
    """Return numbers of numpy, and paths, as what JSON can hold, and anything else as it is."""
    if isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
