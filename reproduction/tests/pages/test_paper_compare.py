from pathlib import Path

import pytest
from tiny import ATTACKED, as_printed, bins, record, report, write_record

from rockafellian_reproduction.pages import compare
from rockafellian_reproduction.pages.compare import Comparison
from rockafellian_reproduction.pages.rows import Ours, Row, Sign, collect, digits, rows, signs
from rockafellian_reproduction.pages.targets import explain
from rockafellian_reproduction.tables import TABLES
from rockafellian_reproduction.tables.figures import CPLEX_SECONDS, TABLE_5, Figure
from rockafellian_reproduction.tables.measured import READINGS


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: str(table.number))
def test_every_published_figure_has_a_row_in_the_papers_order(table) -> None:
    found = rows(table, table.answers, [])
    assert [row.figure for row in found] == list(table.published)
    assert not any(row.ours.run or row.beyond or explain(row) for row in found)


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: str(table.number))
def test_records_that_repeat_the_paper_differ_nowhere_and_agree_in_every_sign(table) -> None:
    records = as_printed(table.number, seeds=2)
    plain = [] if table.plain_table is None else as_printed(table.plain_table)
    found = rows(table, "paper", records)
    assert all(row.difference == 0 and not row.beyond and len(row.ours.values) == 2 for row in found)
    assert {sign.verdict for sign in signs(table, "paper", [*records, *plain])} <= {"agrees", "equal in print"}


