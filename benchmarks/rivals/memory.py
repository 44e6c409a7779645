"""Memory of each method beyond the data, in one cell, every method in a process of its own."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch

import records
from measure import extra_bytes
from pages import table
from records import Record
from rivals import methods, problem
from rivals.cells import COMMAND, RESULTS, Cell

PATH = RESULTS.with_name("rivals-memory.json")
CELL = Cell("mnist", "uniform-0.2", 0)


def measure() -> None:
    """Run every method on the cell and record by how much its process grew."""
    found = {}
    for name in methods.METHODS:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            found[name] = pool.submit(_growth, name).result()
    records.save(PATH, {"about": {"cell": CELL, **records.about(COMMAND)}, "bytes": found})


def load() -> Record:
    """Return the record, empty if there is none."""
    return records.load(PATH)


def by_method(record: Record) -> str:
    """Return the table of the page."""
    found = record["bytes"]
    grown = [f"{value / 2**20:.1f}" if (value := found[name]) is not None else "-" for name in found]
    return table(list(found), [grown])


def _growth(name: str) -> int | None:
    torch.set_num_threads(1)
    given = problem.make(*CELL)
    methods.warm_up(given, CELL.seed)
    if name == "cleanlab":
        import cleanlab.filter  # noqa: F401 - the package itself is not what is measured
    return extra_bytes(lambda: methods.METHODS[name](given, CELL.seed))
