"""Excel files: the first sheet, read from a checked copy of the archive; and sheets whose text is never a formula."""

from __future__ import annotations

import io
import math
import re
import zipfile
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rockafellian._internal.extras import missing
from rockafellian.auditing.data.archives import whole_archive
from rockafellian.auditing.data.csv_files import as_text

#: Parts of an archive, their bytes, the tags of one, and the cells up to the last of a sheet: all are held in memory.
MAX_PARTS, MAX_UNPACKED, MAX_TAGS, MAX_CELLS = 10_000, 1 << 29, 24_000_000, 16_000_000
MAX_ROWS, MAX_COLUMNS, MAX_CHARACTERS = 1_048_576, 16_384, 32_767
#: An element c, which is a cell, and one that begins with its address.
CELL = re.compile(rb"<(?:[^\s<>/!?:=\"']+:)?c(?=[\s/>])")
ADDRESS = re.compile(rb"<(?:[^\s<>/!?:=\"']+:)?c\s+r=\"([A-Z]{1,3})([0-9]{1,7})\"")
TEXTS = re.compile(rb"uniqueCount\s*=\s*[\"']([^\"']*)")  # the reader makes room for as many
ERROR_CELL = re.compile(rb"<c\s[^>]*\bt=\"e\"")
#: Excel stores numbers as float64, which is not exact for integers beyond.
MAX_EXACT = 2**53
FIRST_DATE = datetime(1900, 3, 1, tzinfo=UTC)  # before it Excel has a 29th of February 1900
MAX_SECONDS = 10**9  # of durations
CREATED = datetime(2000, 1, 1)
FORMATS = {datetime: "yyyy-mm-dd hh:mm:ss.000", time: "hh:mm:ss.000", timedelta: "[h]:mm:ss.000"}


class _Exact(float):
    """A number that is written with all of its digits; xlsxwriter would write 16, which is one too few for some."""

    def __format__(self, _: str) -> str:
        return repr(float(self))


def read_excel(path: Path, content: bytes) -> tuple[pa.Table, tuple[str, ...]]:
    """Return the first sheet of a workbook, whose first row is the header; and what a user should know about it."""
    try:
        import python_calamine
    except ImportError as error:
        raise missing("python-calamine to read Excel files", "audit") from error
    copy, errors = _checked_copy(path, content)
    try:
        book = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(copy))
        names, rows = book.sheet_names, list(book.get_sheet_by_index(0).iter_rows())
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in Rust is no Exception
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"need an Excel workbook, but {path} is damaged ({reason}); save it again") from error
    table, notices = _table(path, rows)
    if others := ", ".join(map(repr, names[1:])):
        notices.append(f"only the first sheet {names[0]!r} of {path.name} is read, not {others}")
    if errors:
        notices.append(f"{errors:,} cells of {path.name} hold errors such as #N/A: read as empty")
    return table, tuple(notices)


def write_excel(path: Path, table: pa.Table) -> None:
    """Write a table as the only sheet of a workbook; a text is written as text, whatever it begins with."""
    try:
        import xlsxwriter  # type: ignore[import-untyped]
    except ImportError as error:
        raise missing("xlsxwriter to write Excel files", "audit") from error
    if table.num_rows >= MAX_ROWS or table.num_columns > MAX_COLUMNS:
        raise ValueError(
            f"need at most {MAX_ROWS - 1:,} rows and {MAX_COLUMNS:,} columns in an Excel file, got "
            f"{table.num_rows:,} and {table.num_columns:,}; name a .csv or .parquet file"
        )
    _check_lengths("the header", table.column_names)
    columns = [_cells(name, column) for name, column in zip(table.column_names, table.columns, strict=True)]
    with path.open("wb") as file, xlsxwriter.Workbook(file, {"constant_memory": True}) as book:
        book.set_properties({"created": CREATED})  # equal tables give equal bytes
        formats = {kind: book.add_format({"num_format": shown}) for kind, shown in FORMATS.items()}
        sheet = book.add_worksheet()
        for number, row in enumerate([table.column_names, *zip(*columns, strict=True)]):
            for place, cell in enumerate(row):
                if isinstance(cell, str):
                    sheet.write_string(number, place, cell)
                elif isinstance(cell, bool):
                    sheet.write_boolean(number, place, cell)
                elif isinstance(cell, float):
                    sheet.write_number(number, place, cell)
                elif cell is not None:
                    sheet.write_datetime(number, place, cell, formats[type(cell)])


