"""The bytes of text files, decoded with the encoding that was given or found."""

from __future__ import annotations

import codecs
import gzip
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

UTF8 = "utf-8"
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
#: How much of a file is searched for the zero bytes of UTF-16.
SAMPLE = 1 << 16


class Text(NamedTuple):
    """The text of a file as UTF-8 without a byte order mark, the encoding it was in, and what was guessed."""

    content: bytes
    encoding: str
    notices: tuple[str, ...] = ()


def decode(path: Path, content: bytes, encoding: str | None = None) -> Text:
    """Return the text of a file, in the encoding given, or else in the one its bytes show."""
    found, notices = _find_encoding(path, content) if encoding is None else (_checked_name(encoding), ())
    if found in (UTF8, "utf-8-sig") and encoding is None:
        text = content.removeprefix(codecs.BOM_UTF8)
    else:
        text = _transcode(path, content, found)
    if b"\0" in text:
        line = text.count(b"\n", 0, text.index(b"\0")) + 1
        notices += (f"{path.name} has zero bytes, the first in line {line}: it may be damaged",)
    return Text(text, found, notices)


@contextmanager
def open_text(path: Path, encoding: str, packed: bool) -> Iterator[IO[str]]:
    """Open a file for text in this encoding, packed by gzip or not; equal texts give equal bytes."""
    with path.open("wb") as raw:
        file = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if packed else raw
        try:
            with file, io.TextIOWrapper(file, encoding=encoding, newline="") as text:
                yield text
        except UnicodeEncodeError as error:
            raise ValueError(
                f"need text that {encoding}, the encoding of the data, can hold, "
                f"got {error.object[error.start]!r}; name a .parquet file"
            ) from error


def _checked_name(encoding: str) -> str:
    try:
        codec = codecs.lookup(encoding)
    except (LookupError, ValueError):
        codec = None
    if codec is None or not codec._is_text_encoding:
        raise ValueError(f"need an encoding of text such as utf-8, cp1252 or utf-16, got {encoding!r}; name another")
    return codec.name


def _transcode(path: Path, content: bytes, encoding: str) -> bytes:
    try:
        return content.decode(encoding).removeprefix("\ufeff").encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"need text, but {path} read as {encoding} has half a character; name another") from error
    except UnicodeError as error:
        where = _line_of(error, content, encoding)
        raise ValueError(
            f"need text in {encoding}, got other bytes{where} of {path}; correct them, or name another with --encoding"
        ) from error


def _line_of(error: UnicodeError, content: bytes, encoding: str) -> str:
    """Where the error is; nothing for codecs that do not say."""
    try:
        line = content[: error.start].decode(encoding).count("\n") + 1 if isinstance(error, UnicodeDecodeError) else 0
    except UnicodeError:
        line = 0
    return f" in line {line}" if line else ""


def _find_encoding(path: Path, content: bytes) -> tuple[str, tuple[str, ...]]:
    marked = next((name for mark, name in BYTE_ORDER_MARKS.items() if content.startswith(mark)), None)
    name = marked or _by_zero_bytes(content) or UTF8
    if name not in (UTF8, "utf-8-sig"):
        return name, ()
    try:
        content.decode()
    except UnicodeDecodeError as error:
        _check_not_utf8(path, content, error)
        name = _single_byte(content)
        shown = "Windows-1252" if name == "cp1252" else "Latin-1"
        return name, (f"{path.name} is not UTF-8: read as {shown}; pass --encoding to read it otherwise",)
    return name, ()


def _by_zero_bytes(content: bytes) -> str | None:
    """UTF-16 without a mark, if every other byte is often zero, as is one of the first two, and the others are not."""
    even, odd = (content[start:SAMPLE:2].count(0) * 2 / min(len(content) or 1, SAMPLE) for start in (0, 1))
    if content[1:2] == b"\0" and odd > 0.3 and even < 0.05:
        return "utf-16-le"
    return "utf-16-be" if content[:1] == b"\0" and even > 0.3 and odd < 0.05 else None


def _check_not_utf8(path: Path, content: bytes, error: UnicodeDecodeError) -> None:
    """Raise an error if the text is UTF-8 but for some bytes: it has more characters of UTF-8 than other bytes."""
    text = content.decode(errors="surrogateescape")
    broken = len(re.findall("[\udc80-\udcff]", text))
    if len(re.findall("[^\0-\x7f\udc80-\udcff]", text)) >= broken:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"need UTF-8 text, got {broken} other bytes in {path}, the first in line {line}; "
            "correct them, or name the encoding with --encoding"
        )


def _single_byte(content: bytes) -> str:
    try:
        content.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "cp1252"
