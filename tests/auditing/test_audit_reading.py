"""Files and frames as one table, every cell as it was given."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rockafellian.auditing.data.reading import read


def cells(path: Path, content: str | bytes) -> dict[str, list[str | None]]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found: dict[str, list[str | None]] = read(path).table.to_pydict()
    return found


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found_in_the_header(separator: str, tmp_path: Path) -> None:
    lines = [separator.join(line) for line in (["a", "b", "c"], ["1", "x y", ""], ["2", "z", "3"])]
    found = cells(tmp_path / "data.csv", "\n".join(lines))
    assert found == {"a": ["1", "2"], "b": ["x y", "z"], "c": [None, "3"]}
    assert read(tmp_path / "data.csv").delimiter == separator


def test_separators_within_quotes_do_not_count(tmp_path: Path) -> None:
    found = cells(tmp_path / "data.csv", '"a;b;c;d",e\n"1;2",3\n')
    assert found == {"a;b;c;d": ["1;2"], "e": ["3"]}


def test_a_tsv_file_is_split_at_tabs_whatever_its_header_holds(tmp_path: Path) -> None:
    assert cells(tmp_path / "data.tsv", "a,b,c\td\n1,2,3\t4\n") == {"a,b,c": ["1,2,3"], "d": ["4"]}


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    assert cells(tmp_path / "data.csv", b"\xef\xbb\xbfa,b\n1,2\n") == {"a": ["1"], "b": ["2"]}
    assert cells(tmp_path / "data.csv", b'\xef\xbb\xbf"a,x",b\n1,2\n') == {"a,x": ["1"], "b": ["2"]}


def test_lines_may_end_as_on_windows_and_go_on_within_quotes(tmp_path: Path) -> None:
    found = cells(tmp_path / "data.csv", 'a,b\r\n"one\r\ntwo",2\r\n"say ""hi""",4\r\n')
    assert found == {"a": ["one\r\ntwo", 'say "hi"'], "b": ["2", "4"]}


def test_numbers_stay_as_they_were_written(tmp_path: Path) -> None:
    written = ["007", "1.50", "1e3", " 2 ", "NA", "TRUE", "2024-01-01"]
    assert cells(tmp_path / "data.csv", "a,b\n" + "".join(f"{cell},x\n" for cell in written))["a"] == written


@pytest.mark.parametrize("length", [1_000_000, 3_000_000])
def test_a_cell_may_be_longer_than_a_block(length: int, tmp_path: Path) -> None:
    found = cells(tmp_path / "data.csv", "a,b\n1,2\n" + "x" * length + ",4\n5,6\n")
    assert [len(cell or "") for cell in found["a"]] == [1, length, 1]
    assert found["b"] == ["2", "4", "6"]


def test_the_row_of_an_error_is_known_far_into_a_file(tmp_path: Path) -> None:
    rows = "".join(f"{i},{'x' * 100}\n" for i in range(30_000))  # three blocks
    with pytest.raises(ValueError, match=r"need 2 cells in every row.*row 30002 .* has 3;"):
        cells(tmp_path / "data.csv", "a,b\n" + rows + "1,2,3\n")


@pytest.mark.parametrize("name", ["data.CSV", "data.txt", "data.tab"])
def test_other_endings_of_text_are_known(name: str, tmp_path: Path) -> None:
    assert cells(tmp_path / name, "a\tb\n1\t2\n") == {"a": ["1"], "b": ["2"]}


def test_categories_of_a_parquet_file_become_what_they_stand_for(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": pd.Categorical(["x", None, "y"]), "b": [1.5, 2.5, None]})
    frame.to_parquet(tmp_path / "data.parquet")
    table = read(tmp_path / "data.parquet").table
    assert table.to_pydict() == {"a": ["x", None, "y"], "b": [1.5, 2.5, None]}
    assert not pa.types.is_dictionary(table.schema.field("a").type)


def test_a_mask_of_labels_in_an_npz_file_is_a_column_for_each(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", X=np.zeros((3, 2)), y=np.array([[0, 1], [1, 1], [0, 0]]))
    table = read(tmp_path / "data.npz").table
    assert table.column_names == ["x0", "x1", "y0", "y1"]
    assert table.column("y0").to_pylist() == [0, 1, 0]
    assert table.column("y1").to_pylist() == [1, 1, 0]


def test_frames_of_all_kinds_give_the_same_table() -> None:
    frame = pd.DataFrame({"a": [1.5, None, 2.0], "b": ["x", "y", None], "c": [True, False, True]})
    found = [read(each).table.to_pydict() for each in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame))]
    assert found[0] == found[1] == found[2] == {"a": [1.5, None, 2.0], "b": ["x", "y", None], "c": [True, False, True]}


