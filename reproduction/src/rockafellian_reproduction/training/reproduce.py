"""The cells of a table trained, several at a time: one record per cell and seed, in a file named by its settings.

A record that is there is not made again; a run that was killed goes on from its last whole epoch.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import statistics
import sys
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast, get_args

import torch

from rockafellian._internal.files import atomic_write
from rockafellian_reproduction.tables import TABLES, TRIAL, Cell, Scale, Table

EVERY = {0: TRIAL, **TABLES}
RESULTS, WORK = Path("results"), Path("runs") / "reproduce"
#: Other names: Table 5 comes from a cell of Table 4, and the paragraph on tissue has no number.
ALSO = {
    "digits": (0, {}),
    "5": (4, {"method": "A-RRM", "contamination": 0.2}),
    "tissue": (10, {}),
    "necrosis": (10, {}),
}


@dataclass(frozen=True)
class Job:
    """One cell of a table with one seed."""

    number: int
    scale: Scale
    cell: Cell
    seed: int

    @property
    def table(self) -> Table:
        """The table it is of."""
        return EVERY[self.number]

    @property
    def name(self) -> str:
        """Its settings in words, and a digest of all of them: other settings make another name."""
        recipe = self.table.recipe(self.scale)
        if self.cell["contamination"] == 0:  # no label is wrong, in whatever way
            recipe = replace(recipe, noise="uniform")
        words = [f"{key}={value}" for key, value in self.cell.items()]
        settings = json.dumps([recipe.stated(), self.cell], sort_keys=True)
        digest = hashlib.sha256(settings.encode()).hexdigest()[:8]
        return ",".join([*words, f"seed={self.seed},{digest}"])

    def path(self, results: Path) -> Path:
        """Where its record is or will be."""
        return results / f"table-{self.number}" / self.scale / f"{self.name}.json"

    def __str__(self) -> str:
        said = [f"{value:.0%}" if isinstance(value, float) else str(value) for value in self.cell.values()]
        return f"table {self.number}, {self.scale}: {' '.join(said)}, seed {self.seed}"


def find_jobs(name: str, scale: str, wanted: Iterable[str] = (), seeds: int = 1) -> list[Job]:
    """The cells of a table that agree with every KEY=VALUE wanted, for seeds 0, 1, ...; an error if none does."""
    number, fixed = ALSO.get(name) or (int(name) if name.isdigit() else -1, {})
    if number not in EVERY:
        raise ValueError(f"need a table of {', '.join([*map(str, TABLES), *ALSO])}; got {name!r}")
    if scale not in get_args(Scale):
        raise ValueError(f"need a scale of {' or '.join(get_args(Scale))}, got {scale!r}")
    if seeds < 1:
        raise ValueError(f"need at least one seed, got {seeds}")
    table = EVERY[number]
    conditions = {**{key: str(value) for key, value in fixed.items()}, **dict(map(_read_condition, wanted))}
    for key, value in conditions.items():
        choices = [str(choice) for choice in table.axes.get(key, ())]
        if value not in choices:
            known = "; ".join(f"{axis} of {', '.join(map(str, values))}" for axis, values in table.axes.items())
            raise ValueError(f"need cells of table {number} by {known}; got {key}={value}")
    cells = [cell for cell in table.cells if all(str(cell[key]) == value for key, value in conditions.items())]
    return [Job(number, cast(Scale, scale), cell, seed) for seed in range(seeds) for cell in cells]


def _read_condition(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise ValueError(f"need a cell as KEY=VALUE, such as contamination=0.2; got {text!r}")
    return key, value


def describe_jobs(jobs: list[Job], results: Path = RESULTS) -> str:
    """A line for each job: whether it is recorded and how long it should take on one core; and what small means."""
    lines = [
        f"{'done' if job.path(results).exists() else 'open'}  {expected_seconds(job, results) / 60:7.1f} min  {job}"
        for job in jobs
    ]
    left = sum(expected_seconds(job, results) for job in jobs if not job.path(results).exists())
    table = jobs[0].table
    if jobs[0].scale == "small":
        lines += ["", "small instead of the paper's:", *(f"  {change}" for change in table.paper.changes(table.small))]
    return "\n".join([*lines, "", f"{left / 3600:.1f} hours of one core to go"])


def expected_seconds(job: Job, results: Path = RESULTS) -> float:
    """The median of the recorded runs of its table and method at this scale; before there are any, a guess."""
    paths = job.path(results).parent.glob(f"*method={job.cell['method']}*.json")
    took = [json.loads(path.read_text())["seconds"] for path in paths]
    return statistics.median(took) if took else job.table.minutes[job.scale == "small"] * 60


def reproduce(
    jobs: list[Job], *, at_once: int = 1, results: Path = RESULTS, work: Path = WORK, folder: Path | None = None
) -> None:
    """Train what has no record yet, `at_once` cells at a time with one thread each."""
    if at_once < 1:
        raise ValueError(f"need at least one job at a time, got {at_once}")
    todo = [job for job in jobs if not job.path(results).exists()]
    print(f"{len(jobs) - len(todo)} of {len(jobs)} cells are recorded in {results}; {len(todo)} to go", file=sys.stderr)
    if not todo:
        return
    pool = ProcessPoolExecutor(at_once, mp_context=get_context("spawn"))
    try:
        running = {pool.submit(run, job, results, work, folder): job for job in todo}
        for done, finished in enumerate(as_completed(running), 1):
            print(f"{done}/{len(todo)} {running[finished]}: {_outcome(finished)}", file=sys.stderr, flush=True)
    except BrokenProcessPool as error:
        raise OSError("a training process was ended from outside; the same command goes on where it was") from error
    finally:
        pool.shutdown(cancel_futures=True)


def _outcome(finished: Future[dict[str, Any]]) -> str:
    record = finished.result()
    said = [f"{name} {value:.4g}" for name, value in record["results"].items() if isinstance(value, float)]
    return record.get("diverged") or f"{', '.join(said[:5])} ({record['seconds']:.0f} s)"


def run(job: Job, results: Path, work: Path, folder: Path | None = None) -> dict[str, Any]:
    """Train one cell and write its record; a training that diverges is recorded as such."""
    from filelock import FileLock

    from rockafellian_reproduction.training.cells import train_cell

    torch.set_num_threads(1)
    path, state = job.path(results), work / f"table-{job.number}-{job.scale}-{job.name}"
    state.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{state}.lock"):  # a second process waits, and finds the record
        if not path.exists():
            twin = next(results.glob(f"table-*/{job.scale}/{job.name}.json"), None)
            if twin is not None:  # the same settings in another table are the same training
                record = json.loads(twin.read_text()) | {"table": job.number}
            else:
                record = train_cell(job.table, job.scale, job.cell, job.seed, work=state, folder=folder)
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as partial:
                partial.write_text(json.dumps(record, indent=1) + "\n")
        shutil.rmtree(state, ignore_errors=True)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def load_records(table: Table, scale: Scale, results: Path = RESULTS) -> list[dict[str, Any]]:
    """The records made with the present settings of a table."""
    cells = table.cells
    names = {Job(table.number, scale, cell, 0).name.rpartition("seed=")[0] for cell in cells}
    digests = {Job(table.number, scale, cell, 0).name.rpartition(",")[2] for cell in cells}
    found = []
    for path in sorted((results / f"table-{table.number}" / scale).glob("*.json")):
        cell, _, rest = path.stem.rpartition("seed=")
        if cell in names and rest.partition(",")[2] in digests:
            found.append(json.loads(path.read_text()))
    return found
