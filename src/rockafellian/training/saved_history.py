"""The schema of a saved history: which records a run can have written."""

from __future__ import annotations

import sys
from typing import Annotated, Any, TypeAlias

from torch import Tensor

from rockafellian._internal.extras import missing
from rockafellian.training.history import Best, Epoch, History
from rockafellian.weights.reweighting import Reweighting

try:
    from msgspec import Meta, Struct, convert
    from msgspec.structs import asdict
except ImportError as error:
    raise missing("msgspec to resume", "train") from error

Finite: TypeAlias = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
Positive: TypeAlias = Annotated[float, Meta(ge=0, le=sys.float_info.max)]
Fraction: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=sys.maxsize)]


class SavedEpoch(Struct, forbid_unknown_fields=True):
    """The fields of `Epoch`; training goes on with a validation loss that is not finite."""

    epoch: Count
    loss: Finite
    accuracy: Fraction | None
    valid_loss: float | None
    valid_accuracy: Fraction | None
    removed_fraction: Fraction | None
    learning_rate: Positive
    seconds: Positive


class SavedRound(Struct, forbid_unknown_fields=True):
    """The fields of `Reweighting`."""

    epoch: Count
    threshold: float | None
    c_min: float
    n_removed: Count
    removed_fraction: Fraction
    gap: float | None
    n_changed: Count
    precision: Fraction | None
    recall: Fraction | None
    seconds: Positive
    rule_seconds: Positive


class SavedBest(Struct, forbid_unknown_fields=True):
    """The fields of `Best`."""

    epoch: Count
    loss: float
    accuracy: Fraction | None
    model: dict[str, Tensor]


class SavedHistory(Struct, forbid_unknown_fields=True):
    """The fields of `History`."""

    epochs: list[SavedEpoch]
    rounds: list[SavedRound]
    best: SavedBest | None


def read_history(state: Any) -> History:
    """Return the history with this state; raise an error if no run can have written it."""
    saved = convert(state, SavedHistory)
    history = History(
        [Epoch(**asdict(each)) for each in saved.epochs],
        [Reweighting(**asdict(each)) for each in saved.rounds],
        None if saved.best is None else Best(**asdict(saved.best)),
    )
    numbers = [each.epoch for each in history.epochs]
    if numbers != [*range(1, len(numbers) + 1)]:
        raise ValueError(f"need a history of epochs 1, 2, 3, ..., got {', '.join(map(str, numbers[:20]))}")
    for name in ("accuracy", "valid_loss", "valid_accuracy", "removed_fraction"):
        if len({getattr(each, name) is None for each in history.epochs}) > 1:
            raise ValueError(f"need {name} in all epochs or in none, got it in some")
    rounds = [0, *(each.epoch for each in history.rounds)]
    if rounds != sorted(set(rounds)) or rounds[-1] > len(numbers):
        raise ValueError(f"need re-weightings after epochs 1 to {len(numbers)} in order, got {rounds[1:21]}")
    if repr(best := _best(history)) != repr(history.best):
        raise ValueError(f"need the best epoch to be that of the best validation, {best}, got {history.best}")
    return history


def _best(history: History) -> Best | None:
    """Return the record of the best validation, by the epochs."""
    best: Best | None = None
    for each in history.epochs:
        if each.valid_loss is not None:
            found = Best(each.epoch, each.valid_loss, each.valid_accuracy, model={})
            best = found if found.beats(best) else best
    return best
