import os
import re
import sys

import pytest

from rockafellian._internal.extras import install_command
from rockafellian.training.history import Epoch
from rockafellian.training.progress import show

NOTHING = Epoch(1, 0.25, None, None, None, None, 0.1, 1.0)
EVERYTHING = Epoch(2, 12.34567, 0.75, 0.4, 0.8, 0.125, 0.1, 1.0)
VALIDATION_WITHOUT_ACCURACY = Epoch(3, 0.0, None, 0.4, None, 0.0, 0.1, 1.0)
LINES = [
    "epoch 1/3  loss 0.2500",
    "epoch 2/3  loss 12.3457  accuracy 75.0%  validation 80.0%  removed 12.5%",
    "epoch 3/3  loss 0.0000  removed 0.0%",
]


def run(kind: str) -> None:
    with show(kind, 3) as display:
        for record in (NOTHING, EVERYTHING, VALIDATION_WITHOUT_ACCURACY):
            display.batch(record.epoch - 0.5)
            display.epoch(record)


@pytest.mark.parametrize(
    ("kind", "terminal", "rich", "expected"),
    [
        ("lines", False, True, LINES),
        ("lines", True, True, LINES),
        ("auto", False, True, LINES),
        ("auto", True, False, LINES),
        ("quiet", False, True, []),
        ("quiet", True, True, []),
    ],
)
def test_lines_are_on_the_error_stream_and_quiet_is_quiet(
    kind: str, terminal: bool, rich: bool, expected: list[str], capsys, monkeypatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    if not rich:
        monkeypatch.setitem(sys.modules, "rich", None)
    run(kind)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == expected


def test_a_line_is_there_as_soon_as_its_epoch_ends(capsys) -> None:
    with show("lines", 3) as display:
        display.epoch(NOTHING)
        assert capsys.readouterr().err == LINES[0] + "\n"


@pytest.mark.parametrize("kind", ["bar", "auto"])
def test_a_terminal_has_a_bar_with_epoch_loss_and_removed_share(kind: str, monkeypatch, capsys) -> None:
    ours, theirs = os.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with os.fdopen(theirs, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        with show(kind, 4) as display:
            display.epoch(Epoch(1, 12.34567, 0.75, 0.4, 0.8, 0.125, 0.1, 1.0))
            display.batch(2.5)
    assert capsys.readouterr() == ("", "")
    with os.fdopen(ours, "rb", buffering=0) as screen:
        shown = b""
        while part := read(screen):
            shown += part
    plain = re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", shown.decode())
    last = plain.strip().splitlines()[-1].split("\r")[-1]
    assert re.search(r"epoch 2/4 .*━.* loss 12\.3457  accuracy 75\.0%  validation 80\.0%  removed 12\.5%", last)


def read(terminal) -> bytes:
    try:
        return terminal.read(1000)
    except OSError:  # what Linux says when the other end of a pseudo-terminal is closed
        return b""


def test_a_bar_without_rich_is_an_error_that_names_the_extra(monkeypatch) -> None:
    for name in ("rich", "rich.console", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=re.escape(install_command("train"))), show("bar", 3):
        pass


@pytest.mark.parametrize("kind", ["bars", "", None])
def test_another_kind_is_an_error(kind) -> None:
    with pytest.raises(ValueError, match=f"one of auto, bar, lines, quiet; got {kind!r}"), show(kind, 3):
        pass
