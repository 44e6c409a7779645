"""The noise rate estimated on data whose errors are known, ambiguous data and weak models among them.

make noise-rate     runs everything and writes benchmarks/results/noise-rate.json and docs/noise-rate.md: some minutes
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from numpy.typing import NDArray

import pages
import records
import rockafellian as rk
from records import Record
from rockafellian import contamination

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULTS, PAGE = records.RESULTS / "noise-rate.json", records.DOCS / "noise-rate.md"
PICTURE = PAGE.with_suffix(".png")
ROWS = (1_000, 2_000, 6_000)
RATES = (0.0, 0.1, 0.3, 0.5)
MAX_RATE_OF_FEW = 0.4  # of two and three classes
#: The constants of the estimate were chosen on other draws of the same families.
SEEDS = (3, 4, 5)
FOLDS = 5
#: Of clean labels, what may be claimed; and how far the floor may be off from 2,000 rows on.
MAX_CLAIMED, MAX_MEAN_ERROR, MAX_ERROR, MIN_COVERAGE = 0.03, 0.03, 0.08, 0.85


class Drawn(NamedTuple):
    """Rows with their labels as nature gives them, and the number of classes."""

    x: NDArray[np.float64]
    y: NDArray[np.int64]
    n_classes: int


Draw = Callable[[int, np.random.Generator], Drawn]


def separated(n_classes: int) -> Draw:
    """Return classes that hardly overlap: every row has one right answer."""

    def draw(n: int, random: np.random.Generator) -> Drawn:
        centers, y = 2 * random.normal(size=(n_classes, 20)), random.integers(n_classes, size=n)
        return Drawn(centers[y] + random.normal(size=(n, 20)), y, n_classes)

    return draw


def overlapping(bayes_error: float) -> Draw:
    """Return two overlapping normal classes."""
    distance = -2 * statistics.NormalDist().inv_cdf(bayes_error)

    def draw(n: int, random: np.random.Generator) -> Drawn:
        y = random.integers(2, size=n)
        x = random.normal(size=(n, 5))
        x[:, 0] += distance * y
        return Drawn(x, y, 2)

    return draw


def ordered(n_classes: int) -> Draw:
    """Return a rating: classes in an order, by a hidden number with noise."""

    def draw(n: int, random: np.random.Generator) -> Drawn:
        x = random.normal(size=(n, 4))
        hidden = x[:, 0] + 0.7 * x[:, 1] + random.normal(size=n)
        return Drawn(x, np.digitize(hidden, np.quantile(hidden, np.arange(1, n_classes) / n_classes)), n_classes)

    return draw


def by_chance(n_classes: int, scale: float) -> Draw:
    """Return labels drawn from a softmax of the inputs: outcomes that nobody can know."""

    def draw(n: int, random: np.random.Generator) -> Drawn:
        x = random.normal(size=(n, 10))
        logits = x @ (scale * random.normal(size=(10, n_classes)))
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        return Drawn(x, (p.cumsum(1) > random.random((n, 1))).argmax(1), n_classes)

    return draw


SETS: dict[str, tuple[str, Draw]] = {
    "2 classes, separated": ("crisp", separated(2)),
    "3 classes, separated": ("crisp", separated(3)),
    "10 classes, separated": ("crisp", separated(10)),
    "100 classes, separated": ("crisp", separated(100)),
    "2 classes, Bayes error 10 %": ("ambiguous", overlapping(0.1)),
    "2 classes, Bayes error 30 %": ("ambiguous", overlapping(0.3)),
    "rating of 3 classes": ("ambiguous", ordered(3)),
    "rating of 5 classes": ("ambiguous", ordered(5)),
    "3 classes by chance": ("ambiguous", by_chance(3, 0.7)),
    "4 classes by chance": ("ambiguous", by_chance(4, 0.7)),
    "10 classes by chance, often right": ("ambiguous", by_chance(10, 1.2)),
    "10 classes by chance, often wrong": ("ambiguous", by_chance(10, 0.5)),
    "30 classes by chance": ("ambiguous", by_chance(30, 0.7)),
}


def out_of_sample(x: NDArray[np.float64], labels: NDArray[np.int64], n_classes: int, seed: int) -> NDArray[np.float64]:
    """Return probabilities (rows, classes) by five-fold cross-validation of a logistic regression."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import KFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    found = np.zeros((len(labels), n_classes))
    for train, test in KFold(FOLDS, shuffle=True, random_state=seed).split(x):
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200)).fit(x[train], labels[train])
        found[np.ix_(test, model.classes_)] = model.predict_proba(x[test])
    return found


