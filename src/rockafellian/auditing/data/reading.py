"""Files, folders and frames as one table in which every cell is as given: cells of CSV and TSV files stay text."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rockafellian._internal.extras import missing
from rockafellian._internal.files import check_exists, check_regular

try:
    import pyarrow as pa
    import pyarrow.parquet
except ImportError as error:
    raise missing("pyarrow to read data", "audit") from error

from rockafellian.auditing.data.archives import unpack_gzip
from rockafellian.auditing.data.arrow_types import plain_table
from rockafellian.auditing.data.csv_files import read_csv
from rockafellian.auditing.data.encodings import UTF8, decode
from rockafellian.auditing.data.excel_files import read_excel
from rockafellian.auditing.data.frames import frame_like, table_from
from rockafellian.auditing.data.image_folders import read_folder
from rockafellian.auditing.data.json_files import read_json
from rockafellian.auditing.data.npz_files import read_npz

#: The format of each file suffix; text files may be packed by gzip, and end in .gz then.
FORMATS = dict.fromkeys((".csv", ".tsv", ".tab", ".txt"), "csv")
FORMATS |= {".json": "json", ".jsonl": "json", ".ndjson": "json"}
TEXT_SUFFIXES = tuple(FORMATS)
FORMATS |= {f"{suffix}.gz": FORMATS[suffix] for suffix in TEXT_SUFFIXES}
FORMATS |= {".xlsx": "excel", ".parquet": "parquet", ".pq": "parquet", ".npz": "npz"}


@dataclass(frozen=True, eq=False)
class Source:
    """The rows of a file, a folder or a frame. `format` is csv, json, excel, parquet, npz, folder or frame."""

    table: pa.Table
    format: str
    path: Path | None = None
    delimiter: str = ","
    images: NDArray[Any] | None = None  # images that came as one array, in the order of the rows
    frame: Any = None  # the frame that was passed, if it was one
    file_checksum: str | None = None  # of the bytes of a file
    notices: tuple[str, ...] = ()  # what a user should know about how the data were read
    encoding: str = UTF8  # of a text file

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
        place = self.table.schema.get_field_index(name)
        if place < 0:
            near = difflib.get_close_matches(name, self.table.column_names, 1)
            hint = f"did you mean {near[0]!r}?" if near else "name one of them"
            shown = ", ".join(map(repr, self.table.column_names[:20])) + ", ..." * (self.table.num_columns > 20)
            raise ValueError(f"need a column {name!r}, got {shown}; {hint}")
        return self.table.column(place)

    def take(self, rows: NDArray[Any]) -> Source:
        """Return some of the rows, by index."""
        images = None if self.images is None else self.images[rows]
        return replace(self, table=self.table.take(pa.array(rows)), images=images, frame=None, file_checksum=None)

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
    """Return the rows of a file, of a folder of images with one sub-folder per class, or of a frame.

    Args:
        data: a CSV, TSV, JSON, Excel, Parquet or .npz file, a folder, or a frame of pandas, polars or pyarrow.
        labeled: whether there are labels; without, an .npz file may lack y, and images may lie anywhere in the folder.
        encoding: the encoding of a text file; by default it is detected.
    """
    if encoding is not None and not is_text_file(data):
        raise ValueError(f"need a text file such as .csv for the encoding {encoding!r}, got other data; leave it out")
    is_path = isinstance(data, str | Path)
    source = _read_path(Path(data), labeled, encoding) if is_path else _read_frame(data)
    if len(source) == 0:
        name = "the frame" if source.path is None else source.path
        raise ValueError(f"need rows, got none in {name}; it has a header at most")
    return source


def is_text_file(data: Any) -> bool:
    """Return whether this is the path of a text file, which has an encoding."""
    return isinstance(data, str | Path) and suffix_of(Path(data)).removesuffix(".gz") in TEXT_SUFFIXES


def suffix_of(path: Path) -> str:
    """Return the suffix that says the format, in lower case, such as .csv or .csv.gz."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    return "".join(suffixes) if suffixes[-1:] == [".gz"] else "".join(suffixes[-1:])


def _read_frame(frame: Any) -> Source:
    table, notices = table_from(frame)
    return Source(table, "frame", frame=frame, notices=notices)


def _read_path(path: Path, labeled: bool, encoding: str | None) -> Source:
    if path.is_dir():
        table, notices = read_folder(path, labeled)
        return Source(table, "folder", path, notices=notices)
    check_exists(path)
    check_regular(path)
    suffix = suffix_of(path)
    if suffix not in FORMATS:
        raise ValueError(f"need a file that ends in {', '.join(FORMATS)}, or a folder; got {path.name}; convert it")
    content = path.read_bytes()  # once, to parse and to hash
    if not content:
        raise ValueError(f"need data, but {path} is empty; write it again")
    text = is_text_file(path)
    source = _read_text(path, content, encoding) if text else _read_binary(path, content, labeled)
    return replace(source, file_checksum=hashlib.sha256(content).hexdigest())


def _read_text(path: Path, content: bytes, encoding: str | None) -> Source:
    suffix = suffix_of(path)
    kind = suffix.removesuffix(".gz")
    text = decode(path, unpack_gzip(path, content) if suffix.endswith(".gz") else content, encoding)
    if not text.content.strip():
        raise ValueError(f"need a header with column names or objects in {path}, got an empty file; write it again")
    if FORMATS[suffix] == "csv":
        table, delimiter, notices = read_csv(path, text, tabs=kind in (".tsv", ".tab"))
    else:
        (table, notices), delimiter = read_json(path, text, lines=kind != ".json"), ","
    return Source(table, FORMATS[suffix], path, delimiter, notices=notices, encoding=text.encoding)


def _read_binary(path: Path, content: bytes, labeled: bool) -> Source:
    form = FORMATS[suffix_of(path)]
    if form == "npz":
        table, images, notices = read_npz(path, content, labeled)
        return Source(table, form, path, images=images, notices=notices)
    table, notices = read_excel(path, content) if form == "excel" else _read_parquet(path, content)
    return Source(table, form, path, notices=notices)


def _read_parquet(path: Path, content: bytes) -> tuple[pa.Table, tuple[str, ...]]:
    try:
        table = pyarrow.parquet.ParquetFile(pa.BufferReader(content)).read()
    except (pa.ArrowException, OSError, MemoryError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"need a whole Parquet file, but {path} is truncated or something else ({reason})") from error
    return plain_table(table)
