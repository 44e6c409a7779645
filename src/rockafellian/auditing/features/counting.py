"""Words and pairs of adjacent words, counted in arrays: as scikit-learn's CountVectorizer does, in half its time."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Counted(NamedTuple):
    """Terms in alphabetical order, and how often each text has each: a sparse matrix (texts, terms)."""

    terms: tuple[str, ...]
    counts: Any


class _Tokens(NamedTuple):
    """The words of all texts one after the other, by number; the text of each; and the words with these numbers."""

    words: NDArray[np.int64]
    texts: NDArray[np.int64]
    names: list[str]


def count_words_and_pairs(texts: Sequence[str], word: str, *, min_texts: int, max_terms: int) -> Counted:
    """Count the words and pairs of words that stand in enough texts, of these the most frequent ones.

    Args:
        texts: lower case, as words are compared.
        word: the regular expression of a word.
        min_texts: in how many texts a term must stand.
        max_terms: so many terms at most; of equally frequent ones those that come first in the texts.
    """
    from scipy.sparse import csr_matrix

    tokens = _tokenize(texts, re.compile(word))
    n_words = len(tokens.names)
    follows = tokens.texts[1:] == tokens.texts[:-1]
    # A pair is numbered by its two words, above all words.
    pairs = (n_words * (tokens.words[:-1] + 1) + tokens.words[1:])[follows]
    numbers = np.concatenate([tokens.words, pairs])
    rows = np.concatenate([tokens.texts, tokens.texts[1:][follows]])

    found, columns, totals = np.unique(numbers, return_inverse=True, return_counts=True)
    # What stands in enough texts is there at least as often: most pairs are there once, and left out here.
    frequent = np.flatnonzero(totals >= min_texts)
    rows, columns, totals, found = *_only(rows, columns, frequent, len(found)), totals[frequent], found[frequent]
    counts = csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), (len(texts), len(found)))  # adds them up
    kept = np.flatnonzero(np.bincount(counts.indices, minlength=len(found)) >= min_texts)
    if len(kept) > max_terms:
        kept = kept[np.argsort(-totals[kept], kind="stable")[:max_terms]]
    names = [_name(int(number), tokens.names) for number in found[kept]]
    order = sorted(range(len(names)), key=names.__getitem__)
    counts = counts[:, kept[order]]
    counts.sort_indices()
    return Counted(tuple(names[place] for place in order), counts)


def _tokenize(texts: Sequence[str], word: re.Pattern[str]) -> _Tokens:
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__  # a new word gets the next number
    words, lengths = array("q"), array("q")
    for text in texts:
        before = len(words)
        words.extend(map(numbers.__getitem__, word.findall(text)))
        lengths.append(len(words) - before)
    of_text = np.repeat(np.arange(len(texts)), np.frombuffer(lengths, np.int64) if len(lengths) else 0)
    return _Tokens(np.frombuffer(words, np.int64) if len(words) else np.zeros(0, np.int64), of_text, list(numbers))


def _only(
    rows: NDArray[np.int64], columns: NDArray[np.int64], kept: NDArray[np.int64], n: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Entries of the columns that are kept, which are numbered anew."""
    place = np.full(n, -1)
    place[kept] = np.arange(len(kept))
    new = place[columns]
    return rows[new >= 0], new[new >= 0]


def _name(number: int, words: list[str]) -> str:
    first, second = divmod(number, len(words))
    return words[number] if first == 0 else f"{words[first - 1]} {words[second]}"