def cells(seed: int) -> Iterator[Record]:
    """Yield what is estimated on each data set, size and rate of uniform noise."""
    for number, (name, (kind, draw)) in enumerate(SETS.items()):
        for n in ROWS:
            drawn = draw(n, np.random.default_rng([seed, n, number]))
            if n < 20 * drawn.n_classes:
                continue
            for rate in RATES:
                rate = min(rate, MAX_RATE_OF_FEW) if drawn.n_classes <= 3 else rate
                noisy = contamination.uniform(drawn.y, rate, n_classes=drawn.n_classes, seed=seed)
                labels = np.asarray(noisy.labels)
                p = out_of_sample(drawn.x, labels, drawn.n_classes, seed)
                found = rk.estimate_noise_rate(p, labels)
                yield {
                    "set": name,
                    "kind": kind,
                    "rows": n,
                    "seed": seed,
                    "rate": float(np.asarray(noisy.mask).mean()),
                    "disagree": float((p.argmax(1) != labels).mean()),
                    "floor": [round(each, 4) for each in found.floor],
                    "ceiling": [round(each, 4) for each in found.ceiling],
                }


#: What the picture shows: a data set and the rate of uniform noise for each case.
CASES = {
    "dirty: 10 separated classes, 30 % noise": (separated(10), 0.3),
    "ambiguous: a clean rating of 5 classes": (ordered(5), 0.0),
    "a weak model: 2 clean classes, Bayes error 45 %": (overlapping(0.45), 0.0),
}
DECILES = 10


def cases(seed: int) -> Record:
    """Return for each case of the picture the fraction of labels that the model contradicts, by its confidence."""
    found: Record = {}
    for name, (draw, rate) in CASES.items():
        drawn = draw(ROWS[-1], np.random.default_rng(seed))
        labels = np.asarray(contamination.uniform(drawn.y, rate, n_classes=drawn.n_classes, seed=seed).labels)
        p = out_of_sample(drawn.x, labels, drawn.n_classes, seed)
        order = np.argsort(-p.max(1), kind="stable")
        disagree = [float(part.mean()) for part in np.array_split((p.argmax(1) != labels)[order], DECILES)]
        estimate = rk.estimate_noise_rate(p, labels)
        found[name] = {"disagree": disagree, "verdict": estimate.verdict}
    return found


def draw_cases(found: Record) -> Figure:
    """Return a picture of the cases, side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3), layout="constrained")
    for axes, (name, case) in zip(figure.subplots(1, len(found), sharey=True), found.items(), strict=True):
        axes.bar(np.arange(1, DECILES + 1), 100 * np.array(case["disagree"]), color="#4477aa")
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("tenths of the rows, the most confident first", fontsize=8)
    figure.axes[0].set_ylabel("contradicted labels, %", fontsize=8)
    return figure


def errors_of(found: list[Record]) -> list[float]:
    """Return how far the floor is from the true rate."""
    return [cell["floor"][0] - cell["rate"] for cell in found]


def coverage(found: list[Record]) -> float:
    """Return how often the interval of the floor holds the true rate."""
    return statistics.mean(cell["floor"][1] <= cell["rate"] <= cell["floor"][2] for cell in found)


def targets(found: list[Record]) -> list[tuple[str, str, str, bool]]:
    """Return each target: what it is about, the target, the figure, and whether it is met."""
    clean = [cell for cell in found if cell["rate"] == 0]
    large = [cell for cell in found if cell["rows"] >= 2_000]
    claimed = max(cell["floor"][1] for cell in clean)
    mean = statistics.mean(map(abs, errors_of(found)))
    far = max(map(abs, errors_of(large)))
    held = coverage(found)
    narrow = sum(cell["floor"][1] == cell["floor"][2] for cell in found)
    return [
        (
            "clean labels: largest fraction removed by default",
            f"{MAX_CLAIMED:.0%}",
            f"{claimed:.1%}",
            claimed <= MAX_CLAIMED,
        ),
        ("floor: mean distance from the true rate, points", "3", f"{100 * mean:.1f}", mean <= MAX_MEAN_ERROR),
        ("the same, largest from 2,000 rows on, points", "8", f"{100 * far:.1f}", far <= MAX_ERROR),
        (
            "90 % intervals of the floor that hold the true rate",
            f"{MIN_COVERAGE:.0%}",
            f"{held:.1%}",
            held >= MIN_COVERAGE,
        ),
        ("intervals of no width", "0", str(narrow), narrow == 0),
    ]


INTRODUCTION = """`RRM()`, `estimate_noise_rate` and `rockafellian audit` answer with two numbers:

