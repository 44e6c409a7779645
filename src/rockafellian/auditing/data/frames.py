"""Frames of pandas, polars and pyarrow as tables, and changed columns back into frames of the same kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rockafellian.auditing.data.arrow_types import plain_table


def table_from(frame: Any) -> tuple[pa.Table, tuple[str, ...]]:
    """Return the cells of a pandas or polars frame, or of a pyarrow table, and notices about changed types."""
    if isinstance(frame, pa.Table):
        return plain_table(frame)
    if hasattr(frame, "to_arrow") and hasattr(frame, "columns"):
        return plain_table(_from_polars(frame))
    if not (hasattr(frame, "iloc") and hasattr(frame, "columns")):
        raise ValueError(
            f"need a path, or a frame of pandas, polars or pyarrow; got {type(frame).__name__}; convert it to a frame"
        )
    columns = [_from_pandas(frame.iloc[:, place], name) for place, name in enumerate(frame.columns)]
    return plain_table(pa.Table.from_arrays(columns, list(map(str, frame.columns))))


def frame_like(frame: Any, rows: NDArray[np.bool_], changed: pa.Table) -> Any:
    """Return the marked rows of a frame, with the columns of `changed` in place of its own."""
    if isinstance(frame, pa.Table):
        return _into_arrow(_filter(frame, rows), changed)
    if hasattr(frame, "to_arrow"):
        return _into_polars(frame.filter(rows), changed)
    return _into_pandas(frame[rows], changed)


def _from_polars(frame: Any) -> pa.Table:
    try:
        return frame.to_arrow()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in Rust is no Exception
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"need columns that Arrow knows, got another in the frame ({reason}); convert it") from error


def _from_pandas(column: Any, name: Any) -> pa.Array:
    """The cells with their type; as text where that is mixed, an interval, a period or the like."""
    try:
        found = pa.Array.from_pandas(column)
        kind = found.type.value_type if pa.types.is_dictionary(found.type) else found.type
        if not isinstance(kind, pa.BaseExtensionType):
            return found
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        pass
    cells = zip(column, column.isna(), strict=True)
    try:
        return pa.array([None if missing else str(cell) for cell, missing in cells], pa.string())
    except UnicodeEncodeError as error:
        raise ValueError(f"need whole characters, got half of a pair in column {name!a}; correct it") from error


def _filter(table: pa.Table, rows: NDArray[np.bool_]) -> pa.Table:
    try:
        return table.filter(pa.array(rows))
    except pa.ArrowNotImplementedError:  # views and run-end encodings
        return plain_table(table)[0].filter(pa.array(rows))


def _into_arrow(frame: pa.Table, new: pa.Table) -> pa.Table:
    for name in new.column_names:
        place = frame.schema.get_field_index(name)
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
