"""Files of arrays: every type and layout is read right or refused in one line, before memory is taken."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rockafellian.auditing.data.reading import Source, read
from rockafellian.auditing.data.writing import write_rows

X = np.arange(12.0).reshape(4, 3)
Y = np.array([0, 1, 0, 1])


def read_arrays(folder: Path, x: Any = X, y: Any = Y) -> Source:
    np.savez(folder / "a.npz", X=x, y=y)
    return read(folder / "a.npz")


def write_parts(path: Path, **parts: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(f"{name}.npy", content)
    return path


def npy(array: Any, header: tuple[bytes, bytes] | None = None) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue() if header is None else file.getvalue().replace(*header)


@pytest.mark.parametrize(
    "kind", [">f8", ">f4", "<f2", ">f2", ">i4", ">u2", "?", "i1", "u8", np.longdouble, "<f4", ">i8", "b"]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_numbers_of_any_size_and_byte_order_are_read(kind: Any, order: Any, tmp_path: Path) -> None:
    x = np.asarray(X % 2, dtype=kind, order=order)
    source = read_arrays(tmp_path, x, Y.astype(kind))
    assert [source.table.column(f"x{i}").to_pylist() for i in range(3)] == (X % 2).T.tolist()
    assert source.table.column("y").to_pylist() == Y.tolist()
    assert len(source.notices) == (kind is np.longdouble)
    write_rows(tmp_path / "new.npz", source, source.table, np.array([True, False, True, True]))
    with np.load(tmp_path / "new.npz") as new:
        np.testing.assert_array_equal(new["X"], x[[0, 2, 3]])
        np.testing.assert_array_equal(new["y"], Y[[0, 2, 3]])


def test_images_of_any_layout_are_read(tmp_path: Path) -> None:
    images = np.asfortranarray(np.arange(4 * 8 * 8).reshape(4, 8, 8).astype(">u2"))
    found = read_arrays(tmp_path, images).images
    assert found is not None
    assert found.dtype == np.uint16
    np.testing.assert_array_equal(found, images)


@pytest.mark.parametrize("labels", [["é", "b", "é", "b"], [b"a", b"b", b"a", b"b"], [0.5, 1.5, 0.5, 1.5]])
def test_labels_may_be_text_bytes_or_fractions(labels: list[Any], tmp_path: Path) -> None:
    found = read_arrays(tmp_path, y=np.array(labels)).table.column("y").to_pylist()
    assert found == [each.decode() if isinstance(each, bytes) else each for each in labels]


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X + 1j, Y, "need numbers X .* complex128; convert them"),
        (np.zeros((4, 2), "V3"), Y, "need numbers X"),
        (np.zeros((4, 2), [("a", "f4")]), Y, "need numbers X"),
        (X.astype("m8[s]"), Y, "need numbers X"),
        (X.astype("M8[s]"), Y, "need numbers X"),
        (X.astype(str), Y, "need numbers X"),
        (X.astype(object), Y, "pickled objects, which are not read"),
        (X[:, 0], Y, r"need numbers X \(rows, \.\.\.\) in .*, got \(4,\)"),
        (np.array(3.0), Y, r"got \(\)"),
        (X[:, :0], Y, r"got \(4, 0\)"),
        (np.zeros((2, 200_001), "i1"), Y[:2], "need at most 200,000 columns of X"),
        (X, np.array(1), "need one label y"),
        (X, Y[:3], "need one label y for each of the 4 rows"),
        (X, np.zeros((4, 2, 2)), "need one label y"),
        (X, Y * 1j, "need labels y of numbers or text in .*, got complex128"),
        (X, Y.astype("M8[s]"), "need labels y of numbers or text"),
        (X, Y.astype("m8[s]"), "need labels y of numbers or text"),
        (X, np.zeros(4, "V2"), "need labels y of numbers or text"),
        (X, np.zeros(4, [("a", "i4")]), "need labels y of numbers or text"),
        (X, Y.astype(object), "pickled objects"),
        (X, np.array([b"\xff"] * 4), "text that is no Unicode"),
        (X, np.array(["\ud800"] * 4), "text that is no Unicode"),
        (X, np.full(4, 0x110000, np.uint32).view("<U1"), "text that is no Unicode"),
        (X[:0], Y[:0], "need rows"),
    ],
)
def test_what_is_no_data_gets_one_line(x: Any, y: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read_arrays(tmp_path, x, y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "shape", [b"(4000000000, 3)", b"(10000000000000000000, 3)", b"(-4, 3)", b"(5, 3)", b"(3, 3)", b"4"]
)
def test_a_shape_that_is_not_that_of_its_bytes_is_refused(shape: bytes, tmp_path: Path) -> None:
    old = npy(X)
    length = len(shape) - len(b"(4, 3)")
    changed = old.replace(b"(4, 3)", shape).replace(
        b" " * max(length, 0) + b"\n", b"\n" if length > 0 else b" " * -length + b"\n"
    )
    with pytest.raises(ValueError, match="need "):
        read(write_parts(tmp_path / "a.npz", X=changed, y=npy(Y)))


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\x93NUMPY", b"\x93NUMPY\x01\x00\xff\xff{", b"\x93NUMPY\x09\x00", npy(X)[:-3]]
)
def test_members_that_are_no_arrays_are_refused(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^need .*$"):
        read(write_parts(tmp_path / "a.npz", X=content, y=npy(Y)))


def test_a_member_of_another_kind_is_missing(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X", npy(X))
        archive.writestr("y.npy", npy(Y))
    with pytest.raises(ValueError, match=r"need arrays X and y in .*, got \['y'\]; X is missing"):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize("flag", [1, 64])
def test_an_encrypted_file_is_refused(flag: int, tmp_path: Path) -> None:
    content = bytearray(write_parts(tmp_path / "a.npz", X=npy(X), y=npy(Y)).read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + place] |= flag
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"need a whole .npz file, but .* has a password or is something else"):
        read(tmp_path / "a.npz")


def test_zeros_that_unpack_to_a_thousand_times_their_size_are_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros((13_000, 1_000)), y=np.zeros(13_000))
    with pytest.raises(ValueError, match="unpacks to more than 500 times its size"):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize("seed", range(40))
def test_damaged_files_are_read_or_refused_in_one_line(seed: int, tmp_path: Path) -> None:
    chance = np.random.default_rng(seed)
    content = bytearray(write_parts(tmp_path / "a.npz", X=npy(X), y=npy(Y)).read_bytes())
    for _ in range(3):
        content[chance.integers(len(content))] = chance.integers(256)
    (tmp_path / "a.npz").write_bytes(content)
    try:
        found = f"need {len(read(tmp_path / 'a.npz'))} rows"
    except ValueError as error:
        found = str(error)
    assert found.startswith("need ")
    assert "\n" not in found
