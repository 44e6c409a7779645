"""Excel files: cells by type, hostile archives refused, and copies equal cell by cell without formulas."""

from __future__ import annotations

import datetime as dt
import io
import random
import re
import resource
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import xlsxwriter
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rockafellian.auditing.data import excel_files
from rockafellian.auditing.data.reading import Source, read
from rockafellian.auditing.data.writing import write_table


def sheet_xml(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        return archive.read("xl/worksheets/sheet1.xml").decode()


def with_part(path: Path, name: str, change: Any) -> Path:
    """The same workbook with another content of one part."""
    with zipfile.ZipFile(path) as old:
        parts = {each: old.read(each) for each in old.namelist()}
    parts[name] = change(parts.get(name, b""))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for each, content in parts.items():
            new.writestr(each, content)
    return path


def with_rows(path: Path, rows: str) -> Path:
    write_table(path, pa.table({"a": ["x"]}))
    data = f"<sheetData>{rows}</sheetData>".encode()
    return with_part(path, "xl/worksheets/sheet1.xml", lambda old: re.sub(rb"<sheetData>.*</sheetData>", data, old))


def inline(address: str, text: str) -> str:
    return f'<c r="{address}" t="inlineStr"><is><t>{text}</t></is></c>'


def test_cells_have_the_types_they_have_in_excel(tmp_path: Path) -> None:
    with xlsxwriter.Workbook(str(tmp_path / "a.xlsx")) as book:
        sheet, day = book.add_worksheet("data"), book.add_format({"num_format": "yyyy-mm-dd"})
        book.add_worksheet("notes")
        for place, name in enumerate(["text", "whole", "fraction", "yes", "day", "sum", 7, "mixed", "error"]):
            sheet.write(1, place + 1, name)  # not in the first cell
        rows = [
            ["007", 3.0, 0.1, True, dt.date(2024, 1, 2)],
            ["=x", 4, 2, False, dt.date(2024, 1, 3)],
            ["NA"] + [None] * 4,
        ]
        for number, row in enumerate(rows, 2):
            for place, cell in enumerate(row, 1):
                if isinstance(cell, str):
                    sheet.write_string(number, place, cell)
                elif isinstance(cell, dt.date):
                    sheet.write_datetime(number, place, dt.datetime.combine(cell, dt.time()), day)
                elif cell is not None:
                    sheet.write(number, place, cell)
        sheet.write_formula(2, 6, "=1+1", value=2)
        sheet.write(2, 8, "one")
        sheet.write(3, 8, 2)
        sheet.write_formula(3, 9, "=NA()", value="#N/A")
    source = read(tmp_path / "a.xlsx")
    assert source.table.to_pydict() == {
        "text": ["007", "=x", "NA"],
        "whole": [3, 4, None],
        "fraction": [0.1, 2.0, None],
        "yes": [True, False, None],
        "day": [dt.datetime(2024, 1, 2), dt.datetime(2024, 1, 3), None],
        "sum": [2, None, None],
        "7": [None] * 3,
        "mixed": ["one", "2", None],
        "error": [None] * 3,
    }
    assert source.table.schema.field("whole").type == pa.int64()
    assert source.notices == (
        "column 'mixed' mixes types: read as text",
        "only the first sheet 'data' of a.xlsx is read, not 'notes'",
        "1 cells of a.xlsx hold errors such as #N/A: read as empty",
    )


def test_empty_rows_are_left_out_with_a_notice_and_columns_without_anything_silently(tmp_path: Path) -> None:
    rows = "".join(f'<row r="{i}">{inline(f"B{i}", text)}</row>' for i, text in [(2, "name"), (3, "x"), (6, "y")])
    source = read(with_rows(tmp_path / "a.xlsx", rows + '<row r="7"><c r="Z7" s="1"/></row>'))
    assert source.table.to_pydict() == {"name": ["x", "y"]}
    assert source.notices == ("2 empty rows of a.xlsx are left out",)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("", "got an empty sheet"),
        (f'<row r="1">{inline("A1", "a")}</row>', "need rows"),
        (f'<row r="1">{inline("A1", "a")}{inline("B1", "a")}</row>', "has 'a' twice; rename one"),
        (f'<row r="1">{inline("A1", "a")}</row><row r="2">{inline("B2", "x")}</row>', "got none above column 2"),
        (inline("A1", "a") + inline("XFD1048576", "x"), "need at most 16,000,000 cells"),
        (inline("ZZZ1", "a"), "need at most 16,000,000 cells"),
        (inline("A1048577", "a"), "need at most"),
        ("<row><c><v>1</v></c></row>", "need cells with an address"),
        ('<row r="1048576"><c t="n"><v>1</v></c></row>', "need cells with an address"),
        ("<row><c x='r=\"A1\"'><v>1</v></c></row>", "need cells with an address"),
        ('<row><x:c xmlns:x="y"><v>1</v></x:c></row>', "need cells with an address"),
        ('<row><c r="&#88;FD1048576"><v>1</v></c></row>', "need cells with an address"),
    ],
)
def test_sheets_that_are_no_table_or_too_large_get_one_line(rows: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read(with_rows(tmp_path / "a.xlsx", rows))
    assert "\n" not in str(caught.value)


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.parametrize("name", ["xl/worksheets/sheet1.xml", "xl/sharedStrings.xml", "xl/styles.xml", "more.xml"])
def test_an_archive_that_unpacks_to_too_much_is_refused_before(name: str, tmp_path: Path) -> None:
    write_table(tmp_path / "a.xlsx", pa.table({"a": ["x"]}))
    with zipfile.ZipFile(tmp_path / "a.xlsx") as old:
        parts = {each: old.read(each) for each in old.namelist() if each != name}
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new:
        for each, content in parts.items():
            new.writestr(each, content)
        with new.open(name, "w", force_zip64=True) as file:
            for _ in range(54):
                file.write(bytes(10_000_000))
    (tmp_path / "a.xlsx").write_bytes(raw.getvalue())
    before = megabytes()
    with pytest.raises(ValueError, match=r"need at most 512 MiB in the unpacked parts of .*; save it as CSV"):
        read(tmp_path / "a.xlsx")
    assert megabytes() - before < 200


def test_sizes_that_lie_are_found_while_unpacking(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    write_table(path, pa.table({"a": ["x"] * 10_000}))
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo("xl/worksheets/sheet1.xml").file_size.to_bytes(4, "little")
    assert content.count(size) == 2  # in the header of the part and in the directory
    path.write_bytes(content.replace(size, (1000).to_bytes(4, "little")))
    with pytest.raises(ValueError, match="need an Excel workbook"):
        read(path)


@pytest.mark.parametrize("count", ["4000000000", "99999999999999999999", "-1", "&#52;000000000"])
def test_a_number_of_texts_that_lies_is_refused(count: str, tmp_path: Path) -> None:
    """The reader would make room for as many, and end the process."""
    write_table(tmp_path / "a.xlsx", pa.table({"a": ["x"]}))
    texts = f"<sst xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\" uniqueCount = '{count}'/>"
    with pytest.raises(ValueError, match="has not as many texts as it says; save it again"):
        read(with_part(tmp_path / "a.xlsx", "xl/sharedStrings.xml", lambda _: texts.encode()))


def test_too_many_tags_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excel_files, "MAX_TAGS", 400)
    write_table(tmp_path / "a.xlsx", pa.table({"a": ["x"] * 200}))
    with pytest.raises(ValueError, match=r"need at most 100 cells in .*, got more; save it as CSV"):
        read(tmp_path / "a.xlsx")


ENTITIES = b'<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'


@pytest.mark.parametrize("name", ["xl/worksheets/sheet1.xml", "xl/workbook.xml", "_rels/.rels"])
@pytest.mark.parametrize("codec", ["utf-8", "utf-16"])
def test_entities_and_other_encodings_are_refused(name: str, codec: str, tmp_path: Path) -> None:
    def change(old: bytes) -> bytes:
        changed = old.replace(b"?>", b"?>" + ENTITIES, 1) if codec == "utf-8" else old
        return changed.decode().encode(codec)

    write_table(tmp_path / "a.xlsx", pa.table({"a": ["x"]}))
    with pytest.raises(ValueError, match="is no plain XML in UTF-8; save it again"):
        read(with_part(tmp_path / "a.xlsx", name, change))


@pytest.mark.parametrize("seed", range(60))
def test_damaged_workbooks_are_read_or_refused_in_one_line(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    path = tmp_path / "a.xlsx"
    write_table(path, pa.table({"a": ["x", "y"], "n": [1, 2], "d": [dt.datetime(2024, 1, 1)] * 2}))
    with zipfile.ZipFile(path) as archive:
        name = chance.choice(archive.namelist())

    def damage(old: bytes) -> bytes:
        start = chance.randrange(len(old))
        return (
            old[:start] + chance.choice([b"", b"<", b'"', b"99999999999", b"\xff"]) + old[start + chance.randrange(9) :]
        )

    if seed % 2:
        with_part(path, name, damage)
    else:
        path.write_bytes(damage(path.read_bytes()))
    try:
        found = f"need {read(path).table.num_rows} rows"
    except ValueError as error:
        found = str(error)
    assert re.fullmatch("need .*", found)


def test_other_archives_and_files_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:  # a bomb of another format of sheets
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("content.xml", "<x/>")
    for content in (
        (tmp_path / "a.xlsx").read_bytes(),
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600),
        b"a,b\n1,2\n",
    ):
        (tmp_path / "a.xlsx").write_bytes(content)
        with pytest.raises(ValueError, match=r"need an Excel workbook"):
            read(tmp_path / "a.xlsx")


hostile = st.sampled_from("=+-@\"'<>&_x0041;\r\n\t 1é😀\0\x0b\x1f\ufffe") | st.characters(codec="utf-8")
text = (
    st.none()
    | st.text(hostile, min_size=1, max_size=8)
    | st.sampled_from(["_x000D_", "_x005F_", "#N/A", "=1+1", "007"])
)
whole = st.none() | st.integers(-(2**53), 2**53)
number = st.none() | st.floats(allow_nan=False, allow_infinity=False)
moment = st.none() | st.datetimes(dt.datetime(1900, 3, 2), dt.datetime(9999, 1, 1)).map(
    lambda each: each.replace(microsecond=each.microsecond // 1000 * 1000)
)


@settings(max_examples=40)
@given(st.lists(st.tuples(text, whole, number, st.booleans() | st.none(), moment), min_size=1, max_size=6))
@example([("=1+1", 1, 0.1 + 0.2, True, None), ("@x", None, 1e-300, None, dt.datetime(2024, 2, 29, 23, 59, 59, 999000))])
def test_every_cell_comes_back(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, ...]]) -> None:
    path = tmp_path_factory.mktemp("excel") / "a.xlsx"
    types = {"t": pa.string(), "i": pa.int64(), "f": pa.float64(), "b": pa.bool_(), "d": pa.timestamp("us")}
    columns = {name: pa.array(cells, types[name]) for name, cells in zip(types, zip(*rows, strict=True), strict=True)}
    table = pa.table({"key": [f"r{i}" for i in range(len(rows))], **columns})
    write_table(path, table)
    assert "<f>" not in sheet_xml(path)
    first = read(path).table
    assert first.to_pylist() == table.to_pylist()
    write_table(path, first)
    assert read(path).table.equals(first)


