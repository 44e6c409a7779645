"""`rockafellian demo`: plain training and RRM on scikit-learn's digits with 40 % label noise, and a report."""

from __future__ import annotations

import base64
import csv
import json
import sys
from dataclasses import asdict, dataclass
from datetime import date
from html import escape
from importlib.metadata import version
from itertools import count
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from rockafellian._internal.extras import missing
from rockafellian.contamination import Noisy, uniform
from rockafellian.label_issues import findings
from rockafellian.losses import cce
from rockafellian.method.reweight import RRM
from rockafellian.training.charts import plot_images, plot_weights
from rockafellian.training.evaluation import evaluate
from rockafellian.training.fit import fit
from rockafellian.training.history import History
from rockafellian.weights.sample_weights import SampleWeights

try:
    from sklearn.datasets import load_digits
except ImportError as error:
    raise missing("scikit-learn, which brings the digits", "demo") from error


#: Some epochs are needed to estimate the noise rate, and some to use the estimate.
MIN_EPOCHS = 10
N_ISSUES = 20
COLUMNS = {
    "plain": "plain training",
    "rrm": "RRM",
    "estimate": "estimated noise rate",
    "precision": "removed rows that are mislabeled",
    "recall": "mislabeled rows that are removed",
}
PICTURES = {
    "weights.png": "Weights of clean and of mislabeled rows over the epochs: mean, and 5th to 95th percentile",
    "label_issues.png": "The twenty label issues with the lowest margin",
    "history.png": "The training with RRM",
}
STYLE = """
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
td, th { padding: .2rem .8rem; text-align: right } td:first-child, th:first-child { text-align: left }
img { max-width: 100%; background: white }
"""


@dataclass(frozen=True)
class Settings:
    """The settings of the demo. Neither clean labels nor the noise rate are used in training."""

    contamination: float = 0.4
    standardize: bool = True
    train_rows: int = 1400
    hidden: int = 256
    learning_rate: float = 0.05
    momentum: float = 0.9
    batch_size: int = 64
    epochs: int = 40


class Digits(NamedTuple):
    """Images, standardized by mean and deviation of the training rows or scaled to [0, 1], and true labels."""

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor


class Trained(NamedTuple):
    """A trained network, its test accuracy, and the weights of the rows after each epoch if it was RRM."""

    model: nn.Module
    accuracy: float
    history: History
    weights: SampleWeights | None
    values: list[Tensor]


def load(settings: Settings) -> Digits:
    """Return the 1,797 digits of scikit-learn, in a fixed random split."""
    bunch = load_digits()
    x, y = torch.tensor(bunch.data, dtype=torch.float32), torch.tensor(bunch.target)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    train, test = order[: settings.train_rows], order[settings.train_rows :]
    deviation, center = torch.std_mean(x[train])
    x = (x - center) / deviation if settings.standardize else x / 16
    return Digits(x[train], y[train], x[test], y[test])


def train(digits: Digits, noisy: Noisy, settings: Settings, *, seed: int, robust: bool) -> Trained:
    """Train plainly, or with RRM; everything else is equal."""
    torch.manual_seed(seed)
    width = settings.hidden
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
    weights = SampleWeights(len(noisy.labels), RRM(crisp=True)) if robust else None
    values: list[Tensor] = []
    history = fit(
        model,
        (digits.train_x, noisy.labels),
        loss=cce,
        optimizer=torch.optim.SGD(model.parameters(), lr=settings.learning_rate, momentum=settings.momentum),
        epochs=settings.epochs,
        weights=weights,
        batch_size=settings.batch_size,
        wrong=noisy.mask,
        seed=seed,
        progress="auto" if sys.stderr.isatty() else "quiet",
        on_epoch=lambda _: None if weights is None else values.append(weights.values.clone()),
    )
    accuracy = evaluate(model, (digits.test_x, digits.test_y), loss=cce).accuracy
    assert accuracy is not None
    return Trained(model, accuracy, history, weights, values)


