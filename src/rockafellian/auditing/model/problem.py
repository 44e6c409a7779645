"""The data of an audit, read, checked, and turned into inputs and targets of a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian.auditing.data.cells import as_text, decoded, has_text, named
from rockafellian.auditing.data.labels import Labels, read_labels, read_labels_like
from rockafellian.auditing.data.reading import Source, is_text_file, read
from rockafellian.auditing.data.settings import Settings
from rockafellian.auditing.features.kinds import Features, Kind, choose_kind, encode
from rockafellian.auditing.review.decisions import Decision, correct
from rockafellian.method.noise_rate import NoiseRate
from rockafellian.training.progress import Progress

#: Columns that are ids if all their values differ, and the label columns of data that need not name them.
ID_NAMES = ("id", "uid", "uuid", "row_id", "rowid", "file")
DEFAULT_LABEL = {"folder": "label", "npz": "y"}


@dataclass(frozen=True, eq=False)
class Problem:
    """What is trained on. `rows` are the indices of the rows that have a label; inputs and targets are those rows'."""

    source: Source
    settings: Settings
    labels: Labels
    kind: Kind
    features: Features
    rows: NDArray[np.int64]
    inputs: Tensor
    targets: Tensor
    valid: tuple[Tensor, Tensor] | None
    ids: pa.ChunkedArray | None
    fingerprints: NDArray[np.uint64]  # equal for equal rows
    trusted: NDArray[np.bool_] | None = None  # of the labeled rows, those that a person has decided
    review: Review | None = None  # whose decisions are in the labels

    @property
    def crisp(self) -> bool:
        """Whether every row is taken to have one right answer: as set, or as usual for such data."""
        return self.kind.crisp if self.settings.crisp is None else self.settings.crisp

    @property
    def reviewed_rate(self) -> NoiseRate | None:
        """The noise rate that a person's decisions leave, if there are any and it is known well enough."""
        return None if self.review is None else self.review.noise_rate

    @cached_property
    def conflicts(self) -> list[NDArray[np.int64]]:
        """Groups of equal rows with different labels."""
        return [self.rows[group] for group in find_conflicts(self.fingerprints, self.labels.given[self.rows])]

    @cached_property
    def notices(self) -> list[str]:
        """What a user should know about the data."""
        return _notices(self.source, self.labels, self.conflicts)

    def subset(self, kept: NDArray[np.bool_]) -> Problem:
        """Return the problem with some of the labeled rows only."""
        at = torch.from_numpy(kept)
        return replace(
            self,
            rows=self.rows[kept],
            inputs=self.inputs[at],
            targets=self.targets[at],
            fingerprints=self.fingerprints[kept],
            trusted=None if self.trusted is None else self.trusted[kept],
        )

    def with_review(self, review: Review) -> Problem:
        """Return the problem with labels as people decided; rows that a person dropped have none."""
        made = correct(self.labels, review.decisions)
        kept = self.subset(~made.dropped[self.rows])
        labels = replace(self.labels, given=made.given, known=self.labels.known & ~made.dropped)
        trusted = made.trusted[kept.rows] | (False if kept.trusted is None else kept.trusted)
        return replace(kept, labels=labels, targets=labels.targets(), trusted=trusted, review=review)


class Review(NamedTuple):
    """People's decisions by row, the noise rate that these leave, if they are sure enough of it, and when to use it."""

    decisions: Mapping[int, Decision]
    noise_rate: NoiseRate | None
    warmup: int = 0  # epochs before the first re-weighting: as many as in the run that was reviewed


def prepare(data: Any, settings: Settings, valid: Any = None, progress: Progress = "quiet") -> Problem:
    """Read and check the data, and the validation data if there are any; return what is trained on."""
    source = read(data, encoding=settings.encoding)
    settings = replace(settings, label=settings.label or _default_label(source))
    labels = read_labels(source, settings.label, settings.separator)
    if labels.multilabel and settings.loss is not None:
        raise ValueError(f"need no loss where rows have several labels, as it is bce then; got {settings.loss!r}")
    id_column = _id_column(source, settings)
    kind = _choose_kind(source, settings, id_column)
    rows = np.flatnonzero(labels.known)
    content = kind.content(source if len(rows) == len(source) else source.take(rows))
    features, inputs = kind.fit_transform(content, settings, progress)
    return Problem(
        source=source,
        settings=settings,
        labels=labels,
        kind=kind,
        features=features,
        rows=rows,
        inputs=inputs,
        targets=labels.targets(),
        valid=None if valid is None else _read_valid(valid, settings, labels, kind, features, progress),
        ids=None if id_column is None else as_text(source.column(id_column)).cast(pa.string()),
        fingerprints=kind.fingerprints(content, inputs),
    )


