"""`rockafellian reproduce`, `compare` and `data` where the distribution that holds them is not installed."""

from __future__ import annotations

import typer

from rockafellian._internal.extras import install_command

COMMANDS = ("reproduce", "compare", "data")
#: Options and arguments are left to the distribution that knows them.
ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True}


def register_hints(app: typer.Typer) -> None:
    """Add commands that only say how to get the real ones."""
    for name in COMMANDS:
        app.command(name, help="The paper's tables: needs rockafellian-reproduction.", context_settings=ANYTHING)(_hint)


def _hint(context: typer.Context) -> None:
    raise ImportError(
        f"need the distribution rockafellian-reproduction for `rockafellian {context.info_name}`; "
        f"{install_command(folder='reproduction')}"
    )
