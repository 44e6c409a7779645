"""Files, folders and frames as one table, every cell as it was given: CSV and TSV stay text until someone asks."""

from __future__ import annotations

import csv
import difflib
import io
import re
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rockafellian._internal.extras import missing

try:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet
except ImportError as error:
    raise missing("pyarrow to read data", "audit") from error

#: What PIL reads and people have.
IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
DELIMITERS = (",", ";", "\t", "|")
#: Bytes of a CSV file to read at a time: more where a row does not fit.
BLOCKS = (1 << 20, 1 << 30)


@dataclass(frozen=True, eq=False)
class Source:
    """A user's rows. `form` is csv, parquet, npz, folder or frame: what a corrected copy is written as."""

    table: pa.Table
    form: str
    path: Path | None = None
    delimiter: str = ","
    images: NDArray[Any] | None = None  # pictures that came as one array, in the order of the rows
    frame: Any = None  # what was passed, if it was one

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def folder(self) -> Path:
        """What relative paths of images start from."""
        if self.path is None:
            return Path()
        return self.path if self.form == "folder" else self.path.parent

    def column(self, name: str) -> pa.ChunkedArray:
        """This column, or an error that lists the others."""
        if name not in self.table.column_names:
            near = difflib.get_close_matches(name, self.table.column_names, 1)
            hint = f"did you mean {near[0]!r}?" if near else "name one of them"
            shown = ", ".join(map(repr, self.table.column_names[:20])) + ", ..." * (self.table.num_columns > 20)
            raise ValueError(f"need a column {name!r}, got {shown}; {hint}")
        return self.table.column(name)

    def take(self, rows: NDArray[Any]) -> Source:
        """Some of the rows, by number."""
        images = None if self.images is None else self.images[rows]
        return Source(self.table.take(pa.array(rows)), self.form, self.path, self.delimiter, images)

    def like_given(self, table: pa.Table, rows: NDArray[np.bool_], changed: Sequence[str] = ()) -> Any:
        """The marked rows of a table with some columns changed, as the kind of frame passed; of files, pandas."""
        kept = table.filter(pa.array(rows))
        if self.frame is None:
            return kept.to_pandas()
        if isinstance(self.frame, pa.Table):
            return _into_arrow(self.frame.filter(pa.array(rows)), kept.select(changed))
        if hasattr(self.frame, "to_arrow"):
            return _into_polars(self.frame.filter(rows), kept.select(changed))
        return _into_pandas(self.frame[rows], kept.select(changed))


def read(data: Any, *, labelled: bool = True) -> Source:
    """Rows from a CSV, TSV, Parquet or .npz file, from a folder with one sub-folder per class, or from a frame.

    Without labels, arrays may lack y, and images may lie anywhere in the folder.
    """
    source = _read_path(Path(data), labelled) if isinstance(data, str | Path) else _read_frame(data)
    if len(source) == 0:
        raise ValueError(f"need rows, got none in {_named(source.path)}; it has a header at most")
    return source


def _read_path(path: Path, labelled: bool) -> Source:
    if path.is_dir():
        return _read_folder(path, labelled)
    if not path.exists():
        raise FileNotFoundError(f"need a file or a folder, but there is no {path}; check the name")
    readers: dict[str, Callable[[Path], Source]] = dict.fromkeys((".csv", ".tsv", ".tab", ".txt"), _read_csv)
    readers |= {".parquet": _read_parquet, ".pq": _read_parquet, ".npz": partial(_read_npz, labelled=labelled)}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"need a file that ends in {', '.join(readers)}, or a folder; got {path.name}; convert it")
    if path.stat().st_size == 0:
        raise ValueError(f"need data, but {path} is empty; write it again")
    return reader(path)


