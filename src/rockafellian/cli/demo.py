"""`rockafellian demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rockafellian._internal.printable import printable
from rockafellian.cli.screen import Open, open_page


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: rockafellian demo --seeds 1")(demo)


def demo(
    out: Annotated[Path, typer.Option(help="The folder that gets a new folder for this run.")] = Path("runs"),
    seeds: Annotated[int, typer.Option(help="How many times to train, each with other mislabeled rows.")] = 3,
    epochs: Annotated[int, typer.Option(help="How long to train.")] = 40,
    open_: Open = True,
) -> None:
    """Plain training beside RRM on scikit-learn's digits with 40 % label noise, and a page to review them."""
    from rockafellian.cli.digits import run_demo

    run, banner = run_demo(out, seeds=seeds, epochs=epochs)
    page = run / "report.html"
    print(banner.text)
    print(", ".join(f"{name} {figure}" for name, figure in banner.figures.items()))
    print(printable(f"review: {page}"))
    print("next, your own data: rockafellian audit DATA.csv --label COLUMN")
    open_page(page, wanted=open_)
