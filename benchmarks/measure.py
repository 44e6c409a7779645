"""Seconds and bytes of a job."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path


def seconds(*jobs: Callable[[], object], repeats: int, warm_up: int = 3) -> list[float]:
    """Return the median time of each job.

    Jobs take turns, so that a slow moment of the machine affects all of them alike. A sample lasts at least a
    millisecond.
    """
    calls = [max(1, round(1e-3 / _time(job, warm_up))) for job in jobs]
    samples = [[_time(job, n) for job, n in zip(jobs, calls, strict=True)] for _ in range(repeats)]
    return [statistics.median(column) for column in zip(*samples, strict=True)]


def extra_bytes(job: Callable[[], object]) -> int | None:
    """Return by how much the memory of this process peaks during a job; None where the system does not say."""
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    except OSError:
        return None
    before = _status("VmRSS")
    job()
    return _status("VmHWM") - before


def _time(job: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        job()
    return (time.perf_counter() - start) / calls


def _status(field: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024
