"""Rows back to files, cell by cell as they were read."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rockafellian.auditing.data.csv_files import DELIMITERS
from rockafellian.auditing.data.reading import Source, read
from rockafellian.auditing.data.writing import check_writable, suffix_for, write_rows, write_table

#: Letters that matter to a CSV file come often; no half of a pair and, at the start of a name, no byte order mark.
letters = st.sampled_from("\"',;\t|\r\n ab1=-\u2028é") | st.characters(codec="utf-8", exclude_characters="\ufeff")
cell = st.none() | st.text(letters, max_size=6)
name = st.text(letters, min_size=1, max_size=5).filter(lambda text: text.strip() != "")


@st.composite
def tables(draw: st.DrawFn) -> dict[str, list[str | None]]:
    names = draw(st.lists(name, min_size=1, max_size=4, unique=True))
    rows = draw(st.integers(1, 5))
    return {each: draw(st.lists(cell, min_size=rows, max_size=rows)) for each in names}


def filled(columns: dict[str, list[str | None]]) -> dict[str, list[str]]:
    """No cell and an empty one are the same in a CSV file."""
    return {name: [each or "" for each in column] for name, column in columns.items()}


@given(tables(), st.sampled_from(DELIMITERS), st.sampled_from([".csv", ".tsv", ".txt", ".csv.gz"]))
@example({"a;b;c": ["1"], "d": ["2"]}, ",", ".csv")  # more semicolons than commas
@example({"a,b": ["1"], "d": ["2"]}, "|", ".csv")
@example({"a": ["x\ry"], "b": ["z"]}, ",", ".csv")
@example({"a": ["x", None, "y"]}, ",", ".csv")  # an empty line would be no row
@example({"a\n;;": ["x"], "b": ["y"]}, ",", ".csv")
@example({"a": ["=1+1", "'"], "b": ["-1", " "]}, ",", ".csv")
def test_any_text_comes_back_cell_for_cell(
    tmp_path_factory: pytest.TempPathFactory, columns: dict[str, list[str | None]], delimiter: str, suffix: str
) -> None:
    path = tmp_path_factory.mktemp("csv") / f"data{suffix}"
    write_table(path, pa.table({each: pa.array(cells, pa.string()) for each, cells in columns.items()}), delimiter)
    assert filled(read(path).table.to_pydict()) == filled(columns)


@given(tables())
def test_parquet_keeps_even_the_difference_between_nothing_and_empty(
    tmp_path_factory: pytest.TempPathFactory, columns: dict[str, list[str | None]]
) -> None:
    path = tmp_path_factory.mktemp("parquet") / "data.parquet"
    write_table(path, pa.table({each: pa.array(cells, pa.string()) for each, cells in columns.items()}))
    assert read(path).table.to_pydict() == columns


def test_quotes_stand_only_where_they_are_needed(tmp_path: Path) -> None:
    write_table(tmp_path / "data.csv", pa.table({"a": ["x", "y,z", None], "b": ["1", "2", "3"]}))
    assert (tmp_path / "data.csv").read_bytes() == b'a,b\nx,1\n"y,z",2\n,3\n'


def test_many_rows_are_written_in_order_by_either_way(tmp_path: Path) -> None:
    numbers = [str(i) for i in range(25_000)]
    for special in ("plain", "with, comma"):
        write_table(tmp_path / "data.csv", pa.table({"a": numbers, "b": [special] * 25_000}))
        assert read(tmp_path / "data.csv").table.to_pydict() == {"a": numbers, "b": [special] * 25_000}


def test_lists_are_joined_by_bars_and_other_cells_print(tmp_path: Path) -> None:
    table = pa.table(
        {"l": [["a", "b"], [], None], "n": [1.5, None, 2.0], "t": [True, False, None], "none": pa.nulls(3)}
    )
    write_table(tmp_path / "data.csv", table)
    assert filled(read(tmp_path / "data.csv").table.to_pydict()) == {
        "l": ["a|b", "", ""],
        "n": ["1.5", "", "2"],
        "t": ["true", "false", ""],
        "none": ["", "", ""],
    }


def test_bytes_that_are_no_text_are_refused_by_name_of_the_column_and_nothing_is_left(tmp_path: Path) -> None:
    table = pa.table({"a": ["x"], "raw": [b"\xff"]})
    with pytest.raises(ValueError, match=r"got binary in column 'raw'; name a \.parquet file"):
        write_table(tmp_path / "data.csv", table)
    assert list(tmp_path.iterdir()) == []
    write_table(tmp_path / "data.parquet", table)


def test_an_unknown_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="need a name that ends in"):
        write_table(tmp_path / "data.ods", pa.table({"a": ["x"]}))


def test_a_file_that_exists_is_only_replaced_by_force(tmp_path: Path) -> None:
    (tmp_path / "here.csv").touch()
    with pytest.raises(ValueError, match="exists; name another, or pass --force"):
        check_writable(tmp_path / "here.csv", force=False)
    check_writable(tmp_path / "here.csv", force=True)
    with pytest.raises(ValueError, match="need a folder that exists"):
        check_writable(tmp_path / "nowhere" / "new.csv", force=True)


@pytest.mark.parametrize("force", [True, False])
def test_folders_pipes_and_the_data_themselves_are_never_replaced(force: bool, tmp_path: Path) -> None:
    data, link, hard = tmp_path / "data.csv", tmp_path / "link.csv", tmp_path / "hard.csv"
    data.write_text("a")
    link.symlink_to(data)
    hard.hardlink_to(data)
    for path in (data, link, hard, tmp_path / "." / "data.csv"):
        with pytest.raises(ValueError, match=r"but .* is read from; name another"):
            check_writable(path, force, [tmp_path / "other.csv", data])
    os.mkfifo(tmp_path / "pipe.csv")
    for path in (tmp_path, tmp_path / "pipe.csv"):
        with pytest.raises(ValueError, match="need a regular file"):
            check_writable(path, force)
    check_writable(tmp_path / "new.csv", force, [data])


def test_a_link_to_nowhere_is_replaced_only_by_force(tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="exists"):
        check_writable(tmp_path / "link.csv", force=False)
    check_writable(tmp_path / "link.csv", force=True)


def test_a_copy_ends_like_the_data() -> None:
    table = pa.table({"a": ["x"]})
    named = {"csv": Path("data.TSV"), "parquet": Path("data.pq"), "npz": Path("d.npz"), "folder": Path("d")}
    found = {form: suffix_for(Source(table, form, path)) for form, path in named.items()}
    assert found == {"csv": ".tsv", "parquet": ".parquet", "npz": ".npz", "folder": ".csv"}
    assert suffix_for(Source(table, "frame")) == ".parquet"
    packed = {"a.csv.gz": "csv", "b.v2.TSV.GZ": "csv", "c.jsonl": "json", "d.json": "json", "e.jsonl.gz": "json"}
    found = {name: suffix_for(Source(table, form, Path(name))) for name, form in packed.items()}
    assert found == {name: name[name.index(".", 3 if "v2" in name else 0) :].lower() for name in packed}
    assert suffix_for(Source(table, "excel", Path("a.XLSX"))) == ".xlsx"


@pytest.mark.parametrize("old", [".csv", ".tsv.gz", ".json", ".jsonl", ".xlsx", ".parquet"])
@pytest.mark.parametrize("new", [".csv", ".tsv.gz", ".json", ".jsonl", ".xlsx", ".parquet"])
def test_data_of_any_format_can_be_written_in_any_other(old: str, new: str, tmp_path: Path) -> None:
    table = pa.table({"a": ["007", "NA", " x ", '"', "1e5"], "b": ["a,b", "c\td", "e\r\nf", "=1", "ö"]})
    write_table(tmp_path / f"old{old}", table)
    source = read(tmp_path / f"old{old}")
    write_rows(tmp_path / f"new{new}", source, source.table, np.ones(5, bool))
    assert read(tmp_path / f"new{new}").table.to_pydict() == table.to_pydict()


def test_a_copy_keeps_the_tabs_of_a_csv_file_and_another_file_does_not(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a\tb\n1\t2\n")
    source = read(tmp_path / "data.csv")
    write_rows(tmp_path / "copy.csv", source, source.table, np.ones(1, bool))
    assert (tmp_path / "copy.csv").read_text() == "a\tb\n1\t2\n"
    write_table(tmp_path / "new.csv", source.table, source.delimiter)
    assert (tmp_path / "new.csv").read_text() == "a,b\n1,2\n"


@pytest.mark.parametrize("labels", [np.array([1, 0, 1]), np.array(["a", "b", "a"]), np.array([[0, 1], [1, 1], [1, 0]])])
@pytest.mark.parametrize("shape", [(3, 2), (3, 8, 8)])
def test_arrays_come_back_as_arrays(labels: np.ndarray, shape: tuple[int, ...], tmp_path: Path) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    np.savez(tmp_path / "data.npz", X=x, y=labels)
    source = read(tmp_path / "data.npz")
    write_rows(tmp_path / "new.npz", source, source.table, np.array([True, False, True]))
    with np.load(tmp_path / "new.npz", allow_pickle=False) as new:
        np.testing.assert_array_equal(new["X"], x[[0, 2]])
        np.testing.assert_array_equal(new["y"], labels[[0, 2]])
        assert new["X"].dtype == x.dtype


def test_images_of_an_array_do_not_fit_into_a_csv_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", X=np.zeros((3, 8, 8)), y=np.zeros(3))
    source = read(tmp_path / "data.npz")
    with pytest.raises(ValueError, match=r"need a name that ends in \.npz"):
        write_rows(tmp_path / "new.csv", source, source.table, np.ones(3, bool))
