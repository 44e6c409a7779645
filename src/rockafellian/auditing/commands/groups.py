"""`rockafellian show --group COLUMN`: who or what the label issues come from, by annotator, source or batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from rockafellian.auditing.commands.rereading import read_findings, reread
from rockafellian.auditing.commands.run_folder import open_run
from rockafellian.auditing.data.cells import as_text, has_text
from rockafellian.auditing.review.decisions import read_decisions


class Group(NamedTuple):
    """The rows with one value of a column: how many have a label, are flagged, were checked, and were wrong."""

    name: str
    rows: int
    flagged: int
    checked: int
    wrong: int


def by_group(folder: Path, column: str, decisions: Sequence[Path] = (), data: Path | None = None) -> list[Group]:
    """Return the groups of a run, those with the largest fraction of flagged rows first."""
    run = open_run(folder)
    source = reread(run, data)
    findings = read_findings(run, source)
    cells = source.column(column)
    if not has_text(cells.type):
        raise ValueError(f"need a column of texts, numbers or dates to group by, got {cells.type} in {column!r}")
    encoded = pc.dictionary_encode(as_text(cells), null_encoding="encode").combine_chunks()
    codes = encoded.indices.to_numpy()
    names = ["" if name is None else name for name in encoded.dictionary.to_pylist()]
    agreed = read_decisions(decisions, findings.column("id").to_pylist()).agreed
    checked = np.array([row for row, decision in agreed.items() if decision.wrong is not None], int)
    wrong = np.array([row for row, decision in agreed.items() if decision.wrong], int)
    known = findings.column("given_label").is_valid().to_numpy()
    flagged = findings.column("is_label_issue").to_numpy()
    counts = [np.bincount(codes[rows], minlength=len(names)).tolist() for rows in (known, flagged, checked, wrong)]
    groups = [Group(*each) for each in zip(names, *counts, strict=True)]
    return sorted(groups, key=lambda group: (-group.flagged / max(group.rows, 1), group.name))
