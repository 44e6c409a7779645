"""Data without wrong labels whose outcome is uncertain: what is claimed and removed, and what it costs the model.

make ambiguous     runs everything, resumed where it was, and writes benchmarks/results/ambiguous.json and
                   docs/ambiguous.md: some minutes
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from typing import NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import noise_rate
import pages
import real_tables
import records
import rockafellian as rk
from records import Record

RESULTS, PAGE = records.RESULTS / "ambiguous.json", records.DOCS / "ambiguous.md"
#: Seed 0 was looked at while the least skill of a model was chosen.
SEEDS = (1, 2, 3)
TRAIN, HIDDEN, LEARNING_RATE, EPOCHS, BATCH, CLIP = 0.7, 64, 1e-3, 30, 64, 5.0
ROWS = 6_000
#: How much may be claimed and removed of right labels; and what the model may lose.
MAX_CLAIMED, MAX_REMOVED, MAX_LOG_LOSS, MAX_ACCURACY, MAX_MACRO_F1 = 0.03, 0.05, 0.005, 0.005, 0.01
METHODS: dict[str, Callable[[], rk.RRM] | None] = {
    "plain": None,
    "default": rk.RRM,
    "crisp": lambda: rk.RRM(crisp=True),
}


class Split(NamedTuple):
    """Rows to train and to test on, and the number of classes."""

    x: Tensor
    y: Tensor
    test_x: Tensor
    test_y: Tensor
    n_classes: int


def names() -> list[str]:
    """Return the names of all data sets: real tables, drawn sets, and images for which the model is too weak."""
    drawn = [name for name, (kind, _) in noise_rate.SETS.items() if kind == "ambiguous"]
    return [*real_tables.SETS, *drawn, "CIFAR-10, pixels"]


def load(name: str, seed: int) -> Split:
    """Return a data set, split and, if it is drawn, drawn by the seed."""
    if name in real_tables.SETS:
        x, y, classes = real_tables.SETS[name].load()
        n_classes = len(classes)
    elif name in noise_rate.SETS:
        x, y, n_classes = noise_rate.SETS[name][1](ROWS, np.random.default_rng([seed, 7]))
    else:
        x, y, n_classes = _pixels(seed)
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = np.split(order, [int(TRAIN * len(y))])
    inputs, labels = torch.from_numpy(np.clip(x, -CLIP, CLIP)).float(), torch.tensor(y)
    return Split(inputs[train], labels[train], inputs[test], labels[test], n_classes)


def _pixels(seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
    from rockafellian_reproduction import datasets

    found = datasets.images("cifar-10")
    rows = torch.from_numpy(np.random.default_rng(seed).permutation(len(found.train_y))[:ROWS])
    x = found.train_x[rows].flatten(1).double()
    return ((x - x.mean()) / x.std()).numpy(), found.train_y[rows].numpy(), 10


def run(split: Split, rule: rk.RRM | None, seed: int) -> Record:
    """Return accuracy, log-loss and macro-F1 on the test, and what was claimed and removed in training."""
    torch.manual_seed(seed)
    layers = nn.Linear(split.x.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, split.n_classes)
    model = nn.Sequential(*layers)
    weights = None if rule is None else rk.SampleWeights(len(split.y), rule, seed=seed)
    rk.fit(
        model,
        (split.x, split.y),
        loss="cce",
        optimizer=torch.optim.Adam(model.parameters(), lr=LEARNING_RATE),
        epochs=EPOCHS,
        batch_size=BATCH,
        weights=weights,
        seed=seed,
        progress="quiet",
    )
    found = on_the_test(model, split)
    if weights is not None:
        table = rk.findings(weights)
        found |= {"removed": weights.removed_fraction, "claimed": float(table.is_label_issue.mean())}
        found["of_class"] = max(float(table.removed[table.given == each].mean()) for each in np.unique(table.given))
        assert weights.estimate is not None
        found |= {"floor": list(weights.estimate.floor), "ceiling": list(weights.estimate.ceiling)}
    return found


def on_the_test(model: nn.Module, split: Split) -> Record:
    """Return accuracy, log-loss and macro-F1."""
    from sklearn.metrics import f1_score

    with torch.no_grad():
        logits = model(split.test_x).double()
    predicted = logits.argmax(1)
    return {
        "accuracy": float((predicted == split.test_y).double().mean()),
        "log_loss": float(nn.functional.cross_entropy(logits, split.test_y)),
        "macro_f1": float(f1_score(split.test_y, predicted, average="macro")),
    }


def mean(record: Record, name: str, method: str, measure: str) -> float:
    """Return the mean of a measure over the seeds."""
    return statistics.mean(runs[method][measure] for runs in record["sets"][name].values())


def gain(record: Record, name: str, measure: str, method: str = "default") -> float:
    """Return by how much a measure of a method is above plain training, mean over the seeds."""
    return mean(record, name, method, measure) - mean(record, name, "plain", measure)


def targets(record: Record) -> list[tuple[str, str, str, bool]]:
    """Return each target: what it is about, the target, the figure of the worst data set, and whether it is met."""
    sets = list(record["sets"])

    def worst(value: Callable[[str], float]) -> tuple[float, str]:
        found = {name: value(name) for name in sets}
        name = max(found, key=lambda each: found[each])
        return found[name], name

    rows = []
    for what, limit, (value, name), unit in (
        ("claimed wrong", MAX_CLAIMED, worst(lambda name: mean(record, name, "default", "claimed")), 100),
        ("removed", MAX_REMOVED, worst(lambda name: mean(record, name, "default", "removed")), 100),
        ("log-loss above plain training", MAX_LOG_LOSS, worst(lambda name: gain(record, name, "log_loss")), 1),
        ("accuracy below plain training", MAX_ACCURACY, worst(lambda name: -gain(record, name, "accuracy")), 100),
        ("macro-F1 below plain training", MAX_MACRO_F1, worst(lambda name: -gain(record, name, "macro_f1")), 100),
    ):
        digits = 1 if unit == 100 else 3
        figure = f"{unit * value:.{digits}f} ({name})"
        rows.append((f"right labels: {what}, worst data set", f"{unit * limit:g}", figure, value <= limit))
    return rows


def table(record: Record) -> str:
    """Return a row per data set, in per cent but for the log-loss; means over the seeds."""
    head = ("data set", "classes", "accuracy, plain", "default", "log-loss, plain", "default", "claimed", "removed")
    rows = []
    for name in record["sets"]:
        accuracy = [f"{100 * mean(record, name, method, 'accuracy'):.1f}" for method in ("plain", "default")]
        log_loss = [f"{mean(record, name, method, 'log_loss'):.3f}" for method in ("plain", "default")]
        shares = [f"{100 * mean(record, name, 'default', each):.1f}" for each in ("claimed", "removed", "of_class")]
        crisp = f"{100 * mean(record, name, 'crisp', 'removed'):.1f}"
        rows.append((name, str(record["classes"][name]), *accuracy, *log_loss, *shares, crisp))
    return pages.table((*head, "most of a class", "removed if crisp"), rows)


def render(record: Record) -> str:
    """Return the page."""
    goals = [(what, target, figure, pages.met(reached)) for what, target, figure, reached in targets(record)]
    sources = sorted({f"{each.archive.package} {each.archive.version}" for each in real_tables.SETS.values()})
    return pages.page(
        "Right labels, uncertain outcomes",
        "benchmarks/ambiguous.py from benchmarks/results/ambiguous.json",
        "Ratings, credit, weather, happiness: in most tables the columns do not determine the outcome. A model then "
        "disagrees with many labels although all of them are right. `RRM()` must not call them mislabeled, and must "
        "not cost the model anything.",
        pages.table(("what", "target", "measured", "met"), goals),
        "Per cent, but for the log-loss; means over the seeds. The last column is what `RRM(crisp=True)` removes, "
        "which takes every row to have one right answer: do not use it on such data.",
        table(record),
        "## How this was measured",
        f"{pages.ran([record], 'scikit-learn')}. An MLP with {HIDDEN} hidden units, Adam with a learning rate of "
        f"{LEARNING_RATE:g}, {EPOCHS} epochs, batches of {BATCH}, {TRAIN:.0%} of the rows to train on, seeds "
        f"{', '.join(map(str, SEEDS))}; seed 0 was looked at when the least skill of a trusted model was chosen. "
        f"The real tables are files in the packages {', '.join(sources)}, whose terms they keep; their outcomes were "
        "measured, recorded or reported, and nobody has mislabeled rows on purpose. That all of these labels are right "
        "is an assumption. The other sets are drawn, as on [Can I trust this number?](noise-rate.md).",
    )


def main() -> None:
    """Run what is missing, record it and write the page."""
    record = records.load(RESULTS) or {"sets": {}, "classes": {}}
    record |= records.about("make ambiguous", "scikit-learn")
    for name in names():
        for seed in SEEDS:
            cell = record["sets"].setdefault(name, {}).setdefault(str(seed), {})
            if len(cell) == len(METHODS):
                continue
            split = load(name, seed)
            record["classes"][name] = split.n_classes
            for method, rule in METHODS.items():
                cell[method] = run(split, None if rule is None else rule(), seed)
            records.save(RESULTS, record)
            print(name, seed, {method: round(found.get("removed", 0), 3) for method, found in cell.items()}, flush=True)
    PAGE.write_text(render(record), encoding="utf-8")


if __name__ == "__main__":
    main()
