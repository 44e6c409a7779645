"""The charts of a report, by plotly; their colors are those of style.css, so that they follow its theme."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rockafellian._internal.extras import missing
from rockafellian.auditing.report.contents import Floats, Report
from rockafellian.training.history import History

try:
    from plotly import graph_objects as go
except ImportError as error:
    raise missing("plotly for the report", "audit") from error

#: Classes in a chart, bins of the losses, and letters of a class name on an axis.
MAX_CLASSES, N_BINS, MAX_LETTERS = 30, 60, 22
#: Up to this number of classes, the cells of the matrix show their count.
MAX_NUMBERED = 15
#: What all figures share; page.js replaces `var(--name)` by the color of the theme.
LAYOUT: dict[str, Any] = {
    "template": "none",
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "font": {"color": "var(--soft)", "size": 12, "family": "system-ui, sans-serif"},
    "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
    "hoverlabel": {"bgcolor": "var(--card)", "bordercolor": "var(--edge)", "font": {"color": "var(--ink)"}},
    "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"},
    "height": 300,
    "dragmode": False,
}
AXIS = {
    "gridcolor": "var(--line)",
    "linecolor": "var(--line)",
    "zeroline": False,
    "ticks": "outside",
    "ticklen": 6,
    "tickcolor": "rgba(0,0,0,0)",
    "automargin": True,
    "fixedrange": True,
}


@dataclass(frozen=True)
class Chart:
    """A figure with its title and a sentence that says what it shows."""

    name: str
    title: str
    caption: str
    figure: go.Figure


def charts(report: Report) -> list[Chart]:
    """Return all charts that have something to show."""
    drawn = _by_class(report), _pairs(report), _accuracy(report.history), _removed(report.history), _losses(report)
    return [chart for chart in drawn if chart is not None]


def most_affected(report: Report) -> list[int]:
    """Return the classes with the most flagged or suggested rows, in their own order."""
    matrix = np.asarray(report.matrix, dtype=np.int64).reshape(len(report.classes), -1)
    off = matrix - np.diag(np.diag(matrix))
    affected = np.asarray(report.class_flagged, dtype=np.int64) + off.sum(0)
    return sorted(np.argsort(-affected, kind="stable")[:MAX_CLASSES].tolist())


def _selection_note(report: Report) -> str:
    n = len(report.classes)
    return f" Only the {MAX_CLASSES} most affected of {n:,} classes are shown." if n > MAX_CLASSES else ""


def _plain(text: str) -> str:
    """Text escaped for plotly, which reads some markup."""
    return html.escape(" ".join(text.split()), quote=False)


def _ticks(names: Sequence[str]) -> dict[str, Any]:
    short = [name if len(name) <= MAX_LETTERS else f"{name[: MAX_LETTERS - 1]}…" for name in names]
    return {
        **AXIS,
        "showgrid": False,
        "tickvals": list(range(len(names))),
        "ticktext": [_plain(name) for name in short],
    }


def _by_class(report: Report) -> Chart | None:
    order = sorted(most_affected(report), key=lambda number: -report.class_flagged[number])
    if not order:
        return None
    names = [report.classes[number] for number in order]
    traces = []
    for label, color, counts in (
        ("rows", "var(--bar)", report.class_rows),
        ("flagged", "var(--given)", report.class_flagged),
    ):
        values = [int(counts[number]) for number in order]
        hover = f"%{{customdata}}: %{{x:,}} {label}<extra></extra>"
        bar = go.Bar(x=values, y=list(range(len(order))), orientation="h", name=label, marker={"color": color})
        traces.append(bar.update(customdata=[_plain(name) for name in names], hovertemplate=hover))
    layout = {"barmode": "overlay", "bargap": 0.35, "height": _height(len(order))}
    axes = {"xaxis": {**AXIS, "rangemode": "tozero"}, "yaxis": {**_ticks(names), "autorange": "reversed"}}
    caption = "Rows labeled with each class, and how many of them look mislabeled." + _selection_note(report)
    return Chart("by-class", "Labels by class", caption, go.Figure(traces, {**LAYOUT, **layout, **axes}))


def _height(classes: int) -> int:
    return min(max(320, 90 + 26 * classes), 900)


def _pairs(report: Report) -> Chart | None:
    order = most_affected(report)
    counts = np.asarray(report.matrix, dtype=np.int64)
    if not counts.any():
        return None
    names = [report.classes[number] for number in order]
    cells = [[int(count) or None for count in row] for row in counts[np.ix_(order, order)]]
    full = [_plain(name) for name in names]
    hover = [[f"labeled {given}, predicted {suggested}" for suggested in full] for given in full]
    scale = [[0, "var(--heat-low)"], [1, "var(--heat-high)"]]
    heat = go.Heatmap(z=cells, customdata=hover, colorscale=scale, zmin=0, showscale=False, xgap=2, ygap=2)
    heat.update(hoverongaps=False, hovertemplate="%{customdata}: %{z:,}<extra></extra>")
    if len(order) <= MAX_NUMBERED:
        heat.update(texttemplate="%{z}")
    across = {**_ticks(names), "title": {"text": "predicted", "standoff": 14}}
    down = {**_ticks(names), "title": {"text": "labeled", "standoff": 14}, "autorange": "reversed"}
    figure = go.Figure([heat], {**LAYOUT, "height": _height(len(order)), "xaxis": across, "yaxis": down})
    caption = "Flagged rows by their label and the predicted one. Click a cell to review its rows."
    return Chart("pairs", "Labeled and predicted", caption + _selection_note(report), figure)


def _over_epochs(lines: Mapping[str, tuple[list[float | None], dict[str, Any]]], epochs: list[int]) -> go.Figure:
    """Fractions over the epochs; a line without any number is left out."""
    traces = [
        go.Scatter(x=epochs, y=values, name=name, line=line, mode="lines" if len(epochs) > 1 else "markers")
        .update(hovertemplate=f"epoch %{{x}}: %{{y:.1%}} {name}<extra></extra>")
        .update(connectgaps=True)
        for name, (values, line) in lines.items()
        if any(value is not None for value in values)
    ]
    across = {**AXIS, "showgrid": False, "title": {"text": "epoch"}}
    axes = {"xaxis": across, "yaxis": {**AXIS, "tickformat": ".0%", "rangemode": "tozero"}}
    return go.Figure(traces, {**LAYOUT, **axes, "showlegend": len(traces) > 1})


def _known(values: Iterable[float | None]) -> list[float | None]:
    return [value if value is not None and math.isfinite(value) else None for value in values]


def _accuracy(history: History) -> Chart | None:
    lines = {
        "training": (_known(e.accuracy for e in history.epochs), {"color": "var(--accent)"}),
        "validation": (_known(e.valid_accuracy for e in history.epochs), {"color": "var(--keep)", "dash": "dash"}),
    }
    figure = _over_epochs(lines, [e.epoch for e in history.epochs])
    caption = "How often the prediction equals the given label. With mislabeled rows, it should not always do so."
    return Chart("accuracy", "Accuracy", caption, figure) if figure.data else None


def _removed(history: History) -> Chart | None:
    line = {"color": "var(--given)", "shape": "hv"}
    lines = {"removed": (_known(e.removed_fraction for e in history.epochs), line)}
    figure = _over_epochs(lines, [e.epoch for e in history.epochs])
    caption = "The fraction of rows that the method removed: they had no weight in training."
    return Chart("removed", "Removed rows", caption, figure) if figure.data else None


def _losses(report: Report) -> Chart | None:
    kept, removed = (np.asarray(part, np.float64) for part in (report.kept_losses, report.removed_losses))
    kept, removed = kept[np.isfinite(kept)], removed[np.isfinite(removed)]
    both = np.concatenate([kept, removed])
    if not len(both):
        return None
    line = report.threshold if report.threshold is not None and math.isfinite(report.threshold) else None
    # A few huge losses would squeeze all others into one bar.
    top = max(float(np.quantile(both, 0.995)), line or 0.0)
    edges = np.histogram_bin_edges(np.minimum(both, top), N_BINS)
    traces = [
        _bars(name, color, np.minimum(part, top), edges)
        for name, color, part in (("kept", "var(--bar)", kept), ("removed", "var(--given)", removed))
        if len(part)
    ]
    across = {**AXIS, "showgrid": False, "title": {"text": "loss"}}
    axes = {"xaxis": across, "yaxis": {**AXIS, "tickformat": ".0%"}, "barmode": "overlay", "bargap": 0}
    figure = go.Figure(traces, {**LAYOUT, **axes, "showlegend": True})
    if line is not None:
        style = {"color": "var(--ink)", "width": 1.5, "dash": "dot"}
        figure.add_vline(line, line=style, annotation={"text": "threshold", "font": {"color": "var(--ink)"}})
    more = " The last bar holds all larger losses." if both.max() > top else ""
    caption = "Losses of kept and of removed rows after training, as fractions of each; far apart is good." + more
    return Chart("losses", "Losses", caption, figure)


def _bars(name: str, color: str, losses: Floats, edges: Floats) -> go.Bar:
    counts = np.histogram(losses, edges)[0]
    middles, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    hover = f"loss about %{{x:.3g}}: %{{customdata:,}} {name}<extra></extra>"
    bar = go.Bar(x=middles.tolist(), y=(counts / len(losses)).tolist(), width=widths.tolist(), name=name)
    return bar.update(customdata=counts.tolist(), hovertemplate=hover, marker={"color": color, "opacity": 0.75})
