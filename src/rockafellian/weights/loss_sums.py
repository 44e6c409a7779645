"""LossSums: the losses seen of each row since the last re-weighting and over the run, in 16 bytes a row."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.arrays import Vector, blocks


class LossSums:
    """Sums and counts of losses by row: of the round since the last re-weighting, and of the run before it."""

    PER_ROW = ("round_sum", "round_count", "run_sum", "run_count")

    def __init__(self, n_rows: int) -> None:
        self.round_sum, self.round_count, self.run_sum, self.run_count = torch.zeros(4, n_rows).unbind()
        self._round_is_empty = True

    @property
    def average(self) -> Tensor:
        """The mean of every loss seen of a row in the whole run, NaN if none was."""
        return (self.run_sum + self.round_sum) / (self.run_count + self.round_count)

    def add(self, rows: NDArray[np.int64], losses: NDArray[np.float32]) -> None:
        """Add the losses of a batch; a row may come twice."""
        at = torch.from_numpy(rows)
        self.round_sum.index_add_(0, at, torch.from_numpy(losses))
        self.round_count.index_add_(0, at, torch.ones(len(at)))
        self._round_is_empty = False

    def add_to_run(self, losses: Vector) -> None:
        """Add one loss of every row to the run, but not to the round."""
        total, count = self.run_sum.numpy(), self.run_count.numpy()
        for rows in blocks(len(total)):
            total[rows] += losses[rows]
            count[rows] += 1

    def means(self) -> tuple[Vector, NDArray[np.int64] | None]:
        """The mean losses of the round, and the rows they are of: None if of all."""
        total, count = self.round_sum.numpy(), self.round_count.numpy()
        if np.count_nonzero(count) < len(count):
            seen = np.flatnonzero(count)
            return total[seen] / count[seen], seen
        return total / count, None

    def start_round(self) -> None:
        """Count the round to the run, and begin a new one."""
        if self._round_is_empty:
            return
        parts = [part.numpy() for part in (self.run_sum, self.run_count, self.round_sum, self.round_count)]
        for rows in blocks(len(parts[0])):
            run_sum, run_count, round_sum, round_count = (part[rows] for part in parts)
            run_sum += round_sum
            run_count += round_count
            round_sum[:] = 0
            round_count[:] = 0
        self._round_is_empty = True

    def state_dict(self) -> dict[str, Tensor]:
        """A copy, as tensors only."""
        return {name: getattr(self, name).clone() for name in self.PER_ROW}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore a `state_dict` of as many rows."""
        for name in self.PER_ROW:
            getattr(self, name).copy_(state[name])
        self._round_is_empty = False
