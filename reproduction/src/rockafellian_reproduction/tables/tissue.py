"""The paragraph on tissue necrosis, which the commands call 10 or `tissue`."""

from __future__ import annotations

from dataclasses import replace

from rockafellian_reproduction.tables.recipes import Recipe
from rockafellian_reproduction.tables.table import PENALTY, RATE, UPDATES, Table

_TISSUE = Recipe(
    data="tissue",
    network="tissue-head",
    encoder="resnet-50",
    image_size=256,
    epochs=600,
    every=10,
    learning_rate=1.0 * 100 / 5050,
    plain_learning_rate=5.0 * 100 / 5050,
    valid_share=0.2,
    noise="one-sided",
    gamma=0.016,
    mu=0.5,
    tested_every=1,
)
TABLE_10 = Table(
    number=10,
    title="Tissue necrosis",
    axes={"method": ("ERM", "RRM"), "contamination": (0.75,)},
    scales={"paper": _TISSUE, "features": replace(_TISSUE, data="animals", image_size=64)},
    answers="features",
    measures="peak",
    minutes={"paper": 15, "features": 10},
    readings=(
        RATE + " Batches of 100 are assumed. eta is 5.0 for ERM and 1.0 for RRM, as printed.",
        "Binary cross-entropy is that of two logits, as the printed number of parameters fits two units.",
        "Validation rows are mislabeled like the others.",
        PENALTY,
        UPDATES,
    ),
    substitutes=("Images of CIFAR-10, dogs among cats, deer and horses, replace the tiles of tissue.",),
)
