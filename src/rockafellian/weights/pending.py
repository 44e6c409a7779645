"""Pending: what batches said, gathered so that it can be taken down for many at once. Small networks feel each call."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rockafellian._internal.validation import UNKNOWN
from rockafellian.weights.predictions import Words, as_classes, words_of

#: So many numbers are gathered at the most.
ENOUGH = 1 << 18


class Report(NamedTuple):
    """What batches said, as two matrices of float64 on the CPU, which processes can send to each other."""

    seen: Tensor  # a row of the data set and its loss, then the four `Words`, UNKNOWN where they were not told
    held: Tensor  # a row that is held out and what the network says of it, class by class

    @property
    def losses(self) -> tuple[Tensor, Tensor]:
        """Rows and their losses."""
        return self.seen[:, 0].long(), self.seen[:, 1]

    @property
    def words(self) -> tuple[Tensor, Words] | None:
        """Rows and what was said of them; None if of none."""
        told = self.seen[self.seen[:, 2] != UNKNOWN]
        rows, _, labels, predicted, probability, margin = told.unbind(1)
        return (
            (rows.long(), Words(labels.int(), predicted.int(), probability.float(), margin.float()))
            if len(told)
            else None
        )

    @property
    def chances(self) -> tuple[Tensor, Tensor]:
        """Rows that are held out and the probabilities of their classes."""
        return self.held[:, 0].long(), self.held[:, 1:].float()


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

    def report(self, held: Tensor | None) -> Report:
        """All of it, and what was said of those rows that are held out; an error if it cannot be labels and logits."""
        told, untold = ([batch for batch in self._batches if (batch[2] is None) is unsaid] for unsaid in (False, True))
        seen, chances = [], torch.empty(0, 1, dtype=torch.float64)
        if untold:
            rows, losses = (torch.cat(part) for part in list(zip(*untold, strict=True))[:2])
            seen.append(_columns(rows, losses, *torch.full((4, len(rows)), UNKNOWN)))
        if told:
            rows, losses, logits, labels = (torch.cat(part) for part in zip(*told, strict=True))
            logits, labels = as_classes(logits, labels)
            seen.append(_columns(rows, losses, *words_of(logits, labels)))
            if held is not None:
                mine = torch.isin(rows.cpu(), held)
                chances = _columns(rows[mine], *logits[mine].softmax(1).unbind(1))
        return Report(torch.cat(seen), chances)


def joined(reports: list[Report]) -> Report:
    """One after the other; a report of nothing if there is none."""
    nothing = torch.empty(0, 2 + len(Words._fields), dtype=torch.float64)
    held = [report.held for report in reports if len(report.held)]
    return Report(
        torch.cat([nothing, *(report.seen for report in reports)]), torch.cat(held) if held else nothing[:, :1]
    )


def _columns(*columns: Tensor) -> Tensor:
    return torch.stack([column.cpu().double() for column in columns], dim=1)
