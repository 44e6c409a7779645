from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch
from pyarrow import csv

from rockafellian.auditing.features.parsing import find_date_format, parse_numbers
from rockafellian.auditing.features.tables import TableFeatures
from rockafellian.training.checkpoints import load, save

CITIES = ["Rome", "Oslo", "Lima", "Oslo", "Oslo", "Rome"]


def column(*values: object, kind: pa.DataType | None = None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, kind)])


def fit(table: pa.Table) -> TableFeatures:
    return TableFeatures.fit_transform(table)[0]


def learned(**columns: object) -> TableFeatures:
    return fit(pa.table(columns))


def reason(values: object, kind: pa.DataType | None = None) -> str:
    """Why a column is left out beside one that is not."""
    rows = len(values)
    return dict(learned(x=pa.array(values, kind), other=np.arange(rows) % 2.0).left_out)["x"]


def mixed(rows: int = 200) -> pa.Table:
    """Typed columns of every kind, with holes."""
    random = np.random.default_rng(0)
    holes = random.random(rows) < 0.1
    words = np.array(["good", "bad", "film", "plot", "again", "never", "slow", "fine"])
    days = np.datetime64("2023-01-01", "s") + random.integers(0, 3600 * 24 * 500, rows)
    return pa.table(
        {
            "age": pa.array(random.integers(18, 90, rows), mask=holes),
            "height": random.normal(1.7, 0.1, rows),
            "price": pa.array([Decimal(f"{value:.2f}") for value in random.normal(9, 2, rows)]),
            "married": pa.array(random.random(rows) < 0.5, mask=holes),
            "city": pa.array(random.choice(CITIES, rows)).dictionary_encode(),
            "born": pa.array(days.astype("datetime64[D]")),
            "seen": pa.array(days, pa.timestamp("ns"), mask=holes),
            "review": [" ".join(random.choice(words, 6)) + f" {row}" for row in range(rows)],
            "row": np.arange(rows),
        }
    )


def as_text(table: pa.Table, path: Path) -> pa.Table:
    """The table after a way through a CSV file, as strings."""
    table.to_pandas().to_csv(path, index=False)
    kinds = dict.fromkeys(table.column_names, pa.string())
    return csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=kinds))


def test_numbers_are_standardised_and_missing_ones_are_zero_and_marked() -> None:
    inputs = learned(x=[1.0, 3.0, None, np.inf, 5.0])(pa.table({"x": [3.0, None, 5.0]}))
    high = 2 / np.sqrt(8 / 3)
    torch.testing.assert_close(inputs, torch.tensor([[0, 0], [0, 1], [high, 0]], dtype=torch.float32))


def test_without_missing_numbers_nothing_is_marked() -> None:
    columns = learned(x=[1.0, 3.0, 7.0])
    assert columns.width == 1
    assert columns(pa.table({"x": pa.array([None], pa.float64())})).tolist() == [[0.0]]


@pytest.mark.parametrize("missing", ["", "NA", "N/A", "NaN", "nan", "null", "None", "none", "?", "-", "  "])
def test_words_for_missing_are_missing_in_numbers_dates_and_categories(missing: str) -> None:
    texts = {"x": ["1", " 2 ", missing, "1e3"], "d": ["2024-03-01", "2024-03-02", missing, "2024-05-05"]}
    columns = learned(**texts, c=["a", "a", missing, "b"])
    assert columns.describe() == "1 number, 1 category, 1 date"
    inputs = columns(pa.table({**texts, "c": ["a", "a", missing, "b"]}))
    assert inputs[2].tolist() == [0, 1] + [0] * 5 + [1] + [0, 0, 1]
    assert inputs[:, 1].tolist() == [0, 0, 1, 0]


def test_huge_numbers_neither_overflow_nor_drown_the_others() -> None:
    values = np.append(np.arange(99.0) % 7, 1e300)
    inputs = learned(x=values)(pa.table({"x": values}))[:, 0]
    assert inputs[-1] == 8
    assert 0.5 < inputs[:-1].std() < 2
    huge = np.array([-1.7e308, 1.7e308, 0, 1.7e308])
    assert learned(x=huge)(pa.table({"x": huge})).abs().max() < 8


def test_truth_values_are_numbers_however_they_come() -> None:
    columns = learned(x=["True", "false", None, "TRUE"])
    typed = columns(pa.table({"x": [True, False, None, True]}))
    assert torch.equal(columns(pa.table({"x": ["true", "False", "", "true"]})), typed)
    assert torch.equal(columns(pa.table({"x": [1, 0, None, 1]})), typed)


