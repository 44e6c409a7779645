"""The charts of a report: numbers for its tables, and small SVG drawings whose colors are those of style.css."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rockafellian._internal.extras import missing
from rockafellian.auditing.report.contents import Floats, Report
from rockafellian.training.history import History

try:
    from markupsafe import Markup
except ImportError as error:
    raise missing("jinja2 for the report", "audit") from error

#: Classes in a chart, and bins of the losses.
MAX_CLASSES, N_BINS = 30, 60
#: The size of a drawing, and the space at its left and below it for the axes; it is scaled to the width of the page.
WIDTH, HEIGHT, LEFT, BELOW, MARGIN = 400.0, 210.0, 46.0, 38.0, 10.0


@dataclass(frozen=True)
class ClassBar:
    """Rows of a class and how many of them are flagged; the fractions are of the most frequent class."""

    name: str
    rows: int
    flagged: int
    rows_fraction: float
    flagged_fraction: float


@dataclass(frozen=True)
class Pairs:
    """Flagged rows, given (down) against suggested (across), by the numbers of the classes; without empty lines."""

    given: list[int]
    suggested: list[int]
    counts: list[list[int]]
    most: int


@dataclass(frozen=True)
class Drawing:
    """A chart as SVG, its title, a sentence that says what it shows, and the names of its colors."""

    name: str
    title: str
    caption: str
    legend: Mapping[str, str]  # class in style.css -> name
    svg: Markup


def most_affected(report: Report) -> list[int]:
    """Return the classes with the most flagged or suggested rows, in their own order."""
    matrix = np.asarray(report.matrix, dtype=np.int64).reshape(len(report.classes), -1)
    off = matrix - np.diag(np.diag(matrix))
    affected = np.asarray(report.class_flagged, dtype=np.int64) + off.sum(0)
    return sorted(np.argsort(-affected, kind="stable")[:MAX_CLASSES].tolist())


def selection_note(report: Report) -> str:
    """Return a sentence that says how many classes are shown, if not all are."""
    n = len(report.classes)
    return f"Only the {MAX_CLASSES} most affected of {n:,} classes are shown." if n > MAX_CLASSES else ""


def class_bars(report: Report) -> list[ClassBar]:
    """Return the most affected classes, those with the most flagged rows first."""
    order = sorted(most_affected(report), key=lambda number: -report.class_flagged[number])
    most = max((report.class_rows[number] for number in order), default=0) or 1
    return [
        ClassBar(report.classes[number], rows, flagged, rows / most, flagged / most)
        for number in order
        for rows, flagged in [(int(report.class_rows[number]), int(report.class_flagged[number]))]
    ]


def pairs(report: Report) -> Pairs | None:
    """Return the matrix of given and suggested labels, of the most affected classes."""
    order, counts = np.asarray(most_affected(report), np.int64), np.asarray(report.matrix, dtype=np.int64)
    if not counts.any():
        return None
    chosen = counts[np.ix_(order, order)]
    down, across = chosen.any(1), chosen.any(0)
    shown = chosen[np.ix_(down, across)]
    return Pairs(order[down].tolist(), order[across].tolist(), shown.tolist(), int(shown.max()))


def drawings(report: Report) -> list[Drawing]:
    """Return all drawings that have something to show."""
    drawn = _losses(report), _accuracy(report.history), _removed(report.history)
    return [drawing for drawing in drawn if drawing is not None]


@dataclass(frozen=True)
class _Axes:
    """Maps numbers to points of a drawing."""

    left: float
    right: float
    top: float

    def x(self, value: float) -> float:
        width = WIDTH - LEFT - MARGIN
        return round(LEFT + width * (value - self.left) / ((self.right - self.left) or 1), 2)

    def y(self, value: float) -> float:
        return round(HEIGHT - BELOW - (HEIGHT - BELOW - MARGIN) * value / (self.top or 1), 2)

    def draw(self, name: str) -> Markup:
        """The axes: fractions upwards, numbers across."""
        line = Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/><text class="up" x="{}" y="{}">{}</text>')
        fine = 1 if self.top < 0.05 else 0
        up = [
            line.format(LEFT, WIDTH - MARGIN, y, y, LEFT - 6, y + 4, f"{value:.{fine}%}".replace("%", " %"))
            for value in _ticks(0, self.top, 5)
            for y in [self.y(value)]
        ]
        number = Markup('<text class="across" x="{}" y="{}">{:g}</text>')
        across = [number.format(self.x(value), HEIGHT - BELOW + 16, value) for value in _ticks(self.left, self.right)]
        title = Markup('<text class="across" x="{}" y="{}">{}</text>').format((WIDTH + LEFT) / 2, HEIGHT - 5, name)
        return Markup("").join([*up, *across, title])


def _ticks(low: float, high: float, at_most: int = 6) -> list[float]:
    """Round numbers between two ends, evenly spaced."""
    if not high > low:
        return [low]
    size = 10 ** math.floor(math.log10((high - low) / at_most))
    step = next(size * factor for factor in (1, 2, 5, 10, 20) if (high - low) / (size * factor) <= at_most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _svg(axes: _Axes, across: str, parts: Iterable[Markup]) -> Markup:
    inside = axes.draw(across) + Markup("").join(parts)
    return Markup('<svg class="drawing" viewBox="0 0 {:g} {:g}" aria-hidden="true">{}</svg>').format(
        WIDTH, HEIGHT, inside
    )


def _over_epochs(history: History, lines: Mapping[str, Iterable[float | None]]) -> tuple[Markup | None, list[str]]:
    """Fractions over the epochs, and the classes of the lines that have a number; None if none has."""
    epochs = [each.epoch for each in history.epochs]
    points = {name: _known(zip(epochs, values, strict=True)) for name, values in lines.items()}
    drawn = {name: found for name, found in points.items() if found}
    if not drawn:
        return None, []
    top = max(value for found in drawn.values() for _, value in found)
    whole = [epoch for found in drawn.values() for epoch, _ in found]
    axes = _Axes(min(whole), max(whole), top * 1.05 or 1)
    return _svg(axes, "epoch", (_line(axes, name, found) for name, found in drawn.items())), list(drawn)


def _known(points: Iterable[tuple[int, float | None]]) -> list[tuple[int, float]]:
    return [(epoch, value) for epoch, value in points if value is not None and math.isfinite(value)]


def _line(axes: _Axes, name: str, points: list[tuple[int, float]]) -> Markup:
    if len(points) == 1:
        [(epoch, value)] = points
        return Markup('<circle class="{}" cx="{}" cy="{}" r="3"/>').format(name, axes.x(epoch), axes.y(value))
    path = " ".join(f"{axes.x(epoch)},{axes.y(value)}" for epoch, value in points)
    return Markup('<polyline class="{}" points="{}"/>').format(name, path)


def _accuracy(history: History) -> Drawing | None:
    svg, names = _over_epochs(
        history,
        {
            "training": [each.accuracy for each in history.epochs],
            "validation": [each.valid_accuracy for each in history.epochs],
        },
    )
    caption = "How often the prediction equals the given label. With mislabeled rows, it should not always do so."
    return None if svg is None else Drawing("accuracy", "Accuracy", caption, {name: name for name in names}, svg)


def _removed(history: History) -> Drawing | None:
    svg, _ = _over_epochs(history, {"removed": [each.removed_fraction for each in history.epochs]})
    caption = "The fraction of rows that the method removed: they had no weight in training."
    return None if svg is None else Drawing("removed", "Removed rows", caption, {}, svg)


def _losses(report: Report) -> Drawing | None:
    kept, removed = (np.asarray(part, np.float64) for part in (report.kept_losses, report.removed_losses))
    kept, removed = kept[np.isfinite(kept)], removed[np.isfinite(removed)]
    both = np.concatenate([kept, removed])
    if not len(both):
        return None
    line = report.threshold if report.threshold is not None and math.isfinite(report.threshold) else None
    # A few huge losses would squeeze all others into one bar.
    top = max(float(np.quantile(both, 0.995)), line or 0.0)
    edges = np.histogram_bin_edges(np.minimum(both, top), N_BINS)
    counts = {
        name: np.histogram(np.minimum(part, top), edges)[0]
        for name, part in (("kept", kept), ("removed", removed))
        if len(part)
    }
    axes = _Axes(float(edges[0]), float(edges[-1]), max(float(each.max() / each.sum()) for each in counts.values()))
    parts = [bar for name, each in counts.items() for bar in _bars(axes, name, each, edges)]
    if line is not None:
        parts.append(_threshold(axes, line))
    more = " The last bar holds all larger losses." if both.max() > top else ""
    caption = "Losses of kept and of removed rows after training, as fractions of each; far apart is good." + more
    return Drawing("losses", "Losses", caption, {name: name for name in counts}, _svg(axes, "loss", parts))


def _bars(axes: _Axes, name: str, counts: NDArray[np.int64], edges: Floats) -> Iterable[Markup]:
    bar = Markup('<rect class="{}" x="{}" y="{}" width="{:.2f}" height="{:.2f}"><title>{}</title></rect>')
    for count, left, right in zip(counts, edges[:-1], edges[1:], strict=True):
        if count:
            x, y = axes.x(float(left)), axes.y(float(count / counts.sum()))
            title = f"loss about {(left + right) / 2:.3g}: {count:,} {name}"
            yield bar.format(name, x, y, axes.x(float(right)) - x, axes.y(0) - y, title)


def _threshold(axes: _Axes, value: float) -> Markup:
    x = axes.x(value)
    line = Markup('<line class="threshold" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(x, x, MARGIN, axes.y(0))
    side, shift = ("before", -5) if x > WIDTH / 2 else ("after", 5)
    return line + Markup('<text class="{}" x="{}" y="{}">threshold</text>').format(side, x + shift, MARGIN + 10)
