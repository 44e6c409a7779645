"""Pending: what batches said, gathered so that it can be taken down for many at once. Small networks feel each call."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rockafellian.notes import as_classes

#: So many numbers are gathered at the most.
ENOUGH = 1 << 18


class Told(NamedTuple):
    """Rows of which the network's words are known: logits (rows, classes) in float32 and labels, on the CPU."""

    rows: Tensor
    logits: Tensor
    labels: Tensor


class Pending:
    """Losses of rows and, where they were told, logits and labels."""

    def __init__(self) -> None:
        self._batches: list[tuple[Tensor, Tensor, Tensor | None, Tensor | None]] = []
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._batches)

    @property
    def is_full(self) -> bool:
        """Whether it is time to take it all down."""
        return self._size > ENOUGH

    def add(self, rows: Tensor, losses: Tensor, logits: Tensor | None, labels: Tensor | None) -> None:
        """One more batch."""
        if (logits is None) != (labels is None):
            raise ValueError("need logits and labels together, got only one of them; pass both or neither")
        for name, part in (("logits", logits), ("labels", labels)):
            if part is not None and part.shape[:1] != rows.shape:
                raise ValueError(f"need {name} for each of {len(rows)} rows, got shape {tuple(part.shape)}")
        self._batches.append((rows, losses.detach(), None if logits is None else logits.detach(), labels))
        self._size += len(rows) if logits is None else logits.numel()

    def gathered(self) -> tuple[Tensor, Tensor, Told | None]:
        """All rows, their losses, and what was told; an error if that cannot be labels and logits."""
        rows, losses, _, _ = zip(*self._batches, strict=True)
        told = [batch for batch in self._batches if batch[2] is not None]
        if not told:
            return torch.cat(rows), torch.cat(losses), None
        at, _, logits, labels = (torch.cat(part) for part in zip(*told, strict=True))
        return torch.cat(rows), torch.cat(losses), Told(at.cpu(), *as_classes(logits, labels))
