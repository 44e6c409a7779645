"""Tables 1 to 9 of the paper and its paragraph on tissue as data: cells, settings, published figures, readings.

A cell is one training; it may give several published figures. Table 5 is made by the runs of Table 4, Table 6 is the
kernel of Table 7 (`rockafellian_reproduction.kernel`), and 10 is the paragraph on tissue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, TypeAlias

from rockafellian_reproduction.figures import PUBLISHED, Figure
from rockafellian_reproduction.recipes import Recipe

Cell: TypeAlias = dict[str, Any]
Scale: TypeAlias = Literal["paper", "small"]


@dataclass(frozen=True)
class Table:
    """One table: what varies between its cells, how they are trained and measured, and how the text was read.

    `minutes` guesses how long a cell takes on one core, at the paper's scale and at the small one; `chosen` says how
    the settings of the small scale were.
    """

    number: int
    title: str
    axes: Mapping[str, tuple[Any, ...]]
    paper: Recipe
    small: Recipe
    measures: Literal["last", "eps", "ranking", "peak"]
    minutes: tuple[float, float]
    readings: tuple[str, ...]
    chosen: str = ""
    substitutes: tuple[str, ...] = ()
    pairs: tuple[str, str] = ("ERM", "RRM")

    @property
    def cells(self) -> list[Cell]:
        """Every training of the table."""
        return [dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values())]

    @property
    def published(self) -> tuple[Figure, ...]:
        """The figures printed in the paper."""
        return PUBLISHED[self.number]

    def recipe(self, scale: Scale) -> Recipe:
        """How its cells are trained at this scale."""
        return self.paper if scale == "paper" else self.small


RATE = "A step sums (1/N + u_i) times the gradients, so on the mean loss the rate is eta * batch / N."
PENALTY = "gamma is that of Algorithm 3, gamma * ||u||_1: rows above c_min + 2 * gamma are removed."
UPDATES = "No re-weighting follows the last round."

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
_CIFAR_SMALL = replace(
    _CIFAR,
    network="resnet8",
    epochs=10,
    every=2,
    batch_size=32,
    train_rows=2000,
    test_rows=2000,
    augment=False,
    spread="kept",
    tested_every=5,
)
_CIFAR_READINGS = (
    RATE + " Batches of 128 are assumed.",
    "Losses for re-weighting come from a pass without augmentation, in evaluation mode.",
    "MAE and MSE are sums over the classes; GCE has q = 0.7 and is not truncated.",
    UPDATES,
)

_ATTACKED = Recipe(
    data="mnist-10",
    network="mnist10",
    epochs=500,
    every=10,
    learning_rate=0.1 * 100 / 48_000,
    valid_share=0.2,
    gamma=2.0,
    mu=0.5,
    eps=1.0,
    losses_from="attacked",
)
_ATTACKED_SMALL = replace(
    _ATTACKED,
    epochs=18,
    every=2,
    learning_rate=0.05,
    train_rows=12_000,
    test_rows=1000,
    gamma=1.0,
    spread="kept",
    start="torch",
)
_ATTACKED_READINGS = (
    RATE,
    PENALTY,
    "Inputs are standardised; eps counts in these units and nothing is clipped.",
    "Validation rows are mislabelled like the others, and attacked like them; figures are those of the best epoch.",
    "The test attack has the sign that the text leaves out. The authors' public code adds each eps to the one before, "
    "so that the rows may stand for 0, 0.1, 0.35, 0.85 and 1.85: given as the summed eps.",
    UPDATES,
)

_ATTACKED_CHOSEN = (
    "Rate, start, gamma and spread come from trials of seed 0 with 20 % wrong labels: with the paper's gamma, and with "
    "TensorFlow's start at any rate tried, networks came to read labels off the attack before many rows were removed; "
    "with all freed weight on one row the training collapsed."
)
_CIFAR_CHOSEN = (
    "Augmentation was left out and the batches made smaller, so that few epochs suffice to memorise wrong labels; one "
    "trial of seed 0, CCE at 30 %, was seen before. Kept rows share the freed weight, for a calm training."
)

_ALL = (
    Table(
        number=1,
        title="CIFAR-10, C' = C",
        axes={"loss": ("cce", "mae", "mse", "gce"), "method": ("ERM", "RRM"), "contamination": (0.1, 0.2, 0.3)},
        paper=_CIFAR,
        small=_CIFAR_SMALL,
        measures="last",
        minutes=(4000, 4),
        readings=_CIFAR_READINGS,
        chosen=_CIFAR_CHOSEN,
    ),
    Table(
        number=2,
        title="CIFAR-10, C' above C",
        axes={"loss": ("mse",), "method": ("RRM",), "contamination": (0.1, 0.2, 0.3), "excess": (0.05, 0.1)},
        paper=_CIFAR,
        small=_CIFAR_SMALL,
        measures="last",
        minutes=(4000, 4),
        readings=_CIFAR_READINGS,
        chosen=_CIFAR_CHOSEN,
    ),
    Table(
        number=3,
        title="MNIST-3",
        axes={
            "loss": ("elr", "cce", "mae", "mse"),
            "method": ("ERM", "RRM"),
            "contamination": (0.55, 0.6, 0.65),
        },
        paper=(
            _mnist3 := Recipe(
                data="mnist-3",
                network="mnist3",
                epochs=100,
                every=10,
                learning_rate=0.1 * 100 / 18_623,
                gamma=0.4,
                mu=0.5,
                tested_every=10,
            )
        ),
        small=replace(_mnist3, epochs=30, every=3, learning_rate=0.1 * 100 / 18_623 * 10, train_rows=6000),
        measures="last",
        minutes=(1, 0.2),
        readings=(
            RATE,
            PENALTY,
            "Inputs are standardised by the mean and the deviation of the training images; batches of 100.",
            "MAE and MSE are sums over the classes: as means over three classes they stay below 2/3, and a threshold "
            "of c_min + 0.8 could remove nothing, against the printed gains.",
            "ELR has beta = 0.7 and lambda = 3, the values its authors use on CIFAR-10. Rows are weighed by their "
            "cross-entropy: with the regulariser, 66 % or more of them were removed in every round of a trial.",
            UPDATES,
        ),
    ),
    Table(
        number=4,
        title="MNIST-10 under attack",
        axes={"method": ("AT", "A-RRM"), "contamination": (0.0, 0.05, 0.1, 0.2, 0.3)},
        paper=_ATTACKED,
        small=_ATTACKED_SMALL,
        measures="eps",
        minutes=(600, 4),
        readings=_ATTACKED_READINGS,
        chosen=_ATTACKED_CHOSEN,
        pairs=("AT", "A-RRM"),
    ),
    Table(
        number=7,
        title="MNIST-10 under attack, labels wrong by the kernel of Table 6",
        axes={"method": ("AT", "A-RRM"), "contamination": (0.0, 0.05, 0.1, 0.2, 0.3)},
        paper=replace(_ATTACKED, noise="kernel"),
        small=replace(_ATTACKED_SMALL, noise="kernel"),
        measures="eps",
        minutes=(600, 4),
        readings=_ATTACKED_READINGS,
        chosen=_ATTACKED_CHOSEN,
        pairs=("AT", "A-RRM"),
    ),
    Table(
        number=8,
        title="Toxic Comments",
        axes={"method": ("ERM", "RRM"), "contamination": (0.01, 0.05, 0.07, 0.1, 0.15, 0.2)},
        paper=(
            _toxic := Recipe(
                data="toxic",
                network="comments",
                epochs=6,
                every=2,
                optimizer="adam",
                learning_rate=1e-3,
                train_rows=148_000,
                prevalence=0.03,
                tokens=200,
                gamma=0.4,
                mu=0.5,
            )
        ),
        small=replace(_toxic, tokens=64),
        measures="ranking",
        minutes=(12, 4),
        readings=(
            "Not said, and assumed: gamma = 0.4 and mu = 0.5 as for IMDb, Adam with rate 0.001 (SGD learned nothing in "
            "six epochs of a trial), batches of 100, 36 filters, the first words of a comment.",
            "The number of rows counts training and test.",
            "Not said: what six output units do with one label. All six learn it, and their mean is the score.",
            "The area on training rows is that with the labels given, each row with its weight.",
            PENALTY,
            UPDATES,
        ),
        chosen="Adam and its rate come from trials of seed 0 on 40,000 comments. All cells were run on those first, "
        "where RRM lay below ERM at 15 % and 20 %.",
        substitutes=(
            "FastText's vectors by spaCy's 20,000 vectors of 300 dimensions.",
            "Kaggle's comments by a file that holds them with 24,783 tweets mixed in, one label a row.",
        ),
    ),
    Table(
        number=9,
        title="IMDb",
        axes={"method": ("ERM", "RRM"), "contamination": (0.25, 0.3, 0.4, 0.45)},
        paper=(
            _imdb := Recipe(
                data="imdb",
                network="lora",
                encoder="distilbert",
                tokens=512,
                epochs=300,
                every=10,
                learning_rate=0.001,
                batch_size=16,
                valid_share=0.2,
                gamma=0.4,
                mu=0.5,
                tested_every=1,
            )
        ),
        small=replace(
            _imdb,
            network="text-head",
            encoder="minilm",
            tokens=64,
            train_rows=6000,
            test_rows=4000,
            epochs=120,
            every=4,
            learning_rate=0.05,
            batch_size=100,
        ),
        measures="peak",
        minutes=(20_000, 3),
        readings=(
            "The rate is that of the mean loss, as PyTorch users write it; batches of 16 are assumed.",
            "Binary cross-entropy is the cross-entropy of two logits.",
            "Validation rows are mislabelled like the others.",
            PENALTY,
            UPDATES,
        ),
        chosen="The rate comes from trials of seed 0 at 25 % and 40 %: at higher ones RRM acted after memorisation.",
        substitutes=("DistilBERT with LoRA by the frozen MiniLM encoder under the head of a DistilBERT classifier.",),
    ),
    Table(
        number=10,
        title="Tissue necrosis",
        axes={"method": ("ERM", "RRM"), "contamination": (0.75,)},
        paper=(
            _tissue := Recipe(
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
        ),
        small=replace(_tissue, data="animals", image_size=64, epochs=120, every=10),
        measures="peak",
        minutes=(15, 5),
        readings=(
            RATE + " Batches of 100 are assumed. eta is 5.0 for ERM and 1.0 for RRM, as printed.",
            "Binary cross-entropy is that of two logits, as the printed number of parameters fits two units.",
            "Validation rows are mislabelled like the others.",
            PENALTY,
            UPDATES,
        ),
        substitutes=("Tiles of tissue by images of CIFAR-10: dogs among cats, deer and horses.",),
    ),
)
TABLES = {table.number: table for table in _ALL}
_digits = Recipe(
    data="digits", network="text-head", epochs=12, every=3, learning_rate=0.1, spread="kept", tested_every=3
)
#: No table of the paper: seconds on data that come with scikit-learn, to see that all works.
TRIAL = Table(
    number=0,
    title="Digits of scikit-learn",
    axes={"method": ("ERM", "RRM"), "contamination": (0.4,)},
    paper=_digits,
    small=_digits,
    measures="last",
    minutes=(0.1, 0.1),
    readings=(),
)
