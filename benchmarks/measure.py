"""Seconds and bytes, and the tables that show them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path


def seconds(*jobs: Callable[[], object], repeats: int, warm_up: int = 3) -> list[float]:
    """The median time of each job; taken in turns, so that a slow moment of the machine hits all alike."""
    calls = [max(1, round(1e-3 / _time(job, warm_up))) for job in jobs]  # at least a millisecond a sample
    samples = [[_time(job, n) for job, n in zip(jobs, calls, strict=True)] for _ in range(repeats)]
    return [statistics.median(column) for column in zip(*samples, strict=True)]


def extra_bytes(job: Callable[[], object]) -> int | None:
    """How far the process's memory rises above where it stood while the job runs; None where the system won't say."""
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    except OSError:
        return None
    before = _status("VmRSS")
    job()
    return _status("VmHWM") - before


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """The lines of a Markdown table."""
    return ["| " + " | ".join(cells) + " |" for cells in (head, ["---:"] * len(head), *rows)]


def _time(job: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        job()
    return (time.perf_counter() - start) / calls


def _status(field: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024
