"""The commands `rockafellian data ...` on a tiny source."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny import source

from rockafellian.cli.main import main
from rockafellian_reproduction.data.sources import SOURCES

FILES = {"a.txt": b"a", "b.txt": b"b"}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys, tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.setenv("ROCKAFELLIAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(SOURCES, "tiny", source(FILES))

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["rockafellian", "data", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        return (left.value.code or 0, *capsys.readouterr())

    return run


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


def test_a_folder_of_the_user_is_copied_into_the_cache_and_found_there(run, mine: Path, tmp_path: Path) -> None:
    place = tmp_path / "cache" / "tiny"
    assert run("get", "tiny", "--folder", str(mine)) == (0, f"{place}\n", "")
    assert {path.name: path.read_bytes() for path in place.iterdir()} == FILES
    assert run("where", "tiny") == (0, f"{place}\n", "")
    assert run("get", "tiny", "tiny") == (0, f"{place}\n{place}\n", "")


def test_another_cache_can_be_named(run, mine: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert run("get", "tiny", "--folder", str(mine), "--cache", str(other)) == (0, f"{other / 'tiny'}\n", "")
    assert run("where", "tiny", "--cache", str(other))[0] == 0
    assert run("where", "tiny")[0] == 2


def test_what_is_not_there_is_one_line_with_the_fix(run, tmp_path: Path) -> None:
    fix = f"error: tiny is not in {tmp_path / 'cache'}; get it with `rockafellian data get tiny`\n"
    assert run("where", "tiny") == (2, "", fix)


def test_data_that_cannot_be_fetched_are_one_line_that_names_files_and_folder(run, tmp_path: Path) -> None:
    code, out, error = run("get", "tiny")
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert error.startswith("error: need tiny: ")
    assert f"Put a.txt and b.txt into {tmp_path / 'cache' / 'tiny'}" in error


def test_damaged_files_of_the_user_are_one_line_and_not_copied(run, mine: Path, tmp_path: Path) -> None:
    (mine / "b.txt").write_bytes(b"c")
    code, out, error = run("get", "tiny", "--folder", str(mine))
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert f"need {mine / 'b.txt'} with sha256" in error
    assert not (tmp_path / "cache" / "tiny").exists()


@pytest.mark.parametrize("command", ["get", "where"])
def test_an_unknown_name_lists_the_known_ones(run, command: str) -> None:
    code, out, error = run(command, "mnist")
    assert (code, out) == (2, "")
    assert error == f"error: need one of {', '.join(SOURCES)}; got 'mnist'\n"


def test_the_list_says_what_there_is_and_what_is_in_the_cache(run, mine: Path) -> None:
    def line(name: str) -> list[str]:
        code, out, _ = run("list")
        assert code == 0
        assert all(found.what in out and f"({found.license})" in out for found in SOURCES.values())
        return next(line for line in out.splitlines() if line.startswith(f"{name} ")).split()

    assert line("mnist-3")[:4] == ["mnist-3", "55", "MB", "no"]
    assert line("tissue")[:3] == ["tissue", "-", "no"]
    assert line("tiny")[:4] == ["tiny", "0", "MB", "no"]
    run("get", "tiny", "--folder", str(mine))
    assert line("tiny")[:4] == ["tiny", "0", "MB", "yes"]
