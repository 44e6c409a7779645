import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rockafellian.paper import compare
from rockafellian.paper.compare import Comparison, Ours, Report, Row, checks, rows, signs
from rockafellian.paper.explanations import EXPLANATIONS, UNEXPLAINED
from rockafellian.paper.figures import CPLEX_SECONDS, TABLE_5, Figure
from rockafellian.paper.reproduce import Job
from rockafellian.paper.tables import TABLES

ATTACKED = {"method": "A-RRM", "contamination": 0.2}


def record(cell: dict[str, Any], seed: int = 0, results: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A record as `reproduce` writes it, as far as it is read here."""
    return {
        "cell": cell,
        "seed": seed,
        "results": results or {},
        "tested": {},
        "bins": [],
        "rounds": [],
        "rows": {"train": 1000},
        "machine": {"processor": "a processor", "cores": 2},
        "date": "2026-11-16",
        "seconds": 3600.0,
        **more,
    }


def as_printed(number: int, seeds: int = 1, add: float = 0.0) -> list[dict[str, Any]]:
    """Records that give the published figures, all moved by `add`."""
    table = TABLES[number]
    printed = [figure.cell for figure in table.published]
    return [
        record(cell, seed, {f.measure: f.value + add for f in table.published if f.cell == cell})
        for cell in table.cells
        if cell in printed
        for seed in range(seeds)
    ]


def changed(records: list[dict[str, Any]], value: float, **cell: Any) -> list[dict[str, Any]]:
    """The same records, with another accuracy where the cell has these values."""
    hit = [all(made["cell"][key] == wanted for key, wanted in cell.items()) for made in records]
    assert sum(hit) == 1
    return [
        {**made, "results": {"test accuracy": value}} if it else made for made, it in zip(records, hit, strict=True)
    ]


def report(**by_name: list[dict[str, Any]]) -> Report:
    """All tables asked for; records by names such as `small_4`."""
    made = [Comparison(int(name.split("_")[1]), name.split("_")[0], found) for name, found in by_name.items()]
    return Report(compare.NUMBERS, compare.SCALES, tuple(made))


def bins(removed: int, untouched: int) -> list[Any]:
    """One re-weighting of 1,000 wrong rows and 1,000 clean ones; one of the untouched has the freed weight."""
    return [[0, 990 - removed, 1, 2, 7, removed], [1, untouched - 1, 1000 - untouched, 0, 0, 0]]


def outcome(found: Report, words: str) -> bool | None:
    (check,) = [check for check in checks(found) if words in check.claim]
    return check.met


def write(folder: Path, number: int, scale: str, found: dict[str, Any]) -> Path:
    path = Job(number, scale, found["cell"], found["seed"]).path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found))
    return path


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: str(table.number))
def test_every_published_figure_has_a_row_in_the_papers_order(table) -> None:
    found = rows(table, "small", [])
    assert [row.figure for row in found] == list(table.published)
    assert not any(row.ours.run or row.beyond or row.explanation for row in found)


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: str(table.number))
def test_records_that_repeat_the_paper_differ_nowhere_and_agree_in_every_sign(table) -> None:
    records = as_printed(table.number, seeds=2)
    found = rows(table, "paper", records)
    assert all(row.difference == 0 and not row.beyond and len(row.ours.values) == 2 for row in found)
    assert {sign.verdict for sign in signs(table, "paper", records)} <= {"agrees", "equal in print"}


def test_the_digits_are_those_that_the_tables_print() -> None:
    assert {number: compare.digits(table) for number, table in TABLES.items()} == {
        **{1: 2, 2: 2, 3: 0, 4: 0},
        **{7: 1, 8: 4, 9: 1, 10: 1},
    }


def test_a_row_gives_mean_deviation_and_range_over_the_seeds() -> None:
    cell = {"loss": "cce", "method": "RRM", "contamination": 0.55}
    records = [record(cell, seed, {"test accuracy": value}) for seed, value in enumerate((96.0, 97.0, 99.0))]
    row = next(row for row in rows(TABLES[3], "paper", records) if row.figure.cell == cell)
    assert row.ours.mean == pytest.approx(292 / 3)
    assert row.ours.deviation == pytest.approx((7 / 3) ** 0.5)
    assert row.ours.span == (96.0, 99.0)
    assert row.difference == pytest.approx(292 / 3 - 98)


def test_one_seed_has_no_deviation_and_a_range_of_one_point() -> None:
    ours = Ours({0: 97.0})
    assert (ours.mean, ours.deviation, ours.span) == (97.0, None, (97.0, 97.0))


def test_a_diverged_seed_is_counted_and_left_out_of_the_mean() -> None:
    cell = {"loss": "cce", "method": "RRM", "contamination": 0.55}
    records = [record(cell, 0, {"test accuracy": 97.0}), record(cell, 1, diverged="a loss is not finite")]
    ours = compare.collect(records, cell, "test accuracy")
    assert (ours.mean, ours.diverged, ours.run) == (97.0, 1, True)
    assert compare.collect([record(cell, 0, {"test accuracy": float("nan")})], cell, "test accuracy") == Ours({}, 1)


@pytest.mark.parametrize(
    ("values", "deviation", "digits", "beyond"),
    [
        ((97.5,), None, 0, False),
        ((97.49,), None, 0, True),
        ((98.5,), None, 0, False),
        ((98.51,), None, 0, True),
        ((90.0, 99.0), None, 0, False),
        ((90.0, 97.4), None, 0, True),
        ((97.2,), 0.795, 2, False),
        ((97.2,), 0.794, 2, True),
        ((98.8,), 0.795, 2, False),
        ((98.05,), None, 1, False),
        ((98.0501,), None, 1, True),
    ],
)
def test_beyond_begins_past_the_papers_deviation_and_half_a_unit(values, deviation, digits, beyond) -> None:
    figure = Figure({"loss": "cce"}, "test accuracy", 98.0, deviation)
    row = Row(3, "paper", figure, "test accuracy", digits, Ours(dict(enumerate(values))))
    assert row.beyond is beyond
    assert bool(row.explanation) is row.beyond


def test_what_lies_beyond_is_explained_or_called_unexplained() -> None:
    found = {row.figure.cell["loss"]: row for row in rows(TABLES[3], "paper", as_printed(3, add=-20))}
    assert found["elr"].explanation in {known.text for known in EXPLANATIONS if known.table == 3}
    assert found["cce"].explanation == UNEXPLAINED


def test_an_explanation_holds_for_its_scale_and_its_side_only() -> None:
    below, above = (rows(TABLES[1], "small", as_printed(1, add=add))[0] for add in (-20, 8))
    assert "smaller network" in below.explanation
    assert above.explanation == UNEXPLAINED
    assert rows(TABLES[1], "paper", as_printed(1, add=-20))[0].explanation == UNEXPLAINED


def test_an_explanation_holds_for_its_measures_only() -> None:
    found = rows(TABLES[4], "small", as_printed(4, add=1.0))
    said = {row.measure: row.explanation for row in found if row.figure.cell == {"method": "AT", "contamination": 0.2}}
    assert all("read the label" in said[measure] for measure in ("eps 0", "eps 0.1", "eps 0.25"))
    assert said["eps 0.5"] == said["eps 1"] == UNEXPLAINED


@pytest.mark.parametrize("known", EXPLANATIONS, ids=lambda known: f"{known.table} {known.text[:30]}")
def test_each_explanation_fits_a_cell_and_a_measure_that_exist(known) -> None:
    table = TABLES[known.table]
    assert all(set(values) <= set(table.axes[key]) for key, values in known.cell.items())
    scale = known.scale or "paper"
    found = [row for add in (-5, 5) for row in rows(table, scale, as_printed(known.table, add=add))]
    assert known.text in {row.explanation for row in found}


def test_equal_printed_figures_are_left_out_of_the_signs() -> None:
    found = signs(TABLES[3], "paper", as_printed(3))
    assert compare.tally(found) == (11, 11, 1, 0)
    (equal,) = [sign for sign in found if sign.verdict == "equal in print"]
    assert equal.plain.figure.cell == {"loss": "mae", "method": "ERM", "contamination": 0.55}


def test_a_sign_agrees_by_the_means_and_spans_the_differences_by_seed() -> None:
    plain, robust = ({"loss": "cce", "method": method, "contamination": 0.6} for method in ("ERM", "RRM"))
    values = {0: (80.0, 79.0), 1: (70.0, 90.0)}
    records = [
        record(cell, seed, {"test accuracy": pair[i]})
        for seed, pair in values.items()
        for i, cell in enumerate((plain, robust))
    ]
    (sign,) = [sign for sign in signs(TABLES[3], "paper", records) if sign.verdict != "not run" and sign.printed == 19]
    assert (sign.ours, sign.span, sign.verdict) == (9.5, (-1.0, 20.0), "agrees")


@pytest.mark.parametrize("value", [77.0, 76.0])
def test_a_sign_that_is_turned_or_lost_differs(value: float) -> None:
    records = changed(as_printed(3), value, loss="cce", method="RRM", contamination=0.6)
    assert compare.tally(signs(TABLES[3], "paper", records)) == (10, 11, 1, 0)


def test_a_pair_that_diverged_differs_and_one_that_lacks_a_side_is_not_run() -> None:
    cell = {"loss": "cce", "method": "RRM", "contamination": 0.6}
    others = [made for made in as_printed(3) if made["cell"] != cell]
    assert compare.tally(signs(TABLES[3], "paper", others)) == (10, 10, 1, 1)
    assert compare.tally(signs(TABLES[3], "paper", [*others, record(cell, diverged="inf")])) == (10, 11, 1, 0)


def test_table_2_has_no_pairs() -> None:
    assert signs(TABLES[2], "small", as_printed(2)) == []


def test_table_4_is_read_in_three_ways() -> None:
    cell = {"method": "AT", "contamination": 0.0}
    records = [record(cell, 0, {"eps 1": 80.0, "summed eps 1": 70.0, "last, eps 1": 60.0})]
    found = [rows(TABLES[4], "small", records, reading) for reading in compare.READINGS["eps"]]
    means = [row.ours.mean for made in found for row in made if row.figure.measure == "eps 1" and row.ours.run]
    assert means == [80.0, 70.0, 60.0]
    assert [len(made) for made in found] == [50, 50, 50]


def test_a_second_reading_of_table_8_is_of_its_training_rows_alone() -> None:
    found = rows(TABLES[8], "small", [], compare.READINGS["ranking"][1])
    assert {row.measure for row in found} == {"PR-AUC, train, all rows alike"}
    assert len(found) == 12


def test_cells_the_paper_does_not_print_and_records_of_no_cell_are_kept_apart() -> None:
    extra = {"loss": "gce", "method": "RRM", "contamination": 0.1}
    strange = {"loss": "<script>", "method": "RRM", "contamination": 0.1}
    records = [record(cell, 0, {"test accuracy": 90.0}) for cell in (extra, strange)]
    made = Comparison(1, "small", records)
    assert compare.unprinted(made) == [(extra, Ours({0: 90.0}))]
    assert compare.strangers(made) == [records[1]]
    assert not any(row.ours.run for row in rows(made.table, "small", records))


def test_table_5_is_given_at_the_papers_rounds_if_there_are_as_many() -> None:
    made = Comparison(5, "paper", [record(ATTACKED, bins=[bins(10 * i, 1000) for i in range(49)])])
    steps = compare.evolution(made)
    assert [(step.number, step.published) for step in steps] == [(1, 1), (10, 10), (49, 49)]
    assert [step.shares[0][-1] for step in steps] == pytest.approx([0.0, 0.09, 0.48])
    assert steps[-1].printed[0][-1] == pytest.approx(TABLE_5[49][0][-1] / 9600)


def test_table_5_is_the_mean_over_seeds_and_else_at_first_middle_and_last() -> None:
    records = [record(ATTACKED, seed, bins=[bins(removed, 900)] * 9) for seed, removed in enumerate((400, 600))]
    steps = compare.evolution(
        Comparison(5, "small", [*records, record(ATTACKED, 2, diverged="inf", bins=[bins(0, 0)])])
    )
    assert [step.number for step in steps] == [1, 5, 9]
    assert steps[-1].shares[0] == pytest.approx([0, 0.49, 0.001, 0.002, 0.007, 0.5])
    assert steps[-1].shares[1] == pytest.approx([0.001, 0.899, 0.1, 0, 0, 0])


def test_the_time_of_a_reweighting_is_over_all_rounds_beside_that_of_cplex() -> None:
    cell = TABLES[3].cells[-1]
    rounds = [[{"rule_seconds": value} for value in part] for part in ((0.001, 0.002), (0.009,))]
    records = [record(cell, seed, rounds=made, rows={"train": 18_623}) for seed, made in enumerate(rounds)]
    assert compare.timing(Comparison(3, "paper", records)) == (
        *((18_623, 18_623), 3, 0.002, 0.009),
        (18_623, CPLEX_SECONDS[18_623]),
    )
    assert compare.timing(Comparison(4, "small", records)).cplex is None
    assert compare.timing(Comparison(3, "paper", [record(cell)])) is None


def test_records_that_repeat_the_paper_meet_every_check() -> None:
    whole = report(
        **{f"small_{number}": as_printed(number) for number in (1, 4, 7, 8, 9)},
        paper_3=as_printed(3),
        small_5=[record(ATTACKED, bins=[bins(900, 880)])],
    )
    assert [check.met for check in checks(whole)] == [True] * 7


def test_without_records_every_check_is_open() -> None:
    assert [check.met for check in checks(report())] == [None] * 7


@pytest.mark.parametrize(
    ("words", "cell", "enough", "too_far"),
    [
        ("every RRM cell", {"loss": "cce", "method": "RRM", "contamination": 0.6}, 94.0, 93.9),
        ("every plain cell", {"loss": "mse", "method": "ERM", "contamination": 0.55}, 85.0, 84.9),
        ("every plain cell", {"loss": "mse", "method": "ERM", "contamination": 0.55}, 95.0, 95.1),
        ("at 65 %", {"loss": "mae", "method": "RRM", "contamination": 0.65}, 62.1, 62.0),
        ("the mean of the 12", {"loss": "elr", "method": "RRM", "contamination": 0.65}, 87.0, 86.9),
    ],
)
def test_a_check_of_table_3_turns_with_one_figure(words: str, cell, enough: float, too_far: float) -> None:
    assert outcome(report(paper_3=changed(as_printed(3), enough, **cell)), words) is True
    assert outcome(report(paper_3=changed(as_printed(3), too_far, **cell)), words) is False


def test_the_mark_of_the_mean_is_that_of_the_published_figures() -> None:
    (check,) = [check for check in checks(report()) if "mean of the 12" in check.claim]
    assert "90.92" in check.claim


def test_a_check_with_a_miss_is_missed_though_runs_are_lacking_and_open_without_one() -> None:
    lacking = [made for made in as_printed(3) if made["cell"]["loss"] != "elr"]
    assert outcome(report(paper_3=lacking), "every RRM cell") is None
    missed = changed(lacking, 50.0, loss="cce", method="RRM", contamination=0.55)
    assert outcome(report(paper_3=missed), "every RRM cell") is False


def test_a_cell_that_diverged_is_a_miss_and_said() -> None:
    cell = {"loss": "cce", "method": "RRM", "contamination": 0.55}
    records = [record(cell, diverged="inf") if made["cell"] == cell else made for made in as_printed(3)]
    found = checks(report(paper_3=records))
    assert found[0].met is False
    assert "missed by CCE + RRM at 55 % (diverged)" in found[0].found
    assert found[3].met is False


def test_the_small_scale_of_table_3_decides_nothing() -> None:
    assert outcome(report(small_3=as_printed(3)), "every RRM cell") is None


@pytest.mark.parametrize(("removed", "untouched", "met"), [(900, 880, (True, True)), (899, 879, (False, False))])
def test_the_checks_of_table_5_turn_at_their_marks(removed: int, untouched: int, met: tuple[bool, bool]) -> None:
    found = report(small_5=[record(ATTACKED, bins=[bins(0, 0), bins(removed, untouched)])])
    assert (outcome(found, "wrong rows"), outcome(found, "clean rows")) == met


def test_table_5_is_missed_if_every_run_diverged() -> None:
    assert outcome(report(small_5=[record(ATTACKED, diverged="inf")]), "wrong rows") is False


def test_the_check_of_signs_is_decided_when_missing_runs_cannot_turn_it() -> None:
    whole = {f"small_{number}": as_printed(number) for number in (1, 3, 4, 7, 8)}
    assert compare.tally(compare.headline(report(**whole))) == (82, 82, 1, 8)
    assert outcome(report(**whole), "Signs") is True  # 82 of 90, whatever Table 9 brings
    del whole["small_8"]
    assert outcome(report(**whole), "Signs") is None  # 70 of 90 for sure
    turned = [{**made, "results": {}, "diverged": "inf"} for made in as_printed(4)]
    assert outcome(report(**{**whole, "small_4": turned}), "Signs") is False


def test_the_headline_takes_the_scale_with_more_cells_run_and_the_papers_if_equal() -> None:
    few, all_cells = as_printed(1)[:2], as_printed(1)
    assert report(paper_1=few, small_1=all_cells).fullest(1).scale == "small"
    assert report(paper_1=all_cells, small_1=all_cells).fullest(1).scale == "paper"
    assert report().fullest(1).records == ()


def test_checks_are_of_what_was_asked_for() -> None:
    found = report(paper_3=as_printed(3))
    assert len(checks(replace(found, numbers=(3,)))) == 4
    assert checks(replace(found, numbers=(3,), scales=("small",))) == []
    assert checks(replace(found, numbers=(8,))) == []


def test_load_finds_what_was_written_at_the_scales_asked_for(tmp_path: Path) -> None:
    three = as_printed(3)[0]
    write(tmp_path, 3, "paper", three)
    write(tmp_path, 4, "small", record({"method": "AT", "contamination": 0.2}))
    write(tmp_path, 4, "small", record(ATTACKED, bins=[bins(1, 2)]))
    found = compare.load(results=tmp_path)
    assert [(made.number, made.scale) for made in found.comparisons] == [(3, "paper"), (4, "small"), (5, "small")]
    assert found.comparisons[0].records == [three]
    assert [made["cell"] for made in compare.load("5", results=tmp_path).comparisons[0].records] == [ATTACKED]
    assert [made.number for made in compare.load(None, "paper", tmp_path).comparisons] == [3]


def test_names_and_scales_are_checked() -> None:
    assert compare.find_numbers("tissue") == (10,)
    with pytest.raises(ValueError, match=r"need a table of 1, 2, 3.*got '6'"):
        compare.find_numbers("6")
    with pytest.raises(ValueError, match="need scale paper or small, got 'big'"):
        compare.find_scales("big")


@pytest.mark.parametrize(
    ("name", "scale", "command"),
    [
        (None, None, "rockafellian reproduce 3 --scale paper"),
        ("3", None, "rockafellian reproduce 3 --scale paper"),
        ("3", "small", "rockafellian reproduce 3 --scale small"),
        ("5", None, "rockafellian reproduce 5 --scale small"),
        ("tissue", None, "rockafellian reproduce tissue --scale small"),
    ],
)
def test_without_records_the_error_names_the_command_that_makes_them(tmp_path: Path, name, scale, command) -> None:
    with pytest.raises(FileNotFoundError, match=command):
        compare.load(name, scale, tmp_path)


def test_a_record_without_its_parts_is_named(tmp_path: Path) -> None:
    broken = as_printed(3)[0]
    del broken["rounds"]
    write(tmp_path, 3, "paper", broken)
    with pytest.raises(ValueError, match=r"need rounds in each record of table 3, paper scale; seed 0 of .*elr"):
        compare.load("3", results=tmp_path)
