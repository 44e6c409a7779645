"""`rockafellian export`: label issues as tasks for Label Studio, with predictions, and its labeling interface."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import pyarrow.compute as pc

from rockafellian._internal.files import atomic_write, write_json
from rockafellian.auditing.commands.rereading import read_findings, reread
from rockafellian.auditing.commands.run_folder import open_run
from rockafellian.auditing.data.labels import DEFAULT_SEPARATOR
from rockafellian.auditing.data.reading import Source
from rockafellian.auditing.data.writing import check_writable
from rockafellian.auditing.features.kinds import Images, Kind
from rockafellian.auditing.model.classifier import Classifier

#: By kind of data: the tag that shows it, and its key in a task.
TAGS = {"table": ("Table", "values"), "texts": ("Text", "text"), "images": ("Image", "image")}


def export(folder: Path, out: Path, *, everything: bool = False, data: Path | None = None, force: bool = False) -> int:
    """Write the label issues of a run, or all its rows, as tasks, and the labeling interface; return how many."""
    interface = out.with_suffix(".xml")
    if interface == out:
        raise ValueError(f"need another name for the tasks than {out}, where their labeling interface goes; use .json")
    run = open_run(folder)
    for path in (out, interface):
        check_writable(path, force, inputs=run.inputs(data))
    source, described = reread(run, data), run.description
    model = Classifier.load(run.model())
    table = read_findings(run, source)
    chosen = table if everything else table.filter(pc.field("is_label_issue"))
    separator = described.reading.separator or DEFAULT_SEPARATOR
    tasks = [_task(model, source, row, separator) for row in chosen.sort_by("label_quality").to_pylist()]
    with atomic_write(interface) as partial:
        partial.write_text(labeling_interface(model), encoding="utf-8")
    write_json(out, tasks)
    return len(tasks)


def labeling_interface(model: Classifier) -> str:
    """Return the XML to paste into the labeling interface of a Label Studio project."""
    tag, key = TAGS[model.kind.name]
    choices = "".join(f"    <Choice value={quoteattr(name)}/>\n" for name in model.classes)
    how = "multiple" if model.multilabel else "single"
    return (
        f'<View>\n  <{tag} name="content" value="${key}"/>\n  <Header value="Labeled: $given_label"/>\n'
        f'  <Choices name="label" toName="content" choice="{how}">\n{choices}  </Choices>\n</View>\n'
    )


def _task(model: Classifier, source: Source, found: dict[str, Any], separator: str) -> dict[str, Any]:
    known = ("index", "id", "given_label", "reason")
    task: dict[str, Any] = {
        "data": {**_content(model.kind, source, found["index"]), **{name: found[name] for name in known}},
        "meta": {"label_quality": found["label_quality"], "is_label_issue": found["is_label_issue"]},
    }
    if found["predicted_label"]:
        choices = found["predicted_label"].split(separator) if model.multilabel else [found["predicted_label"]]
        result = {"from_name": "label", "to_name": "content", "type": "choices", "value": {"choices": choices}}
        made_by = f"rockafellian {version('rockafellian')}"
        score = found["predicted_probability"]
        task["predictions"] = [{"model_version": made_by, "score": score, "result": [result]}]
    return task


def _content(kind: Kind, source: Source, row: int) -> dict[str, Any]:
    """What the tag shows; image files come from Label Studio's local storage, whose root is the folder of the data."""
    if isinstance(kind, Images) and kind.column is not None:
        return {"image": f"/data/local-files/?d={quote(str(source.column(kind.column)[row]))}"}
    key = TAGS[kind.name][1]
    return {key: kind.preview(source, row)[key]}
