"""Tasks for Label Studio: each suspect with the suggestion as a prediction, and the page it is shown on."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import pyarrow.compute as pc
import pyarrow.parquet

from rockafellian._internal.files import atomic_write
from rockafellian.auditing.commands.run import open_run, reread
from rockafellian.auditing.data.labels import JOINT
from rockafellian.auditing.data.reading import Source
from rockafellian.auditing.data.writing import check_free
from rockafellian.auditing.features.kinds import Images, Kind
from rockafellian.auditing.model.classifier import Model
from rockafellian.auditing.report.outputs import write_json

#: By kind of data: the tag that shows it, and the key of a task that it reads.
TAGS = {"table": ("Table", "values"), "texts": ("Text", "text"), "images": ("Image", "image")}


def export(folder: Path, out: Path, *, everything: bool = False, data: Path | None = None, force: bool = False) -> int:
    """Write the suspects of a run, or all its rows, as tasks, and the labelling page beside them; how many they are."""
    check_free(out, force)
    described = open_run(folder)
    source = reread(folder, described, data)
    model = Model.load(folder / "model")
    table = pyarrow.parquet.read_table(folder / "findings.parquet")
    chosen = table if everything else table.filter(pc.field("is_label_issue"))
    joint = described["settings"]["separator"] or JOINT
    tasks = [_task(model, source, row, joint) for row in chosen.sort_by("label_quality").to_pylist()]
    write_json(out, tasks)
    with atomic_write(out.with_suffix(".xml")) as partial:
        partial.write_text(labelling_page(model), encoding="utf-8")
    return len(tasks)


def labelling_page(model: Model) -> str:
    """What to paste into the labelling interface of a Label Studio project."""
    tag, key = TAGS[model.kind.name]
    choices = "".join(f"    <Choice value={quoteattr(name)}/>\n" for name in model.classes)
    how = "multiple" if model.several else "single"
    return (
        f'<View>\n  <{tag} name="content" value="${key}"/>\n  <Header value="Given: $given_label"/>\n'
        f'  <Choices name="label" toName="content" choice="{how}">\n{choices}  </Choices>\n</View>\n'
    )


def _task(model: Model, source: Source, found: dict[str, Any], joint: str) -> dict[str, Any]:
    known = ("row", "id", "given_label", "reason")
    task: dict[str, Any] = {
        "data": {**_shown(model.kind, source, found["row"]), **{name: found[name] for name in known}},
        "meta": {"label_quality": found["label_quality"], "is_label_issue": found["is_label_issue"]},
    }
    if found["predicted_label"]:
        choices = found["predicted_label"].split(joint) if model.several else [found["predicted_label"]]
        result = {"from_name": "label", "to_name": "content", "type": "choices", "value": {"choices": choices}}
        made_by = f"rockafellian {version('rockafellian')}"
        score = found["predicted_probability"]
        task["predictions"] = [{"model_version": made_by, "score": score, "result": [result]}]
    return task


def _shown(kind: Kind, source: Source, row: int) -> dict[str, Any]:
    """What the tag shows: files through Label Studio's local storage, whose root is then the folder of the data."""
    if isinstance(kind, Images) and kind.column is not None:
        return {"image": f"/data/local-files/?d={quote(str(source.column(kind.column)[row]))}"}
    shown = kind.shown(source, row)
    return {TAGS[kind.name][1]: shown[TAGS[kind.name][1]]}