@pytest.mark.parametrize(
    ("text", "second"),
    [
        ("2024-03-01", 1709251200),
        ("2024-03-01 12:30", 1709296200),
        ("2024-03-01T12:30:00Z", 1709296200),
        ("2024-03-01 12:30:00+02:00", 1709289000),
        ("2024-03-01 12:30:00.123456789", 1709296200.123456),
        ("2024/03/01", 1709251200),
        ("01.03.2024", 1709251200),
        ("1.3.2024 9:05", 1709283900),
        ("3/1/2024", 1709251200),
        ("31/1/2024", 1706659200),
    ],
)
def test_dates_are_read_as_people_write_them(text: str, second: float) -> None:
    found = find_date_format(column(text, None))
    assert found is not None
    assert found[1][0] == pytest.approx(second, abs=1e-5)
    assert np.isnan(found[1][1])


@pytest.mark.parametrize("text", ["31.02.2024", "2024-13-01", "12", "March 2024", "2024-03", "01.03.24"])
def test_what_is_no_full_date_is_not_read_as_one(text: str) -> None:
    assert find_date_format(column(text)) is None


def test_day_and_month_are_told_apart_by_all_cells_together() -> None:
    found = find_date_format(column("01/02/2024", "13/02/2024"))
    assert found is not None
    assert found[0] == "day/month/year"


def test_dates_become_time_month_weekday_and_hour() -> None:
    times = [datetime(2024, 1, 1, 0), datetime(2024, 4, 1, 6), datetime(2024, 7, 1, 12)]  # Mondays
    inputs = learned(x=times)(pa.table({"x": times}))
    assert inputs.shape == (3, 7)
    assert inputs[:, 0].diff().gt(0).all()
    torch.testing.assert_close(inputs[:, 1:3], torch.tensor([[0.0, 1], [1, 0], [0, -1]]), atol=1e-6, rtol=0)
    assert torch.equal(inputs[0, 3:5], inputs[2, 3:5])
    torch.testing.assert_close(inputs[:, 5:7], torch.tensor([[0.0, 1], [1, 0], [0, -1]]), atol=1e-6, rtol=0)
    assert learned(x=[date(2024, 1, 1), date(2024, 4, 2)]).width == 5


def test_frequent_categories_get_a_column_each_and_the_rest_share_one() -> None:
    columns = learned(x=[*CITIES, None])
    inputs = columns(pa.table({"x": ["Oslo", " Rome ", "Lima", "Bonn", None]}))
    assert inputs.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


def test_no_more_than_64_categories_get_a_column() -> None:
    values = [f"c{row % 90}" for row in range(1800)] + ["c89"] * 5
    columns = learned(x=values)
    assert columns.width == 66
    assert columns(pa.table({"x": ["c89"]}))[0, 0] == 1


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([None, None, None], "all missing"),
        (["", "NA", " "], "all missing"),
        ([3, 3, 3], "constant"),
        (["a", "a", "a"], "constant"),
        ([[1], [2], [3]], "values of type list<item: int64>"),
        ([b"\xff", b"b", b"\xff"], "values of type binary"),
        ([0, 1, 2, 3], "counts the rows"),
        (["1", "2", "3", "5"], "counts the rows"),
        ([f"A-{row}" for row in range(30)], "a different value in every row"),
        ([f"A-{row // 2}" for row in range(300)], "150 different values in 300 rows, such as 'A-0'"),
        ([f"{row / 7}" for row in range(50)] + ["unknown"], "numbers but for 1 of 51 cells, such as 'unknown'"),
    ],
)
def test_columns_to_learn_nothing_from_are_left_out_with_the_reason(values: list[object], expected: str) -> None:
    assert reason(values) == expected


def test_one_value_and_holes_are_not_constant() -> None:
    assert learned(x=["a", None, "a"], y=[1.0, None, 1.0]).describe() == "1 number, 1 category"


def test_long_and_different_texts_go_by_their_words() -> None:
    table = mixed()
    columns = fit(table.select(["review"]))
    assert columns.describe() == "1 text"
    inputs = columns(table)
    same = pa.table({"review": [table["review"][3].as_py(), None]})
    torch.testing.assert_close(columns(same)[0], inputs[3])
    assert columns(same)[1].count_nonzero() == 0


def test_texts_without_blanks_between_words_are_texts() -> None:
    texts = [f"这部电影真的很好看{number}我会再看一次" for number in "一二三四五六七八九十"]
    assert learned(x=texts * 5).describe() == "1 category"
    assert learned(x=texts).describe() == "1 text"


def test_a_table_and_its_csv_give_the_same_inputs_both_ways(tmp_path: Path) -> None:
    typed = mixed()
    text = as_text(typed, tmp_path / "table.csv")
    by_type, by_text = fit(typed), fit(text)
    assert by_type.describe() == "4 numbers, 1 category, 2 dates, 1 text; left out: row (counts the rows)"
    assert by_text.describe() == by_type.describe()
    expected = by_type(typed)
    for columns in (by_type, by_text):
        for table in (typed, text):
            torch.testing.assert_close(columns(table), expected, rtol=0, atol=1e-6)


