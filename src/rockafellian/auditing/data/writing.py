"""Rows back to files, every cell as it was read; nothing is escaped, as these files are read by programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from rockafellian._internal.files import atomic_write
from rockafellian.auditing.data.reading import DELIMITERS, Source

SUFFIXES = {"csv": ".csv", "folder": ".csv", "parquet": ".parquet", "frame": ".parquet", "npz": ".npz"}


def check_writable(path: Path, force: bool, inputs=()) -> None:
    """Raise an error if the file exists and may not be replaced, or if its folder does not exist."""
    if path.exists() and not force:
        raise ValueError(f"need a new name for the file, but {path} exists; name another, or pass --force")
    if not path.parent.is_dir():
        raise ValueError(f"need a folder that exists, but there is no {path.parent}; make it first")


def suffix_for(source: Source) -> str:
    """Return the file suffix for a copy of this data."""
    if source.format == "csv" and source.path is not None:
        return source.path.suffix
    return SUFFIXES[source.format]


def write_rows(path: Path, source: Source, table: pa.Table, rows: NDArray[np.bool_]) -> None:
    """Write the marked rows of a table, which has the rows of the source; the suffix says which format."""
    kept = table.filter(pa.array(rows))
    if path.suffix.lower() == ".npz" and source.format == "npz":
        _write_npz(path, kept, None if source.images is None else source.images[rows])
    elif source.images is None:
        write_table(path, kept, source.delimiter)
    else:
        raise ValueError(f"need a name that ends in .npz, as images came as an array; got {path}")


def write_table(path: Path, table: pa.Table, delimiter: str = ",") -> None:
    """Write a table as CSV, TSV or Parquet; the suffix says which."""
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".pq"):
        with atomic_write(path) as partial:
            pyarrow.parquet.write_table(table, partial)
    elif suffix in (".csv", ".txt"):
        _write_csv(path, table, "," if delimiter == "\t" and suffix == ".csv" else delimiter)
    elif suffix in (".tsv", ".tab"):
        _write_csv(path, table, "\t")
    else:
        raise ValueError(f"need a name that ends in .csv, .tsv or .parquet, got {path}")


def _write_csv(path: Path, table: pa.Table, delimiter: str) -> None:
    """Quote only cells that need it; pyarrow writes faster where none does."""
    plain = pa.table({name: _as_cells(name, table.column(name)) for name in table.column_names})
    with atomic_write(path) as partial:
        if _names_need_quotes(table.column_names) or not _written_unquoted(partial, plain, delimiter):
            _write_quoted(partial, plain, delimiter)


def _names_need_quotes(names: list[str]) -> bool:
    """So that a reader detects the right delimiter, and takes an empty cell alone in its line for a row."""
    return len(names) == 1 or any(set(name) & {*DELIMITERS, *'"\r\n'} for name in names)


def _written_unquoted(path: Path, table: pa.Table, delimiter: str) -> bool:
    try:
        unquoted = pyarrow.csv.WriteOptions(delimiter=delimiter, quoting_style="none", quoting_header="none")
        pyarrow.csv.write_csv(table, path, unquoted)
    except pa.ArrowInvalid:
        return False
    return True


def _write_quoted(path: Path, table: pa.Table, delimiter: str) -> None:
    head = pa.array(table.column_names, pa.large_string())
    names = _quoted(head, "".join(DELIMITERS)).to_pylist()
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(delimiter.join(names) + "\n")
        for batch in table.to_batches(max_chunksize=10_000):
            cells = [_quoted(column, delimiter).fill_null("") for column in batch.columns]
            if len(cells) == 1:  # an empty line would be no row
                cells = [pc.if_else(pc.equal(cells[0], ""), _text('""'), cells[0])]
            file.writelines(f"{line}\n" for line in pc.binary_join_element_wise(*cells, _text(delimiter)).to_pylist())


def _quoted(cells: pa.Array, delimiters: str) -> pa.Array:
    """The cells, with quotes around those that hold a delimiter, a quote or a line end."""
    inside = pc.replace_substring(cells, '"', '""')
    quoted = pc.binary_join_element_wise(_text('"'), inside, _text('"'), _text(""))
    return pc.if_else(pc.match_substring_regex(cells, f'["\r\n{delimiters}]'), quoted, cells)


def _text(value: str) -> pa.Scalar:
    return pa.scalar(value, pa.large_string())


def _as_cells(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Lists as their items joined by "|"; anything else as it prints."""
    if pa.types.is_nested(column.type):
        cells = [None if cell is None else _joined(cell) for cell in column.to_pylist()]
        return pa.chunked_array([pa.array(cells, pa.large_string())])
    try:
        return column.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(
            f"need cells that can be written as text, got {column.type} in column {name!r}; name a .parquet file"
        ) from error


def _joined(cell: Any) -> str:
    return "|".join(map(str, cell)) if isinstance(cell, list) else str(cell)


def _write_npz(path: Path, table: pa.Table, images: NDArray[Any] | None) -> None:
    """Write X and y as they were read; a y with several columns was read as y0, y1, ..."""
    numbers = [table.column(name).to_numpy() for name in table.column_names if name.startswith("x")]
    labels = [table.column(name).to_numpy() for name in table.column_names if name.startswith("y")]
    x = np.column_stack(numbers) if images is None else images
    y = labels[0] if "y" in table.column_names else np.column_stack(labels)
    y = y.astype(str) if y.dtype == object else y  # so that nothing is pickled
    with atomic_write(path) as partial, partial.open("wb") as file:
        np.savez(file, X=x, y=y)
