"""Probation: a part of the rows that the network is not trained on until it has learned what generalises.

What it says of them by then tells how many labels are wrong, at the price of nothing but a late start for those rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np
import torch
from torch import Tensor

from rockafellian._internal.kth_largest import LOCAL
from rockafellian._internal.validation import Comm
from rockafellian.method.noise_rate import Answers, Estimate, estimate_from
from rockafellian.weights.predictions import Predictions

#: The share of the rows that is held out, and how many at the most: more would not sharpen the estimate.
SHARE, MOST = 0.2, 10_000


class HoldOut:
    """Rows held out at random, and the mean of what the network said of them, epoch by epoch.

    It ends after the first epoch in which the network agrees with no more of their labels than before: what it learns
    from there on is the training labels by heart. Memory: 4 bytes a held row and class.
    """

    _TENSORS = ("rows", "_sums", "_counts", "_best")

    def __init__(self, n_samples: int, seed: int, among: range | None = None) -> None:
        if n_samples < 2:
            raise ValueError(f"need at least two rows to find the share of wrong labels, got {n_samples}")
        drawn = _draw(n_samples, max(1, min(round(SHARE * n_samples), MOST)), seed)
        among = range(n_samples) if among is None else among
        #: Those of the rows drawn that are in `among`, counted from its start.
        self.rows = drawn[(drawn >= among.start) & (drawn < among.stop)] - among.start
        self._sums = torch.zeros(len(self.rows), 0)
        self._counts = torch.zeros(len(self.rows))
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

    def is_over(self, predictions: Predictions, comm: Comm = LOCAL) -> bool:
        """Whether the network agrees with no more of the labels now than after its best epoch so far."""
        return self._agreement(predictions, comm) <= float(self._best)

    def go_on(self, predictions: Predictions, comm: Comm = LOCAL) -> None:
        """Another epoch; this one was the best so far."""
        self._best = torch.tensor(self._agreement(predictions, comm), dtype=torch.float64)

    def estimate(self, predictions: Predictions, comm: Comm = LOCAL) -> Estimate:
        """The share of wrong labels among all rows, from what was said of the held ones."""
        seen = self._counts > 0
        if comm.total(int(seen.sum())) == 0:
            raise ValueError(
                "need to see the rows that are held out, to find the share of wrong labels; "
                "show every row in each epoch, or use RRM(contamination=0.2)"
            )
        said = self._sums[seen] / self._counts[seen, None]
        answers = Answers.of(said.double().numpy(), predictions.labels[self.rows[seen]].numpy())
        return estimate_from(Answers(*comm.gathered(np.stack(answers))), int(comm.greatest(said.shape[1])))

    def state_dict(self) -> dict[str, Tensor]:
        """A copy, as tensors only."""
        return {name.removeprefix("_"): getattr(self, name).clone() for name in self._TENSORS}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a `state_dict`."""
        for name in self._TENSORS:
            setattr(self, name, state[name.removeprefix("_")].to(getattr(self, name).dtype, copy=True))

    def _agreement(self, predictions: Predictions, comm: Comm) -> float:
        held = self.rows[predictions.seen[self.rows]]
        seen, wrong = comm.total(len(held)), comm.total(int(predictions.disagrees[held].count_nonzero()))
        return 1 - wrong / seen if seen else -1.0


def _draw(n: int, size: int, seed: int) -> Tensor:
    """So many different numbers below n, in order. Of very many, without a list of them all."""
    if n <= 1 << 20:
        random = torch.Generator().manual_seed(seed)
        return torch.randperm(n, generator=random)[:size].sort().values
    return torch.tensor(sorted(Random(seed).sample(range(n), size)))
