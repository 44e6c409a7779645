"""Columns that alone determine the label: they may have been made from it, and would hide every wrong label."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rockafellian.auditing.data.cells import decoded, has_text

#: So many rows are looked at.
MAX_ROWS = 20_000
#: Values that come in fewer rows than this, on average, may determine the label by chance.
MIN_ROWS_A_VALUE = 5


def find_leaks(table: pa.Table, columns: Iterable[str], given: NDArray[Any]) -> list[str]:
    """Return the columns of which each value goes with one label only.

    Args:
        table: the rows that have a label.
        columns: those to look at.
        given: the class of each row.
    """
    part, labels = table.slice(0, MAX_ROWS), given[:MAX_ROWS]
    return [name for name in columns if _determines(part.column(name), labels)]


def _determines(column: pa.ChunkedArray, labels: NDArray[Any]) -> bool:
    cells = decoded(column)
    if cells.null_count or not has_text(cells.type):
        return False  # a copy of the label has a value wherever there is a label
    codes = pc.dictionary_encode(cells).combine_chunks().indices.to_numpy()
    n_values = int(codes.max(initial=-1)) + 1
    if n_values < 2 or n_values * MIN_ROWS_A_VALUE > len(labels):
        return False
    low, high = np.full(n_values, labels.max(initial=0) + 1), np.full(n_values, -1)
    np.minimum.at(low, codes, labels)
    np.maximum.at(high, codes, labels)
    return bool((low == high).all())
