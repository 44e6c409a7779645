"""Every error of the command is one line: exit code 2 for the input, 1 for a fault of this program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from rockafellian.cli import main as cli


def answer(monkeypatch: Any, capsys: Any, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["rockafellian", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    shown = capsys.readouterr()
    return int(ended.value.code or 0), shown.out, shown.err


def raising(monkeypatch: Any, error: BaseException) -> None:
    def app(*given: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr(cli, "build_app", lambda: app)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ValueError("need this,\ngot that"), 2, "error: need this, got that"),
        (OSError(28, "No space left on device"), 2, "error: [Errno 28] No space left on device"),
        (
            MemoryError(),
            2,
            "error: need more memory than there is (none could be had); use fewer rows or smaller inputs",
        ),
        (KeyboardInterrupt(), 2, "error: stopped"),
        (ValueError(), 2, "error: ValueError"),
        (KeyError("x"), 1, "error: a fault of rockafellian, not of your data: KeyError: 'x'; --debug shows where"),
        (
            RuntimeError("a\nb"),
            1,
            r"error: a fault of rockafellian, not of your data: RuntimeError: a\nb; --debug shows where",
        ),
        (
            RecursionError("deep"),
            1,
            "error: a fault of rockafellian, not of your data: RecursionError: deep; --debug shows where",
        ),
        (ValueError("label \x1b[2J\x07"), 2, r"error: label \x1b[2J\x07"),
    ],
)
def test_an_exception_is_one_line(error: BaseException, code: int, line: str, monkeypatch: Any, capsys: Any) -> None:
    raising(monkeypatch, error)
    assert answer(monkeypatch, capsys) == (code, "", f"{line}\n")


def test_debug_shows_the_traceback_before_the_line(monkeypatch: Any, capsys: Any) -> None:
    raising(monkeypatch, KeyError("x"))
    code, _, err = answer(monkeypatch, capsys, "--debug")
    assert code == 1
    assert "Traceback" in err
    assert "in app" in err
    assert err.splitlines()[-1].startswith("error: a fault of rockafellian")


@pytest.mark.parametrize("where", ["before", "after"])
def test_debug_may_stand_before_or_after_the_command(where: str, monkeypatch: Any, capsys: Any, tmp_path: Path) -> None:
    arguments = ["show", str(tmp_path)]
    arguments.insert(0 if where == "before" else 2, "--debug")
    code, _, err = answer(monkeypatch, capsys, *arguments)
    assert code == 2
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("error: need the folder of a run")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["nonsense"], "nonsense"),
        (["audit"], "'data'"),
        (["audit", "x.csv", "--epochs", "many"], "--epochs"),
        (["audit", "x.csv", "--nonsense"], "--nonsense"),
        (["show", "a", "b"], "b"),
        (["audit", "x.csv", "--label"], "--label"),
    ],
)
def test_wrong_arguments_are_one_line(arguments: list[str], part: str, monkeypatch: Any, capsys: Any) -> None:
    code, out, err = answer(monkeypatch, capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert part in err
    assert "--help" in err


def test_without_arguments_the_help_is_shown(monkeypatch: Any, capsys: Any) -> None:
    code, out, err = answer(monkeypatch, capsys)
    assert code in (0, 2)
    assert "audit" in out
    assert err == ""


def test_control_characters_of_labels_and_names_do_not_reach_the_terminal(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    evil = "\x1b]0;owned\x07\x9b2J"
    frame = pd.DataFrame({f"a{evil}": [0.1 * i for i in range(40)], "b": [i % 7 for i in range(40)]})
    frame["label"] = [f"x{evil}", "y\u202e"] * 20
    path = tmp_path / f"data{evil[:3]}.csv"
    frame.to_csv(path, index=False)
    arguments = [
        "--label",
        "label",
        "--out",
        str(tmp_path / f"run{evil[:3]}"),
        "--epochs",
        "10",
        "--contamination",
        "0.1",
    ]
    for given in (["audit", str(path), *arguments], ["show", arguments[3]], ["show", f"{evil}"]):
        _, out, err = answer(monkeypatch, capsys, *given)
        assert "\x1b" in "".join(given)
        assert not set(out + err) & set("\x1b\x07\x9b\u202e")
    assert r"\x1b" in err


def test_a_terminal_that_cannot_show_a_character_gets_its_escape() -> None:
    code = "from rockafellian.cli import main as cli; import sys; sys.argv = ['rockafellian', 'show', '猫']; cli.main()"
    environment = {"PYTHONIOENCODING": "ascii", "PATH": ""}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert ended.returncode == 2
    assert r"\u732b" in ended.stderr
    assert ended.stderr.count("\n") == 1
