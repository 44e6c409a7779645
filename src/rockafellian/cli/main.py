"""The command `rockafellian`: its groups of commands, and errors in one line."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points, version
from typing import Annotated

from rockafellian._internal.extras import missing

try:
    import typer
except ImportError:
    print(f"error: {missing('typer for the command line', 'cli')}", file=sys.stderr)
    sys.exit(2)

from rockafellian.cli import audit, demo, reproduction


def rockafellian(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Train classifiers on mislabeled data, and find the mislabeled rows."""
    if show_version:
        print(version("rockafellian"))
        raise typer.Exit


def build_app() -> typer.Typer:
    """Return the command with everything that is installed."""
    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)
    app.callback(invoke_without_command=True)(rockafellian)
    demo.register(app)
    audit.register(app)
    installed = entry_points(group="rockafellian.commands")
    for point in installed:
        point.load()(app)
    if "reproduction" not in installed.names:
        reproduction.register_hints(app)
    return app


def main() -> None:
    """Run the command; an error in the input is one line and exit code 2."""
    try:
        build_app()()
    except (ValueError, OSError, ImportError, FloatingPointError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
