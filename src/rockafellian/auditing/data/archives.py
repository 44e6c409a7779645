"""Packed files: whole ones only, and no more than memory has room for."""

from __future__ import annotations

import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: A file may unpack to this number of bytes; beyond the smaller number, to at most `MAX_RATIO` times its own size.
MAX_UNPACKED = 4 << 30
UNPACKED_WITHOUT_RATIO = 100_000_000
MAX_RATIO = 500
CHUNK = 1 << 20
#: What the standard library raises for archives that are damaged, encrypted, or packed in an unknown way.
DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError, OverflowError, ValueError)


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


@contextmanager
def whole_archive(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever a damaged archive raises into an error of one line; errors that say what they need stay."""
    try:
        yield
    except DAMAGE as error:
        if str(error).startswith("need "):
            raise
        reason = " ".join(str(error).split())[:200]
        raise ValueError(
            f"need {kind}, but {path} is truncated, has a password or is something else ({reason}); write it again"
        ) from error


def unpack_gzip(path: Path, content: bytes) -> bytes:
    """Return the unpacked bytes of a gzip file, or raise an error if there are too many."""
    unpacked = bytearray()
    with whole_archive(path, "a whole gzip file"), gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        while chunk := file.read(CHUNK):
            unpacked += chunk
            check_unpacked(path, len(unpacked), len(content))
    return bytes(unpacked)
