"""The plots of a comparison as SVG text: ours solid with a band from smallest to largest, the paper's dashed.

Drawn without a background and with a placeholder for black, so that a page gives them its own colors.
"""

from __future__ import annotations

import io
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rockafellian_reproduction.pages.compare import Comparison, bin_fractions, count_rounds
from rockafellian_reproduction.pages.rows import Row, name_method, percent, rows
from rockafellian_reproduction.tables import Cell
from rockafellian_reproduction.tables.figures import BINS
from rockafellian_reproduction.training.records import Record

Item = TypeVar("Item")
Key = TypeVar("Key")

#: Colors of Okabe and Ito, which the color-blind can tell apart: plain training, robust training, a third.
PLAIN, ROBUST, THIRD = "#d55e00", "#0072b2", "#009e73"
#: From well above 0 down to removed: light to dark in one hue, with the untouched rows apart.
BIN_COLORS = ("#009e73", "#9ad0f3", "#f0e442", "#e69f00", "#d55e00", "#7a2f00")
#: A placeholder for the page's own color of text.
INK = "#010203"
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "rockafellian",
    "font.size": 9,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
    "legend.framealpha": 0,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
}


class Plot(NamedTuple):
    """An SVG element and its caption."""

    svg: str
    caption: str


def draw(comparison: Comparison) -> Plot | None:
    """Return the plot of a table at one scale; None if nothing is recorded that it could show."""
    with rc_context(STYLE):
        kind = "bins" if comparison.number == 5 else comparison.table.measures
        figure = PLOTS[kind](comparison)
        if figure is None:
            return None
        return Plot(_svg(figure, f"t{comparison.number}{comparison.scale}"), CAPTIONS[kind])


def plot_contamination(comparison: Comparison) -> Figure | None:
    """Plot accuracy against contamination, a panel per loss, with RRM and without."""
    found = rows(comparison.table, comparison.scale, comparison.records)
    found = [row for row in found if row.ours.values]
    panels = _grouped(found, lambda row: row.figure.cell["loss"].upper())
    if not panels:
        return None
    figure, axes = _panels(list(panels), "contamination in percent", "test accuracy in percent")
    for panel, of_loss in zip(axes, panels.values(), strict=True):
        for name, line in _grouped(of_loss, lambda row: name_method(row.figure.cell)).items():
            _plot_both(panel, [100 * row.figure.cell["contamination"] for row in line], line, name, _color(line[0]))
            panel.set_xticks(sorted({100 * row.figure.cell["contamination"] for row in found}))
        panel.legend(fontsize=7)
    return figure


def plot_eps(comparison: Comparison) -> Figure | None:
    """Plot accuracy against the eps of the test attack, a panel per contamination, AT and A-RRM."""
    found = rows(comparison.table, comparison.scale, comparison.records)
    panels = _grouped([row for row in found if row.ours.values], lambda row: row.figure.cell["contamination"])
    if not panels:
        return None
    titles = [f"contamination {percent(rate)}" for rate in panels]
    figure, axes = _panels(titles, "eps of the test attack", "test accuracy in percent")
    for panel, of_rate in zip(axes, panels.values(), strict=True):
        for name, line in _grouped(of_rate, lambda row: row.figure.cell["method"]).items():
            eps = [float(row.figure.measure.removeprefix("eps ")) for row in line]
            _plot_both(panel, eps, line, name, _color(line[0]))
    axes[0].legend(fontsize=7)
    return figure


def plot_bins(comparison: Comparison) -> Figure | None:
    """Plot fractions of the mislabeled and of the clean rows in the bins of Table 5, re-weighting by re-weighting."""
    last = count_rounds(comparison)
    if not last:
        return None
    numbers = range(1, last + 1)
    found = [bin_fractions(comparison, number) for number in numbers]
    figure, axes = _panels(["mislabeled rows", "clean rows"], "re-weighting", "fraction of the rows in percent")
    for part, panel in enumerate(axes):
        below = [0.0] * last
        for i, name in enumerate(BINS):
            heights = [100 * made[part][i] for made in found]
            panel.bar(numbers, heights, 0.9, bottom=below, color=BIN_COLORS[i], label=f"u N: {name}")
            below = [low + height for low, height in zip(below, heights, strict=True)]
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", fontsize=7)
    return figure


def plot_curves(comparison: Comparison) -> Figure | None:
    """Plot precision against recall on the test rows, a panel per contamination; the first seed of each method."""
    chosen = {}
    for record in sorted(_records_of(comparison), key=lambda record: record["seed"], reverse=True):
        if "curve" in record["results"]:
            chosen[record["cell"]["contamination"], record["cell"]["method"]] = record["results"]["curve"]
    shown = sorted({rate for rate, _ in chosen})
    if not shown:
        return None
    figure, axes = _panels([f"contamination {percent(rate)}" for rate in shown], "recall", "precision")
    for panel, rate in zip(axes, shown, strict=True):
        for method, color in zip(comparison.table.pairs, (PLAIN, ROBUST), strict=True):
            if (rate, method) in chosen:
                panel.plot(*chosen[rate, method], color=color, label=method)
    axes[0].legend(fontsize=7)
    return figure


