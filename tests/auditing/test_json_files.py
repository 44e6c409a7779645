"""JSON files: objects as rows, values as cells; anything else is refused in one line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rockafellian.auditing.data import json_files
from rockafellian.auditing.data.reading import Source, read
from rockafellian.auditing.data.writing import write_table


def read_rows(folder: Path, rows: list[Any], name: str = "data.jsonl") -> Source:
    lines = [json.dumps(row) for row in rows]
    (folder / name).write_text("\n".join(lines) if name != "data.json" else f"[{','.join(lines)}]")
    return read(folder / name)


@pytest.mark.parametrize("name", ["data.json", "data.jsonl", "data.ndjson"])
def test_values_keep_their_types_and_a_missing_key_is_null(name: str, tmp_path: Path) -> None:
    rows = [
        {"i": 1, "f": 0.1, "t": "2024-01-01", "b": True, "l": ["x", None], "n": None},
        {"f": 2, "t": "007", "new": 2**63 - 1, "l": []},
    ]
    source = read_rows(tmp_path, rows, name)
    assert source.table.to_pylist() == [{**dict.fromkeys([*rows[0], "new"]), **row} for row in rows]
    assert source.notices == ()
    assert source.format == "json"
    write_table(tmp_path / f"copy{name}", source.table)
    assert read(tmp_path / f"copy{name}").table.equals(source.table)


@pytest.mark.parametrize(
    ("cells", "texts", "reason"),
    [
        ([1, "a", None], ["1", "a", None], "mixes types"),
        ([True, 1], ["true", "1"], "mixes types"),
        ([2**70, 1], [str(2**70), "1"], "has integers of more than 64 bits"),
        ([2**60 + 1, 0.5], [str(2**60 + 1), "0.5"], "mixes fractions with integers of more than 53 bits"),
        ([{"a": 1}, {"b": "é"}], ['{"a": 1}', '{"b": "é"}'], "has objects"),
        ([[[1]], [2]], ["[[1]]", "[2]"], "has nested values"),
        ([["a", 1], []], ['["a", 1]', "[]"], "mixes types"),
        ([["a"], "a"], ['["a"]', "a"], "mixes types"),
    ],
)
def test_what_fits_no_column_is_text_with_a_notice(
    cells: list[Any], texts: list[Any], reason: str, tmp_path: Path
) -> None:
    source = read_rows(tmp_path, [{"a": cell} for cell in cells])
    assert source.table.column("a").to_pylist() == texts
    assert source.notices == (f"column 'a' {reason}: read as text",)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", '{"a": 1}\n\n[1]\n', r"need an object in each line, got an array in line 3"),
        ("a.jsonl", '{"a": 1}\n"x"\n', "got a text in line 2"),
        ("a.jsonl", '{"a": 1}\n{"a": \n', r"need JSON, but line 2 of .* is none"),
        ("a.jsonl", '{"a": 1, "a": 2}\n', "line 1 .*'a' comes twice in one object; rename one"),
        ("a.jsonl", '{"a": {"b": 1, "b": 2}}\n', "'b' comes twice"),
        ("a.jsonl", '{"a": "\\ud800"}\n', "half of a pair such as .* in column 'a'; correct it"),
        ("a.jsonl", '{"\\ud800": 1}\n', "half of a pair"),
        ("a.jsonl", '{"a": ' + "[" * 100_000 + "\n", "hundreds of nested brackets in line 1"),
        ("a.jsonl", '{"a": ' + "9" * 5_000 + "}\n", "line 1 .*4300 digits"),
        ("a.json", '{"a": 1}', "need an array of objects, got an object"),
        ("a.json", "[1]", "got a number as item 1"),
        ("a.json", "[null]", "got null as item 1"),
        ("a.json", "[true]", "got true or false as item 1"),
        ("a.json", '[{"a": 1},\n{"a" 2}]', "is none .*at line 2, column"),
        ("a.json", '{"a": 1}\n{"a": 2}\n', r"let its name end in \.jsonl"),
        ("a.json", "[" * 100_000, "hundreds of nested brackets"),
        ("a.json", "[]", "need rows"),
        ("a.json", "[{}, {}]", "need rows"),
        ("a.json", "  \n", "got an empty file"),
        ("a.json", "\0\0\0\0\0", "need JSON"),
    ],
)
def test_what_is_no_table_gets_one_line(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        read(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_numbers_that_are_none_are_kept(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": NaN}\n{"a": Infinity}\n{"a": -Infinity}\n{"a": null}\n')
    cells = read(tmp_path / "a.jsonl").table.column("a").to_pylist()
    assert math.isnan(cells[0])
    assert cells[1:] == [math.inf, -math.inf, None]


def test_objects_without_common_keys_do_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_files, "MAX_MISSING", 1_000)
    with pytest.raises(ValueError, match=r"need objects with the same keys in .*, got 100 different keys"):
        read_rows(tmp_path, [{f"k{i}": i} for i in range(100)])


texts = st.text(st.sampled_from("\"\\',\n\r\t a1=\u2028é😀\0") | st.characters(codec="utf-8"), max_size=6)
kinds = [
    texts,
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.booleans(),
    st.lists(texts, max_size=3),
]


@st.composite
def objects(draw: st.DrawFn) -> list[dict[str, Any]]:
    columns = draw(st.dictionaries(texts, st.sampled_from(kinds), min_size=1, max_size=4))
    each = st.fixed_dictionaries({name: st.none() | kind for name, kind in columns.items()})
    return draw(st.lists(each, min_size=1, max_size=5))


@given(objects(), st.sampled_from([".json", ".jsonl", ".jsonl.gz"]), st.sampled_from(["utf-8", "utf-16"]))
def test_any_value_comes_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], suffix: str, encoding: str
) -> None:
    folder = tmp_path_factory.mktemp("json")
    source = read_rows(folder, rows)
    assert source.table.to_pylist() == rows
    write_table(folder / f"copy{suffix}", source.table, encoding=encoding)
    copy = read(folder / f"copy{suffix}")
    assert copy.table.equals(source.table)
    assert copy.encoding == encoding