def _checked_copy(path: Path, content: bytes) -> tuple[bytes, int]:
    """A copy of the parts of XML, and the number of cells that hold errors.

    The reader makes room for all cells from the first to the last of a sheet, and ends the process if there is none;
    so every cell has to name its place. It reads the copy, in which every part has the size that was checked.
    """
    copy, errors = io.BytesIO(), 0
    with whole_archive(path, "an Excel workbook (.xlsx)"), zipfile.ZipFile(io.BytesIO(content)) as old:
        parts = [part for part in old.infolist() if part.filename.lower().endswith((".xml", ".rels"))]
        if len(parts) > MAX_PARTS or sum(part.file_size for part in parts) > MAX_UNPACKED:
            raise ValueError(
                f"need at most {MAX_UNPACKED >> 20} MiB in the unpacked parts of {path}, got more; save it as CSV"
            )
        if len({part.filename for part in parts}) < len(parts):
            raise ValueError(f"need an Excel workbook (.xlsx), but {path} has two parts of one name; save it again")
        with zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new:
            for part in parts:
                unpacked = old.read(part)
                errors += _check_part(path, part.filename, unpacked)
                new.writestr(part.filename, unpacked)
    return copy.getvalue(), errors


def _check_part(path: Path, name: str, part: bytes) -> int:
    """The number of cells that hold errors; an error if there is no room for the cells, or if it defines entities."""
    counts = [found[1] for found in TEXTS.finditer(part)]
    if b"<!DOCTYPE" in part or b"<!ENTITY" in part or b"\0" in part:
        raise ValueError(f"need an Excel workbook, but {name} of {path} is no plain XML in UTF-8; save it again")
    if any(not count.isdigit() or len(count) > 9 or int(count) > len(part) for count in counts):
        raise ValueError(
            f"need an Excel workbook, but {name} of {path} has not as many texts as it says; save it again"
        )
    if part.count(b"<") > MAX_TAGS:
        raise ValueError(f"need at most {MAX_TAGS // 4:,} cells in {path}, got more; save it as CSV")
    addresses, columns, last_row = 0, set(), 0
    for column, row in (found.groups() for found in ADDRESS.finditer(part)):
        addresses, last_row = addresses + 1, max(last_row, int(row))
        columns.add(column)
    if addresses < sum(1 for _ in CELL.finditer(part)):
        raise ValueError(f"need cells with an address, but {name} of {path} has others; save it again in Excel")
    last_column = max(map(_number_of_column, columns), default=0)
    if last_row > MAX_ROWS or last_column > MAX_COLUMNS or last_row * last_column > MAX_CELLS:
        raise ValueError(
            f"need at most {MAX_CELLS:,} cells up to the last one of a sheet, got {last_row:,} rows and "
            f"{last_column:,} columns in {path}; delete what is empty after the data, or save it as CSV"
        )
    return sum(1 for _ in ERROR_CELL.finditer(part))


def _number_of_column(letters: bytes) -> int:
    """1 for A, 27 for AA."""
    number = 0
    for letter in letters:
        number = number * 26 + letter - ord("A") + 1
    return number


