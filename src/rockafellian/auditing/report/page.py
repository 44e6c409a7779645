"""The page of an audit: one HTML file that works offline, on which a person reviews the label issues."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import shlex
from collections.abc import Mapping
from importlib.resources import files
from itertools import accumulate
from typing import Any

from rockafellian._internal.extras import missing
from rockafellian.auditing.report.charts import class_bars, drawings, pairs, selection_note
from rockafellian.auditing.report.contents import (
    LabelIssue,
    Report,
    Sample,
    expected_sentence,
    headline,
    noise_rate_sentence,
    trust_sentence,
)

try:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup
except ImportError as error:
    raise missing("jinja2 for the report", "audit") from error

#: So many label issues are in the strip of a banner.
N_IN_STRIP = 10
#: Escaped in JSON, so that no string ends the script element, starts a comment, or breaks a line of old JavaScript.
UNSAFE = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}

#: The parts of the script, in their order; the first serves a page without rows too.
SCRIPTS = ("page.js", "estimate.js", "decisions.js", "list.js", "detail.js", "calibrate.js", "files.js", "review.js")


def render(report: Report) -> str:
    """Return the page as text, to be written as UTF-8."""
    _check(report)
    script = _script(report)
    template = Environment(
        loader=PackageLoader("rockafellian.auditing.report", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template("report.html.j2")
    page = template.render(
        report=report,
        class_bars=class_bars(report),
        pairs=pairs(report),
        drawings=drawings(report),
        selection_note=selection_note(report),
        headline=headline(report),
        noise_rate=noise_rate_sentence(report),
        expected=expected_sentence(report.sample.bands, report.sample.expected) if report.sample else "",
        trust=trust_sentence(len(report.doubts)),
        listed=sum(issue.flagged for issue in report.issues),
        commands=_commands(report),
        strip=[issue for issue in report.issues if _in_strip(issue)][:N_IN_STRIP],
        policy=_policy(script),
        style=Markup(_part("style.css")),
        data=Markup(_json(_data(report))),
        script=Markup(script),
    )
    return page.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate cannot be encoded


def _in_strip(issue: LabelIssue) -> bool:
    return issue.flagged and issue.image is not None and issue.suggested not in (None, issue.given)


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
    foreign = next((one for one in report.issues if one.image and not one.image.startswith("data:image/")), None)
    if foreign:
        raise ValueError(
            f"need images as data:image/ URIs, as the page is offline; got {foreign.image!r:.40} in row {foreign.index}"
        )
    if report.sample:
        _check_sample(report.sample, {issue.index: issue.place for issue in report.issues})


def _check_sample(sample: Sample, places: Mapping[int, int | None]) -> None:
    ends = [0, *accumulate(sample.bands)]
    for row, band in sample.drawn:
        place = places.get(row)
        if place is None:
            raise ValueError(f"need every row of the sample among the issues, with its place; row {row} is not")
        if not (0 <= band < len(sample.bands) and ends[band] <= place < ends[band + 1]):
            raise ValueError(f"need the band of each row of the sample, got {band} for row {row} at place {place}")


def _commands(report: Report) -> list[str]:
    """The commands that use exported decisions, for a shell."""
    if report.folder is None:
        return []
    run, out = shlex.quote(report.folder), shlex.quote(report.corrected)
    return [f"rockafellian apply {run} decisions.csv --out {out}", f"rockafellian retrain {run} decisions.csv"]


def _part(name: str) -> str:
    return (files("rockafellian.auditing.report") / "template" / name).read_text("utf-8")


def _script(report: Report) -> str:
    parts = "\n".join(map(_part, SCRIPTS if report.issues else SCRIPTS[:1]))
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


def _policy(script: str) -> str:
    """The content security policy: only this script runs, and nothing is sent or fetched."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _json(value: Any) -> str:
    """JSON that is safe inside a script element."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(UNSAFE)


def _data(report: Report) -> dict[str, Any]:
    """The data of the script."""
    names = dict.fromkeys(name for issue in report.issues for name in issue.values or ())
    columns = {name: number for number, name in enumerate(names)}
    return {
        "key": report.key,
        "kind": report.kind,
        "why": report.why,
        "multilabel": report.multilabel,
        "separator": report.separator,
        "classes": list(report.classes),
        "columns": list(columns),
        "issues": [_fields(issue, columns) for issue in report.issues],
        "sample": report.sample and _sampled(report.sample),
    }


def _sampled(sample: Sample) -> dict[str, Any]:
    return {"bands": list(map(int, sample.bands)), "drawn": [[int(row), int(band)] for row, band in sample.drawn]}


def _fields(issue: LabelIssue, columns: Mapping[str, int]) -> list[Any]:
    """One row without the names of its fields, which would be most of a long list."""
    suggested = None if issue.suggested == issue.given else issue.suggested
    values = None if issue.values is None else _values(issue, columns)
    numbers = [_rounded(issue.quality), _rounded(issue.probability)]
    shown = [issue.reason, issue.text, issue.image, values]
    decisive = [list(issue.decisive), [list(span) for span in issue.spans]]
    return [issue.index, issue.id, issue.given, suggested, *numbers, *shown, issue.flagged, issue.place, *decisive]


def _values(issue: LabelIssue, columns: Mapping[str, int]) -> list[tuple[int, str]]:
    """The values of a row, each with the number of its column, decisive ones first."""
    values = issue.values or {}
    names = dict.fromkeys([*(name for name in issue.decisive if name in values), *values])
    return [(columns[name], values[name]) for name in names]


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(float(value), 4)
