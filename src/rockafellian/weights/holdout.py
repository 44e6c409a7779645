"""HoldOut: rows that the network is not trained on until it has learned what generalizes.

The noise rate is estimated from its predictions for them, at the price of a late start for those rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np
import torch
from torch import Tensor

from rockafellian._internal.comm import LOCAL, Comm
from rockafellian.method.noise_rate import NoiseRate, estimate_from
from rockafellian.method.out_of_sample import OutOfSample
from rockafellian.weights.predictions import Predictions
from rockafellian.weights.states import MAX_COUNT, Entry, check_names, check_state, damaged

#: The fraction of the rows that is held out, and the larger one that holds for few rows until there are enough; and how
#: many at most, as more would not sharpen the estimate.
FRACTION, LARGER_FRACTION, ENOUGH_ROWS, MAX_ROWS = 0.2, 0.4, 500, 10_000


class HoldOut:
    """Rows held out at random, and the mean of their predicted probabilities, epoch by epoch.

    It ends after the first epoch in which the network agrees with no more of their labels than before: from there on
    it memorizes training labels. Memory: 4 bytes a held-out row and class.
    """

    _TENSORS = ("rows", "_sums", "_counts", "_best")

    def __init__(self, n_samples: int, seed: int, among: range | None = None) -> None:
        if n_samples < 2:
            raise ValueError(f"need at least two rows to estimate the noise rate, got {n_samples}")
        drawn = _draw(n_samples, n_held_out(n_samples), seed)
        among = range(n_samples) if among is None else among
        self._n_rows = len(among)
        #: Those of the rows drawn that are in `among`, counted from its start; in order.
        self.rows = drawn[(drawn >= among.start) & (drawn < among.stop)] - among.start
        self._sums = torch.zeros(len(self.rows), 0)
        self._counts = torch.zeros(len(self.rows))
        self._best = torch.tensor(-1.0, dtype=torch.float64)

    def add(self, slots: Tensor, sums: Tensor, counts: Tensor) -> None:
        """Add predicted probabilities of held-out rows.

        Args:
            slots: places in `rows`.
            sums: (slots, classes), the sum of `counts` predictions each.
            counts: how many predictions there are of each.
        """
        if len(slots) == 0:
            return
        if self._sums.shape[1] == 0:
            self._sums = torch.zeros(len(self.rows), sums.shape[1])
        self._sums.index_add_(0, slots, sums)
        self._counts.index_add_(0, slots, counts)

    def check_width(self, sums: Tensor) -> None:
        """Raise unless these predictions have as many classes as those before."""
        before, now = self._sums.shape[1], sums.shape[1]
        if before and len(sums) and before != now:
            raise ValueError(
                f"need logits of {before} classes as before, got {now}; "
                "a network must not change its number of outputs in a run"
            )

    def slots_of(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """A mask of the rows that are held out, and the slots of those."""
        at = torch.searchsorted(self.rows, rows).clamp(max=max(len(self.rows) - 1, 0))
        mine = self.rows[at] == rows if len(self.rows) else torch.zeros(len(rows), dtype=torch.bool)
        return mine, at[mine]

    def is_over(self, predictions: Predictions, comm: Comm = LOCAL) -> bool:
        """Whether the network agrees with no more of the labels now than after its best epoch so far."""
        return self._agreement(predictions, comm) <= float(self._best)

    def start_epoch(self, predictions: Predictions, comm: Comm = LOCAL) -> None:
        """Continue for another epoch; the one before was the best so far."""
        self._best = torch.tensor(self._agreement(predictions, comm), dtype=torch.float64)

    def estimate(self, predictions: Predictions, comm: Comm = LOCAL) -> NoiseRate:
        """The noise rate of all rows, from the predictions for the held-out ones."""
        seen = self._counts > 0
        if comm.total(int(seen.sum())) == 0:
            raise ValueError(
                "need predictions for the held-out rows to estimate the noise rate, got none; "
                "show every row in each epoch, or use RRM(contamination=0.2)"
            )
        mean = self._sums[seen] / self._counts[seen, None]
        predicted = OutOfSample.of(mean.double().numpy(), predictions.labels[self.rows[seen]].numpy())
        return estimate_from(OutOfSample(*comm.gathered(np.stack(predicted))), int(comm.greatest(mean.shape[1])))

    def state_dict(self) -> dict[str, Tensor]:
        """A copy, as tensors only."""
        return {name.removeprefix("_"): getattr(self, name).clone() for name in self._TENSORS}

    def check_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Raise unless this is a `state_dict` of rows held out among as many."""
        check_names("HoldOut", state, [name.removeprefix("_") for name in self._TENSORS])
        rows, sums = state["rows"], state["sums"]
        if not (isinstance(rows, Tensor) and isinstance(sums, Tensor) and (rows.ndim, sums.ndim) == (1, 2)):
            raise damaged("HoldOut", "its rows are no vector, or its sums no matrix")
        check_state(
            "HoldOut",
            state,
            {
                "rows": Entry((len(rows),), integer=True, low=0, high=self._n_rows - 1),
                "sums": Entry((len(rows), sums.shape[1]), low=0, high=MAX_COUNT),
                "counts": Entry((len(rows),), integer=True, low=0, high=MAX_COUNT),
                "best": Entry((), low=-1, high=1),
            },
        )
        counts = state["counts"]
        expected = counts if sums.shape[1] else torch.zeros_like(counts)
        if bool((rows.diff() <= 0).any()) or not torch.allclose(sums.sum(1).double(), expected.double(), rtol=1e-3):
            raise damaged("HoldOut", "its rows are not in order, or its sums are not those of probabilities")

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore a `state_dict`; one that is refused changes nothing."""
        self.check_state_dict(state)
        for name in self._TENSORS:
            setattr(self, name, state[name.removeprefix("_")].to(getattr(self, name).dtype, copy=True))

    def _agreement(self, predictions: Predictions, comm: Comm) -> float:
        held = self.rows[predictions.seen[self.rows]]
        everyones = comm.exchange([len(held), int(predictions.disagrees[held].count_nonzero())])
        seen, wrong = everyones.sum(0)
        return float(1 - wrong / seen) if seen else -1.0


class DeviceSums:
    """Sums of predicted probabilities by held-out row on a device, added to without waiting for it."""

    def __init__(self, holdout: HoldOut, n_rows: int, logits: Tensor) -> None:
        spare = len(holdout.rows)  # the slot of all rows that are not held out
        self.slots = torch.full((n_rows,), spare, dtype=torch.int64)
        self.slots[holdout.rows] = torch.arange(spare)
        self.slots = self.slots.to(logits.device, non_blocking=True)
        self.sums = logits.new_zeros((spare + 1, logits.shape[1]))
        self.counts = logits.new_zeros(spare + 1)

    def add(self, rows: Tensor, logits: Tensor) -> None:
        """Add the predictions of a batch."""
        at = self.slots.index_select(0, rows.to(self.slots.device, non_blocking=True).clamp(0, len(self.slots) - 1))
        self.sums.index_add_(0, at, logits.softmax(1))
        self.counts.index_add_(0, at, torch.ones_like(at, dtype=self.counts.dtype))

    def on_host(self) -> tuple[Tensor, Tensor, Tensor]:
        """The slots that were seen, their sums and counts, on the CPU."""
        sums, counts = self.sums[:-1].cpu(), self.counts[:-1].cpu()
        seen = counts.nonzero()[:, 0]
        return seen, sums[seen], counts[seen]


def n_held_out(n: int) -> int:
    """How many of n rows are held out."""
    few = min(LARGER_FRACTION * n, ENOUGH_ROWS)
    return max(1, min(round(max(FRACTION * n, few)), MAX_ROWS))


def _draw(n: int, size: int, seed: int) -> Tensor:
    """So many different integers below n, in order. Of very many, without a list of them all."""
    if n <= 1 << 20:
        random = torch.Generator().manual_seed(seed)
        return torch.randperm(n, generator=random)[:size].sort().values
    return torch.tensor(sorted(Random(seed).sample(range(n), size)))
