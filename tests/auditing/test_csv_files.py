"""CSV files: quotes that are not closed, line ends, blank lines, rows of other lengths, and many columns."""

from __future__ import annotations

import csv
import gzip
import io
import time
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rockafellian.auditing.data.reading import Source, read
from rockafellian.auditing.data.writing import write_table


def read_text(folder: Path, content: str | bytes, name: str = "data.csv") -> Source:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read(path)


def rows(n: int = 200) -> list[str]:
    return ["x,label", *(f"{i},{'ab'[i % 2]}" for i in range(n))]


def test_an_unclosed_quote_is_an_error_that_names_its_line(tmp_path: Path) -> None:
    lines = rows()
    lines[60] = '4,"a'
    with pytest.raises(ValueError, match=r"a quote in the row that begins in line 61 of .* is not closed; delete it"):
        read_text(tmp_path, "\n".join(lines) + "\n")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("name", ["data.csv", "data.tsv", "data.csv.gz"])
def test_it_is_found_whatever_the_line_ends_and_the_separator(end: str, name: str, tmp_path: Path) -> None:
    lines = rows()
    lines[3] = '7,"two\nlines"'  # a line more, within a cell
    lines[60] = '4,"a'
    text = end.join(lines).replace(",", "\t" if name.endswith("tsv") else ",").encode()
    with pytest.raises(ValueError, match=r"line 62 of .* is not closed"):
        read_text(tmp_path, gzip.compress(text) if name.endswith("gz") else text, name)


def test_two_stray_quotes_are_an_error_too(tmp_path: Path) -> None:
    lines = rows()
    lines[60], lines[90] = '4,"a', '9,"b'
    with pytest.raises(ValueError, match=r"line 61 of .* has text after its end"):
        read_text(tmp_path, "\n".join(lines))


def test_stray_quotes_that_look_like_one_cell_are_reported(tmp_path: Path) -> None:
    lines = rows()
    lines[60], lines[90] = '4,"a', '9,b"'
    source = read_text(tmp_path, "\n".join(lines))
    assert source.notices == (
        "the row in line 61 of data.csv goes on to line 91, as if it held other rows: look for stray quotes there",
    )
    prose = 'x,label\n1,"Dear Ann,\n\nfirst, second and third\nfourth\nfifth\nyours, Bob"\n'
    assert read_text(tmp_path, prose).notices == ()


@pytest.mark.parametrize("cell", [r'"say \"hi\" now"', r'"\"hi\" he said"', r'"he said \"hi\""', r'"a\"b"'])
def test_quotes_escaped_by_a_backslash_are_refused(cell: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"line 3 .*double a quote within a quoted cell"):
        read_text(tmp_path, f"x,label\n1,a\n{cell},b\n2,c\n")


def test_quotes_within_an_unquoted_cell_are_part_of_it(tmp_path: Path) -> None:
    found = read_text(tmp_path, 'x,label\n5" pipe,a\n"C:\\dir\\",b\n "c",""\n').table.to_pydict()
    assert found == {"x": ['5" pipe', "C:\\dir\\", ' "c"'], "label": ["a", "b", None]}


def test_a_quoted_cell_may_be_longer_than_the_standard_library_allows(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    found = read_text(tmp_path, f'x,label\n"{"y" * 300_000}",a\n')
    assert len(found.table.column("x")[0].as_py()) == 300_000
    assert csv.field_size_limit() == before


pieces = st.sampled_from(['"', ",", "\n", "\r", "\r\n", "a", "b,c", '""', " ", "\\", "\0", "é", "\u2028"])


@given(st.lists(pieces, max_size=12).map("".join))
@example('a\rb\r\nc\n\n"d\re"')
def test_what_is_read_is_what_the_standard_library_reads(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """In strict mode; or there is an error of one line, where cells are missing or the quotes do not fit."""
    text = "x,y\n" + text
    folder = tmp_path_factory.mktemp("csv")
    try:
        expected = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
        assert all(len(row) == 2 for row in expected)
        assert len(expected) > 1
    except (csv.Error, AssertionError):
        with pytest.raises(ValueError, match=r"^need .*$") as caught:
            read_text(folder, text)
        assert "\n" not in str(caught.value)
    else:
        found = read_text(folder, text).table.to_pylist()
        assert [[row["x"] or "", row["y"] or ""] for row in found] == expected[1:]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,label\n", "need rows"),
        ("x,label", "need rows"),
        ("x,label,\n1,a\n", "need 3 cells in every row, as in the header, but row 2"),
        ("x,label\n1,a,\n", "need 2 cells in every row"),
        ("x,label\n1\n", "has 1;"),
        ("x,,\n1,2,3\n", "has '' twice"),
        (",,\n1,2,3\n", "need a header"),
        (" \n1\n", "need a header"),
        ("\n\n\n", "got an empty file"),
        ("\ufeff", "got an empty file"),
    ],
)
def test_files_that_are_no_table_get_one_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read_text(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_a_separator_at_the_end_of_every_line_is_a_column_without_a_name(tmp_path: Path) -> None:
    source = read_text(tmp_path, "x,label,\n1,a,\n2,b,\n")
    assert source.table.to_pydict() == {"x": ["1", "2"], "label": ["a", "b"], "": [None, None]}
    write_table(tmp_path / "new.csv", source.table)
    assert read(tmp_path / "new.csv").table.equals(source.table)


def test_zero_bytes_are_read_and_reported(tmp_path: Path) -> None:
    source = read_text(tmp_path, b"x,label\n1,a\n2\0,b\n")
    assert source.table.column("x").to_pylist() == ["1", "2\0"]
    assert source.notices == ("data.csv has zero bytes, the first in line 3: it may be damaged",)


def test_thousands_of_columns_take_time_in_proportion(tmp_path: Path) -> None:
    def seconds(columns: int) -> float:
        names = [f"c{i}" for i in range(columns)]
        table = pa.Table.from_arrays([pa.array(["1", 'say "hi"'])] * columns, names)
        start = time.process_time()
        write_table(tmp_path / "wide.csv", table)
        source = read(tmp_path / "wide.csv")
        cells = [source.column(name)[1].as_py() for name in names]
        taken = time.process_time() - start
        assert cells == ['say "hi"'] * columns
        return taken

    seconds(100)
    assert seconds(8_000) < 30 * max(seconds(1_000), 0.05)  # quadratic would be 64 times
