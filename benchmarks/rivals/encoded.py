"""Images and texts as vectors of frozen encoders, computed once and cached."""

from __future__ import annotations

import torch
from torch import Tensor

from rockafellian_reproduction import datasets
from rockafellian_reproduction.networks import efficientnet, encoders
from rockafellian_reproduction.networks.features import cached

REVIEWS, TOKENS = 10_000, 128
TRAIN_IMAGES, TEST_IMAGES, PIXELS = 10_000, 5_000, 112


def reviews() -> tuple[Tensor, Tensor]:
    """Return 10,000 reviews of IMDb, always the same, as MiniLM vectors of their first 128 tokens, and their labels."""
    found = datasets.reviews()
    labels = torch.cat([found.train_y, found.test_y])
    pool = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))[:REVIEWS]

    def compute() -> Tensor:
        texts = [*found.train, *found.test]
        return encoders.embed(datasets.encoder_folder("minilm"), [texts[row] for row in pool.tolist()], TOKENS)

    return cached(f"rivals-imdb-{REVIEWS}-minilm-{TOKENS}", compute), labels[pool]


def pictures() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the first 10,000 training and 5,000 test images of CIFAR-10 as EfficientNet-Lite0 features, and labels."""
    found = datasets.images("cifar-10")
    train_y, test_y = found.train_y[:TRAIN_IMAGES], found.test_y[:TEST_IMAGES]

    def compute() -> Tensor:
        images = torch.cat([found.train_x[:TRAIN_IMAGES], found.test_x[:TEST_IMAGES]])
        return efficientnet.features(efficientnet.load(), images, PIXELS)

    vectors = cached(f"rivals-cifar-{TRAIN_IMAGES + TEST_IMAGES}-lite0-{PIXELS}-scaled", compute)
    return vectors[:TRAIN_IMAGES], train_y, vectors[TRAIN_IMAGES:], test_y
