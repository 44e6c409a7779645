"""A run: a folder that is claimed once the data were found good, survives a kill, and is marked DONE last."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet

from rockafellian._internal.files import atomic_write
from rockafellian.auditing.data.reading import Source, read
from rockafellian.auditing.data.settings import Settings
from rockafellian.auditing.model.audit import Audit, audit_problem
from rockafellian.auditing.model.problem import prepare
from rockafellian.auditing.report.outputs import write_all, write_json
from rockafellian.training.progress import Progress

DONE, SETTINGS, CHECKPOINT, FRAME = "DONE", "settings.json", "checkpoint", "data.parquet"
#: All that a run writes, and so all that --force may remove.
OWN = ["summary.json", "history.json", "findings.csv", "findings.parquet", "set_aside.csv", "conflicts.csv"]
OWN += ["report.html", "model", SETTINGS, FRAME, CHECKPOINT, DONE]
COPIES = ("cleaned", "relabelled")
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def train(
    data: Any,
    settings: Settings,
    *,
    out: Path | None = None,
    valid: Any = None,
    force: bool = False,
    resume: bool = False,
    progress: Progress = "auto",
    say: Callable[[str], object] = print,
) -> tuple[Path, Audit]:
    """Audit the data and leave all that came of it in a folder: `out`, or a new one in runs/."""
    if resume and (out is None or force):
        raise ValueError("need the folder of the run to go on with, and no --force; pass --resume --out DIR")
    if out is not None:
        check_free(out, force=force, resume=resume)
    with _interrupted("stopped before training began; nothing was written"):
        problem = prepare(data, settings, valid, progress)
    say(f"{problem.kind.describe()}: {len(problem.source):,} rows, {len(problem.labels.names)} classes")
    say(f"the network sees {problem.features.describe()}")
    for notice in problem.notices:
        say(notice)
    described = _describe(problem.source, problem.settings)
    folder = _new_folder(data) if out is None else out
    if resume:
        _check_same(folder, described)
    with (
        _interrupted(f"stopped; what is done is in {folder}: go on with --resume --out {folder}"),
        _enough_space(folder),
    ):
        if not resume:
            _claim(folder, described, problem.source)
        audit = audit_problem(problem, checkpoint=folder / CHECKPOINT, resume=resume, progress=progress)
        write_all(audit, folder, key=described["key"])
        shutil.rmtree(folder / CHECKPOINT)
        (folder / DONE).touch()
    return folder, audit


def open_run(folder: Path) -> dict[str, Any]:
    """The settings of a finished run, or an error."""
    if not (folder / SETTINGS).is_file():
        raise FileNotFoundError(f"need the folder of a run, but {folder} has no {SETTINGS}; check the name")
    if not (folder / DONE).exists():
        raise ValueError(
            f"need a finished run, but {folder} was stopped; go on with `train ... --resume --out {folder}`"
        )
    described: dict[str, Any] = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    return described


def reread(folder: Path, described: dict[str, Any], data: Path | None = None) -> Source:
    """The data that a run was trained on, from where it was or from where it is now; an error if it has changed."""
    path = data or (folder / FRAME if described["data"] is None else Path(described["data"]))
    source = read(path)
    if described["data"] is not None and _checksum(source) != described["checksum"]:
        raise ValueError(f"need the data that {folder} was trained on, but {path} has changed since; bring it back")
    return source


def check_free(folder: Path, *, force: bool, resume: bool) -> None:
    """An error unless a run may write here."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"need a folder to write to, but {folder} is a file; name another")
    holds_run = (folder / SETTINGS).exists()
    if resume:
        if not holds_run:
            raise ValueError(f"need a run to go on with, but {folder} holds none; leave --resume out")
        if (folder / DONE).exists():
            raise ValueError(f"need a run that was stopped, but {folder} is finished; see it with `show {folder}`")
    elif holds_run and not force:
        raise ValueError(
            f"need a folder without a run, but {folder} holds one; name another, go on with it by --resume, "
            "or replace it by --force"
        )
    elif not holds_run and folder.exists() and any(folder.iterdir()):
        raise ValueError(f"need a new or empty folder, but {folder} holds other files; name another")


def _claim(folder: Path, described: dict[str, Any], source: Source) -> None:
    """Begin the run: remove the one before, of which --force was said, and write down what this one is."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in [*(folder / name for name in OWN), *(path for name in COPIES for path in folder.glob(f"{name}.*"))]:
        shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
    if source.path is None:
        with atomic_write(folder / FRAME) as partial:
            pyarrow.parquet.write_table(source.table, partial)
    write_json(folder / SETTINGS, described)


def _describe(source: Source, settings: Settings) -> dict[str, Any]:
    """What must be equal for a run to be the same run, and when it was."""
    checksum = _checksum(source)
    told = json.loads(json.dumps(asdict(settings)))
    key = hashlib.sha256(json.dumps([checksum, told]).encode()).hexdigest()[:16]
    path = None if source.path is None else str(source.path.resolve())
    return {
        "settings": told,
        "data": path,
        "rows": len(source),
        "checksum": checksum,
        "key": key,
        "date": str(date.today()),
    }


def _check_same(folder: Path, described: dict[str, Any]) -> None:
    before = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    old, new = ({**each["settings"], "the data": each["checksum"]} for each in (before, described))
    differ = [
        f"{name} was {old.get(name)!r} and is {new.get(name)!r}" for name in new if old.get(name) != new.get(name)
    ]
    if differ:
        raise ValueError(f"need the run that {folder} is of, but {'; '.join(differ)}; name another folder")


def _checksum(source: Source) -> str:
    """Of the bytes of a file, of the names and sizes in a folder, of the cells of a frame."""
    digest = hashlib.sha256()
    if source.form == "folder":
        for name in source.table.column("file").to_pylist():
            digest.update(f"{name}\n{(source.folder / name).stat().st_size}\n".encode())
    elif source.path is not None:
        with source.path.open("rb") as file:
            while part := file.read(1 << 20):
                digest.update(part)
    else:
        for batch in source.table.to_batches():
            digest.update(batch.serialize())
    return digest.hexdigest()


def _new_folder(data: Any) -> Path:
    stem = Path(data).stem if isinstance(data, str | Path) else "audit"
    return next(path for number in count(1) if not (path := Path("runs") / f"{stem}-{number}").exists())


@contextmanager
def _interrupted(message: str) -> Iterator[None]:
    """Ctrl-C as an error that says what became of the work."""
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedError(message) from None


@contextmanager
def _enough_space(folder: Path) -> Iterator[None]:
    """A full disk as an error that says how to go on."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise OSError(
            f"need more space on the disk of {folder} ({error.strerror}); make room, then --resume --out {folder}"
        ) from error
