"""Records of benchmark runs: JSON files in results/, each with its command, its date and the machine it ran on."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

from rockafellian._internal.files import atomic_write
from rockafellian_reproduction.machine import machine

BENCHMARKS = Path(__file__).resolve().parent
RESULTS, DOCS = BENCHMARKS / "results", BENCHMARKS.parent / "docs"
Record = dict[str, Any]


def about(command: str, *packages: str) -> Record:
    """Return what a record starts with: command, date, and the machine with the versions of these packages."""
    return {"command": command, "date": date.today().isoformat(), "machine": machine(*packages)}


def load(path: Path) -> Record:
    """Return a record, or an empty one where there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def save(path: Path, record: Record) -> None:
    """Write a record. The file appears when it is complete, so a run that is stopped leaves the record before it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as partial:
        partial.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
