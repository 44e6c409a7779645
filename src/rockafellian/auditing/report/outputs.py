"""What an audit leaves behind: findings of every row, cleaned and re-labelled data, lists, a page and a summary."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from rockafellian._internal.arrays import blocks
from rockafellian._internal.files import atomic_write, write_csv
from rockafellian.auditing.data.labels import relabelled
from rockafellian.auditing.data.writing import suffix_for, write_rows
from rockafellian.auditing.model.audit import Audit
from rockafellian.auditing.report.page import render
from rockafellian.auditing.report.summary import Report, Suspect
from rockafellian.label_issues import COLUMNS

#: So many suspects a page lists, and so many bytes of pictures and texts it carries: it must open on a phone.
MOST_SUSPECTS, MOST_BYTES = 20_000, 40_000_000
NO_LABEL = "no label given"


def write_all(audit: Audit, folder: Path, key: str) -> None:
    """All files but the mark that says they are all there."""
    problem = audit.problem
    source, everything = problem.source, np.ones(len(problem.source), bool)
    audit.model.save(folder / "model")
    table = findings_table(audit)
    with atomic_write(folder / "findings.parquet") as partial:
        pyarrow.parquet.write_table(table, partial)
    _write_for_people(folder / "findings.csv", table)
    copies = suffix_for(source)
    write_rows(folder / f"cleaned{copies}", source, source.table, ~audit.flagged)
    new = relabelled(source, problem.labels, audit.to_relabel, audit.suggested)
    write_rows(folder / f"relabelled{copies}", source, new, everything)
    _write_lists(audit, table, folder)
    write_json(folder / "history.json", {name: audit.history.state_dict()[name] for name in ("epochs", "rounds")})
    write_json(folder / "summary.json", summary(audit))
    write_report(audit, folder / "report.html", table=table, key=key)


def write_report(audit: Audit, path: Path, *, table: pa.Table | None = None, key: str | None = None) -> None:
    """The page; without a key, its progress is kept under its own name."""
    found = findings_table(audit) if table is None else table
    with atomic_write(path) as partial:
        partial.write_text(render(report(audit, found, key or str(path))), encoding="utf-8")


def findings_table(audit: Audit) -> pa.Table:
    """Every row of the data in its order: number, id, and the columns of Findings; unknown where it has no label."""
    problem, found = audit.problem, audit.found
    n, rows = len(problem.source), problem.rows
    ids = [str(row) for row in range(n)] if problem.ids is None else problem.ids
    columns: dict[str, Any] = {"row": pa.array(np.arange(n)), "id": pa.array(ids, pa.string())}
    for name in COLUMNS[1:]:
        values = getattr(found, name)
        if len(rows) < n:
            values = _spread(values, rows, n)
        columns[name] = pa.array(values, from_pandas=True)
    if len(rows) < n:
        unknown = ~problem.labels.known
        fill = {
            "predicted_label": problem.labels.written(audit.suggested),
            "predicted_probability": audit.probability,
            "reason": np.full(n, NO_LABEL, dtype=object),
        }
        for name, values in fill.items():
            columns[name] = pa.compute.if_else(pa.array(unknown), pa.array(values, columns[name].type), columns[name])
    return pa.table(columns)


def summary(audit: Audit) -> dict[str, Any]:
    """What `rockafellian show` prints."""
    problem, labels = audit.problem, audit.problem.labels
    last = audit.history.epochs[-1]
    flagged = audit.flagged
    return {
        "kind": problem.kind.describe(),
        "inputs": problem.features.describe(),
        "rows": len(problem.source),
        "labelled_rows": len(problem.rows),
        "flagged_rows": int(flagged.sum()),
        "relabelled_rows": int(audit.to_relabel.sum()),
        "estimate": None if audit.estimate is None else audit.estimate._asdict(),
        "accuracy_on_given_labels": last.accuracy,
        "validation_accuracy": last.valid_accuracy,
        "epochs": last.epoch,
        "classes": dict(zip(labels.names, _per_class(audit), strict=True)),
        "conflicting_groups": len(audit.problem.conflicts),
        "notices": audit.notices,
        "seconds": round(audit.seconds, 2),
        "versions": {name: version(name) for name in ("rockafellian", "torch", "numpy", "pyarrow")},
    }


def report(audit: Audit, table: pa.Table, key: str) -> Report:
    """What the page shows."""
    problem, labels, found = audit.problem, audit.problem.labels, audit.found
    per_class = _per_class(audit)
    removed = found.is_label_issue
    name = "the frame" if problem.source.path is None else problem.source.path.name
    return Report(
        title=name,
        key=key,
        kind=problem.kind.name,
        rows=len(problem.rows),
        flagged=int(removed.sum()),
        estimate=audit.estimate,
        classes=labels.names,
        class_rows=[each["rows"] for each in per_class],
        class_flagged=[each["flagged"] for each in per_class],
        matrix=_matrix(audit).tolist(),
        history=audit.history,
        kept_losses=audit.losses[~removed],
        removed_losses=audit.losses[removed],
        threshold=audit.threshold,
        suspects=list(suspects(audit, table)),
        facts=_facts(audit),
        notices=audit.notices,
        multi=labels.several,
        joint=labels.joint,
    )


def worst_first(audit: Audit) -> NDArray[np.int64]:
    """The flagged rows, lowest label quality first."""
    found = audit.found
    doubt = -found.average_loss if audit.problem.labels.several else found.average_margin
    order = np.lexsort((doubt, found.label_quality))
    return audit.problem.rows[order[found.is_label_issue[order]]]


def suspects(audit: Audit, table: pa.Table) -> Iterator[Suspect]:
    """The flagged rows, worst first, as many as a page can carry."""
    problem, bytes_left = audit.problem, MOST_BYTES
    rows = worst_first(audit)[:MOST_SUSPECTS]
    for row, each in zip(rows.tolist(), table.take(pa.array(rows)).to_pylist(), strict=True):
        shown = problem.kind.shown(problem.source, row)
        bytes_left -= sum(len(str(part)) for part in shown.values())
        if bytes_left < 0:
            return
        yield Suspect(
            row=row,
            id=each["id"],
            given=each["given_label"],
            suggested=each["predicted_label"],
            score=each["label_quality"],
            probability=each["predicted_probability"],
            reason=each["reason"],
            **shown,
        )


def write_json(path: Path, content: Any) -> None:
    """In one step, readable."""
    with atomic_write(path) as partial:
        partial.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _write_lists(audit: Audit, table: pa.Table, folder: Path) -> None:
    """The rows without a label, and those that contradict each other."""
    problem = audit.problem
    aside = table.filter(pa.array(~problem.labels.known))
    if len(aside):
        _write_for_people(
            folder / "set_aside.csv", aside.select(["row", "id", "predicted_label", "predicted_probability"])
        )
    if problem.conflicts:
        rows = np.concatenate(problem.conflicts)
        group = np.repeat(np.arange(1, len(problem.conflicts) + 1), [len(each) for each in problem.conflicts])
        chosen = table.select(["row", "id", "given_label", "predicted_label"]).take(pa.array(rows))
        _write_for_people(folder / "conflicts.csv", chosen.add_column(0, "group", pa.array(group)))


def _write_for_people(path: Path, table: pa.Table) -> None:
    """As CSV in which a spreadsheet finds nothing to run."""
    parts = (table.slice(part.start, part.stop - part.start) for part in blocks(len(table)))
    write_csv(path, table.column_names, ([column.to_pylist() for column in part.columns] for part in parts))


def _spread(values: NDArray[Any], rows: NDArray[np.int64], n: int) -> NDArray[Any]:
    """The values in their rows of n; None or NaN in the others, False for a mask, 0 for a count."""
    empty: Any = {"O": None, "f": np.nan, "b": False}.get(values.dtype.kind, 0)
    spread = np.full(n, empty, values.dtype)
    spread[rows] = values
    return spread


def _per_class(audit: Audit) -> list[dict[str, int]]:
    labels, flagged = audit.problem.labels, audit.flagged
    if labels.several:
        counts = [(labels.given[labels.known].sum(0)), (labels.given[flagged].sum(0))]
    else:
        counts = [np.bincount(labels.given[mask], minlength=len(labels.names)) for mask in (labels.known, flagged)]
    return [{"rows": int(rows), "flagged": int(marked)} for rows, marked in zip(*counts, strict=True)]


def _matrix(audit: Audit) -> NDArray[np.int64]:
    """Flagged rows by given and by suggested class; nothing where rows have several."""
    classes = len(audit.problem.labels.names)
    if audit.problem.labels.several:
        return np.zeros((classes, classes), np.int64)
    given, suggested = audit.problem.labels.given[audit.flagged], audit.suggested[audit.flagged]
    return np.bincount(given * classes + suggested, minlength=classes**2).reshape(classes, classes)


def _facts(audit: Audit) -> dict[str, str]:
    problem, last = audit.problem, audit.history.epochs[-1]
    told = {name: value for name, value in asdict(problem.settings).items() if value not in (None, (), "auto")}
    facts = {
        "Data": f"{problem.kind.describe()}: {len(problem.source):,} rows, {len(problem.labels.names)} classes",
        "What the network sees": problem.features.describe(),
        "Network": ", ".join(f"{name} {value}" for name, value in audit.model.description.items()).removeprefix(
            "network "
        ),
        "Training": f"{last.epoch} epochs in {audit.seconds:.0f} s",
        "Agrees with the labels given": "" if last.accuracy is None else f"{last.accuracy:.1%} in the last epoch",
        "Validation": "" if last.valid_accuracy is None else f"{last.valid_accuracy:.1%} right after the last epoch",
        "Settings": ", ".join(
            f"{name} {', '.join(value) if isinstance(value, tuple) else value}" for name, value in told.items()
        ),
        "Version": f"rockafellian {version('rockafellian')}",
    }
    return {name: value for name, value in facts.items() if value}
