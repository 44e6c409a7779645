"""The data and the network of a recipe: rows chosen and preprocessed as in the paper, and mislabeled by seed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from rockafellian import contamination
from rockafellian.contamination import Noisy
from rockafellian_reproduction import datasets, networks
from rockafellian_reproduction.data.words import tokens
from rockafellian_reproduction.networks import efficientnet, encoders, resnet50
from rockafellian_reproduction.networks.features import cached, principal_components
from rockafellian_reproduction.tables.kernel import KERNEL
from rockafellian_reproduction.tables.recipes import Recipe

#: Instead of tissue: dogs are the positives, cats, deer and horses of CIFAR-10 the negatives.
POSITIVE, NEGATIVES = 5, (3, 4, 7)
#: How many true positives and negatives the tissue set has (appendix).
TISSUE_ROWS = {"train": (789, 5523), "test": (718, 781)}


class Problem(NamedTuple):
    """What a cell is trained and tested on, training and validation with given labels; `wrong` is a mask of rows."""

    train: tuple[Tensor, Tensor]
    wrong: Tensor
    valid: tuple[Tensor, Tensor] | None
    test: tuple[Tensor, Tensor]
    n_classes: int
    network: Callable[[], nn.Module]


class Clean(NamedTuple):
    """Rows with their true labels."""

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    network: Callable[[], nn.Module]


def make(recipe: Recipe, noise_rate: float, seed: int, folder: Path | None = None) -> Problem:
    """Return the problem of a cell at a noise rate; `folder` contains the data if the cache does not."""
    clean = SOURCES[recipe.data](recipe, seed, folder)
    (x, y), test = clean.train, clean.test
    n_classes = int(torch.cat([y, test[1]]).max()) + 1
    n_valid = round((recipe.valid_share or 0) * len(y))
    noisy = [_mislabel(part, noise_rate, recipe.noise, n_classes, seed) for part in (y[n_valid:], y[:n_valid])]
    labels, valid_labels = (_as_targets(part.labels, recipe) for part in noisy)
    return Problem(
        train=(x[n_valid:], labels),
        wrong=noisy[0].mask,
        valid=(x[:n_valid], valid_labels) if n_valid else None,
        test=(test[0], _as_targets(test[1], recipe)),
        n_classes=n_classes,
        network=clean.network,
    )


def _mislabel(labels: Tensor, noise_rate: float, noise: str, n_classes: int, seed: int) -> Noisy:
    if noise_rate == 0 or len(labels) == 0:
        return Noisy(labels, torch.zeros(len(labels), dtype=torch.bool))
    if noise == "kernel":
        return contamination.transition(labels, KERNEL, noise_rate, seed=seed)
    if noise == "one-sided":
        return contamination.one_sided(labels, noise_rate, seed=seed)
    return contamination.uniform(labels, noise_rate, n_classes=n_classes, seed=seed)


def _as_targets(labels: Tensor, recipe: Recipe) -> Tensor:
    """Return class indices, or the one label six times for the network with six outputs."""
    return labels[:, None].repeat(1, 6).float() if recipe.network == "comments" else labels


def _draw(n: int, wanted: int | None, seed: int) -> Tensor:
    """Return the indices of so many rows, in random order; an error if there are fewer."""
    if wanted is not None and wanted > n:
        raise ValueError(f"need {wanted:,} rows, got a data set of {n:,}; lower the number or add data")
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed))[:wanted]


def _images(recipe: Recipe, seed: int, folder: Path | None) -> Clean:
    """Return images in an order by seed; MNIST standardized, CIFAR-10 minus the mean image."""
    found = datasets.images(recipe.data, folder)
    rows = _draw(len(found.train_y), recipe.train_rows, seed)
    if recipe.encoder is not None:
        return _encoded_images(recipe, found, rows)
    first = slice(recipe.test_rows)
    x, test_x = (_channels_first(part) for part in (found.train_x[rows], found.test_x[first]))
    if recipe.data.startswith("cifar"):
        mean = x.mean(0)
        x, test_x = ((part - mean) / 255 for part in (x, test_x))
    else:
        deviation, middle = torch.std_mean(_channels_first(found.train_x))
        x, test_x = ((part - middle) / deviation for part in (x, test_x))
    return Clean((x, found.train_y[rows]), (test_x, found.test_y[first]), lambda: _image_network(recipe))


def _encoded_images(recipe: Recipe, found: datasets.Images, rows: Tensor) -> Clean:
    """Return images as standardized features of a frozen EfficientNet-Lite0, computed once for all seeds."""
    assert recipe.image_size is not None
    size, n = recipe.image_size, len(found.train_y)

    def compute() -> Tensor:
        return efficientnet.features(efficientnet.load(), torch.cat([found.train_x, found.test_x]), size)

    name = f"{recipe.data}-{recipe.encoder}-{size}"
    vectors = cached(name, compute)
    if (k := recipe.components) is not None:
        vectors = cached(f"{name}-components-{k}", lambda: principal_components(vectors, k, n))
    deviation, mean = torch.std_mean(vectors[:n])
    x, test_x = ((part - mean) / deviation for part in (vectors[rows], vectors[n:][: recipe.test_rows]))
    return Clean(
        (x, found.train_y[rows]),
        (test_x, found.test_y[: recipe.test_rows]),
        lambda: networks.head(vectors.shape[1], int(found.train_y.max()) + 1),
    )


def _channels_first(images: Tensor) -> Tensor:
    return images[:, None].float() if images.ndim == 3 else images.permute(0, 3, 1, 2).float()


def _image_network(recipe: Recipe) -> nn.Module:
    kinds: dict[str, Callable[[], nn.Module]] = {
        "mnist3": networks.mnist3,
        "mnist10": networks.mnist10,
        "mnist10-valid": networks.mnist10_valid,
    }
    if recipe.network in kinds:
        network = kinds[recipe.network]()
        return networks.like_torch(network) if recipe.start == "torch" else network
    network = networks.cifar_resnet(int(recipe.network.removeprefix("resnet")))
    return nn.Sequential(networks.Augment(), network) if recipe.augment else network


def _comments(recipe: Recipe, seed: int, folder: Path | None) -> Clean:
    """Return comments as indices of words, one in five for the test; positives reduced to the prevalence."""
    assert recipe.tokens is not None
    texts, labels = datasets.comments(folder)
    toxic = labels if labels.ndim == 1 else labels.amax(1)
    order = _draw(len(texts), None, seed)
    wanted = recipe.train_rows or len(texts)
    n_positive = round((recipe.prevalence or float(toxic.float().mean())) * wanted)
    chosen = torch.cat(
        [
            part[:n]
            for part, n in ((order[toxic[order] == 1], n_positive), (order[toxic[order] == 0], wanted - n_positive))
        ]
    )
    chosen = chosen[_draw(len(chosen), None, seed)]
    vectors = datasets.word_vectors()
    ids = torch.zeros(len(chosen), recipe.tokens, dtype=torch.int64)
    for row, number in enumerate(chosen.tolist()):
        known = vectors.rows(tokens(texts[number])[: recipe.tokens])
        ids[row, : len(known)] = torch.tensor(known, dtype=torch.int64)
    cut = len(chosen) * 4 // 5
    train, test = ((ids[part], toxic[chosen[part]].long()) for part in (slice(cut), slice(cut, None)))
    return Clean(train, test, lambda: networks.comments(vectors.table))


def _reviews(recipe: Recipe, seed: int, folder: Path | None) -> Clean:
    """Return reviews as vectors of a frozen encoder, or as token ids: in the official split, or some, split by seed."""
    assert recipe.encoder is not None
    assert recipe.tokens is not None
    encoder, length = datasets.encoder_folder(recipe.encoder), recipe.tokens
    found = datasets.reviews(folder)
    pool, name, train, test = _split_reviews(recipe, len(found.train), len(found.test), seed)
    labels = torch.cat([found.train_y, found.test_y])[pool]
    texts = [*found.train, *found.test]
    texts = [texts[row] for row in pool.tolist()]
    if recipe.network == "lora":
        ids = encoders.token_ids(encoder, texts, length)
        return Clean((ids[train], labels[train]), (ids[test], labels[test]), lambda: encoders.lora(encoder))

    def compute() -> Tensor:
        return encoders.embed(encoder, texts, length, dtype=encoders.fast_dtype())

    vectors = cached(f"imdb-{name}-{recipe.encoder}-{length}", compute)
    dimensions = vectors.shape[1]
    return Clean(
        (vectors[train], labels[train]), (vectors[test], labels[test]), lambda: networks.linear_head(dimensions)
    )


def _split_reviews(recipe: Recipe, n_train: int, n_test: int, seed: int) -> tuple[Tensor, str, Tensor, Tensor]:
    """Return the reviews that take part, a name for these, and which of them are for training and for testing."""
    if recipe.train_rows is None and recipe.test_rows is None:
        official = torch.arange(n_train + n_test)
        return official, "official", _draw(n_train, None, seed), official[n_train:]
    wanted, tested = recipe.train_rows or n_train, recipe.test_rows or n_test
    pool = _draw(n_train + n_test, wanted + tested, seed=0)  # a fixed selection, so that it is encoded once
    order = _draw(len(pool), None, seed)
    return pool, str(len(pool)), order[:wanted], order[wanted:]


def _tissue(recipe: Recipe, seed: int, folder: Path | None) -> Clean:
    """Return tiles of tissue as features of a frozen ResNet-50, with their true labels."""
    found, truth = datasets.images("tissue", folder), datasets.tissue_truth(folder)
    if truth is None:
        raise ValueError("need the true labels of the training tiles; put them into truth.csv beside train/ and test/")
    return _features(recipe, seed, found.train_x, truth, found.test_x, found.test_y)


def _animals(recipe: Recipe, seed: int, folder: Path | None) -> Clean:
    """Return, instead of tissue, dogs among other animals of CIFAR-10, as many as the tissue set has tiles."""
    found = datasets.images("cifar-10", folder)
    parts = []
    for x, y in ((found.train_x, found.train_y), (found.test_x, found.test_y)):
        kept = torch.isin(y, torch.tensor([POSITIVE, *NEGATIVES]))
        parts += [x[kept], (y[kept] == POSITIVE).long()]
    return _features(recipe, seed, *parts)


def _features(recipe: Recipe, seed: int, train_x: Tensor, train_y: Tensor, test_x: Tensor, test_y: Tensor) -> Clean:
    assert recipe.encoder is not None
    encoder, size = datasets.encoder_folder(recipe.encoder), recipe.image_size

    def compute() -> Tensor:
        return resnet50.features(resnet50.load(encoder), torch.cat([train_x, test_x]), size)

    vectors = cached(f"{recipe.data}-{recipe.encoder}-{size}", compute)
    scale = vectors[: len(train_y)].std()
    train_part, test_part = vectors[: len(train_y)] / scale, vectors[len(train_y) :] / scale
    train, test = (_balanced(y, *n, seed) for y, n in ((train_y, TISSUE_ROWS["train"]), (test_y, TISSUE_ROWS["test"])))
    return Clean((train_part[train], train_y[train]), (test_part[test], test_y[test]), networks.tissue_head)


def _balanced(labels: Tensor, n_positive: int, n_negative: int, seed: int) -> Tensor:
    """Return the indices of so many rows of either class, shuffled."""
    order = _draw(len(labels), None, seed)
    rows = torch.cat([order[labels[order] == 1][:n_positive], order[labels[order] == 0][:n_negative]])
    return rows[_draw(len(rows), None, seed)]


def _digits(recipe: Recipe, seed: int, folder: Path | None) -> Clean:
    """Return the 1,797 small images that come with scikit-learn: nothing to fetch."""
    x, y = load_digits(return_X_y=True)
    order = _draw(len(y), None, seed)
    pixels, labels = torch.from_numpy(x).float()[order], torch.from_numpy(y).long()[order]
    deviation, mean = torch.std_mean(pixels)
    pixels, cut = (pixels - mean) / deviation, len(y) * 2 // 3
    return Clean(
        (pixels[:cut], labels[:cut]), (pixels[cut:], labels[cut:]), lambda: networks.linear_head(pixels.shape[1], 10)
    )


SOURCES: dict[str, Callable[[Recipe, int, Path | None], Clean]] = {
    **dict.fromkeys(("mnist-3", "mnist-10", "fashion-mnist", "cifar-10"), _images),
    "toxic": _comments,
    "imdb": _reviews,
    "tissue": _tissue,
    "animals": _animals,
    "digits": _digits,
}
