"""CSV files in which a spreadsheet finds nothing to run."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rockafellian._internal.files import FORMULA, escape_formula, write_csv


@pytest.mark.parametrize(
    "text", ["-1", "+1", "-1.5", "+0.25", "0", "-007", "12", "cat", "", "a=b", "a-1", "1-1", "'", "é"]
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
    assert (made == text) or FORMULA.match(text)


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=6), min_size=1, max_size=8))
def test_what_is_made_safe_differs_where_the_texts_differ(texts: list[str]) -> None:
    assert len({escape_formula(text) for text in texts}) == len(set(texts))


def test_numbers_stay_numbers_and_nothing_is_an_empty_cell(tmp_path: Path) -> None:
    columns = [[-1, 2], [-0.5, float("nan")], ["-1", None], ["=1", "x"]]
    write_csv(tmp_path / "data.csv", ["a", "b", "c", "d"], [columns])
    with (tmp_path / "data.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["a", "b", "c", "d"], ["-1", "-0.5", "-1", "'=1"], ["2", "", "", "x"]]
