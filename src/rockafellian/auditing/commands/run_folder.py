"""The folder of a run: held by one process at a time, and marked DONE last, with a checksum of every file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rockafellian._internal.extras import missing
from rockafellian._internal.files import PARTIAL, check_regular, file_checksum, write_json
from rockafellian.auditing.data.reading import FORMATS
from rockafellian.auditing.model.classifier import DESCRIPTION, TENSORS

try:
    import msgspec
    from filelock import FileLock, Timeout
except ImportError as error:
    raise missing("msgspec and filelock to write and read runs", "audit") from error

T = TypeVar("T")

DONE, SETTINGS, LOCK, FRAME = "DONE", "settings.json", ".lock", "data.parquet"
SUMMARY, HISTORY, FINDINGS, CHECKPOINT = "summary.json", "history.json", "findings.parquet", "checkpoint"
MODEL = (f"model/{DESCRIPTION}", f"model/{TENSORS}")
#: All files that a run writes, and so all that --force may delete: DONE first, the settings last.
OUTPUTS = [DONE, SUMMARY, FINDINGS, "findings.csv", HISTORY, "set_aside.csv", "conflicts.csv", "report.html"]
OUTPUTS += [f"{name}{suffix}" for name in ("cleaned", "relabeled") for suffix in FORMATS]
OUTPUTS += [*MODEL, f"{CHECKPOINT}/checkpoint.safetensors", FRAME, SETTINGS]
FOLDERS = ("model", CHECKPOINT)


class ReadSettings(msgspec.Struct, frozen=True):
    """The settings that say how the data of a run are read."""

    label: tuple[str, ...]
    separator: str | None
    encoding: str | None = None


class Description(msgspec.Struct, frozen=True):
    """What identifies a run: its settings, and the content of all that it read; and its date."""

    settings: dict[str, Any]
    data: str | None  # the path; None for a frame, which lies in the folder
    rows: int
    checksum: str
    images: str | None  # the checksum of images in files
    image_column: str | None
    valid: str | None  # the checksum of the validation data
    key: str
    date: str
    decisions: str | None = None  # the checksum of people's decisions

    @property
    def reading(self) -> ReadSettings:
        """How the data are read."""
        return msgspec.convert(self.settings, ReadSettings)

    def differences(self, other: Description) -> list[str]:
        """Return in which settings and inputs another run differs, in words."""
        old, new = ({**each.settings, **each._inputs()} for each in (self, other))
        names = [name for name in dict.fromkeys([*new, *old]) if old.get(name) != new.get(name)]
        return [f"{name} was {old.get(name)!r} and is {new.get(name)!r}" for name in names]

    def _inputs(self) -> dict[str, str | None]:
        images, valid = {"the images": self.images}, {"the validation data": self.valid}
        return {"the data": self.checksum, **images, **valid, "the decisions": self.decisions}


@dataclass(frozen=True)
class FinishedRun:
    """A folder that is marked DONE, and the checksums of the files in it."""

    folder: Path
    checksums: dict[str, str]

    def path(self, name: str) -> Path:
        """Return the path of a file of the run; raise an error if it is not the one that the run wrote."""
        path = self.folder / name
        if name not in self.checksums:
            raise ValueError(f"need a run with {name}, but {self.folder} has none; train again")
        _check_no_links(self.folder, [name])
        if not path.exists() or file_checksum(path) != self.checksums[name]:
            raise ValueError(
                f"need the files as the run wrote them, but {path} is gone or has changed since; "
                "restore it or train again"
            )
        return path

    def model(self) -> Path:
        """Return the folder of the trained model."""
        paths = [self.path(name) for name in MODEL]  # each is checked
        return paths[0].parent

    def inputs(self, data: Path | None) -> list[Path]:
        """Return what the run read, or where that is now: files that no command may replace."""
        return [Path(path) for path in (self.description.data, data) if path is not None]

    @property
    def description(self) -> Description:
        """What identifies the run."""
        return read_json(self.path(SETTINGS), Description)


def open_run(folder: Path) -> FinishedRun:
    """Return a finished run, or raise an error."""
    if not (folder / SETTINGS).is_file():
        raise FileNotFoundError(f"need the folder of a run, but {folder} has no {SETTINGS}; check the name")
    if not (folder / DONE).exists():
        raise ValueError(
            f"need a finished run, but {folder} was stopped; resume it with `audit ... --resume --out {folder}`"
        )
    return FinishedRun(folder, read_json(folder / DONE, dict[str, str]))


def read_json(path: Path, kind: type[T]) -> T:
    """Return the content of a JSON file that a run wrote; raise an error unless it is of this kind."""
    _check_no_links(path.parent, [path.name])
    check_regular(path)
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(
            f"need the file as a run writes it, but {path} has changed or is of another version ({error}); "
            "restore it or train again"
        ) from error


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to the folder."""
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise ValueError(
            f"need a folder that no other run writes to, but one writes to {folder} now; name another, or wait"
        ) from error
    try:
        yield
    finally:
        (folder / LOCK).unlink(missing_ok=True)  # while it is held: who opened it before finds it deleted, and retries
        lock.release()


