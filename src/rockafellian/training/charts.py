"""Figures of a run, by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

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


def plot_weights(values: Sequence[Tensor], wrong: Tensor, names: Sequence[int]) -> Figure:
    """Return a figure of the weights of clean and of mislabeled rows: mean, and 5th to 95th percentile.

    Args:
        values: weights of all rows, one tensor per epoch drawn.
        wrong: mask of the mislabeled rows.
        names: number of each epoch drawn.
    """
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    panel = figure.subplots()
    for label, rows, color in (("clean", ~wrong, "tab:blue"), ("mislabeled", wrong, "tab:red")):
        if not rows.any():
            continue
        low, high = torch.stack([weights[rows].quantile(torch.tensor([0.05, 0.95])) for weights in values]).T
        mean = [float(weights[rows].mean()) for weights in values]
        panel.plot(names, mean, "o-", color=color, label=f"{label} rows, mean")
        panel.fill_between(names, low, high, color=color, alpha=0.2)
    panel.set(xlabel="epoch", ylabel="weight (1 is nominal, 0 is removed)")
    panel.legend()
    return figure


def plot_images(images: Tensor, titles: Sequence[str], columns: int = 5) -> Figure:
    """Return a figure of small gray images, each under its title."""
    height = -(-len(images) // columns)
    figure = Figure(figsize=(1.7 * columns, 1.9 * height), layout="constrained")
    panels = figure.subplots(height, columns, squeeze=False)
    for panel in panels.flat:
        panel.set_axis_off()
    for panel, image, title in zip(panels.flat, images, titles, strict=False):
        panel.imshow(image.numpy(), cmap="gray_r")
        panel.set_title(title, fontsize=8)
    return figure


def _line(panel: Axes, x: Sequence[float], y: Sequence[float | None], label: str) -> None:
    if any(value is not None for value in y):
        panel.plot(x, [float("nan") if value is None else value for value in y], ".-", label=label)
