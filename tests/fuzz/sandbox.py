"""A command in a process of its own, with limits on memory and time, and what became of it.

One process imports everything and does nothing else; each command runs in a fork of it, which costs milliseconds where
a new interpreter would cost seconds.
"""

from __future__ import annotations

import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

#: Seconds after which a command hangs, and bytes that it may use.
MAX_SECONDS, MAX_BYTES = 60, 2_000_000_000
MAX_ADDRESSES = 16_000_000_000  # torch maps more than it uses


class Outcome(NamedTuple):
    """How a command ended: exit code, or minus the signal; what it printed; peak memory and seconds."""

    code: int
    out: str
    err: str
    bytes: int
    seconds: float
    hung: bool


def run_apart(call: Callable[[], object], folder: Path) -> Outcome:
    """Run a function in a fork of this process, with `folder` as its working directory."""
    return start(call, folder).wait()


def start(call: Callable[[], object], folder: Path) -> Started:
    """Start a function in a fork of this process."""
    printed = tempfile.mkdtemp(prefix="printed-")
    child = os.fork()
    if child == 0:
        _child(call, folder, Path(printed))
    return Started(child, Path(printed), time.monotonic())


@dataclass(frozen=True)
class Started:
    """A function that runs in another process."""

    process: int
    printed: Path
    since: float

    def kill(self) -> None:
        """End it at once."""
        os.kill(self.process, signal.SIGKILL)

    def wait(self) -> Outcome:
        """Wait until it ends, or end it when its time is over."""
        hung = not _ended(self.process, MAX_SECONDS)
        if hung:
            self.kill()
        _, status, used = os.wait4(self.process, 0)
        out, err = ((self.printed / name).read_bytes().decode("utf-8", "backslashreplace") for name in ("out", "err"))
        shutil.rmtree(self.printed)
        code = os.waitstatus_to_exitcode(status)
        return Outcome(code, out, err, used.ru_maxrss * 1024, time.monotonic() - self.since, hung)


def _ended(child: int, seconds: float) -> bool:
    watched = os.pidfd_open(child)
    try:
        return bool(select.select([watched], [], [], seconds)[0])
    finally:
        os.close(watched)


def _child(call: Callable[[], object], folder: Path, printed: Path) -> None:
    code = 70
    try:
        (printed / "out").touch()
        (printed / "err").touch()
        os.chdir(folder)
        resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESSES, MAX_ADDRESSES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.stdout = (printed / "out").open("w", encoding="utf-8")
        sys.stderr = (printed / "err").open("w", encoding="utf-8")
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
