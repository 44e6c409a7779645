"""`rockafellian reproduce`, `compare` and `data` where the distribution that has them is not installed."""

from __future__ import annotations

import typer

from rockafellian._internal.extras import install_command

#: The commands that the distribution adds, and what each does.
COMMANDS = {
    "reproduce": "Train the cells of one of the paper's tables",
    "compare": "Print recorded results beside the figures of the paper",
    "data": "List, fetch and check the data sets of the paper",
}
#: Any arguments: only the distribution knows which are valid.
ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}


def register_hints(app: typer.Typer) -> None:
    """Add commands that only say how to install the real ones."""
    for name, purpose in COMMANDS.items():
        description = f"{purpose} (needs rockafellian-reproduction)."
        app.command(name, help=description, context_settings=ANY_ARGUMENTS)(_hint)


def _hint(context: typer.Context) -> None:
    raise ImportError(
        f"need the distribution rockafellian-reproduction for `rockafellian {context.info_name}`; "
        f"{install_command(folder='reproduction')}"
    )
