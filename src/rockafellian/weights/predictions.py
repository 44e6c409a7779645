"""Notes: what the network said of each row, in the same few bytes a row however many classes there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.validation import UNKNOWN


class Words(NamedTuple):
    """What a network said of rows: beside the label given, its choice, how sure it was, and the margin of the label."""

    labels: Tensor
    predicted: Tensor
    probability: Tensor
    margin: Tensor


class Predictions:
    """By row: the label given, what the network said last and how surely, and the margin of the label over the run.

    The margin is the label's logit minus the largest other one, below 0 where the network says something else. Its
    average over a run ranks rows well (the area under the margin of Pleiss et al., 2020). Memory: 20 bytes a row.
    """

    PER_ROW = ("labels", "predicted", "probability", "_margin_sum", "_count")

    def __init__(self, n_samples: int) -> None:
        self.labels, self.predicted = torch.full((2, n_samples), UNKNOWN, dtype=torch.int32).unbind()
        #: Of what the network said last, by its own account.
        self.probability = torch.full((n_samples,), torch.nan)
        self._margin_sum, self._count = torch.zeros(2, n_samples).unbind()

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def seen(self) -> Tensor:
        """The rows of which the network has said anything."""
        return self._count > 0

    @property
    def disagrees(self) -> Tensor:
        """The rows of which the network last said something else than their label."""
        return self.predicted != self.labels

    @property
    def average_margin(self) -> Tensor:
        """The mean margin of each row's label over the run, NaN where there was none."""
        return self._margin_sum / self._count

    @property
    def label_quality(self) -> Tensor:
        """A score in [0, 1] to rank rows by, the worst label lowest: the average margin, squeezed; NaN where none."""
        return self.average_margin.sigmoid()

    def add(self, rows: Tensor, words: Words) -> None:
        """Take down what the network said of these rows; of a row that comes twice, the last stands and both count."""
        at = rows.numpy()
        labels, predicted, probability, margin = (part.numpy() for part in words)
        self._check_labels(at, labels)
        # numpy fixes the order of writing where a row comes twice; torch does not.
        self.labels.numpy()[at] = labels
        self.predicted.numpy()[at] = predicted
        self.probability.numpy()[at] = probability
        np.add.at(self._margin_sum.numpy(), at, margin)
        np.add.at(self._count.numpy(), at, np.float32(1))

    def _check_labels(self, rows: NDArray[np.int64], labels: NDArray[np.int64]) -> None:
        """A row keeps its label. If it has another, the number is not that of the row."""
        known = self.labels.numpy()[rows]
        changed = np.flatnonzero((known != UNKNOWN) & (known != labels))
        if len(changed):
            first = changed[0]
            raise ValueError(
                f"need the same label of a row each time, got {labels[first]} for row {rows[first]}, which had "
                f"{known[first]} before ({len(changed)} such rows): the index does not go with the rows, as if they "
                "were shuffled without it; let the dataset give it, as Indexed(dataset) does"
            )

    def state_dict(self) -> dict[str, Tensor]:
        """A copy, as tensors only."""
        return {name.removeprefix("_"): getattr(self, name).clone() for name in self.PER_ROW}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a `state_dict` of as many rows."""
        for name in self.PER_ROW:
            getattr(self, name).copy_(state[name.removeprefix("_")])


def words_of(logits: Tensor, labels: Tensor) -> Words:
    """What these logits say, read by `as_classes`."""
    (best, runner_up), (predicted, _) = (part.unbind(1) for part in logits.topk(2, dim=1))
    own = logits.gather(1, labels[:, None])[:, 0]
    margin = own - torch.where(predicted == labels, runner_up, best)
    return Words(labels, predicted, (best - logits.logsumexp(1)).exp(), margin)


def as_classes(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (batch, classes) in float32 and labels as whole numbers; one logit a row stands for classes 0 and 1."""
    z, given = logits.detach().cpu().float(), labels.detach().cpu()
    if z.ndim == 1 or z.shape[1:] == (1,):
        z = torch.nn.functional.pad(z.reshape(-1, 1), (1, 0))
    given = given.reshape(-1) if given.shape == (len(z), 1) else given
    if z.ndim != 2 or z.shape[1] < 2 or given.shape != z.shape[:1]:
        raise ValueError(
            f"need logits (batch, classes) and one label a row, got {tuple(logits.shape)} and {tuple(labels.shape)}; "
            "leave logits and labels out where rows have several labels or none"
        )
    whole = given.long()
    low, high = (int(bound) for bound in whole.aminmax())
    if low < 0 or high >= z.shape[1] or (given.is_floating_point() and not bool((whole == given).all())):
        raise ValueError(
            f"need labels that are whole numbers from 0 to {z.shape[1] - 1}, as there are {z.shape[1]} classes; "
            f"got {float(given.min()):g} to {float(given.max()):g}"
        )
    return z, whole
