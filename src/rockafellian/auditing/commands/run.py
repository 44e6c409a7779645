"""A run: a folder that is written only if the data are good, that can be resumed, and is marked DONE last."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet

from rockafellian._internal.files import atomic_write
from rockafellian.auditing.commands.audit import Audited
from rockafellian.auditing.commands.outputs import write_all, write_json
from rockafellian.auditing.data.reading import Source, read
from rockafellian.auditing.data.settings import Settings
from rockafellian.auditing.model.findings import findings_table
from rockafellian.auditing.model.problem import Problem, prepare
from rockafellian.auditing.model.rrm_training import train
from rockafellian.training.progress import Progress

DONE, SETTINGS, CHECKPOINT, FRAME = "DONE", "settings.json", "checkpoint", "data.parquet"
#: All files that a run writes, and so all that --force may delete.
OUTPUTS = ["summary.json", "history.json", "findings.csv", "findings.parquet", "set_aside.csv", "conflicts.csv"]
OUTPUTS += ["report.html", "model", SETTINGS, FRAME, CHECKPOINT, DONE]
COPIES = ("cleaned", "relabeled")
DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def audit_prepared(
    problem: Problem, *, checkpoint: Path | None = None, resume: bool = False, progress: Progress = "auto"
) -> Audited:
    """Train on prepared data and return what was found."""
    start = time.perf_counter()
    trained = train(problem, checkpoint=checkpoint, resume=resume, progress=progress)
    predicted, probability = trained.model.decide(trained.probabilities)
    return Audited(
        problem=problem,
        model=trained.model,
        history=trained.history,
        weights=trained.weights,
        losses=trained.losses,
        predicted=predicted,
        table=findings_table(problem, trained.weights, predicted, probability),
        seconds=time.perf_counter() - start,
    )


def run(
    data: Any,
    settings: Settings,
    *,
    out: Path | None = None,
    valid: Any = None,
    force: bool = False,
    resume: bool = False,
    progress: Progress = "auto",
    say: Callable[[str], object] = print,
) -> Audited:
    """Audit the data and write everything found to a folder: `out`, or a new one in runs/."""
    if resume and (out is None or force):
        raise ValueError("need the folder of the run to resume, without --force; pass --resume --out DIR")
    if out is not None:
        check_free(out, force=force, resume=resume)
    with _interrupted("stopped before training began; nothing was written"):
        problem = prepare(data, settings, valid, progress)
    for line in _introduction(problem):
        say(line)
    described = _describe(problem.source, problem.settings)
    folder = _new_folder(data) if out is None else out
    if resume:
        _check_same(folder, described)
    with _interrupted(f"stopped; resume with --resume --out {folder}"), _enough_space(folder):
        if not resume:
            _claim(folder, described, problem.source)
        audited = audit_prepared(problem, checkpoint=folder / CHECKPOINT, resume=resume, progress=progress)
        write_all(audited, folder, key=described["key"])
        shutil.rmtree(folder / CHECKPOINT)
        (folder / DONE).touch()
    return replace(audited, folder=folder)


def _introduction(problem: Problem) -> list[str]:
    rows, classes = len(problem.source), len(problem.labels.names)
    about = f"{problem.kind.describe()}: {rows:,} rows, {classes} classes"
    return [about, f"inputs of the network: {problem.features.describe()}", *problem.notices]


def open_run(folder: Path) -> dict[str, Any]:
    """Return the description of a finished run, or raise an error."""
    if not (folder / SETTINGS).is_file():
        raise FileNotFoundError(f"need the folder of a run, but {folder} has no {SETTINGS}; check the name")
    if not (folder / DONE).exists():
        raise ValueError(
            f"need a finished run, but {folder} was stopped; resume it with `audit ... --resume --out {folder}`"
        )
    described: dict[str, Any] = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    return described


def reread(folder: Path, described: dict[str, Any], data: Path | None = None) -> Source:
    """Return the data of a run, from where they were or from `data`; raise an error if they have changed."""
    path = data or (folder / FRAME if described["data"] is None else Path(described["data"]))
    source = read(path)
    if described["data"] is not None and source.checksum() != described["checksum"]:
        raise ValueError(f"need the data that {folder} was trained on, but {path} has changed since; restore it")
    return source


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
    elif not holds_run and folder.exists() and any(folder.iterdir()):
        raise ValueError(f"need a new or empty folder, but {folder} holds other files; name another")


def _claim(folder: Path, described: dict[str, Any], source: Source) -> None:
    """Begin the run: delete the one before, if --force was given, and write the description of this one."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in [*(folder / name for name in OUTPUTS), *(path for name in COPIES for path in folder.glob(f"{name}.*"))]:
        shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
    if source.path is None:
        with atomic_write(folder / FRAME) as partial:
            pyarrow.parquet.write_table(source.table, partial)
    write_json(folder / SETTINGS, described)


def _describe(source: Source, settings: Settings) -> dict[str, Any]:
    """What identifies a run: its settings and data; and its date."""
    checksum = source.checksum()
    used = json.loads(json.dumps(asdict(settings)))
    key = hashlib.sha256(json.dumps([checksum, used]).encode()).hexdigest()[:16]
    path = None if source.path is None else str(source.path.resolve())
    return {
        "settings": used,
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
        raise ValueError(
            f"{folder} belongs to another run: {'; '.join(differ)}; use its settings and data, or name another folder"
        )


def _new_folder(data: Any) -> Path:
    stem = Path(data).stem if isinstance(data, str | Path) else "audit"
    return next(path for number in count(1) if not (path := Path("runs") / f"{stem}-{number}").exists())


@contextmanager
def _interrupted(message: str) -> Iterator[None]:
    """Turn Ctrl-C into an error with this message."""
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedError(message) from None


@contextmanager
def _enough_space(folder: Path) -> Iterator[None]:
    """Turn the error of a full disk into one that says how to resume."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        raise OSError(
            f"need more space on the disk of {folder} ({error.strerror}); free some, then --resume --out {folder}"
        ) from error