def _table(path: Path, rows: list[list[Any]]) -> tuple[pa.Table, list[str]]:
    filled = [row for row in rows if any(cell != "" for cell in row)]
    if not filled:
        raise ValueError(f"need a header with column names in the first row of {path}, got an empty sheet")
    names, columns, notices = [], [], []
    if blank := len(rows) - rows.index(filled[0]) - len(filled):
        notices.append(f"{blank:,} empty rows of {path.name} are left out")
    for place, (name, *cells) in enumerate(zip(*filled, strict=True), 1):
        if name == "" and all(cell == "" for cell in cells):
            continue
        if name == "":
            raise ValueError(f"need a column name above every column of {path}, got none above column {place}; add it")
        column, mixed = _column(cells)
        names.append(_cell_text(name))
        columns.append(column)
        notices += [f"column {names[-1]!r} mixes types: read as text"] if mixed else []
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise ValueError(f"need different column names, but {path} has {twice!r} twice; rename one")
    return pa.Table.from_arrays(columns, names), notices


def _column(cells: Iterable[Any]) -> tuple[pa.Array, bool]:
    """The cells with their type, or as text if they mix types; whether they do."""
    found = [None if cell == "" else cell for cell in cells]
    kinds = {type(cell) for cell in found} - {type(None)}
    if kinds <= {int, float}:
        whole = all(cell is None or (float(cell).is_integer() and abs(cell) <= MAX_EXACT) for cell in found)
        return pa.array([int(cell) if whole and cell is not None else cell for cell in found]), False
    if kinds <= {date, datetime}:
        days = (datetime.combine(cell, time()) if type(cell) is date else cell for cell in found)
        return pa.array(list(days), pa.timestamp("us")), False
    if len(kinds) == 1:
        return pa.array(found), False
    return pa.array([None if cell is None else _cell_text(cell) for cell in found], pa.string()), True


def _cell_text(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer() and abs(cell) <= MAX_EXACT:
        return str(int(cell))
    return str(cell)


def _cells(name: str, column: pa.ChunkedArray) -> list[Any]:
    """The cells as Excel stores them; as text where it would change them."""
    kind, types = column.type, pa.types
    if types.is_boolean(kind):
        return list(column.to_pylist())
    if types.is_integer(kind) or types.is_floating(kind):
        numbers = [None if cell is None or math.isnan(cell) else cell for cell in column.to_pylist()]
        if all(cell is None or (abs(cell) < math.inf and _is_exact(cell)) for cell in numbers):
            return [None if cell is None else _Exact(cell) for cell in numbers]
    if types.is_temporal(kind) and (dates := _dates(column)) is not None:
        return dates
    texts = as_text(name, column).to_pylist()
    _check_lengths(f"column {name!r}", texts)
    return [cell or None for cell in texts]


def _check_lengths(where: str, texts: Iterable[str | None]) -> None:
    if any(text is not None and len(text) > MAX_CHARACTERS for text in texts):  # they would be cut
        raise ValueError(
            f"need at most {MAX_CHARACTERS:,} characters in a cell of an Excel file, got more in {where}; "
            "name a .csv or .parquet file"
        )


def _dates(column: pa.ChunkedArray) -> list[Any] | None:
    """Dates, times or durations, unless Excel would change them: they are before 1900 or finer than milliseconds."""
    kind, types = column.type, pa.types
    is_date = types.is_date(kind) or types.is_timestamp(kind)
    if getattr(kind, "tz", None) is not None:
        return None
    wanted = pa.timestamp("us") if is_date else pa.time64("us") if types.is_time(kind) else pa.duration("us")
    try:
        cells = column.cast(wanted)
    except pa.ArrowInvalid:  # finer than microseconds
        return None
    numbers = np.asarray(cells.cast(pa.int64()).drop_null())
    first = FIRST_DATE.timestamp() if is_date else -MAX_SECONDS
    if (numbers % 1000).any() or (numbers < first * 1e6).any() or (not is_date and (numbers > MAX_SECONDS * 1e6).any()):
        return None
    return list(cells.to_pylist())


def _is_exact(cell: float) -> bool:
    return isinstance(cell, float) or abs(cell) <= MAX_EXACT
