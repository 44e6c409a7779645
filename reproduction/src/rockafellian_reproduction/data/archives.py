"""Unpack chosen files of untrusted tar, zip, deb and gz archives: all of them, or none and an error."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

CHUNK = 1 << 20
DAMAGE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError)


class Readable(Protocol):
    """An object with `read`."""

    def read(self, size: int = -1, /) -> bytes: ...  # noqa: D102


def unpack(
    archive: Path, into: Path, members: Mapping[str, str], *, max_bytes: int, max_members: int = 100_000
) -> None:
    """Unpack members of an archive into a folder.

    An archive with a link, a device, or a name that leaves the folder or occurs twice is refused as a whole, whether
    that member is wanted or not.

    Args:
        archive: a .tar .tar.gz .tgz .zip .whl .deb, or a .gz, whose one member has the archive's name without .gz
        members: the names wanted in the archive, and their names in the folder
        max_bytes: the most bytes to unpack, counted while unpacking
        max_members: the most members an archive may have
    """
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into, prefix=".unpacking-") as fresh, _damage_as_value_error(archive):
        if not archive.stat().st_size:  # which gzip would take for no content
            raise EOFError("it is empty")
        budget = _Budget(archive, max_bytes, max_members)
        _reader(archive)(archive, _Target(Path(fresh), members), budget)
        missing = [name for name, place in members.items() if not (Path(fresh) / place).is_file()]
        if missing:
            raise ValueError(f"need {', '.join(missing)} in {archive}, but it has no such member")
        for place in members.values():
            (into / place).parent.mkdir(parents=True, exist_ok=True)
            os.replace(Path(fresh) / place, into / place)


class _Budget:
    """Limits on what an archive may contain, counted while unpacking, since headers are not to be trusted."""

    def __init__(self, archive: Path, max_bytes: int, max_members: int) -> None:
        self.archive, self.max_bytes, self.max_members = archive, max_bytes, max_members
        self.bytes, self.names = 0, set[str]()

    def spend(self, amount: int) -> None:
        self.bytes += amount
        if self.bytes > self.max_bytes:
            raise ValueError(
                f"need at most {self.max_bytes} bytes in {self.archive}, but more came out of it; not unpacked"
            )

    def admit(self, name: str) -> str:
        """Return a member's name in plain form; raise if it leaves the folder, occurs twice or exceeds the limit."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if name.startswith("/") or ".." in parts or any(sign in name for sign in "\\\0") or ":" in "".join(parts[:1]):
            raise ValueError(f"need names that stay in the folder, but {self.archive} has {name!r}; not unpacked")
        plain = "/".join(parts)
        if plain in self.names:
            raise ValueError(f"need every name once, but {self.archive} has {name!r} twice; not unpacked")
        self.names.add(plain)
        if len(self.names) > self.max_members:
            raise ValueError(f"need at most {self.max_members} members, but {self.archive} has more; not unpacked")
        return plain

    def refuse_kind(self, name: str) -> ValueError:
        """Return the error for a member that is neither a file nor a folder."""
        return ValueError(
            f"need files and folders only, but {self.archive} has {name!r}, a link or device; not unpacked"
        )


