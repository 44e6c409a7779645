"""Cells run and recorded: one file per data set, noise and seed, to which methods are added one at a time."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import torch

import records
from records import Record
from rivals import methods, problem
from rivals.data import DATA, SEEDS
from rivals.measures import measure
from rivals.problem import MOMENTUM, Problem

RESULTS = records.RESULTS / "rivals"
COMMAND = "make rivals"


class Cell(NamedTuple):
    """A data set, a noise and a seed."""

    data: str
    noise: str
    seed: int

    def path(self, results: Path) -> Path:
        """Return the file of its record."""
        return results / f"{self.data}-{self.noise}-{self.seed}.json"


def all_cells(only: Iterable[str] | None = None) -> list[Cell]:
    """Return every cell of some data sets, or of all, seed by seed."""
    names = list(DATA) if only is None else list(only)
    return [Cell(data, noise, seed) for seed in SEEDS for data in names for noise in DATA[data].noises]


def missing(cell: Cell, results: Path, wanted: Iterable[str] | None = None) -> list[str]:
    """Return the methods that this cell has no record of, `ce` first; of those that are wanted, if given."""
    done = records.load(cell.path(results)).get("methods", {})
    everywhere = (name for name in methods.METHODS if cell.data in methods.SLOW.get(name, (cell.data,)))
    has = DATA[cell.data].methods or tuple(everywhere)
    names = has if wanted is None else set(wanted)
    return [name for name in has if name in names and name not in done]


def run(cell: Cell, results: Path, wanted: Iterable[str] | None = None) -> dict[str, float]:
    """Run and record what is missing, method by method; return the seconds of each."""
    torch.set_num_threads(1)
    names = missing(cell, results, wanted)
    if not names:
        return {}
    return run_on(problem.make(*cell), cell, names, results)


def run_on(given: Problem, cell: Cell, names: list[str], results: Path) -> dict[str, float]:
    """Run and record methods on a problem; return the seconds of each."""
    path, about = cell.path(results), describe(cell, given)
    record = records.load(path) or {"about": about, "methods": {}}
    if record["about"]["settings"] != about["settings"]:
        raise ValueError(f"expected a record with the present settings, but {path} has others; remove it")
    record["about"] = about
    methods.warm_up(given, cell.seed)
    for name in names:
        found = measure(given, methods.METHODS[name](given, cell.seed))
        unit = found if name == "ce" else record["methods"].get("ce")  # the machine may be slower another day
        record["methods"][name] = found | ({"ce_seconds": unit["cpu_seconds"]} if unit else {})
        records.save(path, record)
    return {name: record["methods"][name]["cpu_seconds"] for name in names}


def forget(cell: Cell, results: Path, names: Iterable[str]) -> None:
    """Remove methods from a record, so that they run again."""
    path = cell.path(results)
    if record := records.load(path):
        record["methods"] = {name: found for name, found in record["methods"].items() if name not in set(names)}
        records.save(path, record)


def describe(cell: Cell, given: Problem) -> Record:
    """Return what identifies a cell, its settings, and where it ran."""
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
        **records.about(COMMAND, "scikit-learn", "cleanlab"),
    }


def load(results: Path = RESULTS) -> list[Record]:
    """Return all records, by name."""
    return [records.load(path) for path in sorted(results.glob("*.json"))]
