"""`rockafellian apply`: the data with people's decisions: keep, relabel, drop; other rows stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rockafellian.auditing.commands.rereading import read_findings, read_plan, reread
from rockafellian.auditing.commands.run_folder import open_run
from rockafellian.auditing.data.image_folders import write_folder
from rockafellian.auditing.data.labels import read_labels, relabel
from rockafellian.auditing.data.writing import check_writable, write_rows
from rockafellian.auditing.review.decisions import correct, read_decisions
from rockafellian.auditing.review.estimate import Reviewed


class Applied(NamedTuple):
    """The number of rows written, of those with a new label, and of dropped rows; and what is known now."""

    rows: int
    relabeled: int
    dropped: int
    reviewed: Reviewed
    notices: Sequence[str] = ()


def apply(
    folder: Path, decisions: Sequence[Path], out: Path, data: Path | None = None, *, force: bool = False
) -> Applied:
    """Write the data of a run with the decisions exported from its page; return how many rows changed.

    A folder of images becomes a new folder, with a copy of each image below its label, if `out` has no suffix.
    """
    run = open_run(folder)
    check_writable(out, force, inputs=[*decisions, *run.inputs(data)])
    source = reread(run, data)
    reading = run.description.reading
    labels = read_labels(source, reading.label, reading.separator)
    findings = read_findings(run, source)
    joined = read_decisions(decisions, findings.column("id").to_pylist())
    made, reviewed = correct(labels, joined.agreed), read_plan(run, findings).reviewed(joined.agreed)
    kept = ~made.dropped
    if source.format == "folder" and not out.suffix:
        files = source.column("file").to_pylist()
        write_folder(out, source.folder, files, labels.as_text(made.given).tolist(), kept.tolist())
    else:
        write_rows(out, source, relabel(source, labels, made.relabeled, made.given), kept)
    changed = made.relabeled & kept
    return Applied(int(kept.sum()), int(changed.sum()), int(made.dropped.sum()), reviewed, joined.notices)
