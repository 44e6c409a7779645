"""Records of finished trainings: one JSON file per table and scale, such as `table-3-paper.json`, one record a line.

Several processes may add records to a file: it is read, extended and replaced under a lock. A kill leaves the old one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

from filelock import FileLock

from rockafellian._internal.files import atomic_write

Record: TypeAlias = dict[str, Any]

#: Fields that a file stores once if all of its records agree.
COMMON = ("table", "scale", "command", "date", "machine", "recipe")
#: Fields that tell records apart, at the start of a line.
IDENTITY = ("cell", "seed", "settings", "variant")


def default_folder() -> Path:
    """Return `reproduction/results` if the present folder has it, as a checkout of the project does, else `results`."""
    checkout = Path("reproduction") / "results"
    return checkout if checkout.is_dir() else Path("results")


def record_file(results: Path, number: int, scale: str) -> Path:
    """Return the file for the records of a table at a scale."""
    return results / f"table-{number}-{scale}.json"


def read_records(path: Path) -> list[Record]:
    """Return the records of a file, none if it does not exist."""
    if not path.exists():
        return []
    try:
        content = json.loads(path.read_text())
        common, records = content["common"], content["records"]
        return [{**common, **record} for record in records]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f'need JSON with "common" and "records" in {path}, but it is damaged ({error}); '
            "restore it, or remove it and run the table again"
        ) from error


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write the records of a file, sorted by cell and seed, and what they have in common once."""
    ordered = sorted(records, key=_order)
    common = {name: ordered[0][name] for name in COMMON if ordered and _agree(name, ordered)}
    lines = [json.dumps(_without(record, common)) for record in ordered]
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as partial:
        partial.write_text(f'{{\n"common": {json.dumps(common)},\n"records": [\n' + ",\n".join(lines) + "\n]\n}\n")


def add_record(path: Path, record: Record) -> None:
    """Add a record to a file; an earlier one with the same settings and seed is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{path.name}.lock")):
        others = [other for other in read_records(path) if identify(other) != identify(record)]
        write_records(path, [*others, record])


def identify(record: Record) -> tuple[str, int]:
    """Return the digest of a record's settings, its cell among them, and its seed."""
    return record["settings"], record["seed"]


def _agree(name: str, records: list[Record]) -> bool:
    return all(name in record and record[name] == records[0][name] for record in records)


def _without(record: Record, common: Record) -> Record:
    """Return a record without what is common, in an order that does not depend on how it was read."""
    names = dict.fromkeys([*IDENTITY, *COMMON, *record])
    return {name: record[name] for name in names if name in record and name not in common}


def _order(record: Record) -> tuple[Any, ...]:
    """By the values of the cell, numbers apart from words, then by seed; settings that differ come side by side."""
    values = [(isinstance(value, str), value) for value in record["cell"].values()]
    return values, record["seed"], record["settings"]
