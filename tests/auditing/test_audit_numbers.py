"""Numbers as people write them: decimal commas, separators of thousands, percent signs; and what is no number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rockafellian.auditing.data.settings import Settings
from rockafellian.auditing.features.parsing import find_number_format, parse_numbers
from rockafellian.auditing.features.tables import TableFeatures
from rockafellian.auditing.model.problem import prepare
from rockafellian.training.checkpoints import load, save

COMMAS, THOUSANDS, PERCENT = "decimal commas", "thousands separators", "percent signs"


def found(*cells: str | None) -> tuple[str, list[float]] | None:
    number_format = find_number_format(pa.chunked_array([pa.array(cells)]))
    return None if number_format is None else (number_format[0], number_format[1].tolist())


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["14,23", "0,5", "3"], (COMMAS, [14.23, 0.5, 3])),
        (["1.234,56", "12,5", "1.234.567"], (COMMAS, [1234.56, 12.5, 1234567])),
        (["1 234,56", "3,5"], (COMMAS, [1234.56, 3.5])),
        (["1\u00a0234,56", "3"], (COMMAS, [1234.56, 3])),
        (["1\u202f234\u202f567,5", "1"], (COMMAS, [1234567.5, 1])),
        (["1'234,5", "1\u2019234,5"], (COMMAS, [1234.5, 1234.5])),
        ([" -14,23 ", "+3,5", "\u22122,1"], (COMMAS, [-14.23, 3.5, -2.1])),
        (["1,5e3", "2E-4", ",5", "1,"], (COMMAS, [1500, 0.0002, 0.5, 1])),
        (["1,234.56", "12", "-1,234,567"], (THOUSANDS, [1234.56, 12, -1234567])),
        (["1'234.56", "0.5"], (THOUSANDS, [1234.56, 0.5])),
        (["1 234", "999"], (THOUSANDS, [1234, 999])),
        (["5%", "12.5 %", "1,234%"], (PERCENT, [5, 12.5, 1234])),
        (["5,5%", "12,5\u00a0%"], (f"{COMMAS} and {PERCENT}", [5.5, 12.5])),
        (["1.5", "-2e3", "\u22125"], ("plain", [1.5, -2000, -5])),
        (["1.234.567", "950.000"], (COMMAS, [1234567, 950000])),
    ],
)
def test_numbers_are_read_as_people_write_them(cells: list[str], expected: tuple[str, list[float]]) -> None:
    assert found(*cells) == expected
    with_holes = found("", *cells, None, "NA", "?")
    assert with_holes is not None
    assert with_holes[0] == expected[0]
    assert np.isnan(with_holes[1]).tolist() == [True, *[False] * len(cells), True, True, True]


@pytest.mark.parametrize(
    "cells",
    [
        ["1.2.3", "1.10.2"],
        ["192.168.1.1", "10.0.0.1"],
        ["192.168.100.101", "10.100.200.100"],
        ["555 123 456", "600 700 800"],
        ["+48 123 456 789", "+48 987 654 321"],
        ["0171 234 567"],
        ["555-1234"],
        ["(030) 123,5"],
        ["01.03.2024"],
        ["2024-03-01"],
        ["3/4"],
        ["12:30"],
        ["1,2,3"],
        ["1,23,456"],
        ["007,5", "1,5"],
        ["1.5", "2,5"],
        ["5 %", "3"],
        ["%"],
        [","],
        ["1,5x"],
        ["DE1,5"],
        ["1,5;2,5"],
        ["0x1F"],
        ["1,5\n2,5"],
    ],
)
def test_dates_versions_addresses_and_ids_are_no_numbers(cells: list[str]) -> None:
    assert found(*cells) is None


def test_a_comma_before_three_digits_in_all_cells_separates_thousands() -> None:
    assert found("1,234", "5,678") == (THOUSANDS, [1234, 5678])
    assert found("1,234", "999") == (THOUSANDS, [1234, 999])
    assert found("1,234", "0,999") == (COMMAS, [1.234, 0.999])
    assert found("1,234", "9,99") == (COMMAS, [1.234, 9.99])


def test_where_only_commas_before_three_digits_occur_both_readings_give_the_same_inputs() -> None:
    cells = pa.chunked_array([[f"{number},{number * 37 % 1000:03d}" for number in range(1, 200)]])
    readings = [parse_numbers(cells, each) for each in (THOUSANDS, COMMAS)]
    inputs = [TableFeatures.fit_transform(pa.table({"x": each}))[1] for each in readings]
    torch.testing.assert_close(*inputs, rtol=0, atol=1e-6)


def test_a_column_with_decimal_commas_decides_for_columns_that_could_be_read_both_ways() -> None:
    table = pa.table({"a": ["14,5", "2,25", "3"], "b": ["1.234", "999", "2.500"], "c": ["1,234", "999", "2,500"]})
    features, inputs = TableFeatures.fit_transform(table)
    assert features.describe() == "3 numbers with decimal commas"
    plain = pa.table({"a": [14.5, 2.25, 3], "b": [1234.0, 999, 2500], "c": [1.234, 999, 2.5]})
    assert torch.equal(inputs, TableFeatures.fit_transform(plain)[1])
    alone = TableFeatures.fit_transform(table.select(["b", "c"]))[0]
    assert alone.describe() == "1 number, 1 number with thousands separators"


def test_integers_and_decimal_points_beside_decimal_commas_stay_as_they_are() -> None:
    table = pa.table({"a": ["1,5", "2,25", "3"], "b": ["7", "5", "9"], "c": ["0.125", "1.5", "2.375"]})
    assert TableFeatures.fit_transform(table)[0].describe() == "2 numbers, 1 number with decimal commas"


def german(value: float) -> str:
    return f"{value:,}".replace(",", "_").replace(".", ",").replace("_", ".")


@given(st.lists(st.floats(-1e12, 1e12).map(lambda value: round(value, 3)), max_size=20))
def test_every_way_to_write_numbers_gives_the_same_numbers(values: list[float]) -> None:
    for write in (
        german,
        lambda value: german(value).replace(".", "\u202f"),
        lambda value: german(value).replace(".", ""),
    ):
        cells = pa.chunked_array([[write(value) for value in values]])
        assert parse_numbers(cells, COMMAS).tolist() == values
    assert parse_numbers(pa.chunked_array([[f"{value:,}" for value in values]]), THOUSANDS).tolist() == values


@pytest.fixture(scope="module")
def cancer() -> pd.DataFrame:
    from sklearn.datasets import load_breast_cancer

    frame: pd.DataFrame = load_breast_cancer(as_frame=True).frame
    return frame


@pytest.mark.parametrize("form", ["commas", "quotes and BOM", "points and commas", "no-break spaces", "english"])
def test_a_file_with_decimal_commas_gives_the_same_inputs_as_with_points(
    cancer: pd.DataFrame, form: str, tmp_path: Path
) -> None:
    settings, new = Settings(label=("target",)), cancer.copy()
    path, options = tmp_path / "data.csv", {"index": False, "sep": ";", "decimal": ","}
    if form in ("points and commas", "no-break spaces", "english"):
        for name in cancer.columns[:-1]:
            new[name] = new[name].map("{:,}".format if form == "english" else german)
            if form == "no-break spaces":
                new[name] = new[name].str.replace(".", "\u00a0")
    new.to_csv(path, **options, **({"quoting": 1, "encoding": "utf-8-sig"} if form == "quotes and BOM" else {}))
    problem = prepare(path, settings)
    assert torch.equal(problem.inputs, prepare(cancer, settings).inputs)
    expected = (
        "28 numbers, 2 numbers with thousands separators" if form == "english" else "30 numbers with decimal commas"
    )
    assert problem.features.describe() == expected


def test_new_rows_are_read_in_the_format_of_the_training(tmp_path: Path) -> None:
    features, inputs = TableFeatures.fit_transform(pa.table({"x": ["1,5", "2,25", "1.234,5"]}))
    save(tmp_path / "state", features.state)
    again = TableFeatures.from_state(load(tmp_path / "state"))
    assert again == features
    torch.testing.assert_close(again(pa.table({"x": ["1.234,5", "1,50"]})), inputs[[2, 0]])
    torch.testing.assert_close(again(pa.table({"x": [1234.5, 1.5]})), inputs[[2, 0]])
    with pytest.raises(ValueError, match=r"need numbers with decimal commas in column 'x', .* got '2\.25' in row 2"):
        again(pa.table({"x": ["1,5", "2.25"]}))


def test_a_few_errors_among_numbers_with_decimal_commas_are_named() -> None:
    cells = [f"{row},{row % 7}" for row in range(60)] + ["unknown"]
    features = TableFeatures.fit_transform(pa.table({"x": cells, "y": np.arange(61) % 3.0}))[0]
    assert features.describe() == "1 number; left out: x (numbers but for 1 of 61 cells, such as 'unknown')"
