"""Verdicts that turn at their marks, and what they rest on."""

from typing import Any

import pytest
from tiny import ATTACKED, as_printed, bins, record

from rockafellian_reproduction.pages.compare import Comparison
from rockafellian_reproduction.pages.verdicts import judge


def moved(number: int, points: float, n: int) -> list[dict[str, Any]]:
    """Records as printed, the first `n` of them moved by so many points."""
    return [
        {**made, "results": {name: value + points for name, value in made["results"].items()}} if i < n else made
        for i, made in enumerate(as_printed(number))
    ]


def test_a_table_without_records_is_not_yet_run() -> None:
    assert judge(Comparison(1, "features", ())) == ("not yet run", "-")


@pytest.mark.parametrize(("far", "word"), [(6, "reproduced"), (7, "pattern holds")])
def test_a_table_is_reproduced_by_three_quarters_of_its_figures(far: int, word: str) -> None:
    assert judge(Comparison(3, "paper", moved(3, -40, far))).word == word


def test_figures_within_three_points_are_close_and_counted() -> None:
    assert judge(Comparison(3, "paper", moved(3, 3.0, 24))) == ("reproduced", "24 of 24 figures")
    assert judge(Comparison(3, "paper", moved(3, 3.1, 24))) == ("pattern holds", "11 of 11 signs")


def test_with_another_network_or_data_only_the_pattern_can_hold() -> None:
    for number, scale in ((1, "features"), (1, "network"), (8, "paper"), (9, "features")):
        assert judge(Comparison(number, scale, as_printed(number))).word == "pattern holds"
    assert judge(Comparison(10, "features", as_printed(10))) == ("not comparable", "2 of 2 signs")
    assert judge(Comparison(4, "network", as_printed(4))).word == "reproduced"


@pytest.mark.parametrize(("lost", "word"), [(1, "pattern holds"), (2, "pattern does not hold")])
def test_the_pattern_holds_by_its_signs(lost: int, word: str) -> None:
    records = as_printed(1)
    robust = [made for made in records if made["cell"]["method"] == "RRM" and made["cell"]["loss"] != "mae"]
    for made in robust[:lost]:
        made["results"]["test accuracy"] = 10.0
    assert judge(Comparison(1, "features", records)) == (word, f"{9 - lost} of 9 signs (21 of 24 cells run)")


@pytest.mark.parametrize(("removed", "word"), [(870, "pattern holds"), (860, "pattern does not hold")])
def test_table_5_holds_within_ten_points(removed: int, word: str) -> None:
    found = judge(Comparison(5, "network", [record(ATTACKED, bins=[bins(removed, 900)])]))
    assert found.word == word
    assert found.number.startswith(f"{removed // 10} % of the mislabeled rows removed (97 %), 90 % of the others")
    assert judge(Comparison(5, "network", [record(ATTACKED, diverged="inf")])).number == "every run diverged"