def run(parent: Path, *, seeds: int = 3, settings: Settings | None = None) -> Path:
    """Train, print the results, and write them to a new folder, which is marked DONE last; return the folder."""
    settings = settings or Settings()
    if seeds < 1:
        raise ValueError(f"need at least one seed, got {seeds}")
    if settings.epochs < MIN_EPOCHS:
        raise ValueError(
            f"need at least {MIN_EPOCHS} epochs, to estimate the noise rate and use it; got {settings.epochs}"
        )
    torch.set_num_threads(1)  # for a network this small a second thread costs more time than it saves
    digits = load(settings)
    folder = _new_folder(parent)
    rows = [_compare(digits, settings, seed, folder) for seed in range(seeds)]
    summary = _summarize(rows, settings)
    (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    (folder / "report.html").write_text(_page(summary, folder))
    (folder / "DONE").touch()
    print(f"wrote {folder / 'report.html'}")
    print(f"next, review the labels themselves: rockafellian audit {folder / 'digits.npz'}")
    return folder


def _compare(digits: Digits, settings: Settings, seed: int, folder: Path) -> dict[str, float]:
    """Train both ways with one seed, and print and return the figures; the first seed is also drawn."""
    noisy = uniform(digits.train_y, settings.contamination, n_classes=10, seed=seed)
    plain = train(digits, noisy, settings, seed=seed, robust=False)
    robust = train(digits, noisy, settings, seed=seed, robust=True)
    row = _row(seed, plain, robust)
    print(
        "seed {seed}: test accuracy {plain:.1%} by plain training, {rrm:.1%} by RRM; estimated noise rate "
        "{estimate:.1%}; {precision:.1%} of the removed rows are mislabeled, {recall:.1%} of the mislabeled rows "
        "are removed".format(**row)
    )
    if seed == 0:
        _draw(folder, digits, noisy, robust)
    return row


def _summarize(rows: list[dict[str, float]], settings: Settings) -> dict[str, Any]:
    several = len(rows) > 1
    return {
        "command": f"rockafellian demo --seeds {len(rows)} --epochs {settings.epochs}",
        "date": date.today().isoformat(),
        "versions": {name: version(name) for name in ("rockafellian", "torch", "numpy", "scikit-learn")},
        "settings": asdict(settings),
        "seeds": rows,
        "mean": {name: mean(row[name] for row in rows) for name in COLUMNS},
        "deviation": {name: stdev(row[name] for row in rows) if several else None for name in COLUMNS},
    }


def _row(seed: int, plain: Trained, robust: Trained) -> dict[str, float]:
    last = robust.history.rounds[-1]
    assert robust.weights is not None
    assert robust.weights.estimate is not None
    return {
        "seed": seed,
        "plain": plain.accuracy,
        "rrm": robust.accuracy,
        "estimate": robust.weights.estimate.ceiling.rate,
        "precision": last.precision or 0.0,
        "recall": last.recall or 0.0,
    }


def _draw(folder: Path, digits: Digits, noisy: Noisy, trained: Trained) -> None:
    trained.history.plot(folder / "history.png")
    epochs = range(1, len(trained.values) + 1)
    plot_weights(trained.values, noisy.mask, epochs).savefig(folder / "weights.png", dpi=120)
    _write_issues(folder, digits, noisy, trained)
    np.savez(folder / "digits.npz", X=digits.train_x.reshape(-1, 8, 8).numpy(), y=noisy.labels.numpy())


def _write_issues(folder: Path, digits: Digits, noisy: Noisy, trained: Trained) -> None:
    """The removed rows that contradict their label most, as pictures and as a table with the predicted labels."""
    assert trained.weights is not None
    found = findings(trained.weights).issues.worst(N_ISSUES)
    worst = torch.from_numpy(found.index)
    columns = [worst, noisy.labels[worst], torch.from_numpy(found.predicted), digits.train_y[worst]]
    table = list(zip(*(column.tolist() for column in columns), strict=True))
    titles = [f"row {index}\nlabeled {given}, predicted {predicted}" for index, given, predicted, _ in table]
    plot_images(digits.train_x[worst].reshape(-1, 8, 8), titles).savefig(folder / "label_issues.png", dpi=120)
    with (folder / "label_issues.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("index", "given_label", "predicted_label", "true_label"), *table])


def _new_folder(parent: Path) -> Path:
    folder = next(path for number in count(1) if not (path := parent / f"demo-{number}").exists())
    folder.mkdir(parents=True)
    return folder


def _page(summary: dict[str, Any], folder: Path) -> str:
    """One file that shows the figures and holds the pictures."""
    rows = [*summary["seeds"], {"seed": "mean", **summary["mean"]}]
    lines = [[str(row["seed"]), *(f"{row[name]:.1%}" for name in COLUMNS)] for row in rows]
    table = [_cells("th", ["seed", *COLUMNS.values()]), *(_cells("td", line) for line in lines)]
    figures = [
        f"<h2>{escape(text)}</h2><img alt='{escape(text)}' src='data:image/png;base64,"
        f"{base64.b64encode((folder / name).read_bytes()).decode()}'>"
        for name, text in PICTURES.items()
    ]
    average = summary["mean"]
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>rockafellian: the demo</title>
<style>{STYLE}</style>
<h1>Test accuracy {average["rrm"]:.1%} by RRM, {average["plain"]:.1%} by plain training</h1>
<p>Digits with {summary["settings"]["contamination"]:.0%} label noise. Accuracy on clean test images after
the last epoch; neither training used a clean label or the noise rate.</p>
<table>{"".join(table)}</table>
{"".join(figures)}
<p>{escape(summary["command"])}, {escape(summary["date"])}; {escape(json.dumps(summary["settings"]))}</p>
</html>
"""


def _cells(tag: str, values: list[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(value)}</{tag}>" for value in values) + "</tr>"
