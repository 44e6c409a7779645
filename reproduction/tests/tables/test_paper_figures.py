"""The printed figures: each belongs to a cell and a measure that exist, and none changes unnoticed."""

import hashlib
import statistics
from itertools import product

import pytest

from rockafellian_reproduction.tables import TABLES, figures
from rockafellian_reproduction.tables.figures import Figure
from rockafellian_reproduction.training.measures import SUMMED_EPS

#: By table, what its runs are measured by.
MEASURES = {
    **{number: {"test accuracy"} for number in (1, 2, 3)},
    **{number: {"eps 0", "eps 0.1", "eps 0.25", "eps 0.5", "eps 1"} for number in (4, 7)},
    8: {"PR-AUC, train", "PR-AUC, test"},
    **{number: {"at best validation", "best on test"} for number in (9, 10)},
}
#: By table, a digest of all cells, measures, values and deviations: change it only together with the paper's figures.
DIGESTS = {
    1: "41603bb59e94",
    2: "630e7bb23e54",
    3: "d7772ff4a6d4",
    4: "97d34fbce86a",
    7: "ce0f45ec3902",
    8: "1f1dd264c7e6",
    9: "e54241573cc0",
    10: "cfca6ca52927",
}


def key(figure: Figure) -> tuple[object, ...]:
    return (*figure.cell.items(), figure.measure)


@pytest.mark.parametrize("number", TABLES)
def test_every_figure_is_of_a_measure_of_its_table_and_every_cell_has_all_measures(number: int) -> None:
    found = figures.PUBLISHED[number]
    cells = [cell for cell in TABLES[number].cells if (cell.get("loss"), cell["method"]) != ("gce", "RRM")]
    wanted = {(*cell.items(), measure) for cell, measure in product(cells, MEASURES[number])}
    assert {key(figure) for figure in found} == wanted
    assert len(found) == len(wanted)


def test_the_eps_of_the_tables_are_those_that_runs_are_attacked_with() -> None:
    assert {f"eps {eps:g}" for eps in figures.EPS} == MEASURES[4]
    assert len(figures.EPS) == len(MEASURES[4])
    assert list(figures.EPS) == sorted(figures.EPS)
    assert [sum(figures.EPS[: i + 1]) for i in range(5)] == pytest.approx(SUMMED_EPS)


@pytest.mark.parametrize("number", TABLES)
def test_no_printed_figure_changes_unnoticed(number: int) -> None:
    lines = sorted(f"{key(figure)} {figure.value} {figure.deviation}" for figure in figures.PUBLISHED[number])
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12] == DIGESTS[number]


def test_no_count_of_table_5_and_no_time_of_cplex_changes_unnoticed() -> None:
    assert list(figures.TABLE_5) == [1, 10, 49]
    assert {tuple(map(sum, counts)) for counts in figures.TABLE_5.values()} == {(9600, 38_400)}
    removed = {step: (wrong[-1], clean[-1]) for step, (wrong, clean) in figures.TABLE_5.items()}
    assert removed == {1: (0, 0), 10: (7079, 617), 49: (9286, 1151)}
    assert hashlib.sha256(repr(figures.TABLE_5).encode()).hexdigest()[:12] == "e54df28902ce"
    assert figures.CPLEX_SECONDS == {18_623: 2.86, 50_000: 3.88}


@pytest.mark.parametrize(("method", "part"), [("ERM", "test"), ("RRM", "test"), ("ERM", "train")])
def test_areas_of_table_8_fall_with_the_noise_as_its_explanation_says(method: str, part: str) -> None:
    areas = [f for f in figures.PUBLISHED[8] if (f.cell["method"], f.measure) == (method, f"PR-AUC, {part}")]
    scaled = [area.value * (1 + 15 * area.cell["contamination"]) for area in areas]
    assert scaled == pytest.approx([statistics.fmean(scaled)] * 6, rel=0.08)