def _choose_kind(source: Source, settings: Settings, id_column: str | None) -> Kind:
    used = {*settings.label, id_column}
    others = [name for name in source.table.column_names if name not in used]
    others += ["file"] if source.format == "folder" else []
    return choose_kind(source, others, settings.text, settings.image)


def find_conflicts(fingerprints: NDArray[np.uint64], given: NDArray[Any]) -> list[NDArray[np.int64]]:
    """Return groups of rows with equal fingerprints and different labels, in data order."""
    label = np.unique(given, axis=0, return_inverse=True)[1].reshape(-1)
    order = np.argsort(fingerprints, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(fingerprints[order]) != 0])
    differ = np.minimum.reduceat(label[order], starts) != np.maximum.reduceat(label[order], starts)
    ends = np.r_[starts[1:], len(order)]
    groups = [order[start:end] for start, end in zip(starts[differ], ends[differ], strict=True)]
    return sorted(groups, key=lambda group: int(group[0]))


def _default_label(source: Source) -> tuple[str, ...]:
    if source.format in DEFAULT_LABEL:  # a y with several columns was read as y0, y1, ...
        return tuple(name for name in source.table.column_names if name.startswith(DEFAULT_LABEL[source.format]))
    shown = ", ".join(map(repr, source.table.column_names[:20]))
    raise ValueError(f"need a label column, got none; name one of {shown} with --label")


def _id_column(source: Source, settings: Settings) -> str | None:
    """The column that names the rows: as set, or one with a usual name and a different value in every row."""
    likely = [name for name in source.table.column_names if name.lower() in ID_NAMES and name not in settings.label]
    taken = settings.id or next((name for name in likely if _all_differ(source, name)), None)
    if settings.id is not None and (settings.id in settings.label or not _all_differ(source, settings.id)):
        raise ValueError(f"need an id that differs in every row, got column {settings.id!r}; name another column")
    return taken


def _all_differ(source: Source, name: str) -> bool:
    column = decoded(source.column(name))
    if not has_text(column.type) or column.null_count:
        return False
    return bool(pc.count_distinct(column).as_py() == len(source))


def _read_valid(
    data: Any, settings: Settings, labels: Labels, kind: Kind, features: Features, progress: Progress
) -> tuple[Tensor, Tensor]:
    source = read(data, encoding=settings.encoding if is_text_file(data) else None)
    found = read_labels_like(source, labels)
    if not found.known.any():
        raise ValueError(f"need labels in the validation data, got none in column {labels.columns[0]!r}")
    content = kind.content(source.take(np.flatnonzero(found.known)))
    return encode(kind, features, content, progress), found.targets()


def _notices(source: Source, labels: Labels, conflicts: Sequence[NDArray[np.int64]]) -> list[str]:
    notices = [*source.notices, *labels.notices]
    if missing := len(source) - int(labels.known.sum()):
        notices.append(f"{missing:,} of {len(source):,} rows have no label: not trained on, listed in set_aside.csv")
    if conflicts:
        rows = sum(map(len, conflicts))
        notices.append(f"{rows:,} rows have duplicates with different labels: listed in conflicts.csv")
    if not labels.multilabel:
        counts = np.bincount(labels.given[labels.known], minlength=len(labels.names))
        if rare := [name for name, count in zip(labels.names, counts, strict=True) if count < 5]:
            shown = ", ".join(map(named, rare[:5])) + ", ..." * (len(rare) > 5)
            have = "1 class has" if len(rare) == 1 else f"{len(rare)} classes have"
            notices.append(f"{have} fewer than 5 rows, too few to judge their labels by: {shown}")
    return notices
