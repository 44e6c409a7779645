"""Word vectors in small files made here."""

import pickle
import sys
from pathlib import Path

import msgpack
import numpy as np
import pytest
import torch

from rockafellian_reproduction.data.words import murmur, read_spacy_vocab, read_vec, tokens


@pytest.mark.parametrize(
    ("word", "number"),
    # The first two are in spaCy's documentation, the next three among the keys of its English vectors.
    [
        ("coffee", 3197928453018144401),
        ("apple", 8566208034543834098),
        ("yourself", 3109722610398367559),
        ("international", 6392893036165415004),
        ("extraordinarily", 18201962105863827175),
        ("", 0),
    ],
)
def test_a_word_has_the_hash_of_spacy(word: str, number: int) -> None:
    assert murmur(word) == number


def test_hashes_of_words_fill_64_bits_and_differ() -> None:
    numbers = {murmur("abcdefghijklmnopqrst"[:length]) for length in range(1, 21)} | {murmur("caf\u00e9")}
    assert len(numbers) == 21
    assert all(0 < number < 1 << 64 for number in numbers)


def test_tokens_are_words_in_lower_case() -> None:
    assert tokens("It\u2019s GOOD.<br /><br />Caf\u00e9 no_one 3 -- 'quoted'") == [
        "it's", "good", "caf\u00e9", "no", "one", "3", "quoted",
    ]  # fmt: skip
    assert tokens("") == []


def write_vocab(folder: Path, vectors: np.ndarray | None = None, rows: dict | None = None) -> None:
    np.save(folder / "vectors", np.arange(6, dtype=np.float32).reshape(2, 3) + 1 if vectors is None else vectors)
    (folder / "vectors.npy").rename(folder / "vectors")
    index = {murmur("good"): 0, murmur("bad"): 1, murmur("nice"): 0, murmur("pruned"): -1} if rows is None else rows
    (folder / "key2row").write_bytes(msgpack.packb(index))


def test_spacys_words_have_rows_and_unknown_ones_the_zeros(tmp_path: Path) -> None:
    write_vocab(tmp_path)
    vectors = read_spacy_vocab(tmp_path)
    assert vectors.table.tolist() == [[0, 0, 0], [1, 2, 3], [4, 5, 6]]
    assert vectors.table.dtype == torch.float32
    assert vectors.rows(["bad", "good", "unheard", "nice", "", "pruned"]) == [2, 1, 0, 1, 0, 0]


class Trap:
    def __reduce__(self):
        return sys.exit, ("ran",)


def test_a_table_that_holds_a_pickle_is_refused(tmp_path: Path) -> None:
    write_vocab(tmp_path)
    for content in (pickle.dumps(Trap()), np.array([Trap()], object)):
        if isinstance(content, bytes):
            (tmp_path / "vectors").write_bytes(content)
        else:
            with (tmp_path / "vectors").open("wb") as file:
                np.save(file, content, allow_pickle=True)
        with pytest.raises(ValueError, match="need spaCy's vectors and key2row, but"):
            read_spacy_vocab(tmp_path)


def test_spacys_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for vectors, rows, match in (
        (np.zeros(3, np.float32), None, "need a float32 table"),
        (np.zeros((2, 3)), None, "need a float32 table"),
        (None, {1: 2}, "need rows below 2"),
        (None, {1: -2}, "need rows below 2"),
        (None, {1: "x"}, "need rows below 2"),
    ):
        write_vocab(tmp_path, vectors, rows)
        with pytest.raises(ValueError, match=match):
            read_spacy_vocab(tmp_path)
    write_vocab(tmp_path)
    for name in ("vectors", "key2row"):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[:-5])
        with pytest.raises(ValueError, match="damaged"):
            read_spacy_vocab(tmp_path)
        (tmp_path / name).write_bytes(whole)


def test_fasttexts_words_have_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.vec"
    path.write_text("4 2\ngood 1 2\nbad -1 2.5 \nnew york 3 4\ngood 9 9\n", encoding="utf-8")
    vectors = read_vec(path)
    assert vectors.table.tolist() == [[0, 0], [1, 2], [-1, 2.5], [3, 4], [9, 9]]
    assert vectors.table.dtype == torch.float32
    assert vectors.rows(["new york", "good", "Good", "bad"]) == [3, 1, 0, 2]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("", 'need a first line "n d"'),
        ("good 1 2\n", 'need a first line "n d"'),
        ("2 2\ngood 1 2\n", "need 2 words in .* got 1"),
        ("1 2\ngood 1 2\nbad 1 2\n", "need 1 lines of a word and 2 numbers in .* line 3"),
        ("1 2\ngood 1\n", "need 1 lines of a word and 2 numbers in .* line 2"),
        ("1 2\ngood 1 x\n", "need 2 numbers in line 2 of"),
        ("99999999 300\n", "bytes long"),
        ("1 0\ngood\n", "need 1 x 0 numbers"),
    ],
)
def test_vec_files_that_contradict_their_header_are_refused(tmp_path: Path, content: str, match: str) -> None:
    (tmp_path / "a.vec").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=match):
        read_vec(tmp_path / "a.vec")
