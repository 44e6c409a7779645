"""The command `rockafellian`. It reads options and prints errors in one line; the work is done elsewhere."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

try:
    import typer
except ImportError:
    print("error: need typer for the command line; pip install 'rockafellian[cli]'", file=sys.stderr)
    sys.exit(2)

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)


@app.callback(invoke_without_command=True)
def rockafellian(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Train classifiers on data with wrong labels, and learn which rows are wrong."""
    if show_version:
        print(version("rockafellian"))
        raise typer.Exit


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder that gets a new folder for this run.")] = Path("runs"),
    seeds: Annotated[int, typer.Option(help="How many times to train, each with other wrong labels.")] = 3,
    epochs: Annotated[int, typer.Option(help="How long to train.")] = 40,
) -> None:
    """Plain training beside RRM on scikit-learn's digits with 40 % wrong labels, and a report."""
    from rockafellian.demo import Settings, run

    run(out, seeds=seeds, settings=Settings(epochs=epochs))


def main() -> None:
    """What the command calls."""
    try:
        app()
    except (ValueError, OSError, ImportError, FloatingPointError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
