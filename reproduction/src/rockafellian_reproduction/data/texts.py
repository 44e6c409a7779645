"""Read files of texts with labels, film reviews and comments, as lists of str and NumPy arrays."""

from __future__ import annotations

import csv
import gzip
import json
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int64]

#: The columns of Jigsaw's train.csv, in the order of the labels.
TOXIC = ("toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate")
SIDES = ("neg", "pos")
#: Far longer than any text of these sets.
LONGEST = 1 << 24


class Split(NamedTuple):
    """Texts and labels (1 is positive) for training and for testing."""

    train: list[str]
    train_y: Labels
    test: list[str]
    test_y: Labels


def read_acl_folder(folder: Path) -> Split:
    """Return reviews from train/ and test/ with folders neg and pos, one text per file, ordered by their numbers."""

    def part(split: str, side: str) -> list[str]:
        paths = (folder / split / side).glob("*.txt")
        return [_decode(path.read_bytes(), path) for path in sorted(paths, key=lambda path: _number(path.name))]

    return _by_side({(split, side): part(split, side) for split in ("train", "test") for side in SIDES})


def read_acl_archive(path: Path) -> Split:
    """Return the same from aclImdb_v1.tar.gz; nothing is unpacked on disk."""
    found: dict[tuple[str, str], list[tuple[tuple[int, str], str]]] = {}
    wanted = re.compile(r"(?:\./)?aclImdb/(train|test)/(neg|pos)/([^/]+\.txt)")
    try:
        with gzip.open(path) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isreg() else None
                if (match := wanted.fullmatch(member.name)) and content:
                    split, side, name = match.groups()
                    text = _decode(content.read(LONGEST), f"{member.name} in {path}")
                    found.setdefault((split, side), []).append((_number(name), text))
            while stream.read(LONGEST):  # a tar ends before its stream does, and the checksum comes last
                pass
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(
            f"need a whole archive, but {path} is cut short or damaged ({error}); fetch it again"
        ) from error
    parts = {(split, side): sorted(found.get((split, side), [])) for split in ("train", "test") for side in SIDES}
    return _by_side({key: [text for _, text in part] for key, part in parts.items()})


def read_reviews_json(path: Path) -> Split:
    """Return reviews from a list of {"t": text, "s": 0 or 1}: quarters test/neg, train/neg, test/pos, train/pos."""
    try:
        content = json.loads(path.read_bytes())
        texts, labels = [str(row["t"]) for row in content], [int(row["s"]) for row in content]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"need a list of {{t, s}} in {path}, got another ({error})") from error
    quarter = len(texts) // 4
    if labels != [0] * (2 * quarter) + [1] * (2 * quarter):
        raise ValueError(f"need {path} in four quarters, negative ones first, got another order")
    quarters = [texts[i * quarter : (i + 1) * quarter] for i in range(4)]
    order = (("test", "neg"), ("train", "neg"), ("test", "pos"), ("train", "pos"))
    return _by_side(dict(zip(order, quarters, strict=True)))


def read_reviews_csv(path: Path) -> Split:
    """Return reviews from Kaggle's "IMDB Dataset.csv", columns review and sentiment: the first half is for training.

    It has lost the official split, so results differ slightly from those on it.
    """
    names = {"negative": 0, "positive": 1}
    texts, labels = [], []
    for row in _rows(path, ("review", "sentiment")):
        if row["sentiment"] not in names:
            raise ValueError(f"need sentiment positive or negative in {path}, got {row['sentiment']!r}")
        texts.append(row["review"])
        labels.append(names[row["sentiment"]])
    half, numbers = len(texts) // 2, np.array(labels, np.int64)
    return Split(texts[:half], numbers[:half], texts[half:], numbers[half:])


def read_jigsaw(path: Path) -> tuple[list[str], Labels]:
    """Return comments and (N, 6) labels from Jigsaw's train.csv, in the order of `TOXIC`."""
    rows = [
        (row["comment_text"], [_bit(row[name], path) for name in TOXIC])
        for row in _rows(path, ("comment_text", *TOXIC))
    ]
    return [text for text, _ in rows], np.array([labels for _, labels in rows], np.int64).reshape(-1, len(TOXIC))


def read_offensive(path: Path) -> tuple[list[str], Labels]:
    """Return comments and (N,) labels from a csv with columns is_offensive and text."""
    rows = [(row["text"], _bit(row["is_offensive"], path)) for row in _rows(path, ("is_offensive", "text"))]
    return [text for text, _ in rows], np.array([label for _, label in rows], np.int64)


def _by_side(parts: Mapping[tuple[str, str], list[str]]) -> Split:
    """Return negative reviews, then positive ones, for either split."""

    def joined(split: str) -> tuple[list[str], Labels]:
        neg, pos = (parts[split, side] for side in SIDES)
        return neg + pos, np.repeat([0, 1], [len(neg), len(pos)]).astype(np.int64)

    return Split(*joined("train"), *joined("test"))


def _number(name: str) -> tuple[int, str]:
    """Return a key that sorts 10_3.txt after 9_4.txt."""
    digits = name.partition("_")[0]
    return (int(digits) if digits.isdecimal() else -1), name


def _decode(content: bytes, where: object) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"need a text in utf-8, but {where} is not ({error})") from error


def _bit(value: str, path: Path) -> int:
    if value not in ("0", "1"):
        raise ValueError(f"need labels 0 and 1 in {path}, got {value!r}")
    return int(value)


def _rows(path: Path, columns: Iterable[str]) -> Iterator[dict[str, str]]:
    """Yield the rows of a csv that has these columns, each with a value."""
    with _long_fields(), path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file, strict=True)
        try:
            if missing := [name for name in columns if name not in (rows.fieldnames or ())]:
                raise ValueError(f"need columns {', '.join(missing)} in {path}, got {rows.fieldnames}")
            for row in rows:
                if None in row or None in row.values():
                    raise ValueError(
                        f"need {len(rows.fieldnames or ())} values in line {rows.line_num} of {path}, got others"
                    )
                yield row
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"need a csv in utf-8, but {path} is not, near line {rows.line_num} ({error})") from error


@contextmanager
def _long_fields() -> Iterator[None]:
    before = csv.field_size_limit(LONGEST)
    try:
        yield
    finally:
        csv.field_size_limit(before)
