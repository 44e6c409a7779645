"""CSV and TSV files: cells stay text as they were written, and are written only with the quotes they need."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from rockafellian.auditing.data.encodings import UTF8, Text, open_text

DELIMITERS = (",", ";", "\t", "|")
#: Bytes of a CSV file to parse at a time; the larger number where a row does not fit into the smaller.
BLOCK_SIZES = (1 << 20, 1 << 30)
#: Characters of the first line in which a delimiter is looked for.
MAX_HEADER = 1_000_000
#: A cell of more lines than these that all look like rows is reported: it may begin and end with a stray quote.
MAX_LINES_LIKE_ROWS = 3


class CsvTable(NamedTuple):
    """The cells of a CSV file, its delimiter, and what a user should know about it."""

    table: pa.Table
    delimiter: str
    notices: tuple[str, ...]


def read_csv(path: Path, text: Text, tabs: bool) -> CsvTable:
    """Return the cells of a CSV file as text; an empty one is null. Without tabs, the header shows the delimiter."""
    header, delimiter = _read_header(path, text.content, tabs)
    notices = _check_quotes(path, text.content, delimiter, len(header)) if b'"' in text.content else ()
    as_text = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(header, pa.large_string()), strings_can_be_null=True, null_values=[""]
    )
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    for size in BLOCK_SIZES:
        one_thread = pyarrow.csv.ReadOptions(use_threads=False, block_size=size)  # so that an error knows its row
        try:
            table = pyarrow.csv.read_csv(pa.BufferReader(text.content), one_thread, parse, as_text)
            return CsvTable(table, delimiter, text.notices + notices)
        except pa.ArrowInvalid as error:
            failed = error
        if "straddl" not in str(failed):  # else a row is longer than a block
            break
    raise ValueError(_describe_error(path, len(header), str(failed))) from failed


def write_csv(path: Path, table: pa.Table, delimiter: str, encoding: str = UTF8, packed: bool = False) -> None:
    """Write a table, with quotes only around cells that need them; pyarrow writes faster where none does."""
    names = table.column_names
    plain = pa.Table.from_arrays([as_text(n, c) for n, c in zip(names, table.columns, strict=True)], names)
    fast = encoding == UTF8 and not packed and not _names_need_quotes(names)
    if not (fast and _written_unquoted(path, plain, delimiter)):
        _write_quoted(path, plain, delimiter, encoding, packed)


def as_text(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the cells as text: lists as their items joined by "|", anything else as it prints."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column
    if pa.types.is_nested(column.type):
        cells = [None if cell is None else _joined(cell) for cell in column.to_pylist()]
        return pa.chunked_array([pa.array(cells, pa.large_string())])
    try:
        return column.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(
            f"need cells that can be written as text, got {column.type} in column {name!r}; name a .parquet file"
        ) from error


def _read_header(path: Path, content: bytes, tabs: bool) -> tuple[list[str], str]:
    """The column names, and the delimiter."""
    lines = _lines(content)
    delimiter = "\t" if tabs else _delimiter(lines.readline(MAX_HEADER))
    lines.seek(0)
    try:
        with _cells_of_any_length():
            header = next(csv.reader(lines, delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        raise ValueError(f"need a header with column names, but the first line of {path} is none ({error})") from error
    if not any(name.strip() for name in header):
        raise ValueError(f"need a header with column names in the first line of {path}, got an empty line")
    seen: set[str] = set()
    for name in header:
        if name in seen:
            raise ValueError(f"need different column names, but {path} has {name!r} twice; rename one")
        seen.add(name)
    return header, delimiter


def _lines(content: bytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), encoding=UTF8, newline="")


@contextmanager
def _cells_of_any_length() -> Iterator[None]:
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _delimiter(line: str) -> str:
    unquoted = re.sub(r'"[^"]*"', "", line)
    return max(DELIMITERS, key=unquoted.count)


def _check_quotes(path: Path, content: bytes, delimiter: str, columns: int) -> tuple[str, ...]:
    """Raise an error for a quote that is not closed or has text after it, which pyarrow reads as if it were meant."""
    records, start, notices = csv.reader(_lines(content), delimiter=delimiter, strict=True), 1, []
    try:
        with _cells_of_any_length():
            for record in records:
                if records.line_num > start + MAX_LINES_LIKE_ROWS and _holds_rows(record, delimiter, columns):
                    notices.append(f"the row in line {start} of {path.name} goes on to line {records.line_num}")
                start = records.line_num + 1
    except csv.Error as error:
        problem = "is not closed" if "unexpected end" in str(error) else "has text after its end"
        raise ValueError(
            f"need pairs of quotes, but a quote in the row that begins in line {start} of {path} {problem}; delete it, "
            'or double a quote within a quoted cell, as in "say ""hi""" (a backslash before it does not count)'
        ) from error
    more = f", and {len(notices) - 1} more" if len(notices) > 1 else ""
    return (f"{notices[0]}, as if it held other rows: look for stray quotes there{more}",) if notices else ()


def _holds_rows(record: list[str], delimiter: str, columns: int) -> bool:
    """Whether all full lines within a cell have as many cells as the header."""
    for cell in record if columns > 1 else ():
        inner = re.split(r"\r\n|\r|\n", cell)[1:-1]
        if len(inner) >= MAX_LINES_LIKE_ROWS and all(line.count(delimiter) == columns - 1 for line in inner):
            return True
    return False


def _describe_error(path: Path, columns: int, message: str) -> str:
    if "Empty CSV" in message:
        return f"need rows, got none in {path}; it has a header at most"
    row = re.search(r"Row #(\d+)", message)
    where = f"row {row[1]} (the header is row 1)" if row else "a row"
    uneven = re.search(r"Expected (\d+) columns, got (\d+)", message)
    if uneven:
        return (
            f"need {columns} cells in every row, as in the header, but {where} of {path} has {uneven[2]}; "
            "look for a missing or additional separator or quote there"
        )
    return f"need a CSV file, but {path} cannot be read as one: {' '.join(message.split())[:200]}"


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


def _write_quoted(path: Path, table: pa.Table, delimiter: str, encoding: str, packed: bool) -> None:
    names = _quoted(pa.array(table.column_names, pa.large_string()), "".join(DELIMITERS)).to_pylist()
    with open_text(path, encoding, packed) as file:
        file.write(delimiter.join(names) + "\n")
        for batch in table.to_batches(max_chunksize=10_000):
            cells = [_quoted(column, delimiter).fill_null("") for column in batch.columns]
            if len(cells) == 1:  # an empty line would be no row
                cells = [pc.if_else(pc.equal(cells[0], ""), _scalar('""'), cells[0])]
            rows = pc.binary_join_element_wise(*cells, _scalar(delimiter)).to_pylist()
            file.writelines(f"{row}\n" for row in rows)


def _quoted(cells: pa.Array, delimiters: str) -> pa.Array:
    """The cells, with quotes around those that hold a delimiter, a quote or a line end."""
    cells = cells.cast(pa.large_string())
    need = pc.match_substring_regex(cells, f'["\r\n{delimiters}]')
    if not pc.any(need).as_py():
        return cells
    inside = pc.replace_substring(cells, '"', '""')
    return pc.if_else(need, pc.binary_join_element_wise(_scalar('"'), inside, _scalar('"'), _scalar("")), cells)


def _scalar(value: str) -> pa.Scalar:
    return pa.scalar(value, pa.large_string())


def _joined(cell: object) -> str:
    return "|".join(map(str, cell)) if isinstance(cell, list) else str(cell)
