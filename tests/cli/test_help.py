"""Every command explains itself: -h, an example that its parser accepts, completion, and plain tracebacks."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperCommand
from typer.main import get_command

from rockafellian.cli import main as cli


def commands(group: Any, *parents: str) -> Iterator[tuple[str, Any]]:
    yield " ".join(["rockafellian", *parents]), group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, *parents, name)


ALL = dict(commands(get_command(cli.build_app())))
#: Names of one command; the example has the first.
OTHER_NAMES = {"rockafellian train": "rockafellian audit"}


def answer(monkeypatch: Any, capsys: Any, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["rockafellian", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return (ended.value.code or 0, *capsys.readouterr())


def example(name: str) -> list[str]:
    """The arguments in the example of a command."""
    return str(ALL[name].epilog).removeprefix("Example: rockafellian ").split()


@pytest.mark.parametrize("name", ALL)
def test_the_short_option_shows_the_same_help_as_the_long_one(name: str, monkeypatch: Any, capsys: Any) -> None:
    arguments = name.split()[1:]
    shown = answer(monkeypatch, capsys, *arguments, "-h")
    assert shown == answer(monkeypatch, capsys, *arguments, "--help")
    assert shown[0] == 0
    assert f"Usage: {name}" in shown[1]
    assert " ".join(example(name)) in " ".join(shown[1].split())


@pytest.mark.parametrize("name", ALL)
def test_the_example_of_a_command_is_of_that_command_and_its_parser_accepts_it(
    name: str, monkeypatch: Any, capsys: Any
) -> None:
    ran = []
    monkeypatch.setattr(TyperCommand, "invoke", lambda command, context: ran.append(context.command_path))
    code, _, err = answer(monkeypatch, capsys, *example(name))
    assert (code, err) == (0, "")
    (path,) = ran
    assert path.startswith(OTHER_NAMES.get(name, name))


@pytest.mark.parametrize("name", ALL)
def test_a_fault_in_a_command_is_one_line_and_with_debug_a_plain_traceback(
    name: str, monkeypatch: Any, capsys: Any
) -> None:
    def broken(command: Any, context: Any) -> None:
        raise KeyError("x")

    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # typer replaces it
    monkeypatch.setattr(TyperCommand, "invoke", broken)
    line = "error: a fault of rockafellian, not of your data: KeyError: 'x'; --debug shows where\n"
    assert answer(monkeypatch, capsys, *example(name)) == (1, "", line)
    code, out, err = answer(monkeypatch, capsys, *example(name), "--debug")
    assert (code, out) == (1, "")
    assert err.startswith("Traceback (most recent call last):\n  File ")
    assert err.endswith(f"KeyError: 'x'\n{line}")
    assert not set("╭│╰") & set(err)


@pytest.mark.parametrize(
    ("typed", "offered"), [("rockafellian ret", {"retrain"}), ("rockafellian data ", {"list", "get", "where"})]
)
def test_a_shell_completes_commands_without_loading_torch(typed: str, offered: set[str]) -> None:
    asked = {"_ROCKAFELLIAN_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    code = """
import sys
from rockafellian.cli.main import main
sys.argv = ["rockafellian"]
try:
    main()
finally:
    print(*{"torch", "numpy", "pyarrow", "pandas"} & set(sys.modules), file=sys.stderr)
"""
    shown = subprocess.run([sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True)
    assert (shown.returncode, shown.stderr) == (0, "\n")
    assert set(shown.stdout.split()) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_shown_and_installed_for_a_shell(shell: str, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    code = "import sys; from rockafellian.cli.main import main; sys.argv[0] = 'rockafellian'; main()"
    shown, installed = (
        subprocess.run(
            [sys.executable, "-c", code, option, shell], env={**os.environ, **home}, capture_output=True, text=True
        )
        for option in ("--show-completion", "--install-completion")
    )
    assert (shown.returncode, installed.returncode) == (0, 0)
    assert f"{shell} completion installed" in installed.stdout
    scripts = [path.read_text().strip() for path in tmp_path.rglob("*") if path.is_file()]
    assert shown.stdout.strip() in scripts
