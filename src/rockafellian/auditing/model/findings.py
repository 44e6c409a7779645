"""The findings of an audit: a table with one line for each row of the data, in data order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rockafellian.auditing.data.labels import Classes
from rockafellian.auditing.model.claims import claimed, reported_estimate
from rockafellian.auditing.model.problem import Problem
from rockafellian.label_issues import COLUMNS, Findings, findings
from rockafellian.weights.sample_weights import SampleWeights

NO_LABEL = "no label given"


def findings_table(
    problem: Problem, weights: SampleWeights, predicted: Classes, probability: NDArray[np.float32]
) -> pa.Table:
    """Return the columns index, id and those of `Findings`, for every row of the data.

    Args:
        problem: the data.
        weights: of the labeled rows.
        predicted: the predicted label of every row, in the form of the given ones.
        probability: of these predictions.
    """
    n, rows = len(problem.source), problem.rows
    found = _labeled_findings(problem, weights, predicted[rows], probability[rows])
    ids = pa.array([str(index) for index in range(n)]) if problem.ids is None else problem.ids
    columns: dict[str, Any] = {"index": pa.array(np.arange(n)), "id": ids}
    flagged = claimed(problem, reported_estimate(problem, weights.estimate), found)
    for name in COLUMNS[COLUMNS.index("given_label") :]:
        values = flagged if name == "is_label_issue" else getattr(found, name)
        columns[name] = pa.array(values if len(rows) == n else _spread(values, rows, n), from_pandas=True)
    if len(rows) < n:
        without_label = pa.array(~problem.labels.known)
        known = {
            "predicted_label": problem.labels.as_text(predicted),
            "predicted_probability": probability,
            "reason": np.full(n, NO_LABEL, dtype=object),
        }
        for name, values in known.items():
            column = columns[name]
            columns[name] = pc.if_else(without_label, pa.array(values, column.type), column)
    return pa.table(columns)


def _labeled_findings(
    problem: Problem, weights: SampleWeights, predicted: Classes, probability: NDArray[np.float32]
) -> Findings:
    """What the weights know of the labeled rows, in data order, with given and predicted labels by name."""
    given, guess, names = _as_classes(problem, predicted)
    return replace(findings(weights), given=given, predicted=guess, predicted_probability=probability, names=names)


def _as_classes(problem: Problem, predicted: Classes) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[Any]]:
    """Given and predicted labels as class indices, and the names, None at the end; each set of labels is a class."""
    labels, given = problem.labels, problem.labels.given[problem.rows]
    names: list[str] = labels.names
    if labels.multilabel:
        both = np.concatenate([labels.as_text(given), labels.as_text(predicted)]).astype(str)
        sets, codes = np.unique(both, return_inverse=True)
        names = sets.tolist()
        given, predicted = np.split(codes, 2)
    return given.astype(np.int32), predicted.astype(np.int32), np.array([*names, None], dtype=object)


def _spread(values: NDArray[Any], rows: NDArray[np.int64], n: int) -> NDArray[Any]:
    """The values at their rows of n; elsewhere None or NaN, False in a mask, 0 for a count."""
    empty: Any = {"O": None, "f": np.nan, "b": False}.get(values.dtype.kind, 0)
    spread = np.full(n, empty, values.dtype)
    spread[rows] = values
    return spread
