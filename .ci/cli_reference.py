"""Write docs/cli.md: every command with its help, as the command itself prints it."""

import os
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
#: Commands of the reproduction, a distribution of its own, come last.
HEADER = """\
# Command line

<!-- Written by .ci/cli_reference.py from the help of the commands: `make docs/cli.md`. -->

`rockafellian COMMAND --help` prints the same. `reproduce`, `compare` and `data` come with the reproduction
([how to install it](paper.md)).
"""


def render() -> str:
    """Return the page."""
    os.environ |= {"TERMINAL_WIDTH": "78", "COLUMNS": "78", "NO_COLOR": "1", "TERM": "dumb"}
    from typer.main import get_command
    from typer.testing import CliRunner

    from rockafellian.cli.main import build_app

    app = build_app()
    names = [name for name in get_command(app).list_commands(None) if name != "train"]  # type: ignore[attr-defined]
    parts = [HEADER]
    for name in names:
        shown = CliRunner().invoke(app, [name, "--help"], prog_name="rockafellian", color=False).output
        lines = "\n".join(line.rstrip() for line in shown.splitlines()).strip("\n")
        parts.append(f"## {name}\n\n```text\n{lines}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(render())