def check_free(folder: Path, *, force: bool, resume: bool) -> None:
    """Raise an error unless a run may write to this folder."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"need a folder to write to, but {folder} is a file; name another")
    holds_run = (folder / SETTINGS).exists()
    if resume:
        if not holds_run:
            raise ValueError(f"need a run to resume, but {folder} holds none; leave --resume out")
        if (folder / DONE).exists():
            raise ValueError(f"need a run that was stopped, but {folder} is finished; see it with `show {folder}`")
    elif holds_run and not force:
        raise ValueError(
            f"need a folder without a run, but {folder} holds one; name another, resume it with --resume, "
            "or replace it with --force"
        )
    elif not holds_run and folder.exists() and any(path.name != LOCK for path in folder.iterdir()):
        raise ValueError(f"need a new or empty folder, but {folder} holds other files; name another")
    _check_no_links(folder, [*FOLDERS, *OUTPUTS])
    _check_nothing_else(folder)


def check_outside(folder: Path, inputs: list[Path]) -> None:
    """Raise an error if an input lies in the folder of the run, where it might be deleted."""
    for path in inputs:
        if folder.resolve() in (path.resolve(), *path.resolve().parents):
            raise ValueError(
                f"need data outside the folder of the run, but {path} lies in {folder}; move it, or name another folder"
            )


def clear(folder: Path) -> None:
    """Delete everything that a run writes: first the mark that says that it is complete."""
    for name in OUTPUTS:
        (folder / name).unlink(missing_ok=True)
    for path in [*folder.glob(f"*{PARTIAL}"), *folder.glob(f"*/*{PARTIAL}")]:
        path.unlink(missing_ok=True)
    for name in FOLDERS:
        if (folder / name).is_dir():
            (folder / name).rmdir()


def mark_done(folder: Path) -> None:
    """Delete the checkpoint, and say that all files are complete, with a checksum of each."""
    for path in folder.glob(f"{CHECKPOINT}/*"):
        path.unlink()
    if (folder / CHECKPOINT).is_dir():
        (folder / CHECKPOINT).rmdir()
    for path in [*folder.glob(f"*{PARTIAL}"), *folder.glob(f"*/*{PARTIAL}")]:
        path.unlink()
    write_json(folder / DONE, {name: file_checksum(folder / name) for name in OUTPUTS if (folder / name).exists()})


def _check_no_links(folder: Path, names: list[str]) -> None:
    """Links are not followed: what lies behind one may belong to somebody else."""
    linked = next((path for name in names for path in _steps(folder, name) if path.is_symlink()), None)
    if linked is not None:
        raise ValueError(f"need the files of the run themselves, but {linked} is a link; copy the file there")


def _steps(folder: Path, name: str) -> Iterator[Path]:
    for part in Path(name).parts:
        folder = folder / part
        yield folder


def _check_nothing_else(folder: Path) -> None:
    """Raise an error if a sub-folder that a run replaces holds files that are not the run's."""
    for name in FOLDERS:
        path = folder / name
        found = {each.name for each in os.scandir(path)} if path.is_dir() else set()
        known = {Path(each).name for each in OUTPUTS if Path(each).parent.name == name}
        if other := sorted(each for each in found - known if not each.endswith(PARTIAL)):
            raise ValueError(f"need a folder of a run alone, but {path / other[0]} is not of a run; move it elsewhere")
