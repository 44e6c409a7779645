"""Jobs: one cell of a table with one seed, found by name and by KEY=VALUE, and what is recorded of them."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from rockafellian_reproduction.tables import SCALES, TABLES, TRIAL, Cell, Scale, Table, Variant
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
    """One cell of a table with one seed, as printed or under other readings."""

    number: int
    scale: Scale
    cell: Cell
    seed: int
    variant: Variant = field(default_factory=dict)

    @property
    def table(self) -> Table:
        """The table it belongs to."""
        return ALL_TABLES[self.number]

    @property
    def settings(self) -> str:
        """A digest of the cell and of every setting that decides its training."""
        recipe = self.table.recipe(self.scale, self.variant)
        if self.cell["contamination"] == 0:  # no label changes, by whatever kind of noise
            recipe = replace(recipe, noise="uniform")
        described = json.dumps([recipe.stated(), self.cell], sort_keys=True)
        return hashlib.sha256(described.encode()).hexdigest()[:8]

    @property
    def name(self) -> str:
        """Cell, seed and settings as one word, for the folder of its checkpoint."""
        words = [f"{key}={value}" for key, value in (self.cell | self.variant).items()]
        return ",".join([*words, f"seed={self.seed}", self.settings])

    def file(self, results: Path) -> Path:
        """Return the file that has or will have its record."""
        return record_file(results, self.number, self.scale)

    def find(self, records: Iterable[Record]) -> Record | None:
        """Return its record, if it is among these."""
        return next((record for record in records if identify(record) == (self.settings, self.seed)), None)

    def __str__(self) -> str:
        values = [f"{value:.0%}" if isinstance(value, float) else str(value) for value in self.cell.values()]
        values += [f"{key}={value}" for key, value in self.variant.items()]
        return f"table {self.number}, {self.scale}: {' '.join(values)}, seed {self.seed}"


def find_jobs(
    name: str,
    scale: str | None = None,
    wanted: Iterable[str] = (),
    seeds: int = 1,
    variant: Variant | None = None,
) -> list[Job]:
    """Return the cells of a table with every KEY=VALUE wanted, for seeds 0, 1, ...; an error if there are none.

    Args:
        name: number or other name of the table
        scale: the one that answers the table's question if none is given
        wanted: conditions on cells; of several values for one key, any will do
        seeds: how many
        variant: readings other than the chosen ones; cells whose training they do not change are left out
    """
    number, fixed = OTHER_NAMES.get(name) or (int(name) if name.isdigit() else -1, {})
    if number not in ALL_TABLES:
        raise ValueError(f"need a table of {', '.join([*map(str, TABLES), *OTHER_NAMES])}; got {name!r}")
    table = ALL_TABLES[number]
    sizes: dict[str | None, Scale] = {None: table.answers, **{size: size for size in table.scales}}
    if scale not in sizes:
        raise ValueError(f"need a scale of table {number}, {' or '.join(table.scales)}; got {scale!r}")
    if seeds < 1:
        raise ValueError(f"need at least one seed, got {seeds}")
    cells = _select(table, [*(f"{key}={value}" for key, value in fixed.items()), *wanted])
    jobs = [(cell, table.variant_of(cell, variant or {})) for cell in cells]
    if variant and any(table.choice(*item).changes for item in variant.items()):
        jobs = [(cell, own) for cell, own in jobs if own]
    if not jobs:
        raise ValueError(f"need readings that change a cell of table {number}; {variant} changes none of these")
    return [Job(number, sizes[scale], cell, seed, own) for seed in range(seeds) for cell, own in jobs]


def _select(table: Table, wanted: Iterable[str]) -> list[Cell]:
    """Return the cells that fulfil the conditions; an error that names the axes if one cannot be."""
    conditions: dict[str, list[str]] = {}
    for key, value in map(read_pair, wanted):
        conditions.setdefault(key, []).append(value)
        if value not in map(str, table.axes.get(key, ())):
            known = "; ".join(f"{axis} of {', '.join(map(str, values))}" for axis, values in table.axes.items())
            raise ValueError(f"need cells of table {table.number} by {known}; got {key}={value}")
    return [cell for cell in table.cells if all(str(cell[key]) in values for key, values in conditions.items())]


def read_pair(text: str) -> tuple[str, str]:
    """Return key and value of KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise ValueError(f"need KEY=VALUE, such as contamination=0.2; got {text!r}")
    return key, value


def load_records(table: Table, scale: Scale, results: Path) -> list[Record]:
    """Return the records of a table that were made with its present settings, variants included."""
    if scale not in table.scales:
        return []
    found = read_records(record_file(results, table.number, scale))
    return [record for record in found if _is_present(table, scale, record)]


def _is_present(table: Table, scale: Scale, record: Record) -> bool:
    """Return whether a record has the settings that its cell and its variant have now."""
    job = Job(table.number, scale, record["cell"], record["seed"], record.get("variant", {}))
    try:
        return bool(job.settings == record["settings"])
    except ValueError:  # a reading that there is no longer
        return False


def describe_jobs(jobs: list[Job], results: Path) -> str:
    """Return a line per job of a table, done or open, with its expected time on one core; and what a scale changes."""
    records = read_records(jobs[0].file(results))
    lines, left = [], 0.0
    for job in jobs:
        seconds, done = expected_seconds(job, records), job.find(records) is not None
        lines.append(f"{'done' if done else 'open'}  {seconds / 60:7.1f} min  {job}")
        left += 0 if done else seconds
    table = jobs[0].table
    if changes := table.paper.changes(table.scales[jobs[0].scale]):
        lines += ["", f"{jobs[0].scale}: {SCALES[jobs[0].scale]}", *(f"  {change}" for change in changes)]
    return "\n".join([*lines, "", f"{left / 3600:.1f} hours of one core left"])


def expected_seconds(job: Job, records: Iterable[Record]) -> float:
    """Return the median time of the recorded runs with the same method; before there are any, a guess."""
    times = [record["seconds"] for record in records if record["cell"]["method"] == job.cell["method"]]
    return statistics.median(times) if times else job.table.minutes[job.scale] * 60
