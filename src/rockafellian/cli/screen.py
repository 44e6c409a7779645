"""Opening a page where there is somebody to see it."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

Open = Annotated[bool, typer.Option("--open/--no-open", help="Whether to open the page, where there is a screen.")]


def open_page(path: Path, *, wanted: bool = True) -> None:
    """Open a page in the browser if that is wanted and there is a screen; do nothing otherwise."""
    if wanted and has_screen():
        webbrowser.open(path.resolve().as_uri())


def has_screen() -> bool:
    """Return whether a person is likely to see a window: at a terminal, with a display, and not in CI."""
    if os.environ.get("CI") or not sys.stdout.isatty():
        return False
    return sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
