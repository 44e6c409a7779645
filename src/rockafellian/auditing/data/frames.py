"""Frames of pandas, polars and pyarrow as tables, and changed columns back into frames of the same kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def table_from(frame: Any) -> pa.Table:
    """Return the cells of a pandas or polars frame, or of a pyarrow table."""
    if isinstance(frame, pa.Table):
        return without_dictionaries(frame)
    if hasattr(frame, "to_arrow") and hasattr(frame, "columns"):
        return without_dictionaries(frame.to_arrow())
    if not (hasattr(frame, "iloc") and hasattr(frame, "columns")):
        raise ValueError(
            f"need a path, or a frame of pandas, polars or pyarrow; got {type(frame).__name__}; convert it to a frame"
        )
    columns = {str(name): _from_pandas(frame.iloc[:, place]) for place, name in enumerate(frame.columns)}
    if len(columns) < frame.shape[1]:
        raise ValueError("need different column names, got one twice; rename it")
    return without_dictionaries(pa.table(columns))


def without_dictionaries(table: pa.Table) -> pa.Table:
    """Return the table with categories as the values they stand for; no two columns may have the same name."""
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(field.type.value_type))
    if len(set(table.column_names)) < table.num_columns:
        raise ValueError("need different column names, got one twice; rename it")
    return table


def frame_like(frame: Any, rows: NDArray[np.bool_], changed: pa.Table) -> Any:
    """Return the marked rows of a frame, with the columns of `changed` in place of its own."""
    if isinstance(frame, pa.Table):
        return _into_arrow(frame.filter(pa.array(rows)), changed)
    if hasattr(frame, "to_arrow"):
        return _into_polars(frame.filter(rows), changed)
    return _into_pandas(frame[rows], changed)


def _from_pandas(column: Any) -> pa.Array:
    """The cells with their type; as text where that is mixed, an interval, a period or the like."""
    try:
        found = pa.Array.from_pandas(column)
        kind = found.type.value_type if pa.types.is_dictionary(found.type) else found.type
        if not isinstance(kind, pa.BaseExtensionType):
            return found
    except (pa.ArrowException, OverflowError):
        pass
    cells = zip(column, column.isna(), strict=True)
    return pa.array([None if missing else str(cell) for cell, missing in cells], pa.string())


def _into_arrow(frame: pa.Table, new: pa.Table) -> pa.Table:
    for name in new.column_names:
        place = frame.column_names.index(name)
        kind = frame.schema.field(place).type
        column = new.column(name)
        frame = frame.set_column(place, name, column.cast(kind) if pa.types.is_dictionary(kind) else column)
    return frame


def _into_polars(frame: Any, new: pa.Table) -> Any:
    columns = type(frame)(new)
    typed = columns.cast({name: frame.schema[name] for name in new.column_names}, strict=False)
    lost = [name for name in new.column_names if typed[name].null_count() > columns[name].null_count()]
    return frame.with_columns((columns if lost else typed).get_columns())


def _into_pandas(frame: Any, new: pa.Table) -> Any:
    frame = frame.copy()
    for place, name in enumerate(map(str, frame.columns)):  # by position, as column names may be numbers
        if name in new.column_names:
            column = new.column(name).to_pandas().set_axis(frame.index)
            frame.isetitem(place, _with_dtype(column, frame.dtypes.iloc[place]))
    return frame


def _with_dtype(column: Any, dtype: Any) -> Any:
    """The column with this dtype, or as it is where the dtype does not fit the new cells."""
    known = getattr(dtype, "categories", None)
    if known is not None and not set(column.dropna().unique()) <= set(known):
        return column
    try:
        return column.astype(dtype)
    except (TypeError, ValueError):
        return column
