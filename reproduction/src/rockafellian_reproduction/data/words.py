"""Vectors for words: a table of numbers, the row of each word, and how a text is split into words."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgpack  # type: ignore[import-untyped]
import numpy as np
import torch
from torch import Tensor

_MASK = (1 << 64) - 1
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_TAG = re.compile(r"<[^<>]*>")


def tokens(text: str) -> list[str]:
    """Return the words of a text in lower case, without tags and punctuation.

    >>> tokens("It's GOOD.<br />Isn't it?")
    ["it's", 'good', "isn't", 'it']
    """
    return [word.replace("\u2019", "'") for word in _WORD.findall(_TAG.sub(" ", text).lower())]


@dataclass(frozen=True)
class WordVectors:
    """One vector per row, (rows + 1, d) float32; row 0 is zeros, for padding and for unknown words."""

    table: Tensor
    index: Mapping[Hashable, int]
    key: Callable[[str], Hashable] = str

    def rows(self, words: Iterable[str]) -> list[int]:
        """Return the row of each word, 0 if it has none."""
        return [self.index.get(self.key(word), 0) for word in words]


def read_spacy_vocab(folder: Path) -> WordVectors:
    """Return the vectors of a spaCy pipeline: `vectors`, an npy file, and `key2row`, from a word's hash to its row."""
    try:
        vectors = np.load(folder / "vectors", allow_pickle=False)
        index = msgpack.unpackb((folder / "key2row").read_bytes(), strict_map_key=False)
    except (ValueError, EOFError, msgpack.UnpackException) as error:
        raise ValueError(f"need spaCy's vectors and key2row, but those in {folder} are damaged ({error})") from error
    if vectors.ndim != 2 or vectors.dtype != np.float32 or not isinstance(index, dict):
        raise ValueError(f"need a float32 table and a dictionary in {folder}, got others")
    rows = index.values()
    if not all(isinstance(row, int) and -1 <= row < len(vectors) for row in rows):
        raise ValueError(f"need rows below {len(vectors)} in {folder / 'key2row'}, got others")
    return WordVectors(_padded(vectors), {key: row + 1 for key, row in index.items()}, murmur)


def read_vec(path: Path) -> WordVectors:
    """Return the vectors of a FastText .vec file: a line "n d", then n lines of a word and d numbers."""
    with path.open(encoding="utf-8", newline="\n") as file:
        header = file.readline().split()
        if len(header) != 2 or not all(number.isdecimal() for number in header):
            raise ValueError(f'need a first line "n d" in {path}, got {" ".join(header)[:40]!r}')
        n, d = map(int, header)
        if not d or n * d > path.stat().st_size:  # a number takes a byte at least
            raise ValueError(f"need {n} x {d} numbers in {path}, but it is only {path.stat().st_size} bytes long")
        vectors, index = np.zeros((n + 1, d), np.float32), dict[Hashable, int]()
        row = 0
        for row, line in enumerate(file, 1):
            word, *numbers = line.rstrip(" \r\n").rsplit(" ", d)
            if row > n or len(numbers) != d:
                raise ValueError(f"need {n} lines of a word and {d} numbers in {path}, got another in line {row + 1}")
            try:
                vectors[row] = numbers
            except ValueError as error:
                raise ValueError(f"need {d} numbers in line {row + 1} of {path} ({error})") from error
            index.setdefault(word, row)
    if row != n:
        raise ValueError(f"need {n} words in {path}, as its first line says, got {row}; fetch it again")
    return WordVectors(torch.from_numpy(vectors), index)


def _padded(vectors: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> Tensor:
    return torch.from_numpy(np.concatenate([np.zeros((1, vectors.shape[1]), np.float32), vectors]))


@lru_cache(maxsize=1 << 20)
def murmur(word: str) -> int:
    """Return spaCy's hash of a word: MurmurHash64A of its utf-8, seed 1 (A. Appleby, public domain); 0 if empty."""
    content = word.encode("utf-8", "surrogatepass")
    if not content:
        return 0
    factor, whole = 0xC6A4A7935BD1E995, len(content) // 8 * 8
    state = 1 ^ (len(content) * factor & _MASK)
    for start in range(0, whole, 8):
        piece = int.from_bytes(content[start : start + 8], "little") * factor & _MASK
        piece = (piece ^ piece >> 47) * factor & _MASK
        state = (state ^ piece) * factor & _MASK
    if rest := content[whole:]:
        state = (state ^ int.from_bytes(rest, "little")) * factor & _MASK
    state = (state ^ state >> 47) * factor & _MASK
    return state ^ state >> 47
