"""Read image files as NumPy arrays: idx, CIFAR-10 in its three layouts, labels of CIFAR-10N, folders of tiles."""

from __future__ import annotations

import csv
import gzip
import json
import math
import warnings
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from rockafellian_reproduction.data.pickles import read_pickle

Bytes = NDArray[np.uint8]
Labels = NDArray[np.int64]

BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
#: The labels of CIFAR-10N: our names, and those in its file.
HUMAN = {
    "aggregate": "aggre_label",
    "random1": "random_label1",
    "random2": "random_label2",
    "random3": "random_label3",
    "worst": "worse_label",
    "true": "clean_label",
}
#: The classes of the tiles, in the order of their numbers.
TISSUE = ("non-necrosis", "necrosis")
TILE = 256


class Split(NamedTuple):
    """Images and labels for training and for testing."""

    train_x: Bytes
    train_y: Labels
    test_x: Bytes
    test_y: Labels


def read_idx(path: Path) -> Bytes:
    """Return the array of unsigned bytes in an idx file, gzipped or not: MNIST and Fashion-MNIST."""
    content = _read_gz(path) if path.suffix == ".gz" else path.read_bytes()
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise ValueError(f"need an idx file of unsigned bytes (0, 0, 8 and the number of axes), but {path} is another")
    axes = content[3]
    start = 4 + 4 * axes
    if not axes or len(content) < start:
        raise ValueError(f"need axes and their lengths in the header of {path}, but it says {axes} and ends")
    shape = [int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4)]
    if len(content) - start != math.prod(shape):
        raise ValueError(
            f"need {math.prod(shape)} bytes after the header of {path}, as its axes {shape} say, "
            f"got {len(content) - start}; fetch it again"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()  # a copy can be written to


def _read_gz(path: Path) -> bytes:
    try:
        with gzip.open(path) as file:
            return file.read()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(
            f"need a whole gzip file, but {path} is cut short or damaged ({error}); fetch it again"
        ) from error


def read_idx_folder(folder: Path) -> Split:
    """Return MNIST or Fashion-MNIST, gzipped or not."""

    def read(name: str) -> Bytes:
        path = folder / name
        return read_idx(path if path.is_file() else folder / f"{name}.gz")

    def labeled(split: str) -> tuple[Bytes, Labels]:
        return read(f"{split}-images-idx3-ubyte"), read(f"{split}-labels-idx1-ubyte").astype(np.int64)

    return _split(folder, labeled("train"), labeled("t10k"))


def read_cifar_python(folder: Path) -> Split:
    """Return CIFAR-10 from its makers' pickles."""

    def batch(name: str) -> tuple[Bytes, Labels]:
        content = read_pickle(folder / name)
        pixels, labels = content.get("data"), content.get("labels")
        if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (3072,):
            raise ValueError(f"need `data`, 3,072 bytes a row, in {folder / name}; fetch it again")
        return _channels_last(pixels), _ten_classes(labels, folder / name)

    return _batches(folder, [batch(name) for name in BATCHES], batch("test_batch"))


def read_cifar_binary(folder: Path) -> Split:
    """Return CIFAR-10 from its makers' binary files: a byte for the label and 3,072 for the image, row after row."""

    def batch(name: str) -> tuple[Bytes, Labels]:
        path = folder / f"{name}.bin"
        content = np.fromfile(path, np.uint8)
        if len(content) == 0 or len(content) % 3073:
            raise ValueError(f"need rows of 3,073 bytes in {path}, got {len(content)} bytes; fetch it again")
        rows = content.reshape(-1, 3073)
        return _channels_last(rows[:, 1:]), _ten_classes(rows[:, 0].tolist(), path)

    return _batches(folder, [batch(name) for name in BATCHES], batch("test_batch"))


def read_cifar_png(folder: Path) -> Split:
    """Return CIFAR-10 from sheets, one image per row of 1,024 pixels, and labels from two lists, so misspelled."""

    def labels(name: str) -> Labels:
        try:
            content = json.loads((folder / name).read_bytes())
        except ValueError as error:
            raise ValueError(f"need a list of labels in {folder / name}, but it is no JSON ({error})") from error
        return _ten_classes(content, folder / name)

    train = [read_image(folder / f"{name}.png", width=1024).reshape(-1, 32, 32, 3) for name in BATCHES]
    test = read_image(folder / "test_batch.png", width=1024).reshape(-1, 32, 32, 3)
    return _split(folder, (np.concatenate(train), labels("train_lables.json")), (test, labels("test_lables.json")))


def read_human_labels(path: Path) -> dict[str, Labels]:
    """Return the labels of CIFAR-10N by the names in `HUMAN`."""
    content = read_pickle(path)
    missing = [name for name in HUMAN.values() if name not in content]
    if missing:
        raise ValueError(f"need {', '.join(missing)} in {path}, got {', '.join(content)}")
    return {plain: _ten_classes(content[name], path) for plain, name in HUMAN.items()}


def read_image(path: Path, *, width: int, height: int | None = None) -> Bytes:
    """Return an image file as (height, width, 3) bytes; a ValueError names one that is broken or of another size."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=["PNG", "JPEG"]) as image:
                if image.width != width or height not in (None, image.height):
                    raise ValueError(f"it is {image.width} wide and {image.height} high")
                return np.array(image.convert("RGB"))
    except FileNotFoundError:
        raise
    # Pillow raises SyntaxError for some broken files, and OSError for most.
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        wanted = f"{width} wide" + (f" and {height} high" if height else "")
        raise ValueError(
            f"need a PNG or JPEG image that is {wanted}, but {path} is broken or another: {error}"
        ) from error


def read_tiles(folder: Path) -> Split:
    """Return tiles of 256 x 256 pixels from train/ and test/, each with folders necrosis (1) and non-necrosis (0)."""

    def labeled(split: str) -> tuple[Bytes, Labels]:
        paths = tile_paths(folder / split)
        pixels = np.empty((len(paths), TILE, TILE, 3), np.uint8)
        for row, path in enumerate(paths):
            pixels[row] = read_image(path, width=TILE, height=TILE)
        return pixels, np.array([TISSUE.index(path.parent.name) for path in paths], np.int64)

    return _split(folder, labeled("train"), labeled("test"))


def tile_paths(folder: Path) -> list[Path]:
    """Return the paths of the tiles of both classes, in the order of their rows."""
    found = []
    for name in TISSUE:
        tiles = sorted(path for path in (folder / name).glob("*") if path.suffix.lower() in (".png", ".jpg", ".jpeg"))
        if not tiles:
            raise ValueError(f"need tiles, .png or .jpg, in {folder / name}, got none")
        found += tiles
    return found


def read_tile_truth(folder: Path) -> Labels | None:
    """Return the true labels of the training tiles from truth.csv (columns file and label); None without that file.

    `file` is a path in train/, and `label` a class by name or number. It must name every tile.
    """
    path = folder / "truth.csv"
    if not path.is_file():
        return None
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        if not {"file", "label"} <= set(rows.fieldnames or ()):
            raise ValueError(f"need columns file and label in {path}, got {rows.fieldnames}")
        known = {row["file"]: _tissue_class(row["label"], path) for row in rows}
    names = [tile.relative_to(folder / "train").as_posix() for tile in tile_paths(folder / "train")]
    if absent := [name for name in names if name not in known]:
        raise ValueError(f"need every training tile in {path}, but {len(absent)} are missing, as {absent[0]}")
    return np.array([known[name] for name in names], np.int64)


def _tissue_class(label: str, path: Path) -> int:
    classes = {name: number for number, name in enumerate(TISSUE)} | {"0": 0, "1": 1}
    if label not in classes:
        raise ValueError(f"need labels {', '.join(classes)} in {path}, got {label!r}")
    return classes[label]


def _channels_last(rows: Bytes) -> Bytes:
    return np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _ten_classes(labels: Any, path: Path) -> Labels:
    array = np.asarray(labels) if isinstance(labels, list | np.ndarray) and len(labels) else np.empty(0)
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.min() < 0 or array.max() > 9:
        raise ValueError(f"need labels from 0 to 9 in {path}, got others or none")
    return array.astype(np.int64)


def _batches(folder: Path, train: list[tuple[Bytes, Labels]], test: tuple[Bytes, Labels]) -> Split:
    pixels, labels = zip(*train, strict=True)
    return _split(folder, (np.concatenate(pixels), np.concatenate(labels)), test)


def _split(folder: Path, train: tuple[Bytes, Labels], test: tuple[Bytes, Labels]) -> Split:
    for pixels, labels in (train, test):
        if labels.shape != (len(pixels),):
            raise ValueError(
                f"need one label per image in {folder}, got {labels.shape} labels for {len(pixels)} images"
            )
    return Split(*train, *test)
