"""Cells run and recorded: one file per data set, noise and seed, which grows by a method at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import torch

from rivals import methods, problem
from rivals.data import DATA, SEEDS
from rivals.measures import measure
from rivals.problem import MOMENTUM, Problem
from rockafellian._internal.files import atomic_write
from rockafellian_reproduction.machine import machine

RESULTS = Path(__file__).resolve().parents[1] / "results" / "rivals"
COMMAND = "make rivals"


class Cell(NamedTuple):
    """A data set, a noise and a seed."""

    data: str
    noise: str
    seed: int

    def path(self, results: Path) -> Path:
        """Its record."""
        return results / f"{self.data}-{self.noise}-{self.seed}.json"


def all_cells(only: Iterable[str] | None = None) -> list[Cell]:
    """Every cell of these data sets or, without them, of all: seed by seed."""
    names = list(DATA) if only is None else list(only)
    return [Cell(data, noise, seed) for seed in SEEDS for data in names for noise in DATA[data].noises]


def missing(cell: Cell, results: Path, wanted: Iterable[str] | None = None) -> list[str]:
    """The methods that this cell has still to run, of those that are wanted: `ce` first."""
    done = json.loads(path.read_text())["methods"] if (path := cell.path(results)).exists() else {}
    has = DATA[cell.data].methods or tuple(methods.METHODS)
    names = has if wanted is None else set(wanted)
    return [name for name in has if name in names and name not in done]


def run(cell: Cell, results: Path, wanted: Iterable[str] | None = None) -> dict[str, float]:
    """Run and record what is missing, method by method; gives the seconds of each."""
    torch.set_num_threads(1)
    names = missing(cell, results, wanted)
    if not names:
        return {}
    return run_on(problem.make(*cell), cell, names, results)


def run_on(given: Problem, cell: Cell, names: list[str], results: Path) -> dict[str, float]:
    """Run and record these methods on this problem."""
    path, about = cell.path(results), describe(cell, given)
    record = json.loads(path.read_text()) if path.exists() else {"about": about, "methods": {}}
    if record["about"]["settings"] != about["settings"]:
        raise ValueError(f"need records of one setting, but {path} was made with another; remove it")
    methods.warm_up(given, cell.seed)
    for name in names:
        record["methods"][name] = measure(given, methods.METHODS[name](given, cell.seed))
        _replace(path, json.dumps(record, indent=1) + "\n")
    return {name: record["methods"][name]["cpu_seconds"] for name in names}


def forget(cell: Cell, results: Path, names: Iterable[str]) -> None:
    """Take these methods out of a record, so that they run again."""
    if (path := cell.path(results)).exists():
        record = json.loads(path.read_text())
        record["methods"] = {name: found for name, found in record["methods"].items() if name not in set(names)}
        _replace(path, json.dumps(record, indent=1) + "\n")


def describe(cell: Cell, given: Problem) -> dict[str, Any]:
    """What a reader needs to know of a cell, and to run it again."""
    setting = given.setting
    return {
        **cell._asdict(),
        "true_rate": given.rate,
        "settings": {
            "train_rows": len(given.y),
            "test_rows": len(given.test_y),
            "layers": [given.x.shape[1], setting.hidden, given.n_classes],
            "learning_rate": setting.lr,
            "momentum": MOMENTUM,
            "epochs": setting.epochs,
            "batch_size": setting.batch_size,
        },
        "machine": machine("scikit-learn", "cleanlab"),
        "date": date.today().isoformat(),
        "command": COMMAND,
    }


def load(results: Path = RESULTS) -> list[dict[str, Any]]:
    """All records, by name."""
    return [json.loads(path.read_text()) for path in sorted(results.glob("*.json"))]


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as partial:
        partial.write_text(text)
