"""Files, folders and frames as one table in which every cell is as given: cells of CSV and TSV files stay text."""

from __future__ import annotations

import csv
import difflib
import hashlib
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

from rockafellian.auditing.data.frames import frame_like, table_from, without_dictionaries

#: The common formats that Pillow reads.
IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
DELIMITERS = (",", ";", "\t", "|")
#: Bytes of a CSV file to parse at a time; the larger number where a row does not fit into the smaller.
BLOCK_SIZES = (1 << 20, 1 << 30)
MAX_HEADER = 1_000_000


@dataclass(frozen=True, eq=False)
class Source:
    """The rows of a file, a folder or a frame. `format` is csv, parquet, npz, folder or frame."""

    table: pa.Table
    format: str
    path: Path | None = None
    delimiter: str = ","
    images: NDArray[Any] | None = None  # images that came as one array, in the order of the rows
    frame: Any = None  # the frame that was passed, if it was one
    file_checksum: str | None = None  # of the bytes of a file
    notices: tuple[str, ...] = ()  # what a user should know about how the data were read

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def folder(self) -> Path:
        """The folder that relative paths of images start from."""
        if self.path is None:
            return Path()
        return self.path if self.format == "folder" else self.path.parent

    def column(self, name: str) -> pa.ChunkedArray:
        """Return this column, or raise an error that lists the others."""
        if name not in self.table.column_names:
            near = difflib.get_close_matches(name, self.table.column_names, 1)
            hint = f"did you mean {near[0]!r}?" if near else "name one of them"
            shown = ", ".join(map(repr, self.table.column_names[:20])) + ", ..." * (self.table.num_columns > 20)
            raise ValueError(f"need a column {name!r}, got {shown}; {hint}")
        return self.table.column(name)

    def take(self, rows: NDArray[Any]) -> Source:
        """Return some of the rows, by index."""
        images = None if self.images is None else self.images[rows]
        return Source(self.table.take(pa.array(rows)), self.format, self.path, self.delimiter, images)

    def to_frame(self, table: pa.Table, rows: NDArray[np.bool_], changed: Sequence[str] = ()) -> Any:
        """Return marked rows of a table with changed columns as the kind of frame passed; for files, pandas."""
        kept = table.filter(pa.array(rows))
        return kept.to_pandas() if self.frame is None else frame_like(self.frame, rows, kept.select(changed))

    def checksum(self) -> str:
        """Return the SHA-256 of the bytes of a file, of names and sizes in a folder, or of the cells of a frame."""
        if self.file_checksum is not None:
            return self.file_checksum
        digest = hashlib.sha256()
        if self.format == "folder":
            for name in self.table.column("file").to_pylist():
                digest.update(f"{name}\n{(self.folder / name).stat().st_size}\n".encode())
        else:
            for batch in self.table.to_batches():
                digest.update(batch.serialize())
        return digest.hexdigest()


def read(data: Any, *, labeled: bool = True, encoding: str | None = None) -> Source:
    """Return the rows of a CSV, TSV, Parquet or .npz file, of a folder with one sub-folder per class, or of a frame.

    Without labels, an .npz file may lack y, and images may lie anywhere in the folder.
    """
    source = _read_path(Path(data), labeled) if isinstance(data, str | Path) else _read_frame(data)
    if len(source) == 0:
        name = "the frame" if source.path is None else source.path
        raise ValueError(f"need rows, got none in {name}; it has a header at most")
    return source


def _read_frame(frame: Any) -> Source:
    return Source(table_from(frame), "frame", frame=frame)


def _read_path(path: Path, labeled: bool) -> Source:
    if path.is_dir():
        return _read_folder(path, labeled)
    if not path.exists():
        raise FileNotFoundError(f"need a file or a folder, but there is no {path}; check the name")
    readers: dict[str, Callable[..., Source]] = dict.fromkeys((".csv", ".tsv", ".tab", ".txt"), _read_csv)
    readers |= {".parquet": _read_parquet, ".pq": _read_parquet, ".npz": partial(_read_npz, labeled=labeled)}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"need a file that ends in {', '.join(readers)}, or a folder; got {path.name}; convert it")
    content = path.read_bytes()  # once, to parse and to hash
    if not content:
        raise ValueError(f"need data, but {path} is empty; write it again")
    return reader(path, content, hashlib.sha256(content).hexdigest())


