"""Without the distribution rockafellian-reproduction, its commands say how to install it."""

import sys
from importlib.metadata import EntryPoint, EntryPoints

import pytest
import typer

from rockafellian._internal.extras import install_command
from rockafellian.cli import main as cli


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Return exit code, output and errors of the command."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", ["rockafellian", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return (ended.value.code or 0, *capsys.readouterr())


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "entry_points", lambda group: EntryPoints())


@pytest.mark.usefixtures("not_installed")
@pytest.mark.parametrize(
    "arguments",
    [
        ["reproduce"],
        ["reproduce", "3", "--scale", "paper", "--list"],
        ["compare", "--markdown", "page.md"],
        ["data"],
        ["data", "get", "mnist-10", "--folder", "."],
    ],
)
def test_a_command_is_one_line_with_the_way_to_install_it(monkeypatch, capsys, arguments: list[str]) -> None:
    hint = f"error: need the distribution rockafellian-reproduction for `rockafellian {arguments[0]}`; "
    assert run(monkeypatch, capsys, *arguments) == (2, "", f"{hint}{install_command(folder='reproduction')}\n")
    assert "; pip install " in hint + install_command(folder="reproduction")


@pytest.mark.usefixtures("not_installed")
def test_the_help_lists_the_three_commands_and_what_they_need(monkeypatch, capsys) -> None:
    code, shown, _ = run(monkeypatch, capsys, "--help")
    assert code == 0
    for name in ("reproduce", "compare", "data"):
        (line,) = [line for line in shown.splitlines() if line.strip("│ ").startswith(f"{name} ")]
        assert "needs rockafellian-reproduction" in line


def test_commands_of_an_installed_distribution_replace_the_hints(monkeypatch, capsys) -> None:
    point = EntryPoint("reproduction", f"{__name__}:register", "rockafellian.commands")
    monkeypatch.setattr(cli, "entry_points", lambda group: EntryPoints([point]))
    assert run(monkeypatch, capsys, "compare") == (0, "the real command\n", "")
    assert run(monkeypatch, capsys, "reproduce")[0] == 2
    assert "rockafellian-reproduction" not in run(monkeypatch, capsys, "--help")[1]


def register(app: typer.Typer) -> None:
    @app.command()
    def compare() -> None:
        print("the real command")
