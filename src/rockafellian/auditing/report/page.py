"""The page of an audit: one HTML file, with nothing to fetch, in which a person reviews the suspect labels."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

from rockafellian._internal.extras import missing
from rockafellian.auditing.report.charts import Chart, charts, concerned
from rockafellian.auditing.report.summary import Report, Suspect, certainty, headline

try:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs
except ImportError as error:
    raise missing("plotly and jinja2 for the report", "audit") from error

#: No string can end a script or start a comment, and no JavaScript of any age sees a line end.
UNSAFE = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def render(report: Report) -> str:
    """The page as text, to be written as UTF-8."""
    _check(report)
    drawn = charts(report)
    script, plotly = _script(report), get_plotlyjs()
    shown = Environment(
        loader=PackageLoader("rockafellian.auditing.report", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template("report.html.j2")
    page = shown.render(
        report=report,
        charts=drawn,
        headline=headline(report),
        certainty=certainty(report),
        policy=_policy(script, plotly),
        style=Markup(_part("style.css")),
        data=Markup(_json(_data(report, drawn))),
        script=Markup(script),
        plotly=Markup(plotly),
    )
    return page.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair cannot be written


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
    return (files("rockafellian.auditing.report") / "template" / name).read_text("utf-8")


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


def _data(report: Report, drawn: Iterable[Chart]) -> dict[str, Any]:
    """What review.js reads."""
    columns = list(dict.fromkeys(name for suspect in report.suspects for name in suspect.values or ()))
    shown = [report.classes[number] for number in concerned(report)]
    return {
        "key": report.key,
        "multi": report.multi,
        "joint": report.joint,
        "classes": list(report.classes),
        "columns": columns,
        "suspects": [_fields(suspect, columns) for suspect in report.suspects],
        "figures": {chart.name: json.loads(chart.figure.to_json()) for chart in drawn},
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
