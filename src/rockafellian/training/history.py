"""The history of a run: loss and accuracy of each epoch, removed rows of each re-weighting."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from rockafellian._internal.extras import missing
from rockafellian._internal.html import html_table
from rockafellian.weights.reweighting import Reweighting

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

#: How many epochs a notebook shows.
N_SHOWN = 10


@dataclass(frozen=True)
class Epoch:
    """The record of one epoch.

    Loss and accuracy are those seen while training, on the labels as given; a value that does not exist is None.
    `removed_fraction` is the fraction of rows that were removed during the epoch. Seconds are ignored when records are
    compared.
    """

    epoch: int
    loss: float
    accuracy: float | None
    valid_loss: float | None
    valid_accuracy: float | None
    removed_fraction: float | None
    learning_rate: float
    seconds: float = field(compare=False)


@dataclass(frozen=True)
class Best:
    """The network of the best validation; `model.load_state_dict(history.best.model)` loads it."""

    epoch: int
    loss: float
    accuracy: float | None
    model: dict[str, Tensor] = field(repr=False, compare=False)

    def beats(self, other: Best | None) -> bool:
        """Return whether it has the higher accuracy or, with equal ones, the lower loss; anything beats NaN."""
        return other is None or self._rank() < other._rank()

    def _rank(self) -> tuple[float, float]:
        return -(self.accuracy or 0.0), math.inf if math.isnan(self.loss) else self.loss


@dataclass
class History:
    """The epochs and re-weightings of a run, and its best network if there was validation data."""

    epochs: list[Epoch] = field(default_factory=list)
    rounds: list[Reweighting] = field(default_factory=list)
    best: Best | None = None

    def __repr__(self) -> str:
        last = f", last loss {self.epochs[-1].loss:.4g}" if self.epochs else ""
        return f"History({len(self.epochs)} epochs, {len(self.rounds)} re-weightings{last})"

    def _repr_html_(self) -> str:
        """The last epochs, for notebooks."""
        shown = self.epochs[-N_SHOWN:]
        caption = f"{self!r}, the last {len(shown)} epochs:"
        return html_table(caption, list(Epoch.__dataclass_fields__), map(astuple, shown))

    def to_frame(self) -> pandas.DataFrame:
        """Return a table with one row per epoch; columns of the re-weighting after it begin with `round_`."""
        try:
            import pandas
        except ImportError as error:
            raise missing("pandas for to_frame", "frames") from error
        frame = pandas.DataFrame([asdict(epoch) for epoch in self.epochs], columns=list(Epoch.__dataclass_fields__))
        rounds = pandas.DataFrame(
            [asdict(made) for made in self.rounds], columns=list(Reweighting.__dataclass_fields__)
        )
        return frame.set_index("epoch").join(rounds.set_index("epoch").add_prefix("round_")).astype(float)

    def plot(self, path: str | Path | None = None) -> Figure:
        """Return a matplotlib figure of loss, accuracy and removed rows by epoch; written to `path` if given."""
        from rockafellian.training.charts import plot_history

        figure = plot_history(self)
        if path is not None:
            figure.savefig(path, dpi=120)
        return figure

    def state_dict(self) -> dict[str, Any]:
        """Return plain values, and the tensors of the best network themselves."""
        return {
            "epochs": [asdict(epoch) for epoch in self.epochs],
            "rounds": [asdict(made) for made in self.rounds],
            "best": None if self.best is None else {**vars(self.best)},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a `state_dict`; one that no run can have written is an error, and changes nothing."""
        saved = History.from_state(state)
        self.epochs, self.rounds, self.best = saved.epochs, saved.rounds, saved.best

    @staticmethod
    def from_state(state: Any) -> History:
        """Return the history with this `state_dict`."""
        from rockafellian.training.saved_history import read_history

        return read_history(state)
