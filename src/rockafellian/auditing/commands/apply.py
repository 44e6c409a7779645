"""`rockafellian apply`: the data with the decisions of a person: keep, relabel, drop; other rows stay as they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rockafellian._internal.files import escape_formula, unescape_formula
from rockafellian.auditing.commands.rereading import read_findings, reread
from rockafellian.auditing.commands.run_folder import open_run
from rockafellian.auditing.data.labels import Labels, read_labels, relabel
from rockafellian.auditing.data.reading import Source, read
from rockafellian.auditing.data.writing import check_writable, write_rows

COLUMNS = ("index", "id", "decision", "label")
DECISIONS = ("keep", "relabel", "drop", "skip")


class Applied(NamedTuple):
    """The number of rows written, of those with a new label, and of dropped rows."""

    rows: int
    relabeled: int
    dropped: int


def apply(folder: Path, decisions: Path, out: Path, data: Path | None = None, *, force: bool = False) -> Applied:
    """Write the data of a run with the decisions exported from its page; return how many rows changed."""
    run = open_run(folder)
    check_writable(out, force, inputs=[decisions, *run.inputs(data)])
    source = reread(run, data)
    reading = run.description.reading
    labels = read_labels(source, reading.label, reading.separator)
    ids = read_findings(run, source).column("id").to_pylist()
    chosen = _read_decisions(read(decisions), decisions, ids)
    given, changed, kept = labels.given.copy(), np.zeros(len(source), bool), np.ones(len(source), bool)
    for row, (decision, label) in chosen.items():
        if decision == "relabel":
            given[row], changed[row] = _read_class(label, labels, row), True
        kept[row] = decision != "drop"
    write_rows(out, source, relabel(source, labels, changed, given), kept)
    return Applied(int(kept.sum()), int((changed & kept).sum()), int((~kept).sum()))


def _read_decisions(source: Source, path: Path, ids: list[str]) -> dict[int, tuple[str, str | None]]:
    """By the index of the row: the decision, and its label."""
    if missing := [name for name in COLUMNS if name not in source.table.column_names]:
        raise ValueError(f"need columns {', '.join(COLUMNS)}, as the page exports them; {path} has no {missing[0]!r}")
    chosen: dict[int, tuple[str, str | None]] = {}
    for line in source.table.select(COLUMNS).to_pylist():
        cells = {name: None if cell is None else str(cell) for name, cell in line.items()}  # from CSV, Excel or JSON
        index, decided = _read_index(cells, path, ids), (str(cells["decision"]), cells["label"])
        if decided[0] not in DECISIONS:
            raise ValueError(
                f"need a decision that is {', '.join(DECISIONS)}; got {cells['decision']!r} for row {index} in {path}"
            )
        if chosen.setdefault(index, decided) != decided:
            raise ValueError(
                f"need one decision for each row, but {path} has two for row {index}: {chosen[index]} and {decided}"
            )
    return chosen


def _read_index(line: dict[str, str | None], path: Path, ids: list[str]) -> int:
    index = int(str(line["index"])) if re.fullmatch("[0-9]{1,15}", line["index"] or "") else -1
    if not 0 <= index < len(ids) or line["id"] not in (ids[index], escape_formula(ids[index])):
        raise ValueError(
            f"need rows of the run, but {path} has index {line['index']} with id {line['id']!r}; "
            "were these decisions exported from another run?"
        )
    return index


def _read_class(label: str | None, labels: Labels, row: int) -> int | list[bool]:
    """The class, or a mask of the classes, of a label: in the form of the page, or as it is where that fails."""
    for text in (unescape_formula(label or ""), label or ""):
        if labels.multilabel:
            wanted = [part.strip() for part in text.split(labels.shown_separator) if part.strip()]
        else:
            wanted = [text]
        unknown = [name for name in wanted if name not in labels.names]
        if not unknown:
            return [name in wanted for name in labels.names] if labels.multilabel else labels.names.index(text)
    shown = ", ".join(map(repr, labels.names[:20]))
    raise ValueError(f"need a label that is one of {shown}; got {unknown[0]!r} for row {row}")
