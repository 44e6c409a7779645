"""How much memory each method takes beyond the data: one cell, every method in a process of its own."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from multiprocessing import get_context
from typing import Any

import torch

from measure import extra_bytes, table
from rivals import methods, problem
from rivals.cells import RESULTS, Cell
from rockafellian_reproduction.machine import machine

PATH = RESULTS.with_name("rivals-memory.json")
CELL = Cell("mnist", "uniform-0.2", 0)


def measure() -> None:
    """Run every method on the cell and record by how much the process grew."""
    found = {}
    for name in methods.METHODS:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            found[name] = pool.submit(_growth, name).result()
    about = {"cell": CELL, "machine": machine(), "date": date.today().isoformat(), "command": "make rivals"}
    PATH.write_text(json.dumps({"about": about, "bytes": found}, indent=1) + "\n")


def load() -> dict[str, Any] | None:
    """The record, if there is one."""
    return json.loads(PATH.read_text()) if PATH.exists() else None


def lines(record: dict[str, Any]) -> list[str]:
    """The table of the page."""
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
