"""The tables of the page, each from a summary of the records."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from pages import spread, table
from rivals.data import DATA
from rivals.methods import AUTO, EVERYWHERE
from rivals.summary import Key, Summary
from rivals.targets import WITHIN

#: Methods that train differently: the accuracy of `aum` is that of `ce`.
OTHERS = ("mse", "mae", "gce", "elr", "coteaching", "cleanlab", "neighbors", "self-confidence")
TRAINED, RANKING = ("ce", *OTHERS, *AUTO, "rrm-default"), ("aum", *OTHERS, *AUTO, "rrm-default")
FLAGGING = TRAINED
GIVEN = ("ce", "rrm", "rrm-per-class", "rrm-true")


def by_cell(
    found: Summary, keys: Sequence[Key], methods: Sequence[str], measure: str, mark: Callable[[Key], bool] | None = None
) -> str:
    """Return mean and deviation in per cent by cell; the best are bold, and cells that `mark` selects have a star."""
    rows = []
    for key in keys:
        best = found.best(key, measure, methods)[1]
        star = " *" if mark is not None and mark(key) else ""
        rows.append([" ".join(key) + star, *(_figure(found, key, method, measure, best) for method in methods)])
    return table(["cell", *methods], rows)


def averages(found: Summary) -> str:
    """Return the means of every method over all cells: accuracy, detection, noise rate and cost."""
    rows = [
        [
            method,
            _percent(found.means(found.cells, method, "accuracy")),
            _percent([found.best(key, "accuracy")[1] - value <= WITHIN for key, value in _accuracies(found, method)]),
            *(_percent(found.means(found.noisy_cells, method, name)) for name in ("auprc", "auroc", "f1")),
            _percent(found.means(found.noisy_cells, method, "missed_at_true_rate")),
            _percent(found.rate_errors(found.cells, method)),
            f"{statistics.mean(found.costs(found.cells, method)):.2f}",
        ]
        for method in EVERYWHERE
    ]
    head = ["method", "accuracy", "cells near the best rival", "AUPRC", "AUROC", "F1", "missed", "noise rate off by"]
    return table([*head, "cost"], rows)


def rates(found: Summary) -> str:
    """Return true and estimated noise rates: floor, ceiling and its interval by `rrm`, and what others say."""
    rows = []
    for key in found.cells:
        low, high = (found.mean(key, "rrm", f"rate_{end}") for end in ("low", "high"))
        inside = [
            found_low <= run["about"]["true_rate"] <= found_high
            for run in found.runs[key]
            if (found_low := run["methods"]["rrm"]["rate_low"]) is not None
            and (found_high := run["methods"]["rrm"]["rate_high"]) is not None
        ]
        interval = "-" if low is None or high is None else f"{100 * low:.1f} to {100 * high:.1f}"
        estimates = [spread(found.values(key, method, "rate")) for method in ("rrm", found.chosen, "cleanlab")]
        covered = f"{sum(inside)} of {len(inside)}" if inside else "-"
        true, floor = f"{100 * found.true_rate(key):.1f}", spread(found.values(key, "rrm", "floor"))
        rows.append([" ".join(key), true, floor, estimates[0], interval, covered, *estimates[1:]])
    head = ["cell", "true", "floor", "ceiling (rrm)", "90 % interval", "contains the true rate", found.chosen]
    return table([*head, "cleanlab"], rows)


def costs(found: Summary) -> str:
    """Return the seconds of plain training by data set, and the other methods in units of them."""
    rows = []
    for data in DATA:
        keys = [key for key in found.cells if key[0] == data]
        if keys:
            seconds = statistics.mean(found.means(keys, "ce", "cpu_seconds"))
            others = (statistics.mean(found.costs(keys, method)) for method in EVERYWHERE[1:])
            rows.append([data, f"{seconds:.2f} s", *(f"{value:.2f}" for value in others)])
    return table(["data", *EVERYWHERE], rows)


def weak(found: Summary) -> str:
    """Return what happens where the network itself is often wrong."""
    rows = [
        [
            key[1],
            f"{100 * found.true_rate(key):.1f}",
            method,
            *(spread(found.values(key, method, name)) for name in ("accuracy", "rate", "flagged")),
        ]
        for key in found.runs
        if key[0] == "pixels"
        for method in DATA["pixels"].methods or ()
        if found.values(key, method, "accuracy")
    ]
    return table(["noise", "true noise rate", "method", "accuracy", "estimated noise rate", "flagged"], rows)


def rare(found: Summary) -> str:
    """Return what happens to a rare class: what is flagged and mislabeled, by given class."""
    keys = [key for key in found.runs if key[0] == "rare"]
    rows = [
        [
            method,
            spread(found.values(key, method, "test_auprc")),
            *(
                spread([each[label] for each in found.values(key, method, name)])
                for label in (1, 0)
                for name in ("flagged_by_class", "wrong_by_class", "right_flagged_by_class")
            ),
        ]
        for key in keys
        for method in DATA["rare"].methods or ()
        if found.values(key, method, "test_auprc")
    ]
    parts = ("flagged", "mislabeled", "flagged of the right ones")
    return table(["method", "AUPRC", *(f"{name}: {part}" for name in ("rare", "others") for part in parts)], rows)


def _accuracies(found: Summary, method: str) -> list[tuple[Key, float]]:
    return [(key, value) for key in found.cells if (value := found.mean(key, method, "accuracy")) is not None]


def _figure(found: Summary, key: Key, method: str, measure: str, best: float) -> str:
    text = spread(found.values(key, method, measure))
    return f"**{text}**" if found.mean(key, method, measure) == best else text


def _percent(values: Sequence[float]) -> str:
    return f"{100 * statistics.mean(values):.1f}" if values else "-"
