from dataclasses import replace

import pytest

from rockafellian_reproduction.tables import TABLES, TRIAL
from rockafellian_reproduction.tables.figures import BINS, CPLEX_SECONDS, PUBLISHED, TABLE_5
from rockafellian_reproduction.tables.recipes import Recipe

EVERY = [*TABLES.values(), TRIAL]


@pytest.mark.parametrize("table", TABLES.values(), ids=str)
def test_every_published_figure_belongs_to_a_cell(table) -> None:
    assert table.published
    assert all(figure.cell in table.cells for figure in table.published)


@pytest.mark.parametrize(("number", "cells", "figures"), [
    (1, 24, 21), (2, 6, 6), (3, 24, 24), (4, 10, 50), (7, 10, 50), (8, 12, 24), (9, 8, 16), (10, 2, 4),
])  # fmt: skip
def test_the_grids_are_as_large_as_in_the_paper(number: int, cells: int, figures: int) -> None:
    assert len(TABLES[number].cells) == cells
    assert len(TABLES[number].published) == figures
    keys = [(*figure.cell.items(), figure.measure) for figure in TABLES[number].published]
    assert len(set(keys)) == figures


def test_the_mean_of_table_3_and_the_bold_figures_of_table_1_are_the_printed_ones() -> None:
    robust = [figure.value for figure in PUBLISHED[3] if figure.cell["method"] == "RRM"]
    assert sum(robust) / len(robust) == pytest.approx(90.9, abs=0.05)
    bold = {figure.cell["contamination"]: figure.value for figure in PUBLISHED[1] if figure.cell["loss"] == "mse"}
    assert bold == {0.1: 93.04, 0.2: 91.43, 0.3: 89.95}


def test_table_5_counts_every_row() -> None:
    assert all(len(part) == len(BINS) for counts in TABLE_5.values() for part in counts)
    assert {tuple(map(sum, counts)) for counts in TABLE_5.values()} == {(9600, 38_400)}


def test_the_paper_scale_is_the_published_protocol() -> None:
    cifar, mnist, attacked, imdb, tissue = (TABLES[number].paper for number in (1, 3, 4, 9, 10))
    assert (cifar.epochs, cifar.every, cifar.network, cifar.gamma) == (180, 15, "resnet34", None)
    assert (cifar.momentum, cifar.weight_decay, cifar.augment) == (0.9, 1e-5, True)
    assert cifar.learning_rate == pytest.approx(10 * cifar.batch_size / 50_000)
    assert (mnist.epochs, mnist.every, mnist.gamma, mnist.mu) == (100, 10, 0.4, 0.5)
    assert mnist.learning_rate * next(iter(CPLEX_SECONDS)) / mnist.batch_size == pytest.approx(0.1)
    assert (attacked.epochs, attacked.every, attacked.gamma, attacked.eps) == (500, 10, 2.0, 1.0)
    assert (attacked.valid_share, attacked.learning_rate) == (0.2, pytest.approx(0.1 * 100 / 48_000))
    assert TABLES[7].paper == replace(attacked, noise="kernel")
    assert (imdb.epochs, imdb.every, imdb.gamma, imdb.learning_rate) == (300, 10, 0.4, 0.001)
    assert (tissue.epochs, tissue.every, tissue.gamma, tissue.noise) == (600, 10, 0.016, "one-sided")
    assert tissue.plain_learning_rate == pytest.approx(5 * tissue.learning_rate)
    for recipe in (cifar, mnist, attacked, imdb, tissue):
        assert recipe.train_rows is None
        start = ("one row", "he") if recipe is attacked else ("argmin", "tensorflow")
        assert (recipe.spread, recipe.start) == start


@pytest.mark.parametrize("table", EVERY, ids=str)
def test_a_scale_says_all_that_it_changes(table) -> None:
    assert table.answers in table.scales
    assert table.minutes.keys() == table.scales.keys()
    for scale, recipe in table.scales.items():
        changed = {line.partition(":")[0].replace(" ", "_") for line in table.paper.changes(recipe)}
        names = Recipe.__dataclass_fields__
        assert changed == {name for name in names if getattr(table.paper, name) != getattr(recipe, name)}
        assert bool(changed) == (scale != "paper")


def test_the_features_scale_changes_nothing_but_the_network() -> None:
    for number, network in (
        (1, {"network", "encoder", "image_size", "components", "augment"}),
        (9, {"network", "encoder", "tokens"}),
    ):
        table = TABLES[number]
        changes = table.paper.changes(table.scales["features"])
        assert {line.partition(":")[0].replace(" ", "_") for line in changes} == network


@pytest.mark.parametrize("table", TABLES.values(), ids=str)
def test_the_first_choice_of_a_point_is_the_one_made_and_others_change_settings(table) -> None:
    for point in table.points:
        chosen, *others = point.choices
        assert not chosen.changes
        assert others
        assert all(choice.evidence for choice in point.choices)
        for choice in others:
            assert table.recipe("paper", {point.name: choice.name}) != table.paper
    assert all(table.recipe(table.answers, variant) != table.scales[table.answers] for variant in table.shown)


def test_the_choice_made_at_a_scale_is_read_from_its_settings() -> None:
    table = TABLES[4]
    assert [table.made(point, "paper").name for point in table.points] == ["valid", "one-row", "usual"]
    assert [table.made(point, "network").name for point in table.points] == ["valid", "kept", "usual"]


def test_settings_at_their_default_are_not_in_the_digest() -> None:
    recipe = Recipe(data="digits", network="x", epochs=2, every=1, learning_rate=0.1, momentum=0.9)
    stated = {"data": "digits", "network": "x", "epochs": 2, "every": 1, "learning_rate": 0.1, "momentum": 0.9}
    assert recipe.stated() == stated
