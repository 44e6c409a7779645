"""A user's data made ready: read, checked, and turned into inputs and targets. What is wrong with it shows here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from torch import Tensor

from rockafellian.auditing.data.labels import Labels, read_labels, read_like
from rockafellian.auditing.data.reading import Source, read
from rockafellian.auditing.data.settings import Settings
from rockafellian.auditing.features.kinds import Features, Kind, choose, encode
from rockafellian.training.progress import Progress

#: Columns that are taken for ids if every row has another value, and label columns that need not be named.
ID_NAMES = ("id", "uid", "uuid", "row_id", "rowid", "file")
LABEL_OF = {"folder": "label", "npz": "y"}
NO_IDS = (pa.types.is_nested, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)


@dataclass(frozen=True, eq=False)
class Problem:
    """What is trained on. `rows` are the numbers of the rows that have a label; inputs and targets are theirs."""

    source: Source
    settings: Settings
    labels: Labels
    kind: Kind
    features: Features
    rows: NDArray[np.int64]
    inputs: Tensor
    targets: Tensor
    valid: tuple[Tensor, Tensor] | None
    ids: list[str] | None
    conflicts: list[NDArray[np.int64]]  # groups of rows that are the same, with different labels
    notices: list[str]


def prepare(data: Any, settings: Settings, valid: Any = None, progress: Progress = "quiet") -> Problem:
    """Read and check the data, and the validation data if there are any."""
    source = read(data)
    settings = replace(settings, label=settings.label or _label_of(source))
    labels = read_labels(source, settings.label, settings.separator)
    if labels.several and settings.loss is not None:
        raise ValueError(f"need no loss where rows have several labels, as bce is the one; got {settings.loss!r}")
    id_column = _id_column(source, settings)
    others = [name for name in source.table.column_names if name not in (*settings.label, id_column)]
    others += ["file"] if source.form == "folder" else []
    kind = choose(source, others, settings.text, settings.image)
    rows = np.flatnonzero(labels.known)
    trained = source if len(rows) == len(source) else source.take(rows)
    features, inputs = kind.learn(trained, settings, progress)
    conflicts = [rows[group] for group in find_conflicts(kind.same(trained, inputs), labels.given[rows])]
    return Problem(
        source=source,
        settings=settings,
        labels=labels,
        kind=kind,
        features=features,
        rows=rows,
        inputs=inputs,
        targets=labels.targets(),
        valid=None if valid is None else _read_valid(valid, labels, kind, features, progress),
        ids=None if id_column is None else source.column(id_column).cast("string").to_pylist(),
        conflicts=conflicts,
        notices=_notices(source, labels, conflicts),
    )


def find_conflicts(same: NDArray[np.uint64], given: NDArray[Any]) -> list[NDArray[np.int64]]:
    """Groups of rows with the same content and different labels, each and all in order."""
    label = np.unique(given, axis=0, return_inverse=True)[1].reshape(-1)
    order = np.argsort(same, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(same[order]) != 0])
    differ = np.minimum.reduceat(label[order], starts) != np.maximum.reduceat(label[order], starts)
    ends = np.r_[starts[1:], len(order)]
    groups = [order[start:end] for start, end in zip(starts[differ], ends[differ], strict=True)]
    return sorted(groups, key=lambda group: int(group[0]))


def _label_of(source: Source) -> tuple[str, ...]:
    if source.form in LABEL_OF:  # a y of several columns has a number in each of their names
        return tuple(name for name in source.table.column_names if name.startswith(LABEL_OF[source.form]))
    shown = ", ".join(map(repr, source.table.column_names[:20]))
    raise ValueError(f"need the column that holds the labels, got none; name one of {shown} with --label")


def _id_column(source: Source, settings: Settings) -> str | None:
    """The column that names the rows: as told, or one that is called so and has another value in every row."""
    likely = [name for name in source.table.column_names if name.lower() in ID_NAMES and name not in settings.label]
    taken = settings.id or next((name for name in likely if _all_differ(source, name)), None)
    if settings.id is not None and (settings.id in settings.label or not _all_differ(source, settings.id)):
        raise ValueError(f"need an id that is another in every row, got column {settings.id!r}; name another")
    return taken


def _all_differ(source: Source, name: str) -> bool:
    column = source.column(name)
    if any(test(column.type) for test in NO_IDS):
        return False
    return bool(column.null_count == 0 and pc.count_distinct(column).as_py() == len(source))


def _read_valid(data: Any, labels: Labels, kind: Kind, features: Features, progress: Progress) -> tuple[Tensor, Tensor]:
    source = read(data)
    found = read_like(source, labels)
    if not found.known.any():
        raise ValueError(f"need labels in the validation data, got none in column {labels.columns[0]!r}")
    return encode(kind, features, source.take(np.flatnonzero(found.known)), progress), found.targets()


def _notices(source: Source, labels: Labels, conflicts: Sequence[NDArray[np.int64]]) -> list[str]:
    notices = []
    if missing := len(source) - int(labels.known.sum()):
        notices.append(f"{missing:,} of {len(source):,} rows have no label: set aside, and listed in set_aside.csv")
    if conflicts:
        rows = sum(map(len, conflicts))
        notices.append(f"{rows:,} rows come more than once with different labels: listed in conflicts.csv")
    if not labels.several:
        counts = np.bincount(labels.given[labels.known], minlength=len(labels.names))
        if rare := [name for name, count in zip(labels.names, counts, strict=True) if count < 5]:
            shown = ", ".join(rare[:5]) + ", ..." * (len(rare) > 5)
            notices.append(f"{len(rare)} classes have fewer than 5 rows, too few to judge their labels by: {shown}")
    return notices
