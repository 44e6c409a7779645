"""`rockafellian demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: rockafellian demo --seeds 1")(demo)


def demo(
    out: Annotated[Path, typer.Option(help="The folder that gets a new folder for this run.")] = Path("runs"),
    seeds: Annotated[int, typer.Option(help="How many times to train, each with other mislabeled rows.")] = 3,
    epochs: Annotated[int, typer.Option(help="How long to train.")] = 40,
) -> None:
    """Plain training beside RRM on scikit-learn's digits with 40 % label noise, and a report."""
    from rockafellian.cli.digits import Settings, run

    run(out, seeds=seeds, settings=Settings(epochs=epochs))
