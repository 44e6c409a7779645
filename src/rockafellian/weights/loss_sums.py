"""LossSums: the losses seen of each row since the last re-weighting and over the run, in 16 bytes a row."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.arrays import Vector, blocks
from rockafellian.weights.states import LOWEST, MAX_COUNT, Entry, check_state, damaged

#: A loss below minus this counts as -inf: no sum of so many as float32 can count overflows.
LARGEST_SUMMED = 1e30
#: So many rows an error names at most.
MAX_NAMED = 5


class LossSums:
    """Sums and counts of losses by row: of the round since the last re-weighting, and of the run before it.

    A loss that is NaN or -inf is in none of them, or a sum would be undefined ever after.
    """

    PER_ROW = ("round_sum", "round_count", "run_sum", "run_count")

    def __init__(self, n_rows: int) -> None:
        self.round_sum, self.round_count, self.run_sum, self.run_count = torch.zeros(4, n_rows).unbind()
        self._round_is_empty = True
        #: How many losses of the round were left out, as they or their logits are undefined, and some of their rows.
        self.n_undefined, self._undefined_rows = 0, list[int]()

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

    def leave_out(self, rows: NDArray[np.int64]) -> None:
        """Note rows whose loss in the round is undefined."""
        self.n_undefined += len(rows)
        self._undefined_rows = sorted({*self._undefined_rows, *rows[:MAX_NAMED].tolist()})[:MAX_NAMED]

    def take_undefined(self, first_row: int) -> str | None:
        """What was undefined in the round, for an error, and forget it; None if nothing was here."""
        n, rows = self.n_undefined, [str(first_row + row) for row in self._undefined_rows]
        self.n_undefined, self._undefined_rows = 0, []
        more = ", ..." if n > len(rows) else ""
        seen = n + int(self.round_count.sum())
        return f"{n} of {seen} losses are NaN or -inf (rows {', '.join(rows)}{more})" if n else None

    def forget_infinite(self) -> None:
        """Forget the rows whose losses of the round are infinite."""
        infinite = self.round_sum.isinf()
        self.round_sum[infinite], self.round_count[infinite] = 0, 0

    def add_to_run(self, losses: Vector) -> None:
        """Add one loss of every row to the run, but not to the round."""
        total, count = self.run_sum.numpy(), self.run_count.numpy()
        with np.errstate(over="ignore"):
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
        self.n_undefined, self._undefined_rows = 0, []
        if self._round_is_empty:
            return
        parts = [part.numpy() for part in (self.run_sum, self.run_count, self.round_sum, self.round_count)]
        with np.errstate(over="ignore"):
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

    def check_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Raise unless this is a `state_dict` of as many rows."""
        shape = tuple(self.round_sum.shape)
        total, count = Entry(shape, low=LOWEST), Entry(shape, integer=True, low=0, high=MAX_COUNT)
        check_state("LossSums", state, dict(zip(self.PER_ROW, (total, count) * 2, strict=True)))
        for part in ("round", "run"):
            if bool(((state[f"{part}_count"] == 0) & (state[f"{part}_sum"] != 0)).any()):
                raise damaged("LossSums", f"{part}_sum has losses of rows that {part}_count does not count")

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore a `state_dict` of as many rows; one that is refused changes nothing."""
        self.check_state_dict(state)
        for name in self.PER_ROW:
            getattr(self, name).copy_(state[name])
        self._round_is_empty = False
        self.n_undefined, self._undefined_rows = 0, []