@pytest.mark.parametrize(
    ("column", "predicted"),
    [
        ([1, "a", None], ["1", "a", None]),
        ([2**70, 1, None], [str(2**70), "1", None]),
        (pd.cut([1, 2, 9], [0, 5, 10]), ["(0, 5]", "(0, 5]", "(5, 10]"]),
        (pd.arrays.IntervalArray.from_tuples([(0, 1), None, (1, 2)]), ["(0.0, 1.0]", None, "(1.0, 2.0]"]),
        (pd.PeriodIndex(["2020-01", "2020-02", "NaT"], freq="M"), ["2020-01", "2020-02", None]),
        (pd.arrays.SparseArray([0, 1, 0]), ["0", "1", "0"]),
        (np.array([1j, 2j, 3j]), ["1j", "2j", "3j"]),
    ],
    ids=["mixed", "large", "cut", "intervals", "periods", "sparse", "complex"],
)
def test_what_arrow_does_not_know_is_text(column: Any, predicted: list[str | None]) -> None:
    assert read(pd.DataFrame({"a": column})).table.column("a").to_pylist() == predicted


def test_names_of_columns_that_are_numbers_are_text() -> None:
    assert read(pd.DataFrame([[1, 2]])).table.column_names == ["0", "1"]
    with pytest.raises(ValueError, match="need different column names"):
        read(pd.DataFrame([[1, 2]], columns=[0, "0"]))


@pytest.mark.parametrize(
    "other", [pd.Series([1]), pl.Series([1]), pl.LazyFrame({"a": [1]}), np.zeros((2, 2)), [1], None, {"a": [1]}]
)
def test_what_is_no_frame_is_refused(other: Any) -> None:
    with pytest.raises(ValueError, match=f"need a path, or a frame .*; got {type(other).__name__}; convert"):
        read(other)


@pytest.mark.parametrize("empty", [pd.DataFrame({"a": []}), pl.DataFrame({"a": []}), pa.table({"a": []})])
def test_a_frame_without_rows_is_refused(empty: Any) -> None:
    with pytest.raises(ValueError, match="need rows, got none in the frame"):
        read(empty)


def test_a_missing_column_is_answered_by_the_nearest_one() -> None:
    source = read(pa.table({"colour": ["red"], "size": ["1"]}))
    with pytest.raises(ValueError, match=r"need a column 'color', got 'colour', 'size'; did you mean 'colour'\?"):
        source.column("color")
    with pytest.raises(ValueError, match="name one of them"):
        source.column("qqq")


def test_taking_rows_takes_their_images_too(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", X=np.arange(5 * 64).reshape(5, 8, 8), y=np.arange(5))
    part = read(tmp_path / "data.npz").take(np.array([4, 1]))
    assert part.table.column("y").to_pylist() == [4, 1]
    assert part.images is not None
    assert part.images[:, 0, 0].tolist() == [256, 64]


@pytest.mark.parametrize("name", ["data.csv", "data.parquet", "data.npz"])
def test_the_bytes_of_a_file_are_read_once_for_its_rows_and_its_checksum(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": [0, 1]})
    if name == "data.csv":
        frame.to_csv(path, index=False)
    elif name == "data.parquet":
        frame.to_parquet(path)
    else:
        np.savez(path, X=frame[["x"]].to_numpy(), y=frame["y"].to_numpy())
    source, expected = read(path), hashlib.sha256(path.read_bytes()).hexdigest()
    path.unlink()
    assert source.checksum() == expected
    assert len(source) == 2
