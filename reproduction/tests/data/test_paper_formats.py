"""Image files made here: read as they should be, and refused if they are cut, odd or hostile."""

import gzip
import json
import pickle
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tiny import python2_pickle, torch_zip

from rockafellian_reproduction.data import formats


def idx(array: np.ndarray, kind: int = 8) -> bytes:
    header = bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


PIXELS = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


def test_idx_files_are_read_gzipped_or_not(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(idx(PIXELS))
    (tmp_path / "a.gz").write_bytes(gzip.compress(idx(PIXELS)))
    for name in ("a", "a.gz"):
        found = formats.read_idx(tmp_path / name)
        assert found.dtype == np.uint8
        assert np.array_equal(found, PIXELS)
        found += 1  # it is the caller's own


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "need an idx file of unsigned bytes"),
        (idx(PIXELS, kind=0x0D), "need an idx file of unsigned bytes"),
        (b"\x01" + idx(PIXELS)[1:], "need an idx file of unsigned bytes"),
        (bytes([0, 0, 8, 0]) + b"x", "need axes"),
        (idx(PIXELS)[:10], "need axes"),
        (idx(PIXELS)[:-1], "need 24 bytes after the header .* got 23"),
        (idx(PIXELS) + b"x", "need 24 bytes after the header .* got 25"),
        (bytes([0, 0, 8, 255]) + b"\xff" * 1020, "bytes after the header"),
    ],
)
def test_idx_files_that_contradict_their_header_are_refused(tmp_path: Path, content: bytes, match: str) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ValueError, match=match):
        formats.read_idx(tmp_path / "a")


def test_a_cut_or_damaged_gz_is_refused_by_name(tmp_path: Path) -> None:
    whole = gzip.compress(idx(PIXELS))
    for content in (whole[:-9], b"no gzip", whole[:15] + b"\xff" + whole[16:]):
        (tmp_path / "a.gz").write_bytes(content)
        with pytest.raises(ValueError, match=r"a\.gz is cut short or damaged"):
            formats.read_idx(tmp_path / "a.gz")


def test_images_and_labels_must_be_as_many(tmp_path: Path) -> None:
    for split in ("train", "t10k"):
        (tmp_path / f"{split}-images-idx3-ubyte").write_bytes(idx(PIXELS))
        (tmp_path / f"{split}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.array([1, 2]))))
    assert formats.read_idx_folder(tmp_path).test_y.tolist() == [1, 2]
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.array([1, 2, 3]))))
    with pytest.raises(ValueError, match="need one label per image"):
        formats.read_idx_folder(tmp_path)


# CIFAR-10: two rows a batch. Channel c of the pixel at (y, x) of row r is known.
def batch(seed: int) -> tuple[np.ndarray, list[int]]:
    random = np.random.default_rng(seed)
    return random.integers(0, 256, (2, 3, 32, 32), dtype=np.uint8), random.integers(0, 10, 2).tolist()


NAMES = [*formats.BATCHES, "test_batch"]
TRAIN = np.concatenate([batch(seed)[0] for seed in range(5)]).transpose(0, 2, 3, 1)


def write_python(folder: Path) -> None:
    for seed, name in enumerate(NAMES):
        pixels, labels = batch(seed)
        (folder / name).write_bytes(python2_pickle(pixels.reshape(2, 3072), labels))


def write_binary(folder: Path) -> None:
    for seed, name in enumerate(NAMES):
        pixels, labels = batch(seed)
        rows = zip(labels, pixels, strict=True)
        (folder / f"{name}.bin").write_bytes(b"".join(bytes([label]) + image.tobytes() for label, image in rows))


def write_png(folder: Path) -> None:
    for seed, name in enumerate(NAMES):
        Image.fromarray(batch(seed)[0].transpose(0, 2, 3, 1).reshape(2, 1024, 3)).save(folder / f"{name}.png")
    (folder / "train_lables.json").write_text(json.dumps([label for seed in range(5) for label in batch(seed)[1]]))
    (folder / "test_lables.json").write_text(json.dumps(batch(5)[1]))


