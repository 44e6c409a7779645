"""The cells of a file by other readers than ours, to compare what went in with what came out."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

Rows = list[list[Any]]


def readings(path: Path) -> Iterator[Rows]:
    """Every way to read a file, header first: CSV files by each encoding and delimiter."""
    name = path.name.removesuffix(".gz")
    if path.is_dir():
        yield [["file"], *([str(each.relative_to(path))] for each in sorted(path.rglob("*")) if each.is_file())]
    elif name.endswith(".parquet"):
        yield _parquet(path)
    elif name.endswith(".npz"):
        yield _arrays(path)
    elif name.endswith(".xlsx"):
        yield _excel(path)
    else:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.name.endswith(".gz") else content
        yield from (_json(content, name) if name.endswith((".json", ".jsonl")) else _csv(content))


def _texts(content: bytes) -> Iterator[str]:
    """The text of a file by each encoding."""
    for encoding in ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "latin-1"):
        try:
            yield content.decode(encoding).removeprefix("\ufeff")
        except UnicodeError:
            continue


def _csv(content: bytes) -> Iterator[Rows]:
    csv.field_size_limit(sys.maxsize)
    for text in _texts(content):
        for delimiter in (",", ";", "\t", "|"):
            try:
                yield [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
            except csv.Error:
                continue


def _json(content: bytes, name: str) -> Iterator[Rows]:
    for text in _texts(content):
        lines = [text] if name.endswith(".json") else [line for line in text.split("\n") if line.strip()]
        try:
            records = [json.loads(line) for line in lines]
        except ValueError:
            continue
        records = records[0] if name.endswith(".json") else records
        header = list(dict.fromkeys(key for record in records for key in record))
        yield [header, *([_plain(record.get(key)) for key in header] for record in records)]


def _plain(value: Any) -> Any:
    """As text, where nothing is told apart that JSON's readers need not tell apart."""
    return (
        ""
        if value is None or value != value
        else json.dumps(value, sort_keys=True)
        if not isinstance(value, str)
        else value
    )


def _excel(path: Path) -> Rows:
    import openpyxl

    sheet = openpyxl.load_workbook(path, data_only=True).worksheets[0]
    rows = [["" if cell is None else str(cell) for cell in row] for row in sheet.iter_rows(values_only=True)]
    return [row for row in rows if any(row)]


def _parquet(path: Path) -> Rows:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    columns = [[_shown(cell) for cell in column.to_pylist()] for column in table.columns]
    return [table.column_names, *map(list, zip(*columns, strict=True))]


def _shown(cell: Any) -> str:
    return "" if cell is None else str(cell)


def _arrays(path: Path) -> Rows:
    with np.load(path, allow_pickle=False) as file:
        x, y = file["X"], file["y"]
    if y.dtype.kind == "S":
        y = y.astype(str)
    kind = x.dtype.newbyteorder("=") if x.dtype.itemsize <= 8 else np.dtype(np.float64)  # as the notice says
    return [["X", "y"], *([repr(np.asarray(a, dtype=kind).tolist()), str(b)] for a, b in zip(x, y, strict=True))]


def agree(before: Path, after: Path, kept: list[bool], changed: dict[int, str | int] | None, label: str) -> bool:
    """Whether some reading of the file before, without dropped rows and with changed labels, equals the file after.

    Args:
        before: the file that was read.
        after: the file that was written.
        kept: by row of the first, whether the second has it.
        changed: new labels by row of the first, or rows that have them; None if nothing was relabeled.
        label: the name of the label column.
    """
    written = list(readings(after))
    for rows in readings(before):
        if len(rows) - 1 != len(kept) or (changed and label not in rows[0]):
            continue
        place = rows[0].index(label) if changed else 0
        wanted = [rows[0]]
        for number, row in enumerate(rows[1:]):
            if kept[number]:
                new = (changed or {}).get(number)
                new = rows[1 + new][place] if isinstance(new, int) else new
                wanted.append([*row[:place], new, *row[place + 1 :]] if new is not None else row)
        if wanted in written:
            return True
    return False
