import random

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from rockafellian.auditing.features.counting import count_words_and_pairs

WORD = r"\w+"
TEXTS = ["a rose is a rose is a rose", "a rose, a thorn", "", "is a thorn a rose", "...", "unheard of"]


@pytest.mark.parametrize("min_texts", [1, 2, 3])
def test_counts_are_those_of_scikit_learn(min_texts: int) -> None:
    draw = random.Random(min_texts)
    texts = TEXTS + [" ".join(draw.choices("abcdefghij", k=draw.randrange(30))) for _ in range(200)]
    counted = count_words_and_pairs(texts, WORD, min_texts=min_texts, max_terms=10_000)
    theirs = CountVectorizer(token_pattern=WORD, ngram_range=(1, 2), min_df=min_texts, lowercase=False)
    expected = theirs.fit_transform(texts)
    assert counted.terms == tuple(theirs.get_feature_names_out())
    np.testing.assert_array_equal(counted.counts.toarray(), expected.toarray())
    assert counted.counts.dtype == np.float32
    assert counted.counts.has_sorted_indices


def test_of_many_terms_the_most_frequent_are_kept_and_in_how_many_texts_they_stand_comes_first() -> None:
    counted = count_words_and_pairs(TEXTS, WORD, min_texts=2, max_terms=3)
    assert counted.terms == ("a", "a rose", "rose")
    counted = count_words_and_pairs(["x x x x x", "a b", "a b"], WORD, min_texts=2, max_terms=2)
    assert counted.terms == ("a", "b")  # not x, which stands in one text; before the pair, which is as frequent
    assert counted.counts.toarray().tolist() == [[0, 0], [1, 1], [1, 1]]


@pytest.mark.parametrize("texts", [[], ["", "..."], ["one", "two"]])
def test_nothing_in_common_gives_no_terms(texts: list[str]) -> None:
    counted = count_words_and_pairs(texts, WORD, min_texts=2, max_terms=10)
    assert counted.terms == ()
    assert counted.counts.shape == (len(texts), 0)
