"""The commands come through the entry point of this distribution."""

import sys
from importlib.metadata import entry_points

import pytest

from rockafellian.cli.main import main
from rockafellian_reproduction.cli import register


def test_the_entry_point_is_the_function_that_adds_the_commands() -> None:
    (point,) = entry_points(group="rockafellian.commands", name="reproduction")
    assert point.load() is register


@pytest.mark.parametrize("command", [["reproduce"], ["compare"], ["data"], ["data", "get"]])
def test_the_commands_are_the_real_ones(monkeypatch: pytest.MonkeyPatch, capsys, command: list[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["rockafellian", *command, "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    shown = capsys.readouterr().out
    assert "needs rockafellian-reproduction" not in shown
    assert f"rockafellian {' '.join(command)} [OPTIONS]" in shown
