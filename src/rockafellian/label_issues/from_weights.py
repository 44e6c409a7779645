"""From the weights of a training to the table of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from rockafellian._internal.arrays import Array
from rockafellian.label_issues.reading import Column, read_ids, read_labels, read_names
from rockafellian.label_issues.table import Findings
from rockafellian.weights.predictions import Predictions
from rockafellian.weights.sample_weights import SampleWeights


def findings(
    weights: SampleWeights,
    labels: Array | None = None,
    *,
    ids: Sequence[str] | Sequence[int] | Array | None = None,
    names: Sequence[str] | Mapping[int, str] | None = None,
) -> Findings:
    """Return a table with one row per training example, in the order of the data.

    Args:
        weights: the SampleWeights of the training.
        labels: the given labels, one per row; needed only if the loop passed no logits and labels to `reduce`.
        ids: your ids of the rows, all strings or all integers, no two equal; the index of each row by default.
        names: the names of the classes, in their order or as a dict from class to name.

    Returns:
        The table. Without logits nothing is predicted, and `label_quality` is 1 / (1 + average loss).
    """
    if not isinstance(weights, SampleWeights):
        raise ValueError(f"need SampleWeights, got {type(weights).__name__}; pass the weights first, then the labels")
    weights.collect()
    n, loss, known = len(weights), _copy(weights.average_losses), weights.predictions
    predictions = Predictions(n) if known is None else known
    given, predicted = read_labels(labels, _copy(predictions.labels)), _copy(predictions.predicted)
    index = np.arange(weights.rows.start, weights.rows.stop)
    return Findings(
        index=index,
        id=index if ids is None else read_ids(ids, n),
        given=given,
        predicted=predicted,
        predicted_probability=_copy(predictions.probability),
        label_quality=_quality_of_losses(loss) if known is None else _copy(predictions.label_quality),
        removed=_copy(weights.removed),
        average_loss=loss,
        average_margin=_copy(predictions.average_margin),
        weight=_copy(weights.values),
        last_removed_round=_copy(weights.last_removed),
        names=None if names is None else read_names(names, given, predicted),
    )


def _copy(tensor: Tensor) -> Column:
    """The values as an array of its own, so that later training leaves the table alone."""
    values: Column = tensor.detach().cpu().numpy().copy()
    return values


def _quality_of_losses(losses: Column) -> Column:
    """1 / (1 + loss), so that the largest loss is the lowest; if some losses are negative, the least counts as 0."""
    exact = losses.astype(np.float64)
    least = exact[np.isfinite(exact)].min(initial=0.0)
    return 1 / (1 + np.maximum(exact, least) - least)  # type: ignore[no-any-return]
