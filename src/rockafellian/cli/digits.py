"""`rockafellian demo`: scikit-learn's digits with 40 % wrong labels, plain training beside RRM, and a report."""

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


LEAST_EPOCHS = 10
COLUMNS = {
    "plain": "plain training",
    "rrm": "RRM",
    "estimate": "wrong labels, as RRM estimates",
    "precision": "removed rows that are wrong",
    "recall": "wrong rows that are removed",
}


@dataclass(frozen=True)
class Settings:
    """What the demo trains with. No clean label is used before the test, nor is the share of wrong ones told."""

    contamination: float = 0.4
    standardise: bool = True
    train_rows: int = 1400
    hidden: int = 256
    learning_rate: float = 0.05
    momentum: float = 0.9
    batch_size: int = 64
    epochs: int = 40


class Digits(NamedTuple):
    """Images, standardised by the mean and deviation of the training part or scaled to [0, 1], and true labels."""

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor


class Trained(NamedTuple):
    """A network, what became of it, and the weights of the rows after each epoch if they were re-weighted."""

    model: nn.Module
    accuracy: float
    history: History
    weights: SampleWeights | None
    values: list[Tensor]


def load(settings: Settings) -> Digits:
    """The 1,797 digits of scikit-learn, split at random but always in the same way."""
    bunch = load_digits()
    x, y = torch.tensor(bunch.data, dtype=torch.float32), torch.tensor(bunch.target)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    train, test = order[: settings.train_rows], order[settings.train_rows :]
    deviation, centre = torch.std_mean(x[train])
    x = (x - centre) / deviation if settings.standardise else x / 16
    return Digits(x[train], y[train], x[test], y[test])


def train(digits: Digits, noisy: Noisy, settings: Settings, *, seed: int, robust: bool) -> Trained:
    """Plain training, or RRM; equal in all else."""
    torch.manual_seed(seed)
    width = settings.hidden
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
    weights = SampleWeights(len(noisy.labels), RRM()) if robust else None
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
    """Train, print what came out, and write it all to a new folder that is marked DONE last."""
    settings = settings or Settings()
    if seeds < 1:
        raise ValueError(f"need at least one seed, got {seeds}")
    if settings.epochs < LEAST_EPOCHS:
        raise ValueError(
            f"need at least {LEAST_EPOCHS} epochs, to find how many labels are wrong and use it; got {settings.epochs}"
        )
    torch.set_num_threads(1)  # for a network this small a second thread costs more than it brings
    digits = load(settings)
    folder = _new_folder(parent)
    rows = []
    for seed in range(seeds):
        noisy = uniform(digits.train_y, settings.contamination, n_classes=10, seed=seed)
        plain = train(digits, noisy, settings, seed=seed, robust=False)
        robust = train(digits, noisy, settings, seed=seed, robust=True)
        rows.append(_row(seed, plain, robust))
        print(
            "seed {seed}: test accuracy {plain:.1%} by plain training, {rrm:.1%} by RRM, which takes {estimate:.1%} of "
            "the labels for wrong; of the removed rows {precision:.1%} are wrong, of the wrong rows {recall:.1%} are "
            "removed".format(**rows[-1])
        )
        if seed == 0:
            _draw(folder, digits, noisy, robust)
    summary = {
        "command": f"rockafellian demo --seeds {seeds} --epochs {settings.epochs}",
        "date": date.today().isoformat(),
        "versions": {name: version(name) for name in ("rockafellian", "torch", "numpy", "scikit-learn")},
        "settings": asdict(settings),
        "seeds": rows,
        "mean": {name: mean(row[name] for row in rows) for name in COLUMNS},
        "deviation": {name: stdev(row[name] for row in rows) if seeds > 1 else None for name in COLUMNS},
    }
    (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    (folder / "report.html").write_text(_page(summary, folder))
    (folder / "DONE").touch()
    print(f"wrote {folder / 'report.html'}")
    print(f"now review the labels themselves: rockafellian train {folder / 'digits.npz'}")
    return folder


def _row(seed: int, plain: Trained, robust: Trained) -> dict[str, float]:
    last = robust.history.rounds[-1]
    assert robust.weights is not None
    assert robust.weights.estimate is not None
    return {
        "seed": seed,
        "plain": plain.accuracy,
        "rrm": robust.accuracy,
        "estimate": robust.weights.estimate.rate,
        "precision": last.precision or 0.0,
        "recall": last.recall or 0.0,
    }


def _draw(folder: Path, digits: Digits, noisy: Noisy, trained: Trained) -> None:
    trained.history.plot(folder / "history.png")
    epochs = range(1, len(trained.values) + 1)
    plot_weights(trained.values, noisy.mask, epochs).savefig(folder / "weights.png", dpi=120)
    _write_suspects(folder, digits, noisy, trained)
    np.savez(folder / "digits.npz", X=digits.train_x.reshape(-1, 8, 8).numpy(), y=noisy.labels.numpy())


def _write_suspects(folder: Path, digits: Digits, noisy: Noisy, trained: Trained, how_many: int = 20) -> None:
    """The removed rows that it is surest of, as pictures and as a table, with what the network takes them for."""
    assert trained.weights is not None
    worst = findings(trained.weights).issues.worst(how_many)
    surest, suggested = torch.from_numpy(worst.index), torch.from_numpy(worst.predicted)
    columns = [surest, noisy.labels[surest], suggested, digits.train_y[surest]]
    table = list(zip(*(column.tolist() for column in columns), strict=True))
    titles = [f"row {row}\ngiven {given}, looks like {looks}" for row, given, looks, _ in table]
    plot_images(digits.train_x[surest].reshape(-1, 8, 8), titles).savefig(folder / "suspects.png", dpi=120)
    with (folder / "suspects.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("row", "given_label", "suggested_label", "true_label"), *table])


def _new_folder(parent: Path) -> Path:
    folder = next(path for number in count(1) if not (path := parent / f"demo-{number}").exists())
    folder.mkdir(parents=True)
    return folder


def _page(summary: dict[str, Any], folder: Path) -> str:
    """One file that shows the figures and holds the pictures."""

    def cells(tag: str, values: list[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(value)}</{tag}>" for value in values) + "</tr>"

    heads = ["seed", *COLUMNS.values()]
    body = [
        cells("td", [str(row["seed"]), *(f"{row[name]:.1%}" for name in COLUMNS)])
        for row in [*summary["seeds"], {"seed": "mean", **summary["mean"]}]
    ]
    pictures = {
        "weights.png": "Weights of clean and of wrong rows over the epochs: mean, and 5th to 95th percentile",
        "suspects.png": "The twenty rows it is surest are wrong, with the label given and the one it suggests",
        "history.png": "The run with RRM",
    }
    figures = [
        f"<h2>{escape(text)}</h2><img alt='{escape(text)}' src='data:image/png;base64,"
        f"{base64.b64encode((folder / name).read_bytes()).decode()}'>"
        for name, text in pictures.items()
    ]
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>rockafellian: the demo</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 1rem/1.5 system-ui; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
td, th {{ padding: .2rem .8rem; text-align: right }} img {{ max-width: 100%; background: white }}
</style>
<h1>Digits with {summary["settings"]["contamination"]:.0%} wrong labels</h1>
<p>Accuracy on clean test images after the last epoch. Neither training saw a clean label, nor was it told how
many are wrong.</p>
<table>{cells("th", heads)}{"".join(body)}</table>
{"".join(figures)}
<p>{escape(summary["command"])}, {escape(summary["date"])}; {escape(json.dumps(summary["settings"]))}</p>
</html>
"""