def plot_epochs(comparison: Comparison) -> Figure | None:
    """Plot accuracy on the test rows over the epochs, a panel per contamination, with RRM and without."""
    tested = [record for record in _records_of(comparison) if record["tested"]]
    panels = _grouped(tested, lambda record: record["cell"]["contamination"])
    if not panels:
        return None
    titles = [f"contamination {percent(rate)}" for rate in panels]
    figure, axes = _panels(titles, "epoch", "test accuracy in percent")
    for panel, of_rate in zip(axes, panels.values(), strict=True):
        for method, runs in sorted(_grouped(of_rate, lambda record: record["cell"]["method"]).items()):
            epochs = sorted(set.intersection(*(set(map(int, run["tested"])) for run in runs)))
            values = [[run["tested"][str(epoch)] for run in runs] for epoch in epochs]
            color = PLAIN if method == comparison.table.pairs[0] else ROBUST
            _plot_band(panel, epochs, values, method, color, marker="")
    axes[0].legend(fontsize=7)
    return figure


PLOTS: dict[str, Callable[[Comparison], Figure | None]] = {
    "last": plot_contamination,
    "eps": plot_eps,
    "bins": plot_bins,
    "ranking": plot_curves,
    "peak": plot_epochs,
}
_LINES = "Solid: our mean, with a band from the smallest to the largest of the seeds. Dashed: the paper."
CAPTIONS = {
    "last": f"Test accuracy against the noise rate. {_LINES}",
    "eps": f"Test accuracy at the best validation accuracy against the eps of the attack on the test rows. {_LINES}",
    "bins": "Where the weights are after each re-weighting, mean over the seeds. u is what re-weighting added to the "
    "probability 1/N of a row: 0 is untouched, -1/N is removed.",
    "ranking": "Precision against recall on the test rows, one seed of each method. The paper prints no curves.",
    "peak": "Test accuracy over the epochs: mean, with a band from the smallest to the largest of the seeds. The paper "
    "prints no curves.",
}


def _records_of(comparison: Comparison) -> list[Record]:
    """Return the records whose cell is one of the table's."""
    return [record for record in comparison.records if record["cell"] in comparison.table.cells]


def _grouped(items: Sequence[Item], key: Callable[[Item], Key]) -> Mapping[Key, list[Item]]:
    """Return the items by key, in order of first appearance."""
    found: dict[Key, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def _color(row: Row) -> str:
    """Return the color by method; in Table 2 by how far C' is above C."""
    cell: Cell = row.figure.cell
    if "excess" in cell:
        return ROBUST if cell["excess"] == 0.05 else THIRD
    return PLAIN if cell["method"] in ("ERM", "AT") else ROBUST


def _panels(titles: Sequence[str], xlabel: str, ylabel: str) -> tuple[Figure, list[Axes]]:
    """Return a figure with one panel per title, at most three in a row, with the same axes."""
    width = min(len(titles), 2 if len(titles) == 4 else 3)
    height = -(-len(titles) // width)
    figure = Figure(figsize=(9, 2.4 * height + 0.5) if width > 2 else (3.6 * width, 2.7 * height), layout="constrained")
    grid = figure.subplots(height, width, squeeze=False, sharex=True, sharey=True)
    used, rest = list(grid.flat)[: len(titles)], list(grid.flat)[len(titles) :]
    for panel, title in zip(used, titles, strict=True):
        panel.set_title(title, fontsize=9)
        panel.grid(alpha=0.2, color=INK)
        panel.set_axisbelow(True)
        panel.tick_params(labelbottom=True)
    for panel in rest:
        panel.set_visible(False)
    figure.supxlabel(xlabel, fontsize=9)
    figure.supylabel(ylabel, fontsize=9)
    return figure, used


def _plot_both(panel: Axes, x: Sequence[float], line: Sequence[Row], name: str, color: str) -> None:
    """Plot our figures as a line with its band, the paper's dashed in the same color."""
    _plot_band(panel, x, [list(row.ours.values.values()) for row in line], name, color, marker="o")
    panel.plot(
        x, [row.figure.value for row in line], "x--", color=color, markersize=4, linewidth=1, label=f"{name}, paper"
    )


def _plot_band(
    panel: Axes, x: Sequence[float], values: Sequence[Sequence[float]], name: str, color: str, *, marker: str
) -> None:
    panel.plot(x, [statistics.fmean(seeds) for seeds in values], marker=marker, markersize=4, color=color, label=name)
    panel.fill_between(
        x, [min(seeds) for seeds in values], [max(seeds) for seeds in values], color=color, alpha=0.2, linewidth=0
    )


def _svg(figure: Figure, prefix: str) -> str:
    """Return the SVG element alone, in the page's color of text, with ids that no other plot of the page has."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    text = file.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor").replace("*{", f"#{prefix}-figure_1 *{{")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    return re.sub(r'((?:\bid|href)="#?|url\(#)', rf"\g<1>{prefix}-", text)
