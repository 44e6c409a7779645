"""Columns that alone determine the label: they may have been made from it, and would hide every wrong label."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rockafellian.auditing.data.cells import decoded, has_text

#: So many rows are looked at, first a few of them, as most columns have too many values to be a copy of the label.
MAX_ROWS, FIRST_ROWS = 20_000, 200
#: A copy of the label has about as many values as there are classes, and each comes in some rows.
VALUES_A_CLASS, ROWS_A_VALUE = 3, 5


def find_leaks(table: pa.Table, given: NDArray[Any], without: Collection[str | None] = ()) -> list[str]:
    """Return the columns of few values of which each goes with one label only.

    Args:
        table: the rows that have a label.
        given: the class of each row.
        without: columns that are not looked at.
    """
    part, labels = table.slice(0, MAX_ROWS), given[:MAX_ROWS]
    most = min(VALUES_A_CLASS * (int(labels.max(initial=0)) + 1), len(labels) // ROWS_A_VALUE)
    columns = zip(part.column_names, part.columns, strict=True)  # a lookup by name takes its time in very wide tables
    return [name for name, column in columns if name not in without and _determines(column, labels, most)]


def _determines(column: pa.ChunkedArray, labels: NDArray[Any], most: int) -> bool:
    """Whether each value of a column, which has at most so many, goes with one label only."""
    is_dictionary = pa.types.is_dictionary(column.type)
    if column.null_count or not (is_dictionary or has_text(column.type)):
        return False  # a copy of the label has a value wherever there is a label
    cells = decoded(column) if is_dictionary else column
    if pc.count_distinct(cells.slice(0, FIRST_ROWS)).as_py() > most:
        return False
    codes = pc.dictionary_encode(cells).combine_chunks().indices.to_numpy()
    n_values = int(codes.max(initial=-1)) + 1
    if not 2 <= n_values <= most:
        return False
    low, high = np.full(n_values, labels.max(initial=0) + 1), np.full(n_values, -1)
    np.minimum.at(low, codes, labels)
    np.maximum.at(high, codes, labels)
    return bool((low == high).all())
