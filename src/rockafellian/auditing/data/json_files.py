"""JSON files: an array of objects, or an object in each line; an object is a row, and a value is a cell as given."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from rockafellian.auditing.data.csv_files import as_text
from rockafellian.auditing.data.encodings import UTF8, Text, open_text

#: Objects may lack keys, but not as many as would fill the memory.
MAX_MISSING = 100_000_000
#: Integers beyond are not exact as floating point numbers.
MAX_EXACT = 2**53

Row = dict[str, Any]


def read_json(path: Path, text: Text, lines: bool) -> tuple[pa.Table, tuple[str, ...]]:
    """Return the objects of a file as rows, and notices about columns read as text; a missing key is null."""
    rows = list(_rows_of_lines(path, text.content) if lines else _rows_of_array(path, text.content))
    names = list(dict.fromkeys(chain.from_iterable(rows)))
    if len(rows) * len(names) - sum(map(len, rows)) > MAX_MISSING:
        raise ValueError(f"need objects with the same keys in {path}, got {len(names)} different keys; keep fewer")
    columns, notices = [], list(text.notices)
    try:
        for name in names:
            column, notice = _column([row.get(name) for row in rows])
            columns.append(column)
            notices += [f"column {name!r} {notice}: read as text"] if notice else []
        return pa.Table.from_arrays(columns, names), tuple(notices)
    except UnicodeEncodeError as error:
        raise ValueError(
            f"need whole characters in {path}, got half of a pair such as \\ud800 in column {name!a}; correct it"
        ) from error


def write_json(path: Path, table: pa.Table, lines: bool, encoding: str = UTF8, packed: bool = False) -> None:
    """Write a row as an object: numbers, texts, true, false, null and lists as such, anything else as text."""
    names = table.column_names
    cells = [c if _is_json(c.type) else as_text(n, c) for n, c in zip(names, table.columns, strict=True)]
    with open_text(path, encoding, packed) as file:
        file.write("" if lines else "[\n")
        for number, row in enumerate(_dicts(pa.Table.from_arrays(cells, names))):
            file.write(("" if lines else ",\n") * (number > 0) + json.dumps(row, ensure_ascii=False, default=str))
            file.write("\n" if lines else "")
        file.write("" if lines else "\n]\n")


def _dicts(table: pa.Table) -> Iterator[Row]:
    for batch in table.to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()


def _is_json(kind: pa.DataType) -> bool:
    types = pa.types
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_null, types.is_string)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _is_json(kind.value_type)
    if types.is_struct(kind):
        return all(_is_json(field.type) for field in kind)
    return types.is_large_string(kind) or any(test(kind) for test in tests)


def _rows_of_lines(path: Path, content: bytes) -> Iterator[Row]:
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            row = _parse(f"line {number} of {path}", line, "join or split its lines: one object in each")
            if not isinstance(row, dict):
                raise ValueError(f"need an object in each line, got {_kind(row)} in line {number} of {path}; wrap it")
            yield row


def _rows_of_array(path: Path, content: bytes) -> Iterator[Row]:
    rows = _parse(str(path), content, "if it has one object in each line, let its name end in .jsonl")
    if not isinstance(rows, list):
        raise ValueError(f"need an array of objects, got {_kind(rows)} in {path}; put [ and ] around the rows")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise ValueError(f"need an array of objects, got {_kind(row)} as item {number} of {path}; wrap it")
        yield row


def _parse(where: str, content: bytes, fix: str) -> Any:
    try:
        return json.loads(content.decode(), object_pairs_hook=_no_key_twice)
    except json.JSONDecodeError as error:
        at = f"at line {error.lineno}, " if error.lineno > 1 else ""
        raise ValueError(
            f"need JSON, but {where} is none ({error.msg}, {at}column {error.colno}); correct it, or {fix}"
        ) from error
    except RecursionError as error:
        raise ValueError(
            f"need JSON of a few levels, got hundreds of nested brackets in {where}; flatten it"
        ) from error
    except ValueError as error:  # a key that comes twice, or an integer of thousands of digits
        raise ValueError(f"need JSON that can be read, but in {where}: {error}") from error


def _no_key_twice(pairs: list[tuple[str, Any]]) -> Row:
    row = dict(pairs)
    if len(row) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {twice!a} comes twice in one object; rename one")
    return row


def _kind(value: Any) -> str:
    return {dict: "an object", list: "an array", str: "a text", bool: "true or false"}.get(
        type(value), "null" if value is None else "a number"
    )


def _column(cells: list[Any]) -> tuple[pa.Array, str]:
    """The cells with their type, or as text and the reason why."""
    reason, kind = _reason_for_text(cells)
    if not reason:
        try:
            return pa.array(cells, kind), ""
        except (pa.ArrowInvalid, OverflowError):
            reason = "has integers of more than 64 bits"
    texts = [each if each is None or isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in cells]
    return pa.array(texts, pa.string()), reason


def _reason_for_text(cells: list[Any]) -> tuple[str, pa.DataType | None]:
    """Why the cells do not fit a type, and the type that they need unless it follows from them."""
    kinds = {type(cell) for cell in cells} - {type(None)}
    if kinds == {int, float}:
        exact = all(abs(cell) <= MAX_EXACT for cell in cells if type(cell) is int)
        return ("", pa.float64()) if exact else ("mixes fractions with integers of more than 53 bits", None)
    if len(kinds) > 1:
        return "mixes types", None
    if kinds == {dict}:
        return "has objects", None
    if kinds == {list}:
        return _reason_for_text_in_lists(cells)
    return "", pa.string() if kinds == {str} else None


def _reason_for_text_in_lists(cells: list[Any]) -> tuple[str, pa.DataType | None]:
    items = list(chain.from_iterable(cell for cell in cells if cell is not None))
    if any(isinstance(item, dict | list) for item in items):
        return "has nested values", None
    reason, kind = _reason_for_text(items)
    if reason:
        return reason, None
    return "", pa.list_(kind) if kind is not None else None