LAYOUTS = {
    "python": (write_python, formats.read_cifar_python),
    "binary": (write_binary, formats.read_cifar_binary),
    "png": (write_png, formats.read_cifar_png),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_cifar_is_the_same_in_all_three_layouts(tmp_path: Path, layout: str) -> None:
    write, read = LAYOUTS[layout]
    write(tmp_path)
    found = read(tmp_path)
    assert found.train_x.shape == (10, 32, 32, 3)
    assert np.array_equal(found.train_x, TRAIN)
    assert np.array_equal(found.test_x, batch(5)[0].transpose(0, 2, 3, 1))
    assert found.train_y.tolist() == [label for seed in range(5) for label in batch(seed)[1]]
    assert found.test_y.tolist() == batch(5)[1]
    assert found.train_y.dtype == np.int64


@pytest.mark.parametrize("content", [b"", b"x" * 3072, b"\x0a" + b"x" * 3072])
def test_binary_batches_that_are_cut_or_have_other_labels_are_refused(tmp_path: Path, content: bytes) -> None:
    write_binary(tmp_path)
    (tmp_path / "data_batch_3.bin").write_bytes(content)
    with pytest.raises(ValueError, match=r"need (rows of 3,073 bytes|labels from 0 to 9) in .*data_batch_3\.bin"):
        formats.read_cifar_binary(tmp_path)


@pytest.mark.parametrize(
    "labels", ["[1, 2", '{"a": 1}', "[]", "[1.5, 2]", '["a", 1]', "[-1, 2]", "[10, 1]", "[[1], [2]]", "[1, 2, 3]"]
)
def test_label_lists_that_do_not_fit_are_refused(tmp_path: Path, labels: str) -> None:
    write_png(tmp_path)
    (tmp_path / "test_lables.json").write_text(labels)
    with pytest.raises(ValueError, match="label"):
        formats.read_cifar_png(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        {b"data": np.zeros((2, 3072), np.int64), b"labels": [1, 2]},
        {b"data": np.zeros((2, 100), np.uint8), b"labels": [1, 2]},
        {b"data": [1, 2], b"labels": [1, 2]},
        {b"labels": [1, 2]},
        {b"data": np.zeros((2, 3072), np.uint8)},
        {b"data": np.zeros((2, 3072), np.uint8), b"labels": [1, 2, 3]},
    ],
)
def test_batches_with_other_content_are_refused(tmp_path: Path, content: dict[bytes, Any]) -> None:
    write_python(tmp_path)
    (tmp_path / "test_batch").write_bytes(pickle.dumps(content, 2))
    with pytest.raises(ValueError, match="need"):
        formats.read_cifar_python(tmp_path)


def test_human_labels_are_read_under_plain_names(tmp_path: Path) -> None:
    path = tmp_path / "CIFAR-10_human.pt"
    names = ("clean_label", "aggre_label", "worse_label", "random_label1", "random_label2", "random_label3")
    labels = {name: np.full(4, number) for number, name in enumerate(names)}
    plain = {"aggregate": 1, "random1": 3, "random2": 4, "random3": 5, "worst": 2, "true": 0}
    for content in (torch_zip(pickle.dumps(labels, 2)), pickle.dumps(labels, 2)):
        path.write_bytes(content)
        found = formats.read_human_labels(path)
        assert {name: array.tolist() for name, array in found.items()} == {
            name: [number] * 4 for name, number in plain.items()
        }
    del labels["worse_label"]
    path.write_bytes(pickle.dumps(labels, 2))
    with pytest.raises(ValueError, match="need worse_label in"):
        formats.read_human_labels(path)


