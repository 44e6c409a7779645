"""What was promised before the runs, beside what came of it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import NamedTuple

from rivals.data import UNIFORM
from rivals.methods import RIVALS
from rivals.summary import Key, Summary

WITHIN = 0.01  # a point


class Promise(NamedTuple):
    """A row of the table; `met` is None where nothing was promised and a figure is only reported."""

    what: str
    promised: str
    measured: str
    rivals: str
    met: bool | None


def promises(found: Summary) -> list[Promise]:
    """All of them for which there are records."""
    parts = (rates, clean_labels, accuracy, detection, cost, rare)
    return [promise for part in parts for promise in part(found)]


def rates(found: Summary) -> list[Promise]:
    """How far the guessed share of wrong labels is off."""
    kinds: list[tuple[str, list[Key], float | None]] = [
        ("clean labels and uniform noise up to 40 %", found.of_kind(shares=UNIFORM), 0.02),
        ("uniform noise of 60 %", found.of_kind(shares=("uniform-0.6",)), 0.04),
        ("human labels", found.of_kind("human"), 0.05),
        *((f"{kind} noise", found.of_kind(kind), None) for kind in ("kernel", "one-sided", "feature")),
    ]
    return [
        _at_most(
            f"rate: mean absolute error of `{found.chosen}`, {what}",
            statistics.mean(errors),
            limit,
            f"cleanlab {_points(statistics.mean(found.rate_errors(keys, 'cleanlab')))}",
        )
        for what, keys, limit in kinds
        if (errors := found.rate_errors(keys, found.chosen))
    ]


def clean_labels(found: Summary) -> list[Promise]:
    """What it costs to use RRM where nothing is wrong: the worst data set, mean over the seeds."""
    keys, chosen = found.of_kind("none"), found.chosen
    if not keys:
        return []
    removed = {method: max(found.means(keys, method, "flagged")) for method in (chosen, "cleanlab")}
    gains = {method: min(_gains(found, keys, method)) for method in (chosen, "cleanlab")}
    return [
        _at_most(
            f"clean labels: largest share `{chosen}` removes from a data set",
            removed[chosen],
            0.02,
            f"cleanlab {_points(removed['cleanlab'])}",
        ),
        _at_least(
            f"clean labels: accuracy of `{chosen}` minus `ce`, worst data set",
            gains[chosen],
            -0.005,
            f"cleanlab {_points(gains['cleanlab'], sign=True)}",
        ),
    ]


def accuracy(found: Summary) -> list[Promise]:
    """Last-epoch accuracy on clean labels."""
    if not found.cells:
        return []
    chosen = found.chosen
    means = {name: statistics.mean(found.means(found.cells, name, "accuracy")) for name in (chosen, *RIVALS)}
    best = max(RIVALS, key=lambda name: means[name])
    near = [found.behind(key, "accuracy") <= WITHIN for key in found.cells]
    rows = [
        _at_least(
            f"accuracy: mean over all cells of `{chosen}`, best of all",
            means[chosen],
            means[best],
            f"{best} {_points(means[best])}",
            promised="best on average",
        ),
        _at_least(f"accuracy: cells where `{chosen}` is within a point of the best rival", statistics.mean(near), 0.9),
    ]
    worst = ("cifar", "human-worst")
    if worst in found.cells:
        name, rival = found.best(worst, "accuracy")
        value = found.mean(worst, chosen, "accuracy")
        assert value is not None
        rows.append(_at_least(f"accuracy: CIFAR-10N worst, `{chosen}`", value, 0.74, f"{name} {_points(rival)}"))
    return rows


def detection(found: Summary) -> list[Promise]:
    """How well wrong rows are ranked and flagged."""
    if not found.noisy_cells:
        return []
    chosen = found.chosen
    rows = []
    ahead = [found.best(key, "auprc", (chosen, "cleanlab", "aum"))[0] == chosen for key in found.noisy_cells]
    what = f"detection: noisy cells where AUPRC of `{chosen}` is at least cleanlab's and AUM's"
    rows.append(_at_least(what, statistics.mean(ahead), 0.9))
    f1 = {
        name: statistics.mean(values)
        for name in (chosen, *RIVALS)
        if (values := found.means(found.noisy_cells, name, "f1"))
    }
    best = max((name for name in f1 if name != chosen), key=lambda name: f1[name])
    what = f"detection: mean F1 of the flags of `{chosen}` over noisy cells, best of all"
    return [*rows, _at_least(what, f1[chosen], f1[best], f"{best} {_points(f1[best])}", promised="best on average")]


def cost(found: Summary) -> list[Promise]:
    """Processor time in units of plain training's."""
    if not found.cells:
        return []
    chosen = found.chosen
    mean = {name: statistics.mean(found.costs(found.cells, name)) for name in (chosen, "cleanlab", "coteaching")}
    beside = ", ".join(f"{name} {mean[name]:.2f}" for name in ("cleanlab", "coteaching"))
    return [
        Promise(
            f"cost: mean processor time of `{chosen}` over `ce`'s",
            "at most 1.15",
            f"{mean[chosen]:.3f}",
            beside,
            mean[chosen] <= 1.15,
        )
    ]


def rare(found: Summary) -> list[Promise]:
    """Whether a rare class survives."""
    rows = []
    for key in (key for key in found.runs if key[0] == "rare"):
        plain = found.mean(key, "ce", "test_auprc")
        for method in ("rrm", "rrm-per-class"):
            value = found.mean(key, method, "test_auprc")
            if plain is not None and value is not None:
                what = f"rare class: AUPRC of `{method}` on the test, at least that of `ce`"
                rows.append(_at_least(what, value, plain, f"ce {_points(plain)}", promised="at least that of ce"))
    return rows


def _gains(found: Summary, keys: Iterable[Key], method: str) -> list[float]:
    """Accuracy minus that of plain training, by cell."""
    pairs = ((found.mean(key, method, "accuracy"), found.mean(key, "ce", "accuracy")) for key in keys)
    return [ours - plain for ours, plain in pairs if ours is not None and plain is not None]


def _at_most(what: str, value: float, limit: float | None, rivals: str) -> Promise:
    promised = "-" if limit is None else f"at most {_points(limit)}"
    return Promise(what, promised, _points(value), rivals, None if limit is None else value <= limit)


def _at_least(what: str, value: float, limit: float, rivals: str = "-", promised: str | None = None) -> Promise:
    return Promise(what, promised or f"at least {_points(limit)}", _points(value), rivals, value >= limit)


def _points(share: float, *, sign: bool = False) -> str:
    return f"{100 * share:{'+' if sign else ''}.1f}"