def _read_csv(path: Path) -> Source:
    head, delimiter = _read_header(path)
    doubled = sorted({name for name in head if head.count(name) > 1})
    if doubled:
        raise ValueError(f"need different names of columns, but {path} has {doubled[0]!r} twice; rename one")
    as_text = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(head, pa.string()), strings_can_be_null=True, null_values=[""]
    )
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    for size in BLOCKS:
        without_threads = pyarrow.csv.ReadOptions(use_threads=False, block_size=size)  # so that an error knows its row
        try:
            return Source(pyarrow.csv.read_csv(path, without_threads, parse, as_text), "csv", path, delimiter)
        except pa.ArrowInvalid as error:
            failed = error
        if "straddl" not in str(failed):  # else a row is longer than a block
            break
    raise ValueError(_csv_error(path, len(head), str(failed))) from failed


def _read_header(path: Path) -> tuple[list[str], str]:
    """The names of the columns, and what stands between them."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            line = file.readline(1_000_000)
            delimiter = "\t" if path.suffix.lower() in (".tsv", ".tab") else _delimiter(line)
            file.seek(0)
            head = next(csv.reader(file, delimiter=delimiter, strict=True), [])
    except UnicodeDecodeError as error:
        raise ValueError(_not_utf8(path)) from error
    except csv.Error as error:
        raise ValueError(
            f"need a header with the names of the columns, but {path} begins otherwise ({error})"
        ) from error
    head[:1] = [name.removeprefix("\ufeff") for name in head[:1]]
    if not any(name.strip() for name in head):
        raise ValueError(f"need a header with the names of the columns in the first line of {path}, got an empty line")
    return head, delimiter


def _delimiter(line: str) -> str:
    bare = re.sub(r'"[^"]*"', "", line)
    return max(DELIMITERS, key=bare.count)


def _csv_error(path: Path, columns: int, message: str) -> str:
    row = re.search(r"Row #(\d+)", message)
    where = f"row {row[1]} (the header is row 1)" if row else "a row"
    uneven = re.search(r"Expected (\d+) columns, got (\d+)", message)
    if uneven:
        return (
            f"need {columns} cells in every row, as in the header, but {where} of {path} has {uneven[2]}; "
            "look for a missing or additional separator or quote there"
        )
    if "UTF8" in message:
        return f"{_not_utf8(path)}; the first is in {where}"
    return f"need a CSV file, but {path} cannot be read as one: {' '.join(message.split())[:200]}"


def _not_utf8(path: Path) -> str:
    return f"need UTF-8 text, got other bytes in {path}; save it with the encoding UTF-8"


def _read_parquet(path: Path) -> Source:
    try:
        table = pyarrow.parquet.read_table(path)
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"need a whole Parquet file, but {path} is cut short or something else ({reason})") from error
    return Source(_plain(table), "parquet", path)


def _plain(table: pa.Table) -> pa.Table:
    """Categories as what they stand for, and names of columns as text."""
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(field.type.value_type))
    if len(set(table.column_names)) < table.num_columns:
        raise ValueError("need different names of columns, got one twice; rename it")
    return table


def _read_npz(path: Path, labelled: bool) -> Source:
    arrays = _arrays(path, ("X", "y") if labelled else ("X",))
    x = arrays["X"]
    if x.ndim < 2 or x.dtype.kind not in "fiub":
        raise ValueError(f"need numbers X (rows, ...) in {path}, got {x.shape} of {x.dtype}")
    columns = {f"x{i}": pa.array(x[:, i]) for i in range(x.shape[1])} if x.ndim == 2 else {}
    if "y" in arrays:
        y = arrays["y"]
        if y.ndim not in (1, 2) or len(y) != len(x):
            raise ValueError(f"need one label y for each of the {len(x)} rows of X in {path}, got {y.shape}")
        columns |= {"y": pa.array(y)} if y.ndim == 1 else {f"y{i}": pa.array(y[:, i]) for i in range(y.shape[1])}
    table = pa.table(columns) if columns else pa.table({"row": pa.array(range(len(x)))})
    return Source(table, "npz", path, images=x if x.ndim > 2 else None)


def _arrays(path: Path, wanted: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Those of the wanted arrays that are there, X at least."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            names = list(getattr(file, "files", []))
            if missing := [name for name in wanted if name not in names]:
                raise ValueError(f"need arrays {' and '.join(wanted)} in {path}, got {names}; {missing[0]} is missing")
            return {name: file[name] for name in ("X", "y") if name in names}
    except (zipfile.BadZipFile, EOFError, OSError, io.UnsupportedOperation) as error:
        raise ValueError(f"need a whole .npz file, but {path} is cut short or something else ({error})") from error
    except ValueError as error:
        if "pickle" not in str(error):
            raise
        raise ValueError(
            f"need arrays of numbers or text in {path}, got pickled objects, which are not read"
        ) from error


def _read_folder(path: Path, labelled: bool) -> Source:
    """The images below each sub-folder, whose name is their label; without labels, all images below the folder."""
    classes = sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith("."))
    found = [(file, each.name) for each in classes for file in _images_below(each)]
    loose = [] if labelled and found else list(_images_below(path))
    if not (found if labelled else loose):
        wanted = "one sub-folder of images per class" if labelled else "images"
        raise ValueError(
            f"need a folder with {wanted}, but {path} has {len(loose) or 'no'} images and {len(classes)} sub-folders; "
            "sort the images into sub-folders, or pass a CSV of their paths with --image COLUMN"
        )
    if not labelled:
        return Source(
            pa.table({"file": _text([file.relative_to(path).as_posix() for file in loose], path)}), "folder", path
        )
    files = _text([file.relative_to(path).as_posix() for file, _ in found], path)
    return Source(pa.table({"file": files, "label": _text([label for _, label in found], path)}), "folder", path)


def _text(names: list[str], path: Path) -> pa.Array:
    try:
        return pa.array(names, pa.string())
    except UnicodeEncodeError as error:
        raise ValueError(f"need names of files in UTF-8, got others in {path}; rename them") from error


def _images_below(folder: Path) -> Iterable[Path]:
    return (each for each in sorted(folder.rglob("*")) if each.suffix.lower() in IMAGE_SUFFIXES and each.is_file())


def _read_frame(frame: Any) -> Source:
    """A frame of pandas or polars, or a table of pyarrow."""
    if isinstance(frame, pa.Table):
        return Source(_plain(frame), "frame", frame=frame)
    if hasattr(frame, "to_arrow") and hasattr(frame, "columns"):
        return Source(_plain(frame.to_arrow()), "frame", frame=frame)
    if not (hasattr(frame, "iloc") and hasattr(frame, "columns")):
        raise ValueError(
            f"need a path, or a frame of pandas, polars or pyarrow; got {type(frame).__name__}; make a frame of it"
        )
    columns = {str(name): _from_pandas(frame.iloc[:, place]) for place, name in enumerate(frame.columns)}
    if len(columns) < frame.shape[1]:
        raise ValueError("need different names of columns, got one twice; rename it")
    return Source(_plain(pa.table(columns)), "frame", frame=frame)


def _from_pandas(column: Any) -> pa.Array:
    """The cells typed, or as text: numbers and text in one column, intervals, periods and the like."""
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
    """By place, as names may be numbers."""
    frame = frame.copy()
    for place, name in enumerate(map(str, frame.columns)):
        if name in new.column_names:
            column = new.column(name).to_pandas().set_axis(frame.index)
            frame.isetitem(place, _typed(column, frame.dtypes.iloc[place]))
    return frame


def _typed(column: Any, kind: Any) -> Any:
    """In the kind that the column had, unless that does not know the new cells."""
    known = getattr(kind, "categories", None)
    if known is not None and not set(column.dropna().unique()) <= set(known):
        return column
    try:
        return column.astype(kind)
    except (TypeError, ValueError):
        return column


def _named(path: Path | None) -> str:
    return "the frame" if path is None else str(path)
