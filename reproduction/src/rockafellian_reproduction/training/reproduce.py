"""`rockafellian reproduce`: the cells of a table trained, several at a time, each recorded when it is finished.

A recorded cell is not trained again; a run that was killed resumes from its last whole epoch.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from pathlib import Path

import torch
from filelock import FileLock

from rockafellian_reproduction.tables.figures import PUBLISHED
from rockafellian_reproduction.training.cells import train_cell
from rockafellian_reproduction.training.jobs import Job
from rockafellian_reproduction.training.records import Record, add_record, read_records

#: Checkpoints of unfinished trainings.
WORK = Path("runs") / "reproduce"


def reproduce(
    jobs: list[Job], *, results: Path, at_once: int = 1, work: Path = WORK, folder: Path | None = None
) -> None:
    """Train what has no record yet.

    Args:
        jobs: cells of one table at one scale
        results: the folder of the records
        at_once: how many cells to train at a time, with one thread each
        work: the folder for checkpoints of unfinished trainings
        folder: a folder with the data, if not the cache
    """
    if at_once < 1:
        raise ValueError(f"need at least one job at a time, got {at_once}")
    records = read_records(jobs[0].file(results))
    todo = [job for job in jobs if job.find(records) is None]
    print(f"{len(jobs) - len(todo)} of {len(jobs)} cells are recorded in {results}; {len(todo)} left", file=sys.stderr)
    for job in jobs:
        if (record := job.find(records)) is not None:
            print(f"recorded {job}: {describe(job, record)}", file=sys.stderr)
    if not todo:
        return
    pool = ProcessPoolExecutor(at_once, mp_context=get_context("spawn"), initializer=_end_with_parent)
    try:
        running = {pool.submit(run, job, results, work, folder): job for job in todo}
        for done, finished in enumerate(as_completed(running), 1):
            print(
                f"{done}/{len(todo)} {running[finished]}: {describe(running[finished], finished.result())}",
                file=sys.stderr,
                flush=True,
            )
    except BrokenProcessPool as error:
        raise OSError("a training process was killed; run the same command again to resume") from error
    finally:
        pool.shutdown(cancel_futures=True)


def describe(job: Job, record: Record) -> str:
    """Return the figures of a cell, each beside the printed one if there is one; or why it diverged."""
    if "diverged" in record:
        return f"diverged: {record['diverged']}"
    table = job.table
    figures = [figure for figure in PUBLISHED.get(table.number, ()) if figure.cell == job.cell]
    printed = {table.headline.template.format(figure.measure): figure.value for figure in figures}
    found = {name: value for name, value in record["results"].items() if isinstance(value, float)}
    shown = [f"{name} {found[name]:.4g} (paper {value:g})" for name, value in printed.items() if name in found]
    shown = shown or [f"{name} {value:.4g}" for name, value in found.items()][:5]
    return f"{', '.join(shown)}; {record['seconds']:.0f} s"


def run(job: Job, results: Path, work: Path, folder: Path | None = None) -> Record:
    """Train one cell unless it is recorded, add its record, and return that; a divergence is recorded as such."""
    torch.set_num_threads(1)
    state = work / f"table-{job.number}-{job.scale}-{job.name}"
    state.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{state}.lock"):  # a second process waits, and finds the record
        record = job.find(read_records(job.file(results)))
        if record is None:
            record = _same_training(job, results) or train_cell(
                job.table, job.scale, job.cell, job.seed, work=state, folder=folder, variant=job.variant
            )
            record |= {"table": job.number, "settings": job.settings}
            add_record(job.file(results), record)
        shutil.rmtree(state, ignore_errors=True)
    return record


def _end_with_parent() -> None:
    """End this process when the one that started it ends, however that ends; checkpoints are whole at any time."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _same_training(job: Job, results: Path) -> Record | None:
    """Return another table's record with the same settings: without noise, Tables 4 and 7 are the same training."""
    files = sorted(results.glob(f"table-*-{job.scale}.json"))
    return next((record for file in files if (record := job.find(read_records(file))) is not None), None)
