"""Tables 1 and 2: CIFAR-10 with random labels; C is the noise rate, C' the contamination given to RRM."""

from __future__ import annotations

from dataclasses import replace

from rockafellian_reproduction.tables.recipes import Recipe
from rockafellian_reproduction.tables.table import RATE, UPDATES, Scale, Table

_CIFAR = Recipe(
    data="cifar-10",
    network="resnet34",
    epochs=180,
    every=15,
    learning_rate=10 * 128 / 50_000,
    batch_size=128,
    momentum=0.9,
    weight_decay=1e-5,
    augment=True,
    tested_every=15,
)
_CIFAR_FEATURES = replace(
    _CIFAR, network="head", encoder="efficientnet-lite0", image_size=112, components=256, augment=False
)
_CIFAR_NETWORK = replace(
    _CIFAR, network="resnet10", epochs=60, every=5, train_rows=10_000, augment=False, tested_every=5
)
_SCALES: dict[Scale, Recipe] = {"paper": _CIFAR, "features": _CIFAR_FEATURES, "network": _CIFAR_NETWORK}
_MINUTES: dict[Scale, float] = {"paper": 4000, "features": 2.5, "network": 40}
_CIFAR_READINGS = (
    RATE + " Batches of 128 are assumed.",
    "Losses for re-weighting come from a pass without augmentation, in evaluation mode.",
    "MAE and MSE are sums over the classes; GCE has q = 0.7 and is not truncated.",
    UPDATES,
)
_CIFAR_CHOSEN: dict[Scale, str] = {
    "features": "EfficientNet-Lite0 with the weights of ImageNet, frozen, on images of 112 x 112 pixels. The 256 "
    "principal components of its 1,280 features are standardized and go to one hidden layer of 512; with all of them a "
    "cell takes five times as long. No augmentation: features are computed once. Five cells at 30 % were tried with "
    "seed 0 before.",
    "network": "A residual network of 0.3 million parameters, without augmentation, so that it memorizes within an "
    "hour of one core.",
}

TABLE_1 = Table(
    number=1,
    title="CIFAR-10, C' = C",
    axes={"loss": ("cce", "mae", "mse", "gce"), "method": ("ERM", "RRM"), "contamination": (0.1, 0.2, 0.3)},
    scales=_SCALES,
    answers="features",
    measures="last",
    minutes=_MINUTES,
    readings=_CIFAR_READINGS,
    shown=({"ours": "yes"},),
    chosen=_CIFAR_CHOSEN,
)
TABLE_2 = Table(
    number=2,
    title="CIFAR-10, C' above C",
    axes={"loss": ("mse",), "method": ("RRM",), "contamination": (0.1, 0.2, 0.3), "excess": (0.05, 0.1)},
    scales=_SCALES,
    answers="features",
    measures="last",
    minutes=_MINUTES,
    readings=_CIFAR_READINGS,
    chosen=_CIFAR_CHOSEN,
    plain_table=1,
)
