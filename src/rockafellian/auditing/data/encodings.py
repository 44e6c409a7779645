"""The bytes of text files: unpacked, and decoded with the encoding that was given or found."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

#: A file may unpack to this number of bytes; beyond the smaller number, to at most `MAX_RATIO` times its own size.
MAX_UNPACKED = 4 << 30
UNPACKED_WITHOUT_RATIO = 100_000_000
MAX_RATIO = 500
CHUNK = 1 << 20

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


def check_unpacked(path: Path, unpacked: int, packed: int) -> None:
    """Raise an error if a file unpacks to more than fits into memory, or than any data do."""
    if unpacked > MAX_UNPACKED:
        raise ValueError(
            f"need at most {MAX_UNPACKED >> 30} GiB of unpacked data, but {path} has more; split it into several files"
        )
    if unpacked > UNPACKED_WITHOUT_RATIO and unpacked > MAX_RATIO * packed:
        raise ValueError(
            f"need data, but {path} unpacks to more than {MAX_RATIO} times its size, as no data do; "
            "unpack it yourself if you trust it"
        )


def unpack_gzip(path: Path, content: bytes) -> bytes:
    """Return the unpacked bytes of a gzip file, or raise an error if there are too many."""
    unpacked = bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            while chunk := file.read(CHUNK):
                unpacked += chunk
                check_unpacked(path, len(unpacked), len(content))
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"need a whole gzip file, but {path} is truncated or something else ({error})") from error
    return bytes(unpacked)


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
        line = ""
        if isinstance(error, UnicodeDecodeError):
            line = f" in line {content[: error.start].decode(encoding, 'replace').count(chr(10)) + 1}"
        raise ValueError(
            f"need text in {encoding}, got other bytes{line} of {path}; correct them, or name another with --encoding"
        ) from error


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
    """UTF-16 without a mark, if every other byte is often zero and the ones between hardly ever are."""
    sample = content[:SAMPLE]
    even, odd = (sample[start::2].count(0) * 2 / len(sample) for start in (0, 1))
    if odd > 0.3 and even < 0.05:
        return "utf-16-le"
    return "utf-16-be" if even > 0.3 and odd < 0.05 else None


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
