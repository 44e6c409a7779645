"""Figures of a run, by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rockafellian._internal.extras import missing

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    raise missing("matplotlib for figures", "charts") from error


def plot_history(history: Any) -> Figure:
    """Return a figure with a panel each for loss, accuracy and, where rows were re-weighted, the removed rows."""
    removing = bool(history.rounds)
    figure = Figure(figsize=(4.5 * (2 + removing), 3.5), layout="constrained")
    panels = figure.subplots(1, 2 + removing)
    epochs = [epoch.epoch for epoch in history.epochs]
    for panel, name in zip(panels, ("loss", "accuracy"), strict=False):
        _line(panel, epochs, [getattr(epoch, name) for epoch in history.epochs], "training, labels as given")
        _line(panel, epochs, [getattr(epoch, f"valid_{name}") for epoch in history.epochs], "validation")
        panel.set(title=name, xlabel="epoch")
    if removing:
        rounds = [made.epoch for made in history.rounds]
        for name, label in (
            ("removed_fraction", "rows removed"),
            ("precision", "precision"),
            ("recall", "recall"),
        ):
            _line(panels[2], rounds, [getattr(made, name) for made in history.rounds], label)
        panels[2].set(title="re-weightings", xlabel="epoch", ylim=(0, 1.02))
    for panel in panels:
        if panel.lines:
            panel.legend()
    return figure


def _line(panel: Axes, x: Sequence[float], y: Sequence[float | None], label: str) -> None:
    if any(value is not None for value in y):
        panel.plot(x, [float("nan") if value is None else value for value in y], ".-", label=label)
