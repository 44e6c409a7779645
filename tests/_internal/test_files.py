"""CSV files in which a spreadsheet finds nothing to run."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rockafellian._internal.files import (
    FORMULA,
    atomic_write,
    check_regular,
    escape_formula,
    unescape_formula,
    write_csv,
)


@pytest.mark.parametrize(
    "text", ["-1", "+1", "-1.5", "+0.25", "0", "-007", "12", "cat", "", "a=b", "a-1", "1-1", "é", "it's"]
)
def test_plain_numbers_and_words_are_left_alone(text: str) -> None:
    assert escape_formula(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1+1",
        "-1+1",
        "-cmd",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n",
        "  =1",
        "'=1",
        "''-x",
        "\uff1d1",
        "\uff0d1",
        "-1-",
        "-",
        "+",
        "--1",
        "-1e5",
        "-.5",
        "-1.",
        "- 1",
        "-1\n",
        "-1,5",
        "-\u0661",
        "'",
        "'tis",
        "''",
    ],
)
def test_what_might_be_run_gets_an_apostrophe(text: str) -> None:
    assert escape_formula(text) == f"'{text}"


@given(st.text(max_size=8) | st.text("=+-@'\t\r\n 1.5a", max_size=6))
def test_no_safe_text_begins_like_a_formula_unless_it_is_a_number(text: str) -> None:
    made = escape_formula(text)
    assert made in (text, f"'{text}")
    if made.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        assert float(made) == float(text)
    assert (made == text) or FORMULA.match(text) or text.startswith("'")


@given(st.text(max_size=8) | st.text("=+-@'\t\r\n 1.5a", max_size=6))
def test_every_text_comes_back_from_its_safe_form(text: str) -> None:
    assert unescape_formula(escape_formula(text)) == text


def test_numbers_stay_numbers_and_nothing_is_an_empty_cell(tmp_path: Path) -> None:
    columns = [[-1, 2], [-0.5, float("nan")], ["-1", None], ["=1", "x"]]
    write_csv(tmp_path / "data.csv", ["a", "b", "c", "d"], [columns])
    with (tmp_path / "data.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["a", "b", "c", "d"], ["-1", "-0.5", "-1", "'=1"], ["2", "", "", "x"]]


def test_a_file_appears_only_when_it_is_complete_and_a_link_in_its_place_is_replaced(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "data.txt", tmp_path / "elsewhere.txt"
    elsewhere.write_text("not ours")
    path.symlink_to(elsewhere)
    with atomic_write(path) as partial:
        partial.write_text("ours")
        assert path.read_text() == "not ours"
    assert path.read_text() == "ours"
    assert elsewhere.read_text() == "not ours"
    with pytest.raises(FileNotFoundError), atomic_write(path) as partial:
        partial.unlink()
    assert path.read_text() == "ours"
    assert len(list(tmp_path.iterdir())) == 2


def test_what_a_killed_process_left_is_removed_and_the_work_of_a_living_one_is_not(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead, alive = (tmp_path / f"data.txt.{process}-01234567.partial" for process in (ended.pid, os.getpid()))
    other = tmp_path / "data.txt.partial"
    for path in (dead, alive, other):
        path.write_text("half")
    with atomic_write(tmp_path / "data.txt") as partial:
        partial.write_text("whole")
    assert not dead.exists()
    assert alive.exists()
    assert other.exists()


def test_pipes_and_folders_are_no_regular_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    check_regular(tmp_path / "file")
    check_regular(tmp_path / "nothing")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/null")):
        with pytest.raises(ValueError, match="need a regular file"):
            check_regular(path)
