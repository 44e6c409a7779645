"""What batches reported, kept until many are taken at once: small networks feel each call, and a GPU each wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.arrays import UNKNOWN
from rockafellian._internal.comm import gather_chunks, gathered
from rockafellian.weights.holdout import DeviceSums, HoldOut
from rockafellian.weights.loss_sums import LARGEST_SUMMED
from rockafellian.weights.predictions import LABEL, MARGIN, PROBABILITY, check_labels, predict, read_logits

#: So many numbers are kept on the CPU at most.
MAX_BUFFERED = 1 << 18


class HeldOut(NamedTuple):
    """Predicted probabilities of held-out rows: their slots, and sums over so many predictions of each."""

    slots: Tensor
    sums: Tensor
    counts: Tensor


class Observed(NamedTuple):
    """What was seen of rows: where they lie, their losses, and a matrix of predictions or UNKNOWN labels."""

    rows: NDArray[np.int64]
    losses: NDArray[np.float32]
    predictions: NDArray[np.float32]
    held_out: HeldOut

    def with_predictions(self) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
        """The rows that have predictions, and these; None if there are none."""
        known = self.predictions[LABEL] != UNKNOWN
        if known.all():
            return (self.rows, self.predictions) if len(known) else None
        return (self.rows[known], self.predictions[:, known]) if known.any() else None

    def split_undefined(self) -> tuple[Observed, NDArray[np.int64]]:
        """What has a loss that can be summed and logits without NaN, and the rows of all else."""
        numbers = (self.losses > -LARGEST_SUMMED) & ~np.isnan(self.predictions[PROBABILITY] + self.predictions[MARGIN])
        held = self.held_out
        if held.sums.isnan().any():
            known = ~held.sums.isnan().any(1)
            held = HeldOut(held.slots[known], held.sums[known], held.counts[known])
        if numbers.all():
            return self._replace(held_out=held), self.rows[:0]
        left = Observed(self.rows[numbers], self.losses[numbers], self.predictions[:, numbers], held)
        return left, self.rows[~numbers]


class BatchBuffer:
    """Batches in the order they came. On the CPU they are kept as they are; of a device only a few numbers a row.

    Args:
        rows: the indices of the rows that may come.
    """

    def __init__(self, rows: range) -> None:
        self.rows = rows
        self._host: list[tuple[Tensor, Tensor, Tensor | None, Tensor | None]] = []
        self._device: list[Tensor] = []
        self._n_classes = 0
        self._sums: DeviceSums | None = None
        self._size = 0

    @property
    def is_full(self) -> bool:
        """Whether it is time to take everything."""
        return self._size > MAX_BUFFERED

    def add(
        self, rows: Tensor, losses: Tensor, logits: Tensor | None, labels: Tensor | None, holdout: HoldOut | None
    ) -> None:
        """Keep a batch; `rows` count from the first row that may come."""
        if losses.is_cpu:
            self._host.append((rows, losses.detach(), None if logits is None else logits.detach(), labels))
            self._size += losses.numel() if logits is None else logits.numel()
        else:
            self.add_from_device(rows, losses, logits, labels, holdout)

    def add_from_device(
        self, rows: Tensor, losses: Tensor, logits: Tensor | None, labels: Tensor | None, holdout: HoldOut | None
    ) -> None:
        """Keep a few numbers of each row where they are, without asking anything of them."""
        rows = rows.to(losses.device, non_blocking=True).clamp(-1, len(self.rows))  # 32 bits would wrap around
        at = rows.to(torch.int32).view(torch.float32)  # the bits, in one matrix
        if logits is None or labels is None:
            known = torch.full((4, len(at)), float(UNKNOWN), device=losses.device)
        else:
            z, given = read_logits(logits, labels)
            given = given - (given < 0).to(given.dtype)  # or a label of -1 would be taken for an unknown one
            known, self._n_classes = predict(z, given), z.shape[1]
            if holdout is not None:
                self._sums = self._sums or DeviceSums(holdout, len(self.rows), z)
                self._sums.add(rows, z)
        self._device.append(torch.cat([torch.stack([at, losses.detach().float()]), known]))

    def read(self, holdout: HoldOut | None) -> list[Observed]:
        """Everything that is kept, checked."""
        without: list[tuple[Tensor, ...]] = [batch[:2] for batch in self._host if batch[2] is None]
        with_logits: list[tuple[Tensor, ...]] = [batch for batch in self._host if batch[2] is not None]  # type: ignore[misc]
        found = [self._read_host(part, holdout) for part in (without, with_logits) if part]
        return [*found, self._read_device()] if self._device else found

    def clear(self) -> None:
        """Forget everything."""
        self._host, self._device, self._size, self._sums = [], [], 0, None

    def _read_host(self, batches: list[tuple[Tensor, ...]], holdout: HoldOut | None) -> Observed:
        columns = zip(*batches, strict=True)
        rows, losses, *more = (torch.cat([part if part.is_cpu else part.cpu() for part in parts]) for parts in columns)
        predictions, held_out = torch.full((4, len(rows)), float(UNKNOWN)), nothing_held_out()
        if more:
            logits, labels = read_logits(*more)
            check_labels(labels, logits.shape[1])
            predictions = predict(logits, labels)
            if holdout is not None:
                mine, slots = holdout.slots_of(rows)
                held_out = HeldOut(slots, logits[mine].softmax(1), torch.ones(len(slots)))
        return Observed(rows.long().numpy(), losses.float().numpy(), predictions.numpy(), held_out)

    def _read_device(self) -> Observed:
        """One copy to the host, and only now the checks that would have made each batch wait."""
        everything = torch.cat(self._device, dim=1).cpu()
        rows = everything[0].view(torch.int32).long().numpy()
        check_index(rows + self.rows.start, self.rows)
        predictions = everything[2:].numpy()
        labels = predictions[LABEL][predictions[LABEL] != UNKNOWN]
        if len(labels):
            check_labels(labels + (labels < 0), self._n_classes)
        held_out = nothing_held_out()
        if self._sums is not None:
            held_out = HeldOut(*self._sums.on_host())
        return Observed(rows, everything[1].numpy(), predictions, held_out)


def exchange(observed: Sequence[Observed]) -> Iterator[Observed]:
    """What all processes observed, in parts that need little memory; all must call this."""
    ends = np.cumsum([len(seen.rows) for seen in observed], dtype=np.int64)

    def read(start: int, stop: int) -> NDArray[np.float32]:
        """Rows as bits, losses and predictions of what was observed from one place to another."""
        parts = [np.empty((6, 0), np.float32)]
        for seen, end in zip(observed, ends, strict=True):
            first = end - len(seen.rows)
            at = slice(max(start - first, 0), max(stop - first, 0))
            rows = seen.rows[at].astype(np.int32).view(np.float32)
            parts.append(np.vstack([rows, seen.losses[at], seen.predictions[:, at]]))
        return np.concatenate(parts, axis=1)

    for rows, losses, *predictions in gather_chunks(int(ends[-1]) if len(ends) else 0, 6, read):
        yield Observed(rows.view(np.int32).astype(np.int64), losses, np.stack(predictions), nothing_held_out())
    held = [seen.held_out for seen in observed if len(seen.held_out.slots)]
    table = torch.cat([torch.column_stack([part.slots, part.counts, part.sums]) for part in held]) if held else None
    everyones = gathered(torch.empty(0, 1) if table is None else table)
    slots, counts, sums = everyones[:, 0].long(), everyones[:, 1:2].reshape(-1), everyones[:, 2:]
    empty = np.empty(0, np.float32)
    yield Observed(empty.astype(np.int64), empty, np.empty((4, 0), np.float32), HeldOut(slots, sums, counts))


def nothing_held_out() -> HeldOut:
    """No prediction of a held-out row."""
    return HeldOut(torch.empty(0, dtype=torch.int64), torch.empty(0, 0), torch.empty(0))


def check_index(index: NDArray[np.integer[Any]], rows: range) -> None:
    """Raise unless every index is that of a row that may come."""
    low, high = int(index.min()), int(index.max())
    if low < rows.start or high >= rows.stop:
        raise ValueError(
            f"need an index from {rows.start} to {rows.stop - 1}, got {low if low < rows.start else high}; n_samples "
            "must be the length of the dataset that Indexed wraps, and a process that holds only some rows must be "
            "shown only these"
        )