def test_the_digits_are_those_that_the_tables_print() -> None:
    assert {number: digits(table) for number, table in TABLES.items()} == {
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
    ours = collect(records, cell, "test accuracy")
    assert (ours.mean, ours.diverged, ours.run) == (97.0, 1, True)
    assert collect([record(cell, 0, {"test accuracy": float("nan")})], cell, "test accuracy") == Ours({}, 1)


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
    assert bool(explain(row)) is row.beyond


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


@pytest.mark.parametrize(
    ("values", "deviations", "within"),
    [
        ({0: (80.0, 79.0), 1: (70.0, 90.0)}, (None, None), True),  # the seeds disagree
        ({0: (80.0, 79.0)}, (None, None), False),
        ({}, (3.0, 3.9), False),
        ({}, (3.0, 4.1), True),
    ],
)
def test_a_sign_may_be_chance_by_our_seeds_or_by_the_printed_deviations(values, deviations, within) -> None:
    plain, robust = (
        Row(1, "paper", Figure({}, "test accuracy", printed, deviation), "test accuracy", 2, Ours(own))
        for printed, deviation, own in zip(
            (80.0, 85.0),
            deviations,
            ({seed: pair[i] for seed, pair in values.items()} for i in range(2)),
            strict=True,
        )
    )
    assert Sign(plain, robust).within_chance is within


def test_table_2_is_paired_with_the_plain_runs_of_table_1() -> None:
    found = signs(TABLES[2], "features", [*as_printed(1), *as_printed(2)])
    assert [sign.verdict for sign in found] == ["agrees"] * 6
    assert {sign.plain.figure.cell["loss"] for sign in found} == {"mse"}
    assert [sign.printed for sign in found if sign.robust.figure.cell["contamination"] == 0.1] == [-0.1, 0.72]
    assert {sign.verdict for sign in signs(TABLES[2], "features", as_printed(2))} == {"not run"}


def test_table_4_is_read_in_four_ways() -> None:
    cell = {"method": "AT", "contamination": 0.0}
    results = {"eps 1": 80.0, "summed eps 1": 70.0, "attacked validation, eps 1": 65.0, "last, eps 1": 60.0}
    records = [record(cell, 0, results)]
    found = [rows(TABLES[4], "network", records, reading) for reading in READINGS["eps"]]
    means = [row.ours.mean for made in found for row in made if row.figure.measure == "eps 1" and row.ours.run]
    assert means == [80.0, 70.0, 65.0, 60.0]
    assert [len(made) for made in found] == [50] * 4


def test_a_second_reading_of_table_8_is_of_its_training_rows_alone() -> None:
    found = rows(TABLES[8], "paper", [], READINGS["ranking"][1])
    assert {row.measure for row in found} == {"PR-AUC, train, all rows alike"}
    assert len(found) == 12


def test_cells_the_paper_does_not_print_are_kept_apart_and_records_of_no_cell_count_nowhere() -> None:
    extra = {"loss": "gce", "method": "RRM", "contamination": 0.1}
    strange = {"loss": "<script>", "method": "RRM", "contamination": 0.1}
    records = [record(cell, 0, {"test accuracy": 90.0}) for cell in (extra, strange)]
    made = Comparison(1, "features", records)
    assert compare.unprinted(made) == [(extra, Ours({0: 90.0}))]
    assert made.cells_run == 1
    assert not any(row.ours.run for row in rows(made.table, "features", records))


def test_table_5_is_given_at_the_papers_rounds_if_there_are_as_many() -> None:
    made = Comparison(5, "paper", [record(ATTACKED, bins=[bins(10 * i, 1000) for i in range(49)])])
    steps = compare.evolution(made)
    assert [(step.number, step.published) for step in steps] == [(1, 1), (10, 10), (49, 49)]
    assert [step.fractions[0][-1] for step in steps] == pytest.approx([0.0, 0.09, 0.48])
    assert steps[-1].printed[0][-1] == pytest.approx(TABLE_5[49][0][-1] / 9600)


def test_table_5_is_the_mean_over_seeds_and_else_at_first_middle_and_last() -> None:
    records = [record(ATTACKED, seed, bins=[bins(removed, 900)] * 9) for seed, removed in enumerate((400, 600))]
    steps = compare.evolution(
        Comparison(5, "network", [*records, record(ATTACKED, 2, diverged="inf", bins=[bins(0, 0)])])
    )
    assert [step.number for step in steps] == [1, 5, 9]
    assert steps[-1].fractions[0] == pytest.approx([0, 0.49, 0.001, 0.002, 0.007, 0.5])
    assert steps[-1].fractions[1] == pytest.approx([0.001, 0.899, 0.1, 0, 0, 0])


def test_the_time_of_a_reweighting_is_over_all_rounds_beside_that_of_cplex() -> None:
    cell = TABLES[3].cells[-1]
    rounds = [[{"rule_seconds": value} for value in part] for part in ((0.001, 0.002), (0.009,))]
    records = [record(cell, seed, rounds=made, rows={"train": 18_623}) for seed, made in enumerate(rounds)]
    assert compare.timing(Comparison(3, "paper", records)) == (
        *((18_623, 18_623), 3, 0.002, 0.009),
        (18_623, CPLEX_SECONDS[18_623]),
    )
    assert compare.timing(Comparison(4, "network", records)).cplex is None
    assert compare.timing(Comparison(3, "paper", [record(cell)])) is None


def test_the_scale_that_answers_is_taken_once_a_cell_is_run_there() -> None:
    all_cells = as_printed(1)
    network = Comparison(1, "network", all_cells)
    for n, scale in ((0, "network"), (1, "features"), (21, "features")):
        assert report(Comparison(1, "features", all_cells[:n]), network).answering(1).scale == scale
    assert report().answering(1).records == ()


def test_records_under_a_reading_are_kept_apart_and_completed_by_those_that_it_does_not_change(tmp_path: Path) -> None:
    printed = as_printed(3)
    beta = {"elr-beta": "0.9"}
    others = [{**made, "variant": beta} for made in printed if made["cell"]["loss"] == "elr"]
    made = Comparison(3, "paper", printed, others)
    found = made.under(beta)
    assert len(found) == 24
    assert sum("variant" in one for one in found) == 6
    assert made.under({"ours": "yes"}) == []
    for one in (printed[0], others[0]):
        write_record(tmp_path, 3, "paper", one)
    (loaded,) = compare.load("3", results=tmp_path).comparisons
    assert [one.get("variant") for one in loaded.records] == [None]
    assert [one["variant"] for one in loaded.others] == [beta]


def test_load_finds_what_was_written_at_the_scales_asked_for(tmp_path: Path) -> None:
    three = write_record(tmp_path, 3, "paper", as_printed(3)[0])
    write_record(tmp_path, 4, "network", record({"method": "AT", "contamination": 0.2}))
    write_record(tmp_path, 4, "network", record(ATTACKED, bins=[bins(1, 2)]))
    found = compare.load(results=tmp_path)
    assert [(made.number, made.scale) for made in found.comparisons] == [(3, "paper"), (4, "network"), (5, "network")]
    assert found.comparisons[0].records == [three]
    assert [made["cell"] for made in compare.load("5", results=tmp_path).comparisons[0].records] == [ATTACKED]
    assert [made.number for made in compare.load(None, "paper", tmp_path).comparisons] == [3]


def test_names_and_scales_are_checked() -> None:
    assert {name: compare.NAMES[name] for name in ("tissue", "5", "9")} == {"tissue": 10, "5": 5, "9": 9}
    for name in ("0", "6", "digits"):
        with pytest.raises(ValueError, match=rf"need a table of 1, 2, 3, 4, 5, 7, .*tissue.*got '{name}'"):
            compare.load(name)
    with pytest.raises(ValueError, match="need scale paper or features or network, got 'big'"):
        compare.load("3", "big")


@pytest.mark.parametrize(
    ("name", "scale", "command"),
    [
        (None, None, "rockafellian reproduce 3 --scale paper"),
        ("3", None, "rockafellian reproduce 3 --scale paper"),
        ("1", "network", "rockafellian reproduce 1 --scale network"),
        ("5", None, "rockafellian reproduce 5 --scale network"),
        ("tissue", None, "rockafellian reproduce tissue --scale features"),
    ],
)
def test_without_records_the_error_names_the_command_that_makes_them(tmp_path: Path, name, scale, command) -> None:
    with pytest.raises(FileNotFoundError, match=command):
        compare.load(name, scale, tmp_path)


def test_a_record_that_lacks_a_field_is_named(tmp_path: Path) -> None:
    broken = as_printed(3)[0]
    del broken["rounds"]
    write_record(tmp_path, 3, "paper", broken)
    with pytest.raises(
        ValueError, match=r"need rounds in the record of seed 0 of .*elr.* in .*table-3-paper.json; remove that line"
    ):
        compare.load("3", results=tmp_path)