def test_what_excel_would_change_is_written_as_text(tmp_path: Path) -> None:
    table = pa.table(
        {
            "large": [2**60 + 1, 1],
            "infinite": [float("inf"), 1.0],
            "early": [dt.date(1815, 6, 18), dt.date(2000, 1, 1)],
            "fine": pa.array([1, 2], pa.timestamp("us")),
            "list": [["a", "b"], []],
            "time": [dt.time(1, 2, 3), None],
            "nan": [float("nan"), 0.5],
        }
    )
    write_table(tmp_path / "a.xlsx", table)
    found = read(tmp_path / "a.xlsx").table.to_pydict()
    assert found["large"] == [str(2**60 + 1), "1"]
    assert found["infinite"] == ["inf", "1"]
    assert found["early"] == ["1815-06-18", "2000-01-01"]
    assert found["fine"][0] == "1970-01-01 00:00:00.000001"
    assert found["list"] == ["a|b", None]
    assert found["time"] == [dt.time(1, 2, 3), None]
    assert found["nan"] == [None, 0.5]


def test_too_much_for_a_sheet_is_refused_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"need at most 32,767 characters in a cell .* in column 'a'"):
        write_table(tmp_path / "a.xlsx", pa.table({"a": ["x" * 40_000]}))
    with pytest.raises(ValueError, match=r"need at most 32,767 characters .* in the header"):
        write_table(tmp_path / "a.xlsx", pa.table({"a" * 40_000: ["x"]}))
    monkeypatch.setattr(excel_files, "MAX_ROWS", 3)
    with pytest.raises(ValueError, match=r"need at most 2 rows .* name a .csv or .parquet file"):
        write_table(tmp_path / "a.xlsx", pa.table({"a": ["x"] * 3}))
    assert list(tmp_path.iterdir()) == []


def test_equal_tables_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("a.xlsx", "b.xlsx"):
        write_table(tmp_path / name, pa.table({"a": ["x"], "b": [1]}))
    assert (tmp_path / "a.xlsx").read_bytes() == (tmp_path / "b.xlsx").read_bytes()


def test_it_is_a_source_like_others(tmp_path: Path) -> None:
    write_table(tmp_path / "a.xlsx", pa.table({"a": ["x"]}))
    source: Source = read(tmp_path / "a.xlsx")
    assert source.format == "excel"
    assert source.file_checksum is not None
