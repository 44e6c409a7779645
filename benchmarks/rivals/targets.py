"""Targets that were set before the runs, and what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import NamedTuple

from rivals.data import UNIFORM
from rivals.methods import RIVALS
from rivals.summary import Key, Summary

WITHIN = 0.01  # a point


class Target(NamedTuple):
    """A row of the table; `met` is None where there is no target and a figure is only reported."""

    what: str
    target: str
    measured: str
    rivals: str
    met: bool | None


def targets(found: Summary) -> list[Target]:
    """Return all targets for which there are records."""
    parts = (rates, clean_labels, accuracy, detection, cost, rare)
    return [target for part in parts for target in part(found)]


def rates(found: Summary) -> list[Target]:
    """Return the targets for the error of the estimated noise rate."""
    kinds: list[tuple[str, list[Key], float | None]] = [
        ("clean labels and uniform noise up to 40 %", found.of_kind(shares=UNIFORM), 0.02),
        ("uniform noise of 60 %", found.of_kind(shares=("uniform-0.6",)), 0.04),
        ("human labels", found.of_kind("human"), 0.05),
        *((f"{kind} noise", found.of_kind(kind), None) for kind in ("kernel", "one-sided", "feature")),
    ]
    return [
        _at_most(
            f"noise rate: mean absolute error of `{found.chosen}`, {what}",
            statistics.mean(errors),
            limit,
            f"cleanlab {_points(statistics.mean(found.rate_errors(keys, 'cleanlab')))}",
        )
        for what, keys, limit in kinds
        if (errors := found.rate_errors(keys, found.chosen))
    ]


def clean_labels(found: Summary) -> list[Target]:
    """Return the targets without label noise: the worst data set, mean over the seeds."""
    keys, chosen = found.of_kind("none"), found.chosen
    if not keys:
        return []
    removed = {method: max(found.means(keys, method, "flagged")) for method in (chosen, "cleanlab")}
    gains = {method: min(_gains(found, keys, method)) for method in (chosen, "cleanlab")}
    return [
        _at_most(
            f"clean labels: largest fraction of a data set that `{chosen}` removes",
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


def accuracy(found: Summary) -> list[Target]:
    """Return the targets for the accuracy after the last epoch, on clean labels."""
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
            target="best on average",
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


def detection(found: Summary) -> list[Target]:
    """Return the targets for ranking and flagging mislabeled rows."""
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
    return [*rows, _at_least(what, f1[chosen], f1[best], f"{best} {_points(f1[best])}", target="best on average")]


def cost(found: Summary) -> list[Target]:
    """Return the target for processor time in units of that of plain training."""
    if not found.cells:
        return []
    chosen = found.chosen
    mean = {name: statistics.mean(found.costs(found.cells, name)) for name in (chosen, "cleanlab", "coteaching")}
    beside = ", ".join(f"{name} {mean[name]:.2f}" for name in ("cleanlab", "coteaching"))
    return [
        Target(
            f"cost: mean processor time of `{chosen}` over `ce`'s",
            "at most 1.15",
            f"{mean[chosen]:.3f}",
            beside,
            mean[chosen] <= 1.15,
        )
    ]


def rare(found: Summary) -> list[Target]:
    """Return the targets for a rare class."""
    rows = []
    for key in (key for key in found.runs if key[0] == "rare"):
        plain = found.mean(key, "ce", "test_auprc")
        for method in ("rrm", "rrm-per-class", "rrm-default"):
            value = found.mean(key, method, "test_auprc")
            if plain is not None and value is not None:
                what = f"rare class: AUPRC of `{method}` on the test, at least that of `ce`"
                rows.append(_at_least(what, value, plain, f"ce {_points(plain)}", target="at least that of ce"))
    return rows


def _gains(found: Summary, keys: Iterable[Key], method: str) -> list[float]:
    """Return accuracy minus that of plain training, by cell."""
    pairs = ((found.mean(key, method, "accuracy"), found.mean(key, "ce", "accuracy")) for key in keys)
    return [ours - plain for ours, plain in pairs if ours is not None and plain is not None]


def _at_most(what: str, value: float, limit: float | None, rivals: str) -> Target:
    target = "-" if limit is None else f"at most {_points(limit)}"
    return Target(what, target, _points(value), rivals, None if limit is None else value <= limit)


def _at_least(what: str, value: float, limit: float, rivals: str = "-", target: str | None = None) -> Target:
    return Target(what, target or f"at least {_points(limit)}", _points(value), rivals, value >= limit)


def _points(share: float, *, sign: bool = False) -> str:
    return f"{100 * share:{'+' if sign else ''}.1f}"