def _read_csv(path: Path, content: bytes, checksum: str) -> Source:
    header, delimiter = _read_header(path, content)
    if doubled := sorted({name for name in header if header.count(name) > 1}):
        raise ValueError(f"need different column names, but {path} has {doubled[0]!r} twice; rename one")
    as_text = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=True, null_values=[""]
    )
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    for size in BLOCK_SIZES:
        one_thread = pyarrow.csv.ReadOptions(use_threads=False, block_size=size)  # so that an error knows its row
        try:
            table = pyarrow.csv.read_csv(pa.BufferReader(content), one_thread, parse, as_text)
            return Source(table, "csv", path, delimiter, file_checksum=checksum)
        except pa.ArrowInvalid as error:
            failed = error
        if "straddl" not in str(failed):  # else a row is longer than a block
            break
    raise ValueError(_csv_error(path, len(header), str(failed))) from failed


def _read_header(path: Path, content: bytes) -> tuple[list[str], str]:
    """The column names, and the delimiter."""
    try:
        lines = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
        first = lines.readline(MAX_HEADER)
        delimiter = "\t" if path.suffix.lower() in (".tsv", ".tab") else _delimiter(first)
        lines.seek(0)
        header = next(csv.reader(lines, delimiter=delimiter, strict=True), [])
    except UnicodeDecodeError as error:
        raise ValueError(_not_utf8(path)) from error
    except csv.Error as error:
        raise ValueError(f"need a header with column names, but the first line of {path} is none ({error})") from error
    header[:1] = [name.removeprefix("\ufeff") for name in header[:1]]
    if not any(name.strip() for name in header):
        raise ValueError(f"need a header with column names in the first line of {path}, got an empty line")
    return header, delimiter


def _delimiter(line: str) -> str:
    unquoted = re.sub(r'"[^"]*"', "", line)
    return max(DELIMITERS, key=unquoted.count)


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


def _read_parquet(path: Path, content: bytes, checksum: str) -> Source:
    try:
        table = pyarrow.parquet.read_table(pa.BufferReader(content))
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"need a whole Parquet file, but {path} is truncated or something else ({reason})") from error
    return Source(without_dictionaries(table), "parquet", path, file_checksum=checksum)


def _read_npz(path: Path, content: bytes, checksum: str, *, labeled: bool) -> Source:
    arrays = _arrays(path, content, ("X", "y") if labeled else ("X",))
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
    return Source(table, "npz", path, images=x if x.ndim > 2 else None, file_checksum=checksum)


def _arrays(path: Path, content: bytes, wanted: Sequence[str]) -> dict[str, NDArray[Any]]:
    """X, and y if it is there; an error if a wanted one is not."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            names = list(getattr(file, "files", []))
            if absent := [name for name in wanted if name not in names]:
                raise ValueError(f"need arrays {' and '.join(wanted)} in {path}, got {names}; {absent[0]} is missing")
            return {name: file[name] for name in ("X", "y") if name in names}
    except (zipfile.BadZipFile, EOFError, OSError, io.UnsupportedOperation) as error:
        raise ValueError(f"need a whole .npz file, but {path} is truncated or something else ({error})") from error
    except ValueError as error:
        if "pickle" not in str(error):
            raise
        raise ValueError(
            f"need arrays of numbers or text in {path}, got pickled objects, which are not read"
        ) from error


def _read_folder(path: Path, labeled: bool) -> Source:
    """The images below each sub-folder, whose name is their label; without labels, all images below the folder."""
    classes = sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith("."))
    found = [(file, each.name) for each in classes for file in _images_below(each)]
    loose = [] if labeled and found else list(_images_below(path))
    if not (found if labeled else loose):
        wanted = "one sub-folder of images per class" if labeled else "images"
        raise ValueError(
            f"need a folder with {wanted}, but {path} has {len(loose) or 'no'} images and {len(classes)} sub-folders; "
            "sort the images into sub-folders, or pass a CSV of their paths with --image COLUMN"
        )
    files = [file for file, _ in found] if labeled else loose
    columns = {"file": _text([file.relative_to(path).as_posix() for file in files], path)}
    if labeled:
        columns["label"] = _text([label for _, label in found], path)
    return Source(pa.table(columns), "folder", path)


def _text(names: list[str], path: Path) -> pa.Array:
    try:
        return pa.array(names, pa.string())
    except UnicodeEncodeError as error:
        raise ValueError(f"need file names in UTF-8, got others in {path}; rename them") from error


def _images_below(folder: Path) -> Iterable[Path]:
    return (each for each in sorted(folder.rglob("*")) if each.suffix.lower() in IMAGE_SUFFIXES and each.is_file())