class _Target:
    """The folder for the members that are wanted."""

    def __init__(self, folder: Path, members: Mapping[str, str]) -> None:
        self.folder, self.members = folder, members

    def write(self, name: str, content: Readable, spend: Callable[[int], None]) -> int:
        """Copy a member piece by piece and return its length."""
        path = self.folder / self.members[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            while piece := content.read(CHUNK):
                spend(len(piece))
                file.write(piece)
            return file.tell()


class _Counted:
    """A stream that spends what is read from it, so that skipped members count, and keeps its last block."""

    def __init__(self, stream: Readable, budget: _Budget) -> None:
        self.stream, self.budget, self.last = stream, budget, b""

    def read(self, size: int = -1, /) -> bytes:
        piece = self.stream.read(size)
        self.budget.spend(len(piece))
        self.last = (self.last + piece)[-tarfile.BLOCKSIZE :]
        return piece


@contextmanager
def _damage_as_value_error(archive: Path) -> Iterator[None]:
    try:
        yield
    except (*DAMAGE, gzip.BadGzipFile) as error:
        raise ValueError(
            f"need a whole archive, but {archive} is cut short or damaged ({error}); fetch it again"
        ) from error


def _reader(archive: Path) -> Callable[[Path, _Target, _Budget], None]:
    for suffix, reader in READERS.items():
        if archive.name.endswith(suffix):
            return reader
    raise ValueError(f"need an archive that ends in one of {' '.join(READERS)}, got {archive}")


def _unpack_tar(archive: Path, target: _Target, budget: _Budget) -> None:
    with archive.open("rb") as file:
        _unpack_tar_stream(file, target, budget)


def _unpack_tar_gz(archive: Path, target: _Target, budget: _Budget) -> None:
    with gzip.open(archive) as file:
        _unpack_tar_stream(file, target, budget)


def _unpack_tar_stream(stream: Readable, target: _Target, budget: _Budget) -> None:
    # Once through, as a stream: the whole is read, so that a bad member at the end is seen before anything is placed.
    counted = _Counted(stream, budget)
    with tarfile.open(fileobj=counted, mode="r|") as tar:  # type: ignore[call-overload]
        for member in tar:
            name = budget.admit(member.name)
            if not (member.isreg() or member.isdir()):
                raise budget.refuse_kind(member.name)
            content = tar.extractfile(member) if name in target.members and member.isreg() else None
            # A sparse member grows beyond what is read of the stream.
            if content and target.write(name, content, budget.spend if member.issparse() else _free) != member.size:
                raise EOFError(f"{member.name} ends early")
    while counted.read(CHUNK):  # a tar ends before its stream does, and the checksum comes last
        pass
    if any(counted.last):  # tarfile takes a cut between or in headers for the end
        raise EOFError("it lacks the empty block at its end")


def _free(amount: int) -> None:
    """Count nothing: the bytes were counted in the stream."""


def _unpack_zip(archive: Path, target: _Target, budget: _Budget) -> None:
    with zipfile.ZipFile(archive) as file:
        names = {budget.admit(member.filename): member for member in file.infolist()}
        for member in names.values():
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise budget.refuse_kind(member.filename)
        for name in target.members.keys() & names.keys():
            if not names[name].is_dir():
                with file.open(names[name]) as content:
                    target.write(name, content, budget.spend)


def _unpack_gz(archive: Path, target: _Target, budget: _Budget) -> None:
    name = budget.admit(archive.name.removesuffix(".gz"))
    if name in target.members:
        with gzip.open(archive) as file:
            target.write(name, file, budget.spend)


def _unpack_deb(archive: Path, target: _Target, budget: _Budget) -> None:
    with archive.open("rb") as file:
        name, content = _data_of_deb(archive, file)
    openers: dict[str, Callable[[IO[bytes]], Readable]] = {
        "data.tar": lambda raw: raw,
        "data.tar.gz": lambda raw: gzip.GzipFile(fileobj=raw),
        "data.tar.xz": lzma.LZMAFile,
    }
    if name not in openers:
        raise ValueError(
            f"need a deb with data.tar, .gz or .xz, but {archive} has {name}, which is not read here; "
            f"unpack it with dpkg-deb -x, and name the folder"
        )
    _unpack_tar_stream(openers[name](io.BytesIO(content)), target, budget)


def _data_of_deb(archive: Path, file: IO[bytes]) -> tuple[str, bytes]:
    """Name and content of the member data.tar.*: a deb is an `ar` archive, headers of 60 bytes and even lengths."""
    if file.read(8) != b"!<arch>\n":
        raise ValueError(f"need a deb, but {archive} does not begin as one")
    while len(header := file.read(60)) == 60 and header.endswith(b"`\n"):
        name, length = header[:16].decode("ascii", "replace").strip().rstrip("/"), header[48:58].strip()
        if not length.isdigit():
            raise EOFError("a length that is no number")
        if name.startswith("data.tar"):
            content = file.read(int(length))
            if len(content) != int(length):
                raise EOFError(f"{name} ends early")
            return name, content
        file.seek(int(length) + int(length) % 2, os.SEEK_CUR)
    raise EOFError("no member data.tar")


#: By suffix; the longer of two that fit comes first.
READERS: dict[str, Callable[[Path, _Target, _Budget], None]] = {
    ".tar.gz": _unpack_tar_gz,
    ".tgz": _unpack_tar_gz,
    ".tar": _unpack_tar,
    ".zip": _unpack_zip,
    ".whl": _unpack_zip,
    ".deb": _unpack_deb,
    ".gz": _unpack_gz,
}
