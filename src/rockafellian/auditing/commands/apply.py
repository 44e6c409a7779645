"""What a person decided about suspects, applied to the data: keep, relabel, remove; anything else stays as it is."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet

from rockafellian._internal.files import escape_formula
from rockafellian.auditing.commands.run import open_run, reread
from rockafellian.auditing.data.labels import Labels, read_labels, relabelled
from rockafellian.auditing.data.reading import Source, read
from rockafellian.auditing.data.writing import check_free, write_rows

DECISIONS = ("keep", "relabel", "remove", "skip")


class Applied(NamedTuple):
    """How many rows were written, with how many new labels, and how many were removed."""

    rows: int
    relabelled: int
    removed: int


def apply(folder: Path, decisions: Path, out: Path, data: Path | None = None, *, force: bool = False) -> Applied:
    """Write the data of a run as the decisions, exported from its page, want it."""
    check_free(out, force)
    described = open_run(folder)
    source = reread(folder, described, data)
    settings = described["settings"]
    labels = read_labels(source, settings["label"], settings["separator"])
    ids = pyarrow.parquet.read_table(folder / "findings.parquet", columns=["id"]).column("id").to_pylist()
    chosen = _read_decisions(read(decisions), decisions, ids)
    given, changed, kept = labels.given.copy(), np.zeros(len(source), bool), np.ones(len(source), bool)
    for row, (decision, label) in chosen.items():
        if decision == "relabel":
            given[row], changed[row] = _class(label, labels, row), True
        kept[row] = decision != "remove"
    write_rows(out, source, relabelled(source, labels, changed, given), kept)
    return Applied(int(kept.sum()), int((changed & kept).sum()), int((~kept).sum()))


def _read_decisions(source: Source, path: Path, ids: list[str]) -> dict[int, tuple[str, str | None]]:
    """By row: the decision, and the label that goes with it."""
    names = ("row", "id", "decision", "label")
    if missing := [name for name in names if name not in source.table.column_names]:
        raise ValueError(f"need columns {', '.join(names)}, as the page exports them, but {path} has no {missing[0]!r}")
    chosen: dict[int, tuple[str, str | None]] = {}
    for line in source.table.select(names).to_pylist():
        row = int(line["row"]) if str(line["row"] or "").isdecimal() else -1
        if not 0 <= row < len(ids) or line["id"] not in (ids[row], escape_formula(ids[row])):
            raise ValueError(
                f"need rows of the run, but {path} has row {line['row']} with id {line['id']!r}; is it of another run?"
            )
        decided = (line["decision"], line["label"])
        if decided[0] not in DECISIONS:
            raise ValueError(
                f"need a decision that is {', '.join(DECISIONS)}; got {decided[0]!r} for row {row} in {path}"
            )
        if chosen.setdefault(row, decided) != decided:
            raise ValueError(f"need one decision a row, but {path} has two for row {row}: {chosen[row]} and {decided}")
    return chosen


def _class(label: str | None, labels: Labels, row: int) -> int | list[bool]:
    """The class, or the classes, that a label names; an apostrophe for a spreadsheet's sake does not count."""
    known = {escape_formula(name): number for number, name in enumerate(labels.names)} | {
        name: number for number, name in enumerate(labels.names)
    }
    parts = [part.strip() for part in (label or "").removeprefix("'").split(labels.joint) if part.strip()]
    wanted = parts if labels.several else [label or ""]
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(
            f"need a label that is one of {', '.join(map(repr, labels.names[:20]))}; got {unknown[0]!r} for row {row}"
        )
    if not labels.several:
        return known[wanted[0]]
    return [name in wanted for name in labels.names]
