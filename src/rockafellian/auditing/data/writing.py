"""Rows back to files, every cell as it was read; nothing is escaped, as these files are read by programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from rockafellian._internal.files import atomic_write, check_regular
from rockafellian.auditing.data.csv_files import write_csv
from rockafellian.auditing.data.encodings import UTF8
from rockafellian.auditing.data.excel_files import write_excel
from rockafellian.auditing.data.json_files import write_json
from rockafellian.auditing.data.npz_files import write_npz
from rockafellian.auditing.data.reading import FORMATS, Source, suffix_of

SUFFIXES = {"folder": ".csv", "parquet": ".parquet", "excel": ".xlsx", "frame": ".parquet", "npz": ".npz"}


def check_writable(path: Path, force: bool, inputs: Sequence[Path] = ()) -> None:
    """Raise an error unless a file may be written: no input is replaced, and no other file unless forced."""
    check_regular(path)
    if not path.parent.is_dir():
        raise ValueError(f"need a folder that exists, but there is no {path.parent}; make it first")
    if path.exists() and any(each.exists() and path.samefile(each) for each in inputs):
        raise ValueError(f"need another file to write to, but {path} is read from; name another")
    if (path.exists() or path.is_symlink()) and not force:
        raise ValueError(f"need a new name for the file, but {path} exists; name another, or pass --force")


def suffix_for(source: Source) -> str:
    """Return the file suffix for a copy of this data."""
    if source.format in ("csv", "json") and source.path is not None:
        return suffix_of(source.path)
    return SUFFIXES[source.format]


def write_rows(path: Path, source: Source, table: pa.Table, rows: NDArray[np.bool_]) -> None:
    """Write the marked rows of a table, which has the rows of the source; the suffix says which format."""
    kept = table if rows.all() else table.filter(pa.array(rows))
    if suffix_of(path) == ".npz" and source.format == "npz":
        with atomic_write(path) as partial:
            write_npz(partial, kept, None if source.images is None else source.images[rows])
    elif source.images is None and source.path is not None and suffix_of(path) == suffix_of(source.path):
        _write(path, kept, source.delimiter, source.encoding)
    elif source.images is None:
        write_table(path, kept, source.delimiter, source.encoding)
    else:
        raise ValueError(f"need a name that ends in .npz, as images came as an array; got {path}")


def write_table(path: Path, table: pa.Table, delimiter: str = ",", encoding: str = UTF8) -> None:
    """Write a table as CSV, TSV, JSON, Excel or Parquet; the suffix says which, and .csv is not separated by tabs."""
    kind = suffix_of(path).removesuffix(".gz")
    if kind in (".tsv", ".tab"):
        delimiter = "\t"
    elif kind == ".csv" and delimiter == "\t":
        delimiter = ","
    _write(path, table, delimiter, encoding)


def _write(path: Path, table: pa.Table, delimiter: str, encoding: str) -> None:
    suffix = suffix_of(path)
    form, kind, packed = FORMATS.get(suffix), suffix.removesuffix(".gz"), suffix.endswith(".gz")
    if form is None or form == "npz":
        raise ValueError(f"need a name that ends in .csv, .tsv, .json, .jsonl, .xlsx or .parquet, got {path}")
    with atomic_write(path) as partial:
        if form == "parquet":
            pyarrow.parquet.write_table(table, partial)
        elif form == "excel":
            write_excel(partial, table)
        elif form == "json":
            write_json(partial, table, kind != ".json", encoding, packed)
        else:
            write_csv(partial, table, delimiter, encoding, packed)
