"""Rows back to files, cell by cell as they were read: data for machines, so nothing in it is changed to be shown."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from rockafellian.audit.reading import Source
from rockafellian.placing import placed

SUFFIXES = {"csv": ".csv", "folder": ".csv", "parquet": ".parquet", "frame": ".parquet", "npz": ".npz"}


def check_free(path: Path, force: bool) -> None:
    """An error if the file exists and may not be replaced, or if its folder does not."""
    if path.exists() and not force:
        raise ValueError(f"need a new name for the file, but {path} exists; name another, or pass --force")
    if not path.parent.is_dir():
        raise ValueError(f"need a folder that exists, but there is no {path.parent}; make it first")


def suffix_for(source: Source) -> str:
    """How the name of a copy of this data ends."""
    if source.form == "csv" and source.path is not None:
        return source.path.suffix
    return SUFFIXES[source.form]


def write_rows(path: Path, source: Source, table: pa.Table, rows: NDArray[np.bool_]) -> None:
    """The marked rows of the table, which has those of the source, as the kind of file that the name says."""
    kept = table.filter(pa.array(rows))
    if path.suffix.lower() == ".npz" and source.form == "npz":
        _write_npz(path, kept, None if source.images is None else source.images[rows])
    elif source.images is None:
        write_table(path, kept, source.delimiter)
    else:
        raise ValueError(f"need a name that ends in .npz, as images came as an array; got {path}")


def write_table(path: Path, table: pa.Table, delimiter: str = ",") -> None:
    """A table as CSV, TSV or Parquet, as the name says."""
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".pq"):
        with placed(path) as partial:
            pyarrow.parquet.write_table(table, partial)
    elif suffix in (".csv", ".txt"):
        _write_csv(path, table, "," if delimiter == "\t" and suffix == ".csv" else delimiter)
    elif suffix in (".tsv", ".tab"):
        _write_csv(path, table, "\t")
    else:
        raise ValueError(f"need a name that ends in .csv, .tsv or .parquet, got {path}")


def _write_csv(path: Path, table: pa.Table, delimiter: str) -> None:
    """Quotes only where a cell needs them: without any if that is possible, which is ten times as fast."""
    plain = pa.table({name: _as_cells(table.column(name)) for name in table.column_names})
    with placed(path) as partial:
        try:
            bare = pyarrow.csv.WriteOptions(delimiter=delimiter, quoting_style="none", quoting_header="none")
            pyarrow.csv.write_csv(plain, partial, bare)
        except pa.ArrowInvalid:
            with partial.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
                writer.writerow(plain.column_names)
                for batch in plain.to_batches(max_chunksize=10_000):
                    writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def _as_cells(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Lists as their members with bars between; anything else as it prints."""
    if pa.types.is_nested(column.type):
        return pa.chunked_array([pa.array([None if cell is None else _joined(cell) for cell in column.to_pylist()])])
    return column.cast(pa.large_string())


def _joined(cell: Any) -> str:
    return "|".join(map(str, cell)) if isinstance(cell, list) else str(cell)


def _write_npz(path: Path, table: pa.Table, images: NDArray[Any] | None) -> None:
    names = [name for name in table.column_names if name != "y"]
    x = np.column_stack([table.column(name).to_numpy() for name in names]) if images is None else images
    label = table.column("y")
    y = np.array(label.to_pylist()) if pa.types.is_nested(label.type) else label.to_numpy()
    y = y.astype(str) if y.dtype == object else y  # so that nothing is pickled
    with placed(path) as partial, partial.open("wb") as file:
        np.savez(file, X=x, y=y)
