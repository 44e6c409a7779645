"""Files that appear only when complete, and CSV in which a spreadsheet finds nothing to run."""

from __future__ import annotations

import csv
import glob
import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

#: How temporary files end.
PARTIAL = ".partial"
#: What a spreadsheet would take for a formula, or would drop and then take the rest for one.
FORMULA = re.compile(r"\s*[\t\r\n=+\-@＝＋－＠]")  # noqa: RUF001 - full-width signs count too
#: What begins like a formula and is none: a label may well be -1.
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


def check_exists(*paths: Path | None) -> None:
    """Raise unless these paths exist; None is no path."""
    if missing := [path for path in paths if path is not None and not path.exists()]:
        raise FileNotFoundError(f"need a file or a folder, but there is no {missing[0]}; check the name")


def check_regular(path: Path) -> None:
    """Raise an error if the path is a folder, pipe, socket or device: reading one of these might never end."""
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "a pipe, socket or device"
        raise ValueError(f"need a regular file, got {path}, which is {kind}; name another file")


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`, renamed to it when the block ends and deleted if the block fails."""
    remove_stray(path)
    partial = path.with_name(f"{path.name}.{os.getpid()}-{uuid4().hex[:8]}{PARTIAL}")
    partial.touch(exist_ok=False)  # never through a link that lies there
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def remove_stray(path: Path) -> None:
    """Delete temporary files of this path that a killed process left."""
    for stray in path.parent.glob(f"{glob.escape(path.name)}.*{PARTIAL}"):
        process = re.fullmatch(rf"{re.escape(path.name)}\.(\d+)-[0-9a-f]{{8}}{re.escape(PARTIAL)}", stray.name)
        if process and not _is_running(int(process[1])):
            stray.unlink(missing_ok=True)


def file_checksum(path: Path) -> str:
    """Return a hash of the bytes of a file, which is read in parts."""
    check_regular(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32]


def write_csv(path: Path, header: Sequence[str], blocks: Iterable[Iterable[Iterable[Any]]]) -> None:
    """Write blocks of rows, each block given as its columns. None and NaN are empty, floats have seven digits."""
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)  # quotes, so that no other separator splits a text
        writer.writerow(header)
        for columns in blocks:
            writer.writerows(zip(*(map(_cell, column) for column in columns), strict=True))


def write_json(path: Path, content: Any) -> None:
    """Write indented JSON."""
    with atomic_write(path) as partial:
        partial.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def escape_formula(text: str) -> str:
    """The text, with an apostrophe in front if a spreadsheet might run it, or if it begins with an apostrophe."""
    runs = FORMULA.match(text) and not NUMBER.fullmatch(text)
    return f"'{text}" if runs or text.startswith("'") else text


def unescape_formula(text: str) -> str:
    """The text that `escape_formula` was given."""
    return text.removeprefix("'")


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return escape_formula(value)
    if isinstance(value, float):
        return "" if math.isnan(value) else float(f"{value:.7g}")
    return "" if value is None else value


def _is_running(process: int) -> bool:
    """Whether a process of this machine has this id; assumed where it cannot be asked without harm."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
