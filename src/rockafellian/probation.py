"""Probation: a part of the rows that the network is not trained on until it has learned what generalises.

What it says of them by then tells how many labels are wrong, at the price of nothing but a late start for those rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rockafellian.estimate import Estimate, estimate_contamination
from rockafellian.notes import Notes

#: The share of the rows that is held out, and how many at the most: more would not sharpen the estimate.
SHARE, MOST = 0.2, 10_000


class Probation:
    """Rows held out at random, and the mean of what the network said of them, epoch by epoch.

    It ends after the first epoch in which the network agrees with no more of their labels than before: what it learns
    from there on is the training labels by heart. Memory: 4 bytes a held row and class.
    """

    _TENSORS = ("rows", "_sums", "_counts", "_best")

    def __init__(self, n_samples: int, seed: int) -> None:
        if n_samples < 2:
            raise ValueError(f"need at least two rows to find the share of wrong labels, got {n_samples}")
        size = max(1, min(round(SHARE * n_samples), MOST))
        random = torch.Generator().manual_seed(seed)
        self.rows = torch.randperm(n_samples, generator=random)[:size].sort().values
        self._sums = torch.zeros(size, 0)
        self._counts = torch.zeros(size)
        self._best = torch.tensor(-1.0, dtype=torch.float64)

    def add(self, rows: Tensor, said: Tensor) -> None:
        """Take down what the network says of these rows, which are held out; probabilities (batch, classes)."""
        if len(rows) == 0:
            return
        if self._sums.shape[1] == 0:
            self._sums = torch.zeros(len(self.rows), said.shape[1])
        at = torch.searchsorted(self.rows, rows)
        self._sums.index_add_(0, at, said)
        self._counts.index_add_(0, at, torch.ones(len(rows)))

    def is_over(self, notes: Notes) -> bool:
        """Whether the network agrees with no more of the labels now than after its best epoch so far."""
        return self._agreement(notes) <= float(self._best)

    def go_on(self, notes: Notes) -> None:
        """Another epoch; this one was the best so far."""
        self._best = torch.tensor(self._agreement(notes), dtype=torch.float64)

    def estimate(self, notes: Notes) -> Estimate:
        """The share of wrong labels among all rows, from what was said of the held ones."""
        seen = self._counts > 0
        if not seen.any():
            raise ValueError(
                "need to see the rows that are held out, to find the share of wrong labels; "
                "show every row in each epoch, or use RRM(contamination=0.2)"
            )
        said = self._sums[seen] / self._counts[seen, None]
        return estimate_contamination(said, notes.labels[self.rows[seen]])

    def state_dict(self) -> dict[str, Tensor]:
        """A copy, as tensors only."""
        return {name.removeprefix("_"): getattr(self, name).clone() for name in self._TENSORS}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a `state_dict`."""
        for name in self._TENSORS:
            setattr(self, name, state[name.removeprefix("_")].to(getattr(self, name).dtype, copy=True))

    def _agreement(self, notes: Notes) -> float:
        held = self.rows[notes.seen[self.rows]]
        return 1 - float(notes.disagrees[held].double().mean()) if len(held) else -1.0
