"""Jobs: one cell of a table with one seed, found by name and by KEY=VALUE, and what is recorded of them."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast, get_args

from rockafellian_reproduction.tables import TABLES, TRIAL, Cell, Scale, Table
from rockafellian_reproduction.training.records import Record, identify, read_records, record_file

ALL_TABLES = {0: TRIAL, **TABLES}
#: Other names: Table 5 comes from a cell of Table 4, and the paragraph on tissue has no number.
OTHER_NAMES: dict[str, tuple[int, Cell]] = {
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
        """The table it belongs to."""
        return ALL_TABLES[self.number]

    @property
    def settings(self) -> str:
        """A digest of the cell and of every setting that decides its training."""
        recipe = self.table.recipe(self.scale)
        if self.cell["contamination"] == 0:  # no label changes, by whatever kind of noise
            recipe = replace(recipe, noise="uniform")
        described = json.dumps([recipe.stated(), self.cell], sort_keys=True)
        return hashlib.sha256(described.encode()).hexdigest()[:8]

    @property
    def name(self) -> str:
        """Cell, seed and settings as one word, for the folder of its checkpoint."""
        words = [f"{key}={value}" for key, value in self.cell.items()]
        return ",".join([*words, f"seed={self.seed}", self.settings])

    def file(self, results: Path) -> Path:
        """Return the file that has or will have its record."""
        return record_file(results, self.number, self.scale)

    def find(self, records: Iterable[Record]) -> Record | None:
        """Return its record, if it is among these."""
        return next((record for record in records if identify(record) == (self.settings, self.seed)), None)

    def __str__(self) -> str:
        values = [f"{value:.0%}" if isinstance(value, float) else str(value) for value in self.cell.values()]
        return f"table {self.number}, {self.scale}: {' '.join(values)}, seed {self.seed}"


def find_jobs(name: str, scale: str, wanted: Iterable[str] = (), seeds: int = 1) -> list[Job]:
    """Return the cells of a table with every KEY=VALUE wanted, for seeds 0, 1, ...; an error if there are none."""
    number, fixed = OTHER_NAMES.get(name) or (int(name) if name.isdigit() else -1, {})
    if number not in ALL_TABLES:
        raise ValueError(f"need a table of {', '.join([*map(str, TABLES), *OTHER_NAMES])}; got {name!r}")
    if scale not in get_args(Scale):
        raise ValueError(f"need a scale of {' or '.join(get_args(Scale))}, got {scale!r}")
    if seeds < 1:
        raise ValueError(f"need at least one seed, got {seeds}")
    table = ALL_TABLES[number]
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


def load_records(table: Table, scale: Scale, results: Path) -> list[Record]:
    """Return the records of a table that were made with its present settings."""
    present = {Job(table.number, scale, cell, 0).settings for cell in table.cells}
    return [
        record for record in read_records(record_file(results, table.number, scale)) if record["settings"] in present
    ]


def describe_jobs(jobs: list[Job], results: Path) -> str:
    """Return a line per job of a table, done or open, with its expected time on one core; and what small changes."""
    records = read_records(jobs[0].file(results))
    lines, left = [], 0.0
    for job in jobs:
        seconds, done = expected_seconds(job, records), job.find(records) is not None
        lines.append(f"{'done' if done else 'open'}  {seconds / 60:7.1f} min  {job}")
        left += 0 if done else seconds
    table = jobs[0].table
    if jobs[0].scale == "small":
        lines += ["", "small instead of the paper's:", *(f"  {change}" for change in table.paper.changes(table.small))]
    return "\n".join([*lines, "", f"{left / 3600:.1f} hours of one core left"])


def expected_seconds(job: Job, records: Iterable[Record]) -> float:
    """Return the median time of the recorded runs with the same method; before there are any, a guess."""
    times = [record["seconds"] for record in records if record["cell"]["method"] == job.cell["method"]]
    return statistics.median(times) if times else job.table.minutes[job.scale == "small"] * 60