- the **floor**: errors that nothing but a wrong label explains;
- the **ceiling**: what the noise rate is if every row has one right answer, so that confusions are errors too.

A label drawn from an ambiguous row and a label that a person got wrong look the same to any model. Which of the two
ends applies is something that you know and the data do not.

| your data | what to do |
|---|---|
| every row has one right answer: digits, species, products, topics | `RRM(crisp=True)`, `--crisp`: up to the ceiling |
| the outcome is uncertain: ratings, churn, credit, weather | `RRM()`, `--ambiguous`: only what the floor is sure of |
| you do not know | leave the default, and look at both ends |

`rockafellian audit` takes images and texts for crisp and tables for ambiguous, and says so. With a weak
network it flags no image or text all the same ([when](audit.md#can-this-be-trusted)).

| what you see | what it means |
|---|---|
| floor and ceiling close together | **dirty**: labels are wrong at random, at about this rate |
| a floor near 0, a high ceiling | **ambiguous**, or similar classes are confused: a person must look at rows |
| a high ceiling, low accuracy on held-out rows | **a weak model** knows too little to judge; let a person check rows |
| wide intervals, or a lower end of 0 | too few rows, or too weak a model, to tell: by default nothing is removed |

Random errors are everywhere, also where the model is confident. Ambiguity fades with confidence. A weak model is
confident nowhere:"""


def render(record: Record) -> str:
    """Return the page."""
    found = record["cells"]
    head = ("data set", "kind", "floor of clean labels", "ceiling of clean labels", "disagree", "floor off by", "held")
    rows = []
    for name, (kind, _) in SETS.items():
        own = [cell for cell in found if cell["set"] == name]
        clean = [cell for cell in own if cell["rate"] == 0]
        rows.append(
            (
                name,
                kind,
                pages.spread(cell["floor"][0] for cell in clean),
                pages.spread(cell["ceiling"][0] for cell in clean),
                pages.spread(cell["disagree"] for cell in clean),
                f"{100 * statistics.mean(map(abs, errors_of(own))):.1f}",
                f"{coverage(own):.0%}",
            )
        )
    goals = [(what, target, figure, pages.met(reached)) for what, target, figure, reached in targets(found)]
    return pages.page(
        "Can I trust this number?",
        "benchmarks/noise_rate.py from benchmarks/results/noise-rate.json",
        INTRODUCTION,
        "![Contradicted labels by confidence, in three cases](noise-rate.png)",
        pages.table(
            ("case", "what `estimate_noise_rate` says"), [(k, c["verdict"]) for k, c in record["cases"].items()]
        ),
        "## How well it works",
        pages.table(("what", "target", "measured", "met"), goals),
        "Per cent; clean labels first, then over uniform noise of 0 to 50 % (40 % for two and three classes) and "
        "1,000 to 6,000 rows: how far the floor is from the true rate, and how often its interval holds it. The "
        "ceiling of ambiguous data is what an estimate without a floor would claim.",
        pages.table(head, rows),
        "## How this was measured",
        f"{pages.ran([record], 'scikit-learn')}. Logistic regression, five folds, out of sample; seeds "
        f"{', '.join(map(str, SEEDS))}. The constants of the estimate were chosen on other draws of the same families. "
        "All sets are drawn; real tables stand in [right labels, uncertain outcomes](ambiguous.md), human errors in "
        "[rivals](rivals.md), with `crisp=True`. Labels near the border of two classes that are wrong towards the "
        "other one look like ambiguity: neither end shows all of them.",
    )


def main() -> None:
    """Run everything, record it and write the page."""
    found = [cell for seed in SEEDS for cell in cells(seed)]
    record = records.about("make noise-rate", "scikit-learn") | {"cells": found, "cases": cases(SEEDS[0])}
    records.save(RESULTS, record)
    draw_cases(record["cases"]).savefig(PICTURE, dpi=80)
    PAGE.write_text(render(record), encoding="utf-8")
    for line in targets(found):
        print(*line)


if __name__ == "__main__":
    main()