@pytest.mark.filterwarnings("ignore")  # as for most users: the reader itself must not let it pass
@pytest.mark.parametrize("broken", [b"", b"no image", "cut", "narrow", "gif", 100_000, 1 << 30])
def test_a_broken_image_is_named(tmp_path: Path, broken: Any) -> None:
    write_png(tmp_path)
    path = tmp_path / "data_batch_4.png"
    whole = path.read_bytes()
    if broken == "narrow":
        Image.new("RGB", (1023, 2)).save(path)
    elif broken == "gif":
        Image.new("RGB", (1024, 2)).save(path, "GIF")
    elif isinstance(broken, int):  # rows that it says it has, for more memory than any sheet needs
        header = b"IHDR" + struct.pack(">II", 1024, broken) + whole[24:29]
        path.write_bytes(whole[:12] + header + struct.pack(">I", zlib.crc32(header)) + whole[33:])
    else:
        path.write_bytes(whole[: len(whole) // 2] if broken == "cut" else broken)
    reason = "decompression bomb" if isinstance(broken, int) else ""
    with pytest.raises(
        ValueError, match=rf"need a PNG or JPEG .* 1024 wide, but .*data_batch_4\.png is broken.*{reason}"
    ):
        formats.read_cifar_png(tmp_path)


def write_tiles(folder: Path) -> None:
    for split, side, name, shade in [
        ("train", "necrosis", "b.png", 10),
        ("train", "necrosis", "a.jpg", 20),
        ("train", "non-necrosis", "a.PNG", 30),
        ("test", "necrosis", "t.png", 40),
        ("test", "non-necrosis", "t.png", 50),
    ]:
        (folder / split / side).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (256, 256), (shade, 0, 0)).save(folder / split / side / name)
    (folder / "train" / "necrosis" / "notes.txt").write_text("not a tile")


def test_tiles_come_by_class_and_name(tmp_path: Path) -> None:
    write_tiles(tmp_path)
    found = formats.read_tiles(tmp_path)
    assert found.train_x.shape == (3, 256, 256, 3)
    assert np.abs(found.train_x[:, 0, 0, 0].astype(int) - [30, 20, 10]).max() <= 2  # a jpg is not exact
    assert found.train_y.tolist() == [0, 1, 1]
    assert found.test_x[:, 0, 0, 0].tolist() == [50, 40]
    assert found.test_y.tolist() == [0, 1]


def test_a_broken_or_small_tile_is_named_and_so_is_an_empty_class(tmp_path: Path) -> None:
    write_tiles(tmp_path)
    tile = tmp_path / "train" / "necrosis" / "b.png"
    tile.write_bytes(tile.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"256 wide and 256 high, but .*b\.png is broken"):
        formats.read_tiles(tmp_path)
    Image.new("RGB", (256, 255)).save(tile)
    with pytest.raises(ValueError, match=r"b\.png .*256 wide and 255 high"):
        formats.read_tiles(tmp_path)
    tile.unlink()
    (tmp_path / "test" / "non-necrosis" / "t.png").unlink()
    with pytest.raises(ValueError, match=r"need tiles, .* in .*non-necrosis, got none"):
        formats.read_tiles(tmp_path)


def test_the_true_labels_of_tiles_are_read_in_their_order(tmp_path: Path) -> None:
    write_tiles(tmp_path)
    assert formats.read_tile_truth(tmp_path) is None
    truth = tmp_path / "truth.csv"
    truth.write_text("file,label\nnecrosis/b.png,1\nnecrosis/a.jpg,non-necrosis\nnon-necrosis/a.PNG,0\n")
    found = formats.read_tile_truth(tmp_path)
    assert found is not None
    assert found.tolist() == [0, 0, 1]
    for content, match in (
        ("file,label\nnecrosis/b.png,1\n", "need every training tile .* 2 are missing"),
        ("file,label\nnecrosis/b.png,2\n", "need labels non-necrosis, necrosis, 0, 1 in"),
        ("name,label\n", "need columns file and label"),
    ):
        truth.write_text(content)
        with pytest.raises(ValueError, match=match):
            formats.read_tile_truth(tmp_path)
