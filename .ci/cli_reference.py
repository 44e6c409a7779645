"""Write docs/cli.md: every command with its help, as the command itself prints it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
#: Commands of the reproduction, a distribution of its own, come last.
HEADER = """\
# Command line

<!-- Written by .ci/cli_reference.py from the help of the commands: `make docs/cli.md`. -->

`rockafellian COMMAND -h` prints the same. After `rockafellian --install-completion` the Tab key completes commands and
options, in bash, zsh, fish and PowerShell. `reproduce`, `compare` and `data` come with the reproduction
([how to install it](paper.md)).
"""


def commands(group: Any, *parents: str) -> Iterator[list[str]]:
    """Yield the words of each command, in the order of the help; of two names of one command, the first."""
    for name, command in group.commands.items():
        if name != "train":
            yield [*parents, name]
            yield from commands(command, *parents, name) if hasattr(command, "commands") else ()


def render() -> str:
    """Return the page."""
    os.environ |= {"TERMINAL_WIDTH": "78", "COLUMNS": "78", "NO_COLOR": "1", "TERM": "dumb"}
    from typer.main import get_command
    from typer.testing import CliRunner

    from rockafellian.cli.main import build_app

    app = build_app()
    parts = [HEADER]
    for words in ([], *commands(get_command(app))):
        shown = CliRunner().invoke(app, [*words, "--help"], prog_name="rockafellian", color=False).output
        lines = "\n".join(line.rstrip() for line in shown.splitlines()).strip("\n")
        parts.append(f"## {' '.join(words) or 'rockafellian'}\n\n```text\n{lines}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(render())
