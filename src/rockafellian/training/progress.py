"""Progress of a run: one bar on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, Protocol, TypeAlias, get_args

from rockafellian._internal.extras import missing
from rockafellian.training.history import Epoch

Progress: TypeAlias = Literal["auto", "bar", "lines", "quiet"]

#: Seconds between two lines of `counting`.
SECONDS_PER_LINE = 10.0


class Display(Protocol):
    """What a training loop reports: how much of an epoch is done, and the record of its end."""

    def batch(self, epochs_done: float) -> None: ...  # noqa: D102
    def epoch(self, record: Epoch) -> None: ...  # noqa: D102


@contextmanager
def show(kind: Progress, epochs: int) -> Iterator[Display]:
    """Yield the display for a run of so many epochs; "auto" is a bar if there are a terminal and rich, else lines."""
    if kind not in get_args(Progress):
        raise ValueError(f"need progress to be one of {', '.join(get_args(Progress))}; got {kind!r}")
    if kind == "quiet":
        yield Quiet()
    elif kind == "bar" or (kind == "auto" and sys.stderr.isatty() and has_rich()):
        with _bar(epochs) as bar:
            yield bar
    else:
        yield Lines(epochs)


@contextmanager
def counting(kind: Progress, what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function of (done, total) that moves a bar, or prints a line now and then."""
    if kind == "bar" or (kind == "auto" and sys.stderr.isatty() and has_rich()):
        with _counting_bar(what) as update:
            yield update
    else:
        printed = time.monotonic()

        def print_line(done: int, total: int) -> None:
            nonlocal printed
            if kind != "quiet" and time.monotonic() - printed > SECONDS_PER_LINE:
                printed = time.monotonic()
                print(f"{what}: {done:,} of {total:,}", file=sys.stderr, flush=True)

        yield print_line


def describe(record: Epoch) -> str:
    """Return loss, accuracy and removed fraction in a few words."""
    fractions = {"accuracy": record.accuracy, "validation": record.valid_accuracy, "removed": record.removed_fraction}
    known = [f"{name} {fraction:.1%}" for name, fraction in fractions.items() if fraction is not None]
    return "  ".join([f"loss {record.loss:.4f}", *known])


class Quiet:
    """Shows nothing."""

    def batch(self, epochs_done: float) -> None:
        """Show nothing."""

    def epoch(self, record: Epoch) -> None:
        """Show nothing."""


class Lines(Quiet):
    """Prints a line per epoch to the error stream, where it does not mix with results."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def epoch(self, record: Epoch) -> None:
        """Print the line."""
        print(f"epoch {record.epoch}/{self.epochs}  {describe(record)}", file=sys.stderr, flush=True)


def has_rich() -> bool:
    """Return whether rich is installed, so that a bar can be shown."""
    try:
        import rich  # noqa: F401
    except ImportError:
        return False
    return True


@contextmanager
def _counting_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    try:
        from rich.console import Console
        from rich.progress import Progress as RichProgress
    except ImportError as error:
        raise missing("rich for a bar", "train", ", or use progress='lines'") from error
    with RichProgress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def _bar(epochs: int) -> Iterator[Display]:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress
    except ImportError as error:
        raise missing("rich for a bar", "train", ", or use progress='lines'") from error

    class Bar:
        shown = 0.0

        def batch(self, epochs_done: float) -> None:
            now = time.monotonic()
            if now - self.shown > 0.1:  # ten updates a second look smooth and cost little
                self.shown = now
                progress.update(task, completed=epochs_done)

        def epoch(self, record: Epoch) -> None:
            progress.update(task, completed=record.epoch, status=describe(record))

    columns = [TextColumn("epoch"), MofNCompleteColumn(), BarColumn(), TimeRemainingColumn()]
    with RichProgress(*columns, TextColumn("{task.fields[status]}"), console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=epochs, status="")
        yield Bar()
