"""What speaks most for one label and against another: columns of a table, or words of a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from rockafellian.auditing.features.parsing import Floats
from rockafellian.auditing.features.tables import TableFeatures
from rockafellian.auditing.features.texts import WORD, TextFeatures, normalized

#: At most so many columns or words are named, and none that adds less than this fraction of what the first one adds.
MAX_PARTS, MIN_FRACTION = 5, 0.1
#: So many letters of a text are searched for them, as a page shows no more.
MAX_SEARCHED = 5_000


class Decisive(NamedTuple):
    """Names of columns or words, the most decisive first, and where in a text these words are."""

    names: Sequence[str] = ()
    spans: Sequence[tuple[int, int]] = ()


def decisive_columns(features: TableFeatures, contributions: Tensor) -> list[Decisive]:
    """Return the columns that add most, row by row, from what each input (rows, width) adds."""
    names = [encoder.name for encoder in features.encoders]
    starts = np.cumsum([0, *(encoder.width for encoder in features.encoders[:-1])])
    sums = np.add.reduceat(contributions.double().numpy(), starts, axis=1)
    return [Decisive(_largest(names, row)) for row in sums]


def decisive_words(features: TextFeatures, texts: Sequence[str], slopes: Tensor) -> list[Decisive]:
    """Return the words that add most, text by text, from what the inputs (texts, width) add by their size.

    Only words count: what a sentence encoder reads is not split among them.
    """
    tfidf, width = features.words, features.words.width
    found = tfidf.contributions(texts, slopes[:, :width] / features.scale[:width])
    if tfidf.analyzer == "word":
        found = (_by_word(*each) for each in found)
    largest = [_largest(*each) for each in found]
    return [
        Decisive(words, find_spans(text, words, tfidf.analyzer)) for text, words in zip(texts, largest, strict=True)
    ]


def find_spans(text: str, words: Sequence[str], analyzer: str) -> list[tuple[int, int]]:
    """Return where words are in a text; or sequences of letters, where those are its features."""
    tokens = list(re.finditer(WORD if analyzer == "word" else "(?s).", text[:MAX_SEARCHED]))
    known = [normalized(token[0]) for token in tokens]
    inside = np.zeros(len(tokens), bool)
    for word in words:
        parts = [word] if analyzer == "word" else list(word)
        for start in range(len(known) - len(parts) + 1):
            if known[start : start + len(parts)] == parts:
                inside[start : start + len(parts)] = True
    return [tokens[number].span() for number in np.flatnonzero(inside)]


def _by_word(terms: Sequence[str], values: Floats) -> tuple[list[str], Floats]:
    """What each word adds, with an equal part of what the pairs that it is in add."""
    sums: dict[str, float] = {}
    for term, value in zip(terms, values.tolist(), strict=True):
        words = term.split(" ")
        for word in words:
            sums[word] = sums.get(word, 0.0) + value / len(words)
    return list(sums), np.fromiter(sums.values(), np.float64)


def _largest(names: Sequence[str], values: Floats) -> list[str]:
    """The names of the largest values above 0."""
    first = np.argsort(-values, kind="stable")[:MAX_PARTS]
    return [names[number] for number in first if values[number] > max(0.0, MIN_FRACTION * values[first[0]])]