def test_the_order_of_the_columns_and_others_beside_them_do_not_matter() -> None:
    table = mixed()
    columns = fit(table)
    turned = table.select(table.column_names[::-1]).append_column("new", [["x"] * 200])
    assert torch.equal(columns(turned), columns(table))


def test_columns_come_back_from_a_checkpoint(tmp_path: Path) -> None:
    table = mixed().rename_columns(["$age", *mixed().column_names[1:]])
    columns = fit(table)
    save(tmp_path / "state", {"features": columns.state})
    back = TableFeatures.from_state(load(tmp_path / "state")["features"])
    assert back == columns
    assert torch.equal(back(table), columns(table))
    assert back.describe() == columns.describe()


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="need the columns of the training data, but 'y' is missing; got 'x'"):
        learned(x=[1, 5, 2], y=[1, 5, 2])(pa.table({"x": [1]}))


@pytest.mark.parametrize(
    ("trained", "cells", "message"),
    [
        (["1", "5", "2"], ["1", "", "tall", "x"], "need numbers in column 'x', as in training, got 'tall' in row 3;"),
        (["2024-01-01", "2024-01-05"], ["2024-01-01", "1.5.2024"], "need dates .* got '1.5.2024' in row 2;"),
        ([1, 5, 2], [[1], [2]], r"need numbers in column 'x', as in training, got '\[1\]' in row 1"),
        (["2024-01-01", "2024-01-05"], [5, 6], "need dates .* got '5' in row 1"),
    ],
)
def test_a_cell_that_cannot_be_read_is_named(trained: list[object], cells: list[object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        learned(x=trained)(pa.table({"x": cells}))


def test_the_row_named_is_right_among_many_chunks() -> None:
    cells = pa.chunked_array([["1"] * 700, ["2"] * 500 + ["two"], ["3"] * 5000])
    with pytest.raises(ValueError, match="'two' in row 1201"):
        learned(x=["1", "5", "2"])(pa.table({"x": cells}))


def test_a_table_without_a_usable_column_is_refused_with_what_each_was() -> None:
    with pytest.raises(ValueError, match=r"got id \(a different value in every row\), one \(constant\);"):
        learned(id=["a", "b", "c"], one=[1, 1, 1])


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="need columns with different names, got 'x' twice"):
        fit(pa.table([[1, 5], [2, 7]], names=["x", "x"]))


def test_a_table_without_rows_gives_inputs_without_rows() -> None:
    columns = fit(mixed())
    assert columns(mixed().slice(0, 0)).shape == (0, columns.width)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_every_type_of_text_is_read(kind: pa.DataType) -> None:
    assert parse_numbers(column("1", " 2", "", kind=kind)).tolist()[:2] == [1, 2]
    assert fit(pa.table({"x": pa.array(CITIES, kind)})).describe() == "1 category"


def test_frames_of_pandas_go_through() -> None:
    frame = pd.DataFrame({"a": [1.5, None, 2.0], "b": pd.Categorical(["x", "y", "x"]), "c": ["u", None, "u"]})
    assert fit(pa.Table.from_pandas(frame)).describe() == "1 number, 2 categories"


def test_a_hundred_thousand_rows_of_text_take_no_python_loop() -> None:
    cells = pc.cast(pa.array(np.random.default_rng(0).normal(size=100_000)), pa.string())
    table = pa.table({f"x{number}": cells for number in range(5)})
    assert fit(table)(table).std(0).sub(1).abs().max() < 0.01


def test_a_column_that_is_all_but_empty_is_no_text() -> None:
    cells: list[str | None] = [None] * 5000
    cells[333], cells[3333] = "a", "a"
    assert learned(x=cells).describe() == "1 category"


def test_the_inputs_learned_from_are_those_of_a_second_reading() -> None:
    features, inputs = TableFeatures.fit_transform(mixed())
    torch.testing.assert_close(inputs, features(mixed()), atol=1e-6, rtol=0)
    assert inputs.shape == (200, features.width)


def test_cells_are_parsed_once_to_learn_from_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from rockafellian.auditing.features import column_encoders, tables

    parsed: list[int] = []

    def counted(cells: pa.ChunkedArray) -> np.ndarray:
        parsed.append(len(cells))
        return parse_numbers(cells)

    for module in (tables, column_encoders):
        monkeypatch.setattr(module, "parse_numbers", counted)
    features = fit(pa.table({"x": np.random.default_rng(0).normal(size=5000)}))
    assert parsed == [5000]
    assert features.describe() == "1 number"
