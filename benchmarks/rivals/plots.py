"""The pictures of the page."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rivals.data import DATA
from rivals.noise import kind_of
from rivals.summary import Key, Summary

LINES = ("ce", "gce", "elr", "coteaching", "cleanlab", "rrm")


def accuracy(found: Summary) -> Figure:
    """Draw accuracy over the rate of uniform noise, a panel for each data set, a line for each method."""
    by_data = {data: keys for data in DATA if len(keys := _uniform(found, data)) > 1}
    figure = Figure(figsize=(12, 6.4), layout="constrained")
    panels = list(figure.subplots(2, 3).flat)
    for panel, (data, keys) in zip(panels, by_data.items(), strict=False):
        for method in dict.fromkeys((*LINES, found.chosen)):
            values = [100 * (found.mean(key, method, "accuracy") or 0) for key in keys]
            ours = method.startswith("rrm")
            panel.plot(_rates(found, keys), values, marker="o", ms=3, label=method, lw=2.2 if ours else 1.1)
        panel.set(title=data)
    for unused in panels[len(by_data) :]:
        unused.axis("off")
    if by_data:
        figure.axes[0].legend(fontsize=8)
    figure.supxlabel("uniform label noise, per cent")
    figure.supylabel("test accuracy after the last epoch, per cent")
    return figure


def rates(found: Summary) -> Figure:
    """Draw estimated over true noise rates, a point for each cell and seed: rrm and cleanlab."""
    figure = Figure(figsize=(9, 4.4), layout="constrained")
    for panel, method in zip(figure.subplots(1, 2, sharex=True, sharey=True), ("rrm", "cleanlab"), strict=True):
        _scatter(panel, found, method)
        panel.axline((0, 0), slope=1, color="grey", lw=0.8)
        panel.set(title=method, xlabel="true noise rate, per cent", ylabel="estimated, per cent")
    figure.axes[0].legend(fontsize=8)
    return figure


def _scatter(panel: Axes, found: Summary, method: str) -> None:
    for kind in dict.fromkeys(kind_of(noise) for _, noise in found.cells):
        pairs = [
            (100 * run["about"]["true_rate"], 100 * run["methods"][method]["rate"])
            for key in found.of_kind(kind)
            for run in found.runs[key]
            if run["methods"][method]["rate"] is not None
        ]
        if pairs:
            panel.scatter(*zip(*pairs, strict=True), s=14, alpha=0.7, label=kind)


def _uniform(found: Summary, data: str) -> list[Key]:
    return [key for key in found.of_kind("none", "uniform") if key[0] == data]


def _rates(found: Summary, keys: list[Key]) -> list[float]:
    return [100 * found.true_rate(key) for key in keys]
