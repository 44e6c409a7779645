"""Predictions: what the network predicts for each row, in 20 bytes a row however many classes there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.arrays import UNKNOWN
from rockafellian.weights.states import MAX_COUNT, Entry, check_state, damaged

#: The rows of a matrix of predictions, one column per data row.
LABEL, PREDICTED, PROBABILITY, MARGIN = range(4)
#: No sum of so many margins as float32 can count overflows.
LARGEST_MARGIN = np.float32(1e30)


class Predictions:
    """By row: its label, the label predicted last and its probability, and the margin of the label over the run.

    The margin is the label's logit minus the largest other one, below 0 where another label is predicted. Its average
    over a run ranks rows well (the area under the margin of Pleiss et al., 2020). Memory: 20 bytes a row.
    """

    PER_ROW = ("labels", "predicted", "probability", "_margin_sum", "_margin_weight")

    def __init__(self, n_samples: int) -> None:
        self.labels, self.predicted = torch.full((2, n_samples), UNKNOWN, dtype=torch.int32).unbind()
        #: Of the label predicted last, as the network says.
        self.probability = torch.full((n_samples,), torch.nan)
        self._margin_sum, self._margin_weight = torch.zeros(2, n_samples).unbind()

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        seen = self.seen
        counts = f"{seen.count_nonzero()} seen, {(seen & self.disagrees).count_nonzero()} with another label predicted"
        return f"Predictions({len(self)} rows, {counts})"

    @property
    def seen(self) -> Tensor:
        """The rows that have a prediction."""
        return self._margin_weight > 0

    @property
    def disagrees(self) -> Tensor:
        """The rows for which the label predicted last is not the given one."""
        return self.predicted != self.labels

    @property
    def average_margin(self) -> Tensor:
        """The mean margin of each row's label over the run, NaN where there is none."""
        return self._margin_sum / self._margin_weight

    @property
    def label_quality(self) -> Tensor:
        """A score in [0, 1] to rank rows by, the worst label lowest: the sigmoid of the average margin."""
        return self.average_margin.sigmoid()

    def add(self, rows: NDArray[np.int64], predicted: NDArray[np.float32], weight: float = 1.0) -> None:
        """Record predictions; of a row that comes twice, the last one stands and both margins count.

        Args:
            rows: where each row lies in this object.
            predicted: a matrix as `predict` makes it, checked by `check_labels`.
            weight: of the margins in their average.
        """
        # NumPy fixes the order of writing where a row comes twice; torch does not.
        self.labels.numpy()[rows] = predicted[LABEL]
        self.predicted.numpy()[rows] = predicted[PREDICTED]
        self.probability.numpy()[rows] = predicted[PROBABILITY]
        # Infinite margins of both signs would make NaN.
        margins = predicted[MARGIN].clip(-LARGEST_MARGIN, LARGEST_MARGIN) * np.float32(weight)
        np.add.at(self._margin_sum.numpy(), rows, margins)
        np.add.at(self._margin_weight.numpy(), rows, np.float32(weight))

    def check_labels(self, rows: NDArray[np.int64], predicted: NDArray[np.float32], first_row: int = 0) -> None:
        """Raise if a row has another label than before, or two: then the index is not that of the row."""
        labels, known = predicted[LABEL].astype(np.int32), self.labels.numpy()
        before = known[rows]
        known[rows] = labels  # of a row that comes twice, the last label stands
        differ = np.flatnonzero(((before != UNKNOWN) & (before != labels)) | (known[rows] != labels))
        last = known[rows]
        known[rows] = before
        if len(differ):
            first = differ[0]
            old, new = (before[first], labels[first]) if before[first] != UNKNOWN else (labels[first], last[first])
            raise ValueError(
                f"need the same label of a row each time, but row {first_row + rows[first]} changed its label "
                f"from {old} to {new} ({len(differ)} such rows): index and rows are misaligned; "
                "wrap the dataset in Indexed, which gives each row its index"
            )

    def state_dict(self) -> dict[str, Tensor]:
        """A copy, as tensors only."""
        return {name.removeprefix("_"): getattr(self, name).clone() for name in self.PER_ROW}

    def check_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Raise unless this is a `state_dict` of as many rows."""
        shape = tuple(self.labels.shape)
        label = Entry(shape, integer=True, low=UNKNOWN, high=MAX_COUNT)
        check_state(
            "Predictions",
            state,
            {
                "labels": label,
                "predicted": label,
                "probability": Entry(shape, low=0, high=1 + 1e-5, may_be_nan=True),
                "margin_sum": Entry(shape),
                "margin_weight": Entry(shape, low=0, high=MAX_COUNT),
            },
        )
        unseen = state["margin_weight"] == 0
        not_there = [state["labels"] == UNKNOWN, state["predicted"] == UNKNOWN, state["probability"].isnan()]
        if not all(torch.equal(part, unseen) for part in not_there):
            raise damaged("Predictions", "some rows have only a part of a prediction")

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore a `state_dict` of as many rows; one that is refused changes nothing."""
        self.check_state_dict(state)
        for name in self.PER_ROW:
            getattr(self, name).copy_(state[name.removeprefix("_")])


def read_logits(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (batch, classes) in float32 and one label per row, checked by shape; a lone logit makes two classes."""
    z, given = logits.detach().float(), labels.detach()
    if z.ndim == 1 or (z.ndim == 2 and z.shape[1] == 1):
        z = torch.nn.functional.pad(z.reshape(-1, 1), (1, 0))
    given = given.reshape(-1) if given.shape == (*z.shape[:1], 1) else given
    if z.ndim != 2 or z.shape[1] < 2 or given.shape != z.shape[:1]:
        raise ValueError(
            f"need logits (batch, classes) and one label a row, got {tuple(logits.shape)} and {tuple(labels.shape)}; "
            "leave logits and labels out where rows have several labels or none"
        )
    return z, given


def predict(logits: Tensor, labels: Tensor) -> Tensor:
    """A matrix (4, batch) of label, predicted label, its probability and the label's margin, on the logits' device.

    Nothing is asked of a device, which would have to be waited for: labels out of range are found by `check_labels`.
    """
    by_class = logits.transpose(0, 1)
    if logits.is_cpu:  # where this form is several times faster
        by_class = by_class.contiguous()
        best, predicted = by_class.max(0)
    else:
        best, predicted = by_class.amax(0), by_class.argmax(0)
    given = labels.to(logits.device, non_blocking=True)
    at = given.long().clamp(0, logits.shape[1] - 1).unsqueeze(0)
    margin = by_class.gather(0, at).squeeze(0) - by_class.scatter(0, at, -torch.inf).amax(0)
    probability = (best - by_class.logsumexp(0)).exp()
    return torch.stack([given.float(), predicted.float(), probability, margin])


def check_labels(labels: Tensor | NDArray[Any], n_classes: int) -> None:
    """Raise unless the labels are integers from 0 to n_classes - 1."""
    low, high = labels.min(), labels.max()
    whole = np.floor(labels) == labels if isinstance(labels, np.ndarray) else labels.floor() == labels
    if low < 0 or high >= n_classes or not bool(whole.all()):
        raise ValueError(
            f"need labels that are integers from 0 to {n_classes - 1}, as there are {n_classes} classes; "
            f"got {float(low):g} to {float(high):g}"
        )
