"""Batches as the authors' script makes them: shuffled within a buffer, and a smaller last one that counts less."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Sampler

#: How many rows the buffer of the authors' script has.
BUFFER_ROWS = 1024


class ShuffleBuffer(Sampler[int]):
    """Rows 0, 1, ... pass through a buffer, from which each is drawn at random, as TensorFlow shuffles.

    Random numbers come from torch's global generator, so a seed fixes them.
    """

    def __init__(self, n: int, size: int = BUFFER_ROWS) -> None:
        self.n, self.size = n, size

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[int]:
        buffer = list(range(min(self.size, self.n)))
        drawn = torch.rand(self.n).tolist()
        for row in range(self.n):
            place = int(drawn[row] * len(buffer))
            yield buffer[place]
            if (coming := row + self.size) < self.n:
                buffer[place] = coming
            else:
                buffer[place] = buffer[-1]
                buffer.pop()


class SmallerLastBatch(nn.Module):
    """A loss for training whose mean over a batch with fewer rows is smaller in proportion; unchanged in evaluation."""

    def __init__(self, loss: Callable[..., Tensor], batch_size: int) -> None:
        super().__init__()
        self.loss, self.batch_size = loss, batch_size
        self.takes_index = bool(getattr(loss, "takes_index", False))

    def forward(self, logits: Tensor, labels: Tensor, **options: Any) -> Tensor:
        """Return one loss per row."""
        losses: Tensor = self.loss(logits, labels, **options)
        return losses * min(len(labels) / self.batch_size, 1.0) if self.training else losses
