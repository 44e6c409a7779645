"""Plain training and RRM compared on scikit-learn's digits with 40 % label noise, and an audit of these digits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rockafellian._internal.extras import missing
from rockafellian.auditing.commands.audit import Audited
from rockafellian.auditing.commands.run import run
from rockafellian.auditing.data.settings import Settings as AuditSettings
from rockafellian.auditing.report.contents import Banner
from rockafellian.contamination import Noisy, uniform
from rockafellian.losses import cce
from rockafellian.method.reweight import RRM
from rockafellian.training.evaluation import evaluate
from rockafellian.training.fit import fit
from rockafellian.training.history import Epoch, History
from rockafellian.training.progress import Progress, counting
from rockafellian.weights.sample_weights import SampleWeights

try:
    from sklearn.datasets import load_digits
except ImportError as error:
    raise missing("scikit-learn, which brings the digits", "audit") from error


@dataclass(frozen=True)
class Settings:
    """The settings of the comparison. Neither clean labels nor the noise rate are used in training."""

    contamination: float = 0.4
    standardize: bool = True
    train_rows: int = 1400
    hidden: int = 256
    learning_rate: float = 0.05
    momentum: float = 0.9
    batch_size: int = 64
    epochs: int = 40


class Digits(NamedTuple):
    """Inputs, standardized by mean and deviation of the training rows or scaled to [0, 1]; true labels; and images."""

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    train_images: NDArray[np.uint8]  # dark on white


class Compared(NamedTuple):
    """Test accuracies by plain training and by RRM; the noise rate that RRM estimates, and how well it removes rows."""

    seed: int
    plain: float
    rrm: float
    estimate: float
    precision: float  # the fraction of the removed rows that are mislabeled
    recall: float  # the fraction of the mislabeled rows that are removed


def load(settings: Settings) -> Digits:
    """Return the 1,797 digits of scikit-learn, in a fixed random split."""
    bunch = load_digits()
    x, y = torch.tensor(bunch.data, dtype=torch.float32), torch.tensor(bunch.target)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    train, test = order[: settings.train_rows], order[settings.train_rows :]
    images = (255 - 15 * bunch.images[train.numpy()]).astype(np.uint8)
    deviation, center = torch.std_mean(x[train])
    x = (x - center) / deviation if settings.standardize else x / 16
    return Digits(x[train], y[train], x[test], y[test], images)


def mislabel(digits: Digits, settings: Settings, seed: int) -> Noisy:
    """Return the labels of the training rows with synthetic label noise, and which rows it changed."""
    return uniform(digits.train_y, settings.contamination, n_classes=10, seed=seed)


def compare(digits: Digits, settings: Settings, seeds: int, progress: Progress = "auto") -> list[Compared]:
    """Train plainly and with RRM, once for each seed: other mislabeled rows, and another start of the network."""
    torch.set_num_threads(1)  # for a network this small a second thread costs more time than it saves
    done, total = count(1), 2 * seeds * settings.epochs
    with counting(progress, "training plainly and with RRM, epoch") as on_progress:
        return [
            _compare(digits, settings, seed, on_epoch=lambda _: on_progress(next(done), total)) for seed in range(seeds)
        ]


def _compare(digits: Digits, settings: Settings, seed: int, on_epoch: Callable[[Epoch], None]) -> Compared:
    noisy = mislabel(digits, settings, seed)
    weights = SampleWeights(len(noisy.labels), RRM(crisp=True))
    train = partial(_train, digits, noisy, settings, seed=seed, on_epoch=on_epoch)
    plain, _ = train(weights=None)
    rrm, history = train(weights=weights)
    last = history.rounds[-1]
    assert weights.estimate is not None
    return Compared(seed, plain, rrm, weights.estimate.ceiling.rate, last.precision or 0.0, last.recall or 0.0)


def _train(
    digits: Digits,
    noisy: Noisy,
    settings: Settings,
    *,
    weights: SampleWeights | None,
    seed: int,
    on_epoch: Callable[[Epoch], None],
) -> tuple[float, History]:
    """Train, plainly if there are no weights, and otherwise the same; return the accuracy on the test digits."""
    torch.manual_seed(seed)
    width = settings.hidden
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
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
        progress="quiet",
        on_epoch=on_epoch,
    )
    accuracy = evaluate(model, (digits.test_x, digits.test_y), loss=cce).accuracy
    assert accuracy is not None
    return accuracy, history


def run_demo(parent: Path, *, seeds: int, epochs: int) -> tuple[Path, Banner]:
    """Compare, and audit the digits of the first seed; return the folder of the audit's run, and its banner.

    The run and the data that it reads lie in a new folder in `parent`.
    """
    if seeds < 1:
        raise ValueError(f"need at least one seed, got {seeds}")
    options, settings = AuditSettings(epochs=epochs), Settings(epochs=epochs)
    digits = load(settings)
    noisy = mislabel(digits, settings, seed=0)
    folder = _new_folder(parent)
    data, out = folder / "digits.npz", folder / "audit"
    np.savez(data, X=digits.train_images, y=noisy.labels.numpy())
    compared = compare(digits, settings, seeds)
    banner = partial(_banner, compared, digits, noisy)
    try:
        return out, banner(run(data, options, out=out, banner=banner))
    except InterruptedError:  # it says how an audit is resumed, but the demo starts again
        raise KeyboardInterrupt from None


def _banner(compared: list[Compared], digits: Digits, noisy: Noisy, audited: Audited) -> Banner:
    plain, rrm = ([getattr(each, name) for each in compared] for name in ("plain", "rrm"))
    n = len(compared)
    seeds = "one seed" if n == 1 else f"mean of {n} seeds ({_range(plain)} and {_range(rrm)})"
    flagged, wrong = audited.flagged, noisy.mask.numpy()
    text = (
        f"Accuracy on {len(digits.test_y):,} clean test digits after training on {len(wrong):,} digits, "
        f"{wrong.mean():.0%} of them mislabeled; {seeds}. An audit of the first seed follows. It flags "
        f"{flagged.sum():,}, of which {wrong[flagged].sum():,} are mislabeled, and misses {wrong[~flagged].sum():,}."
    )
    return Banner({"plain training": f"{mean(plain):.1%}", "RRM": f"{mean(rrm):.1%}"}, text)


def _range(values: list[float]) -> str:
    return f"{min(values):.1%} to {max(values):.1%}"


def _new_folder(parent: Path) -> Path:
    folder = next(path for number in count(1) if not (path := parent / f"demo-{number}").exists())
    folder.mkdir(parents=True)
    return folder
