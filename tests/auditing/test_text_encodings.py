"""Text files in other encodings, and packed ones: read right or refused in one line, and written back alike."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
import pytest

from rockafellian.auditing.data import archives
from rockafellian.auditing.data.reading import Source, read
from rockafellian.auditing.data.writing import suffix_for, write_rows

TEXT = "größe,straße\n1,Köln\n2,São Paulo\n"
CELLS = {"größe": ["1", "2"], "straße": ["Köln", "São Paulo"]}


def read_bytes(folder: Path, content: bytes, name: str = "data.csv", encoding: str | None = None) -> Source:
    (folder / name).write_bytes(content)
    return read(folder / name, encoding=encoding)


def copy_of(source: Source, folder: Path) -> Path:
    path = folder / f"copy{suffix_for(source)}"
    write_rows(path, source, source.table, np.ones(len(source), bool))
    return path


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_unicode_is_recognized_and_written_back(codec: str, tmp_path: Path) -> None:
    source = read_bytes(tmp_path, TEXT.encode(codec))
    assert source.table.to_pydict() == CELLS
    assert source.notices == ()
    assert source.encoding == codec
    assert copy_of(source, tmp_path).read_bytes() == TEXT.encode(codec)


def test_utf_16_of_the_other_byte_order_has_a_mark_in_the_copy(tmp_path: Path) -> None:
    source = read_bytes(tmp_path, b"\xfe\xff" + TEXT.encode("utf-16-be"))
    assert source.table.to_pydict() == CELLS
    assert copy_of(source, tmp_path).read_bytes().decode("utf-16") == TEXT


@pytest.mark.parametrize(
    ("codec", "text", "shown"),
    [("cp1252", TEXT + "3,“€”\n", "Windows-1252"), ("latin-1", TEXT + "3,\x81\n", "Latin-1")],
)
def test_other_bytes_are_read_with_a_notice(codec: str, text: str, shown: str, tmp_path: Path) -> None:
    source = read_bytes(tmp_path, text.encode(codec))
    assert source.table.column("straße").to_pylist()[2] == text.splitlines()[3][2:]
    assert source.notices == (f"data.csv is not UTF-8: read as {shown}; pass --encoding to read it otherwise",)
    assert copy_of(source, tmp_path).read_bytes() == text.encode(codec)


def test_utf_8_with_a_few_broken_bytes_is_refused_by_line(tmp_path: Path) -> None:
    lines = [f"{i},Köln".encode() for i in range(100)]
    lines[40] = b"40,K\xf6ln"
    with pytest.raises(ValueError, match=r"need UTF-8 text, got 1 other bytes in .*, the first in line 42; correct"):
        read_bytes(tmp_path, b"x,label\n" + b"\n".join(lines))


@pytest.mark.parametrize("codec", ["cp1251", "shift_jis", "utf-7", "cp037", "UTF8", "iso-8859-15", "mac_roman"])
def test_a_named_encoding_is_used_and_kept(codec: str, tmp_path: Path) -> None:
    text = {"cp1251": "a,b\nж,нет\n", "shift_jis": "a,b\n日本,語\n"}.get(codec, "a,b\n1,x\n")
    source = read_bytes(tmp_path, text.encode(codec), encoding=codec)
    assert list(source.table.to_pylist()[0].values()) == text.splitlines()[1].split(",")
    assert source.notices == ()
    assert copy_of(source, tmp_path).read_bytes().decode(codec) == text


@pytest.mark.parametrize("name", ["nonsense", "hex", "zip", "rot13", "base64", "bz2", "", "a\0b", "../x", "x" * 9999])
def test_what_is_no_encoding_of_text_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"need an encoding of text such as utf-8.*; name another$"):
        read_bytes(tmp_path, TEXT.encode(), encoding=name)


@pytest.mark.parametrize("codec", ["utf-8", "ascii", "utf-16", "undefined", "idna", "utf-32"])
def test_bytes_that_do_not_fit_a_named_encoding_are_refused(codec: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"need text in {codec}, got other bytes.*--encoding$"):
        read_bytes(tmp_path, b"a,b\n1,2\n3,\xff\xdc\xff4\n", encoding=codec)


def test_the_line_of_such_bytes_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="got other bytes in line 3 of"):
        read_bytes(tmp_path, b"a,b\n1,2\n3,\xff\n", encoding="utf-8")


def test_an_encoding_is_for_text_files_only(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"need a text file such as .csv for the encoding 'utf-8', got other data"):
        read_bytes(tmp_path, b"PAR1", "data.parquet", encoding="utf-8")


def test_a_cell_that_the_encoding_of_the_data_cannot_hold_is_refused(tmp_path: Path) -> None:
    source = read_bytes(tmp_path, "a,b\n1,ö\n".encode("cp1252"))
    table = source.table.set_column(0, "a", [["日"]])
    with pytest.raises(ValueError, match=r"need text that cp1252.* can hold, got '日'; name a \.parquet file"):
        write_rows(tmp_path / "new.csv", source, table, np.ones(1, bool))
    assert not (tmp_path / "new.csv").exists()


@pytest.mark.parametrize("name", ["data.csv.gz", "data.TSV.GZ", "data.jsonl.gz", "data.json.gz", "a.b.txt.gz"])
def test_packed_files_are_read_and_copied_as_packed_files(name: str, tmp_path: Path) -> None:
    kind = name.lower().split(".")[-2]
    text = {"jsonl": '{"a": 1, "b": "ö"}\n', "json": '[\n{"a": 1, "b": "ö"}\n]\n'}.get(kind, "a\tb\n1\tö\n")
    source = read_bytes(tmp_path, gzip.compress(text.encode()), name)
    assert [list(map(str, row.values())) for row in source.table.to_pylist()] == [["1", "ö"]]
    copy = copy_of(source, tmp_path)
    assert copy.name == f"copy{'.'.join(['', *name.lower().split('.')[-2:]])}"
    assert gzip.decompress(copy.read_bytes()).decode() == text
    first = copy.read_bytes()
    assert copy_of(source, tmp_path).read_bytes() == first  # without the time of writing


@pytest.mark.parametrize("broken", ["cut", "flipped", "other", "trailing", "empty"])
def test_a_broken_packed_file_gets_one_line(broken: str, tmp_path: Path) -> None:
    whole = gzip.compress(TEXT.encode() * 50)
    middle = len(whole) // 2
    content = {
        "cut": whole[:-20],
        "flipped": whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :],
        "other": TEXT.encode(),
        "trailing": whole + b"garbage",
        "empty": gzip.compress(b""),
    }[broken]
    with pytest.raises(ValueError, match=r"need (a whole gzip file|a header)") as caught:
        read_bytes(tmp_path, content, "data.csv.gz")
    assert "\n" not in str(caught.value)


def test_a_file_that_unpacks_to_too_much_is_refused_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packer = zlib.compressobj(6, wbits=31)
    bomb = packer.compress(b"a,b\n") + b"".join(packer.compress(b"0" * 1_000_000) for _ in range(110)) + packer.flush()
    assert len(bomb) < 500_000
    with pytest.raises(ValueError, match="unpacks to more than 500 times its size, as no data do"):
        read_bytes(tmp_path, bomb, "data.csv.gz")
    monkeypatch.setattr(archives, "MAX_UNPACKED", 1 << 20)
    with pytest.raises(ValueError, match=r"GiB of unpacked data, but .* has more; split it"):
        read_bytes(tmp_path, gzip.compress(np.random.default_rng(0).bytes(2 << 20)), "data.csv.gz")
