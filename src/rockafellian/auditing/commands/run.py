"""`rockafellian audit`: a run, written to a folder only if the data are good, that can be resumed."""

from __future__ import annotations

import errno
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet
from torch import Tensor

from rockafellian._internal.files import atomic_write, write_json
from rockafellian._internal.printable import printable
from rockafellian.auditing.commands.audit import Audited
from rockafellian.auditing.commands.outputs import write_all
from rockafellian.auditing.commands.run_folder import (
    CHECKPOINT,
    FRAME,
    SETTINGS,
    Description,
    check_free,
    check_outside,
    clear,
    hold,
    mark_done,
    read_json,
)
from rockafellian.auditing.data.reading import Source
from rockafellian.auditing.data.settings import Settings
from rockafellian.auditing.features.kinds import Images
from rockafellian.auditing.model.findings import findings_table
from rockafellian.auditing.model.problem import Problem, prepare
from rockafellian.auditing.model.rrm_training import train
from rockafellian.auditing.report.contents import Banner
from rockafellian.training.progress import Progress

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
    banner: Callable[[Audited], Banner] | None = None,
) -> Audited:
    """Audit the data, and write everything found to a folder: `out`, or a new one in runs/.

    Its page begins with a banner, if there is a function that makes it.
    """
    check_out(out, [data, valid], force=force, resume=resume)
    with _interrupted("stopped before training began; nothing was written"):
        problem = prepare(data, settings, valid, progress)
    return run_prepared(problem, out=out, force=force, resume=resume, progress=progress, say=say, banner=banner)


def check_out(out: Path | None, inputs: Sequence[Any], *, force: bool, resume: bool) -> None:
    """Raise an error unless a run may write to this folder, which holds none of the inputs; None is a new one."""
    if resume and (out is None or force):
        raise ValueError("need the folder of the run to resume, without --force; pass --resume --out DIR")
    if out is not None:
        check_outside(out, [Path(each) for each in inputs if isinstance(each, str | Path)])
        check_free(out, force=force, resume=resume)


def run_prepared(
    problem: Problem,
    *,
    out: Path | None,
    force: bool,
    resume: bool,
    progress: Progress,
    say: Callable[[str], object],
    banner: Callable[[Audited], Banner] | None = None,
) -> Audited:
    """Train on prepared data, and write everything found to a folder: `out`, or a new one in runs/."""
    for line in _introduction(problem):
        say(printable(line))
    with _interrupted("stopped before training began; nothing was written"):
        described = _describe(problem)
    folder = _new_folder(problem.source.path) if out is None else out
    stopped = _interrupted(f"stopped; resume with --resume --out {folder}")
    with stopped, _enough_space(folder), _made(folder), hold(folder):
        check_free(folder, force=force, resume=resume)  # another process may have taken it meanwhile
        if resume:
            _check_same(folder, described)
        else:
            _begin(folder, described, problem.source)
        audited = _trained(problem, folder, resume, progress)
        write_all(audited, folder, key=described.key, banner=banner and banner(audited))
        mark_done(folder)
    return replace(audited, folder=folder)


def _trained(problem: Problem, folder: Path, resume: bool, progress: Progress) -> Audited:
    """What was found; a run that fails before its first checkpoint leaves nothing behind."""
    checkpoint = folder / CHECKPOINT
    try:
        return audit_prepared(problem, checkpoint=checkpoint, resume=resume, progress=progress)
    except (ValueError, FloatingPointError):
        if not resume and not checkpoint.exists():
            clear(folder)
        raise


def _introduction(problem: Problem) -> list[str]:
    rows, classes = len(problem.source), len(problem.labels.names)
    about = f"{problem.kind.describe()}: {rows:,} rows, {classes} classes"
    return [about, f"inputs of the network: {problem.features.describe()}", *problem.notices]


def _begin(folder: Path, described: Description, source: Source) -> None:
    """Delete the run before, if --force was given, and write the description of this one."""
    clear(folder)
    if source.path is None:
        with atomic_write(folder / FRAME) as partial:
            pyarrow.parquet.write_table(source.table, partial)
    write_json(folder / SETTINGS, msgspec.to_builtins(described))


def _describe(problem: Problem) -> Description:
    source, kind, review = problem.source, problem.kind, problem.review
    images = kind if isinstance(kind, Images) and kind.column is not None else None
    checksum = source.checksum()
    used = json.loads(json.dumps(asdict(problem.settings)))
    decided = None if review is None else _hash([sorted(review.decisions.items()), *review[1:]])
    return Description(
        settings=used,
        data=None if source.path is None else str(source.path.resolve()),
        rows=len(source),
        checksum=checksum,
        images=None if images is None else images.checksum(images.content(source)),
        image_column=None if images is None else images.column,
        valid=None if problem.valid is None else _tensors_checksum(*problem.valid),
        decisions=decided,
        key=_hash([checksum, used, *([decided] if decided else [])]),
        date=str(date.today()),
    )


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def _tensors_checksum(*tensors: Tensor) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()


def _check_same(folder: Path, described: Description) -> None:
    differ = read_json(folder / SETTINGS, Description).differences(described)
    if differ:
        raise ValueError(
            f"{folder} belongs to another run: {'; '.join(differ)}; use its settings and data, or name another folder"
        )


def _new_folder(data: Path | None) -> Path:
    """A folder in runs/ that this call made."""
    stem = "audit" if data is None else data.resolve().stem
    for number in count(1):
        folder = Path("runs") / f"{stem or 'audit'}-{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            if not Path("runs").is_dir():
                raise
            continue
        return folder
    raise AssertionError


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make the folder if it does not exist; if the block fails and leaves it empty, delete it again."""
    is_new = not folder.exists() or not any(folder.iterdir())
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        if is_new and not any(folder.iterdir()):
            folder.rmdir()
        raise


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
