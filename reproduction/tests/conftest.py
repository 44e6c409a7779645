"""A cache, a server, and a source called `tiny` that it serves."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tests"))  # helpers that both distributions use
from tiny import FILES, Server, at, serving

from rockafellian_reproduction.data.sources import SOURCES, Source


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    with serving() as server:
        yield server


@pytest.fixture
def tiny(server: Server, monkeypatch: pytest.MonkeyPatch) -> Source:
    found = at(server, FILES)
    monkeypatch.setitem(SOURCES, "tiny", found)
    return found


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


collect_ignore = ["conftest.py"]  # two of one name cannot be searched for doctests
