"""The command `rockafellian`: its groups of commands, and every error in one line."""

from __future__ import annotations

import os
import sys
import traceback
from importlib.metadata import entry_points
from typing import Annotated

from rockafellian import __version__
from rockafellian._internal.extras import missing
from rockafellian._internal.printable import printable

try:
    import typer
    from typer.exceptions import TyperException
except ImportError:
    print(f"error: {missing('typer for the command line', 'cli')}", file=sys.stderr)
    sys.exit(2)

from rockafellian.cli import audit, demo, reproduction

#: What bad input, a missing package, a full disk or too little memory raise; anything else is a fault of this program.
INPUT_ERRORS = (ValueError, OSError, ImportError, FloatingPointError, MemoryError, TyperException)
DEBUG = "--debug"


def rockafellian(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[bool, typer.Option(DEBUG, help="Show where an error arose, with any command.")] = False,
) -> None:
    """Train classifiers on mislabeled data, and find the mislabeled rows."""
    if show_version:
        print(__version__)
        raise typer.Exit


def build_app() -> typer.Typer:
    """Return the command with everything that is installed."""
    app = typer.Typer(pretty_exceptions_enable=False, no_args_is_help=True)
    help_options = {"help_option_names": ["-h", "--help"]}
    app.callback(invoke_without_command=True, context_settings=help_options, epilog=audit.EXAMPLE)(rockafellian)
    demo.register(app)
    audit.register(app)
    installed = entry_points(group="rockafellian.commands")
    for point in installed:
        point.load()(app)
    if "reproduction" not in installed.names:
        reproduction.register_hints(app)
    return app


def main() -> None:
    """Run the command. An error is one line: exit code 2 for the input, 1 for a fault of this program."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # for terminals that cannot show every character
    try:
        arguments = [each for each in sys.argv[1:] if each != DEBUG]
        sys.exit(build_app()(arguments, prog_name="rockafellian", standalone_mode=False) or 0)
    except BrokenPipeError:  # whoever read the output has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (Exception, KeyboardInterrupt) as error:
        if DEBUG in sys.argv:
            traceback.print_exc()
        message, code = _describe(error)
        if message:
            print(f"error: {printable(message)}", file=sys.stderr)
        sys.exit(code)


def _describe(error: BaseException) -> tuple[str, int]:
    """The line to print, and the exit code."""
    if isinstance(error, TyperException):
        return _usage(error), 2
    if isinstance(error, MemoryError):
        return (
            f"need more memory than there is ({str(error) or 'none could be had'}); use fewer rows or smaller inputs",
            2,
        )
    if isinstance(error, INPUT_ERRORS):
        return " ".join(str(error).split()) or type(error).__name__, 2
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return "stopped", 2
    return f"a fault of rockafellian, not of your data: {type(error).__name__}: {error}; {DEBUG} shows where", 1


def _usage(error: TyperException) -> str:
    """What is wrong with the arguments; nothing if the help is shown instead."""
    context = getattr(error, "ctx", None)
    if not error.format_message() or type(error).__name__ == "NoArgsIsHelpError":
        print(context.get_help() if context else error.format_message())
        return ""
    command = context.command_path if context else "rockafellian"
    return f"{error.format_message().rstrip('.')}; see {command} --help"
