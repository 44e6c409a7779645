"""A page is opened where somebody can see it, and nowhere else."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path

import pytest

from rockafellian.cli.screen import has_screen, open_page

#: By name: platform, whether the output is a terminal, and what is set.
PLACES = {
    "a desktop with X": ("linux", True, {"DISPLAY": ":0"}, True),
    "a desktop with Wayland": ("linux", True, {"WAYLAND_DISPLAY": "wayland-0"}, True),
    "a Mac": ("darwin", True, {}, True),
    "Windows": ("win32", True, {}, True),
    "a server": ("linux", True, {}, False),
    "an empty display": ("linux", True, {"DISPLAY": ""}, False),
    "a pipe": ("linux", False, {"DISPLAY": ":0"}, False),
    "a pipe on a Mac": ("darwin", False, {}, False),
    "CI": ("linux", True, {"DISPLAY": ":0", "CI": "true"}, False),
    "CI on a Mac": ("darwin", True, {"CI": "1"}, False),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_page_is_opened_only_where_there_is_a_screen(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    platform, terminal, variables, expected = PLACES[place]
    for name in ("CI", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert has_screen() is expected
    open_page(Path("a b.html"))
    assert opened == ([Path("a b.html").resolve().as_uri()] if expected else [])
