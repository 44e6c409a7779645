"""The page of an audit: one HTML file, with nothing to fetch, in which a person reviews the suspect labels."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rockafellian.estimate import Estimate
from rockafellian.history import History

try:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup
    from plotly import graph_objects as go
    from plotly.offline import get_plotlyjs
except ImportError as error:
    raise ImportError("need plotly and jinja2 for the report; pip install 'rockafellian[audit]'") from error

Floats: TypeAlias = NDArray[np.floating[Any]]

#: So many classes a chart shows, so many bins the losses fall into, so many letters of a class an axis shows.
CLASSES, BINS, LETTERS = 30, 60, 22
#: Cells of the matrix hold their number as text if there are no more classes than this.
NUMBERED = 15
#: No string can end a script or start a comment, and no JavaScript of any age sees a line end.
UNSAFE = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}
#: What all figures share; page.js puts the colours of the theme where `var(--name)` stands.
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
class Suspect:
    """A row whose label looks wrong, and what a person sees of it: a text, an image, or values by column."""

    row: int  # place in the data, counted from 0
    id: str
    given: str
    suggested: str | None  # None, or the given one: no other label is suggested
    score: float  # label quality in [0, 1], lowest is worst
    probability: float | None  # how sure the network is of the suggestion
    reason: str
    text: str | None = None
    image: str | None = None  # a data: URI
    values: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Report:
    """What a page shows. `key` names the progress that the browser keeps, so it is another one for each run."""

    title: str
    key: str
    kind: str  # "table", "texts" or "images"
    rows: int
    flagged: int
    estimate: Estimate | None
    classes: Sequence[str]
    class_rows: Sequence[int]
    class_flagged: Sequence[int]
    matrix: Sequence[Sequence[int]]  # flagged rows, given (row) against suggested (column)
    history: History
    kept_losses: Floats
    removed_losses: Floats
    threshold: float | None
    suspects: Sequence[Suspect]  # worst first, perhaps not all that are flagged
    facts: Mapping[str, str]
    notices: Sequence[str]
    multi: bool = False  # several labels a row
    joint: str = " | "  # what stands between them


@dataclass(frozen=True)
class Chart:
    """A figure, what it is called, and one sentence that says what to see in it."""

    name: str
    title: str
    caption: str
    figure: go.Figure


def render(report: Report) -> str:
    """The page as text, to be written as UTF-8."""
    _check(report)
    charts = [chart for chart in _charts(report) if chart is not None]
    script, plotly = _script(report), get_plotlyjs()
    shown = Environment(
        loader=PackageLoader("rockafellian.audit", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template("report.html.j2")
    page = shown.render(
        report=report,
        charts=charts,
        headline=headline(report),
        certainty=certainty(report),
        policy=_policy(script, plotly),
        style=Markup(_part("style.css")),
        data=Markup(_json(_data(report, charts))),
        script=Markup(script),
        plotly=Markup(plotly),
    )
    return page.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair cannot be written


def headline(report: Report) -> str:
    """How many labels look wrong, in a few words."""
    if report.flagged == 0:
        return f"None of {report.rows:,} labels looks wrong"
    return f"{report.flagged:,} of {report.rows:,} labels {'looks' if report.flagged == 1 else 'look'} wrong"


def certainty(report: Report) -> str:
    """What is known of the share of wrong labels, in plain words."""
    if report.estimate is None:
        return "How many labels are wrong in all was not estimated."
    rate, low, high = (_percent(share) for share in report.estimate)
    if report.estimate.rate == 0:
        return f"The estimate over all rows is that no label is wrong; at most {high} could be."
    return f"The estimate over all rows is that {rate} of the labels are wrong ({low} to {high}, nine times in ten)."


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


def _check(report: Report) -> None:
    n = len(report.classes)
    shape = (
        len(report.class_rows),
        len(report.class_flagged),
        len(report.matrix),
        *{len(row) for row in report.matrix},
    )
    if set(shape) - {n}:
        raise ValueError(f"need class_rows, class_flagged and a square matrix for {n} classes, got lengths {shape}")
    foreign = next((one for one in report.suspects if one.image and not one.image.startswith("data:image/")), None)
    if foreign:
        raise ValueError(
            f"need images as data:image/ URIs, got {foreign.image!r:.40} in row {foreign.row}; the page fetches nothing"
        )


def _part(name: str) -> str:
    return (files("rockafellian.audit") / "template" / name).read_text("utf-8")


def _script(report: Report) -> str:
    review = _part("review.js") if report.suspects else ""
    return f'"use strict";\n(() => {{\n{_part("page.js")}\n{review}}})();\n'


def _policy(*scripts: str) -> str:
    """What the page may do: run these scripts and show what is inside it; nothing goes out or comes in."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _json(value: Any) -> str:
    """JSON that can stand inside a script element."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(UNSAFE)


def _data(report: Report, charts: Iterable[Chart]) -> dict[str, Any]:
    """What review.js reads."""
    columns = list(dict.fromkeys(name for suspect in report.suspects for name in suspect.values or ()))
    shown = [report.classes[number] for number in _concerned(report)]
    return {
        "key": report.key,
        "multi": report.multi,
        "joint": report.joint,
        "classes": list(report.classes),
        "columns": columns,
        "suspects": [_fields(suspect, columns) for suspect in report.suspects],
        "figures": {chart.name: json.loads(chart.figure.to_json()) for chart in charts},
        "shown": shown,
    }


def _fields(suspect: Suspect, columns: Sequence[str]) -> list[Any]:
    """One suspect without the names of its fields, which would be most of a long list."""
    suggested = None if suspect.suggested == suspect.given else suspect.suggested
    score, probability = _rounded(suspect.score), _rounded(suspect.probability)
    seen = None if suspect.values is None else [suspect.values.get(name) for name in columns]
    said = [suspect.row, suspect.id, suspect.given, suggested, score, probability, suspect.reason]
    return [*said, suspect.text, suspect.image, seen]


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(float(value), 4)


def _charts(report: Report) -> Iterable[Chart | None]:
    return _by_class(report), _pairs(report), _accuracy(report.history), _removed(report.history), _losses(report)


def _concerned(report: Report) -> list[int]:
    """The classes with the most flagged or suggested rows, in their own order."""
    matrix = np.asarray(report.matrix, dtype=np.int64).reshape(len(report.classes), -1)
    off = matrix - np.diag(np.diag(matrix))
    concern = np.asarray(report.class_flagged, dtype=np.int64) + off.sum(0)
    return sorted(np.argsort(-concern, kind="stable")[:CLASSES].tolist())


def _which(report: Report) -> str:
    n = len(report.classes)
    return f" Only the {CLASSES} most concerned of {n:,} classes are shown." if n > CLASSES else ""


def _plain(text: str) -> str:
    """Text that plotly shows as it is; it would take markup for its own."""
    return html.escape(" ".join(text.split()), quote=False)


def _ticks(names: Sequence[str]) -> dict[str, Any]:
    short = [name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}…" for name in names]
    return {
        **AXIS,
        "showgrid": False,
        "tickvals": list(range(len(names))),
        "ticktext": [_plain(name) for name in short],
    }


def _by_class(report: Report) -> Chart | None:
    order = sorted(_concerned(report), key=lambda number: -report.class_flagged[number])
    if not order:
        return None
    names = [report.classes[number] for number in order]
    traces = []
    for label, colour, counts in (
        ("rows", "var(--bar)", report.class_rows),
        ("look wrong", "var(--given)", report.class_flagged),
    ):
        values = [int(counts[number]) for number in order]
        hover = f"%{{customdata}}: %{{x:,}} {label}<extra></extra>"
        bar = go.Bar(x=values, y=list(range(len(order))), orientation="h", name=label, marker={"color": colour})
        traces.append(bar.update(customdata=[_plain(name) for name in names], hovertemplate=hover))
    layout = {"barmode": "overlay", "bargap": 0.35, "height": _height(len(order))}
    axes = {"xaxis": {**AXIS, "rangemode": "tozero"}, "yaxis": {**_ticks(names), "autorange": "reversed"}}
    caption = "How many rows were given each class, and how many of them look wrong." + _which(report)
    return Chart("by-class", "Labels by class", caption, go.Figure(traces, {**LAYOUT, **layout, **axes}))


def _height(classes: int) -> int:
    return min(max(320, 90 + 26 * classes), 900)


def _pairs(report: Report) -> Chart | None:
    order = _concerned(report)
    counts = np.asarray(report.matrix, dtype=np.int64)
    if not counts.any():
        return None
    names = [report.classes[number] for number in order]
    cells = [[int(count) or None for count in row] for row in counts[np.ix_(order, order)]]
    full = [_plain(name) for name in names]
    said = [[f"given {given}, suggested {suggested}" for suggested in full] for given in full]
    scale = [[0, "var(--heat-low)"], [1, "var(--heat-high)"]]
    heat = go.Heatmap(z=cells, customdata=said, colorscale=scale, zmin=0, showscale=False, xgap=2, ygap=2)
    heat.update(hoverongaps=False, hovertemplate="%{customdata}: %{z:,}<extra></extra>")
    if len(order) <= NUMBERED:
        heat.update(texttemplate="%{z}")
    across = {**_ticks(names), "title": {"text": "suggested", "standoff": 14}}
    down = {**_ticks(names), "title": {"text": "given", "standoff": 14}, "autorange": "reversed"}
    figure = go.Figure([heat], {**LAYOUT, "height": _height(len(order)), "xaxis": across, "yaxis": down})
    caption = (
        "What the rows that look wrong are called, and what they should be called. Click a cell to review its rows."
    )
    return Chart("pairs", "Given against suggested", caption + _which(report), figure)


def _over_epochs(lines: Mapping[str, tuple[list[float | None], dict[str, Any]]], epochs: list[int]) -> go.Figure:
    """Shares over the epochs; a line without any number is left out."""
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
        "training, as labelled": (_known(e.accuracy for e in history.epochs), {"color": "var(--accent)"}),
        "validation": (_known(e.valid_accuracy for e in history.epochs), {"color": "var(--keep)", "dash": "dash"}),
    }
    figure = _over_epochs(lines, [e.epoch for e in history.epochs])
    caption = (
        "How often the network agrees with the labels as given. Where some are wrong, it should not agree with all."
    )
    return Chart("accuracy", "Accuracy", caption, figure) if figure.data else None


def _removed(history: History) -> Chart | None:
    line = {"color": "var(--given)", "shape": "hv"}
    lines = {"removed": (_known(e.removed for e in history.epochs), line)}
    figure = _over_epochs(lines, [e.epoch for e in history.epochs])
    caption = "The share of rows that had no weight in training, because their labels look wrong."
    return Chart("removed", "Rows removed from training", caption, figure) if figure.data else None


def _losses(report: Report) -> Chart | None:
    kept, removed = (np.asarray(part, np.float64) for part in (report.kept_losses, report.removed_losses))
    kept, removed = kept[np.isfinite(kept)], removed[np.isfinite(removed)]
    both = np.concatenate([kept, removed])
    if not len(both):
        return None
    line = report.threshold if report.threshold is not None and math.isfinite(report.threshold) else None
    # A few huge losses would squeeze all others into one bar.
    top = max(float(np.quantile(both, 0.995)), line or 0.0)
    edges = np.histogram_bin_edges(np.minimum(both, top), BINS)
    traces = [
        _bars(name, colour, np.minimum(part, top), edges)
        for name, colour, part in (("kept", "var(--bar)", kept), ("removed", "var(--given)", removed))
        if len(part)
    ]
    across = {**AXIS, "showgrid": False, "title": {"text": "loss"}}
    axes = {"xaxis": across, "yaxis": {**AXIS, "tickformat": ".0%"}, "barmode": "overlay", "bargap": 0}
    figure = go.Figure(traces, {**LAYOUT, **axes, "showlegend": True})
    if line is not None:
        style = {"color": "var(--ink)", "width": 1.5, "dash": "dot"}
        figure.add_vline(line, line=style, annotation={"text": "threshold", "font": {"color": "var(--ink)"}})
    more = " The last bar holds all that are larger." if both.max() > top else ""
    caption = "Shares of the kept rows and of the removed rows by their loss; far apart is good." + more
    return Chart("losses", "Losses", caption, figure)


def _bars(name: str, colour: str, losses: Floats, edges: Floats) -> go.Bar:
    counts = np.histogram(losses, edges)[0]
    middles, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    hover = f"loss about %{{x:.3g}}: %{{customdata:,}} {name}<extra></extra>"
    bar = go.Bar(x=middles.tolist(), y=(counts / len(losses)).tolist(), width=widths.tolist(), name=name)
    return bar.update(customdata=counts.tolist(), hovertemplate=hover, marker={"color": colour, "opacity": 0.75})
