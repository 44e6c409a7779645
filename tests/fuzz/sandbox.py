"""A command in a process of its own, with limits on memory and time, and what became of it.

One process imports everything and does nothing else; each command runs in a fork of it, which costs milliseconds where
a new interpreter would cost seconds.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

#: Seconds after which a command hangs, and bytes that it may use.
MAX_SECONDS, MAX_BYTES = 60, 2_000_000_000
MAX_ADDRESSES = 16_000_000_000  # torch maps more than it uses


@dataclass(frozen=True)
class Outcome:
    """How a command ended: exit code, or minus the signal; what it printed; peak memory and seconds."""

    code: int
    out: str
    err: str
    bytes: int
    seconds: float
    hung: bool


def run_apart(call: Callable[[], object], folder: Path) -> Outcome:
    """Run a function in a fork of this process, with `folder` as its working directory."""
    out, err = folder / "stdout", folder / "stderr"
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        _child(call, folder, out, err)
    hung = not _ended(child, MAX_SECONDS)
    if hung:
        os.kill(child, signal.SIGKILL)
    _, status, used = os.wait4(child, 0)
    texts = [path.read_bytes().decode("utf-8", "backslashreplace") for path in (out, err)]
    out.unlink()
    err.unlink()
    code = os.waitstatus_to_exitcode(status)
    return Outcome(code, *texts, used.ru_maxrss * 1024, time.monotonic() - start, hung)


def _ended(child: int, seconds: float) -> bool:
    watched = os.pidfd_open(child)
    try:
        return bool(select.select([watched], [], [], seconds)[0])
    finally:
        os.close(watched)


def _child(call: Callable[[], object], folder: Path, out: Path, err: Path) -> None:
    code = 70
    try:
        os.chdir(folder)
        resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESSES, MAX_ADDRESSES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.stdout = out.open("w", encoding="utf-8")
        sys.stderr = err.open("w", encoding="utf-8")
        os.dup2(sys.stdout.fileno(), 1)
        os.dup2(sys.stderr.fileno(), 2)
        call()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 71
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
