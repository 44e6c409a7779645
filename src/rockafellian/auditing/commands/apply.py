"""`rockafellian apply`: the data with the decisions of a person: keep, relabel, drop; other rows stay as they are."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet

from rockafellian._internal.files import escape_formula
from rockafellian.auditing.commands.run import open_run, reread
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
    check_writable(out, force)
    described = open_run(folder)
    source = reread(folder, described, data)
    settings = described["settings"]
    labels = read_labels(source, settings["label"], settings["separator"])
    ids = pyarrow.parquet.read_table(folder / "findings.parquet", columns=["id"]).column("id").to_pylist()
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
        index, decided = _read_index(line, path, ids), (line["decision"], line["label"])
        if decided[0] not in DECISIONS:
            raise ValueError(
                f"need a decision that is {', '.join(DECISIONS)}; got {decided[0]!r} for row {index} in {path}"
            )
        if chosen.setdefault(index, decided) != decided:
            raise ValueError(
                f"need one decision for each row, but {path} has two for row {index}: {chosen[index]} and {decided}"
            )
    return chosen


def _read_index(line: dict[str, str | None], path: Path, ids: list[str]) -> int:
    index = int(line["index"] or "") if (line["index"] or "").isdecimal() else -1
    if not 0 <= index < len(ids) or line["id"] not in (ids[index], escape_formula(ids[index])):
        raise ValueError(
            f"need rows of the run, but {path} has index {line['index']} with id {line['id']!r}; "
            "were these decisions exported from another run?"
        )
    return index


def _read_class(label: str | None, labels: Labels, row: int) -> int | list[bool]:
    """The class, or a mask of the classes, that a label names, with or without the apostrophe of a spreadsheet."""
    known = {escape_formula(name): number for number, name in enumerate(labels.names)} | {
        name: number for number, name in enumerate(labels.names)
    }
    parts = [part.strip() for part in (label or "").removeprefix("'").split(labels.shown_separator) if part.strip()]
    wanted = parts if labels.multilabel else [label or ""]
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(
            f"need a label that is one of {', '.join(map(repr, labels.names[:20]))}; got {unknown[0]!r} for row {row}"
        )
    if not labels.multilabel:
        return known[wanted[0]]
    return [name in wanted for name in labels.names]
