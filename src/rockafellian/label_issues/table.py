"""Findings: a table of what is known about each row, with the column names that cleanlab users know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from torch import Tensor

from rockafellian._internal.arrays import UNKNOWN, blocks
from rockafellian._internal.extras import missing
from rockafellian._internal.files import atomic_write, write_csv
from rockafellian._internal.html import html_table
from rockafellian.label_issues.reading import Column, import_pandas, read_classes, read_ids
from rockafellian.label_issues.reasons import reason

if TYPE_CHECKING:
    import pandas

#: The columns of a table, in this order.
COLUMNS = ["index", "id", "given_label", "predicted_label", "predicted_probability", "label_quality", "is_label_issue"]
COLUMNS += ["average_loss", "average_margin", "weight", "last_removed_round", "reason"]
#: What the reason of a row is made of.
EVIDENCE = ["given", "predicted", "predicted_probability", "label_quality", "removed", "average_loss", "average_margin"]
EVIDENCE += ["last_removed_round"]
#: How many rows a notebook shows.
N_SHOWN = 10


@dataclass(frozen=True, eq=False, repr=False)
class Findings:
    """A table with one row per example, in the order of the data.

    `found["label_quality"]` or `found.label_quality` is a column, `found[3]` one row as a dict, `found[:10]` or
    `found[mask]` a table of those rows, `found.worst(20)` the twenty rows with the lowest label quality.

    An unknown number is NaN; an unknown class is -1, or None where classes have names.
    """

    index: Column  # the position of the row in the data
    id: Column
    given: Column  # classes as integers
    predicted: Column
    predicted_probability: Column
    label_quality: Column
    removed: Column  # whether the method removed the row in its last round
    average_loss: Column
    average_margin: Column
    weight: Column
    last_removed_round: Column
    names: Column | None = None  # by class, and None at the end, where -1 points

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return f"Findings({len(self)} rows, {np.count_nonzero(self.is_label_issue)} label issues)"

    def _repr_html_(self) -> str:
        """The head of the worst rows, for notebooks."""
        head = self.worst(N_SHOWN)
        rows = zip(*(_cells(head, name) for name in COLUMNS), strict=True)
        return html_table(f"{self!r}, the {len(head)} with the lowest label_quality:", COLUMNS, rows)

    @overload
    def __getitem__(self, which: str) -> Column: ...
    @overload
    def __getitem__(self, which: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, which: slice | Column | Tensor | Sequence[int] | Sequence[bool]) -> Findings: ...
    def __getitem__(self, which: Any) -> Column | dict[str, Any] | Findings:
        """A column by its name, one row as a dict, or the rows of a slice, a mask or an array of positions."""
        if isinstance(which, str):
            if which not in COLUMNS:
                raise KeyError(f"need a column of {', '.join(COLUMNS)}; got {which!r}")
            column: Column = getattr(self, which)
            return column
        if isinstance(which, int | np.integer):
            one = self[np.array([range(len(self))[which]])]
            return {name: one[name].tolist()[0] for name in COLUMNS}
        at = which.cpu().numpy() if isinstance(which, Tensor) else which
        if not isinstance(at, slice):
            at = np.asarray(at, dtype=None if len(at) else np.intp)
        per_row = [field.name for field in fields(self) if field.name != "names"]
        return replace(self, **{name: getattr(self, name)[at] for name in per_row})

    @property
    def given_label(self) -> Column:
        """The label used in training, by name if there are names."""
        return self.given if self.names is None else self.names[self.given]

    @property
    def predicted_label(self) -> Column:
        """The label predicted last, by name if there are names: the suggestion for a label issue."""
        return self.predicted if self.names is None else self.names[self.predicted]

    @property
    def is_label_issue(self) -> Column:
        """The removed rows for which another label is predicted, or none at all."""
        return self.removed & ((self.predicted != self.given) | (self.predicted == UNKNOWN))  # type: ignore[no-any-return]

    @property
    def reason(self) -> Column:
        """One line of text for each row: prediction, margin or loss, and the last round."""
        names = None if self.names is None else [" ".join(str(name).split()) for name in self.names]
        columns = (getattr(self, name).tolist() for name in EVIDENCE)
        return np.array(list(map(partial(reason, names), *columns)), dtype=object)

    @property
    def issues(self) -> Findings:
        """Only the label issues, in the same order."""
        return self[self.is_label_issue]

    def worst(self, k: int | None = None) -> Findings:
        """Return the `k` rows with the lowest label quality, the lowest first; all rows without a `k`.

        Ties are broken by margin, or by loss where no margin is known, then by index. Rows of unknown quality are last.
        """
        if k is not None and k < 0:
            raise ValueError(f"need a number of rows k >= 0, got {k}")
        doubt = np.where(np.isnan(self.average_margin), -self.average_loss, self.average_margin)
        return self[np.lexsort((self.index, doubt, self.label_quality))[:k]]  # lexsort puts NaN last

    def to_frame(self) -> pandas.DataFrame:
        """Return all columns as a pandas frame."""
        frame: pandas.DataFrame = import_pandas("to_frame").DataFrame({name: self[name] for name in COLUMNS})
        return frame

    def to_csv(self, path: str | Path) -> None:
        """Write all columns, unknown values empty; an apostrophe goes before text that a spreadsheet would run."""
        parts = (self[part] for part in blocks(len(self)))
        write_csv(Path(path), COLUMNS, ([_cells(part, name) for name in COLUMNS] for part in parts))

    def to_parquet(self, path: str | Path) -> None:
        """Write all columns in full precision."""
        with atomic_write(Path(path)) as partial:
            frame = self.to_frame()
            try:
                frame.to_parquet(partial, engine="pyarrow", index=False)
            except ImportError as error:
                raise missing("pyarrow for to_parquet", "frames") from error

    def to_cleanlab(self) -> pandas.DataFrame:
        """Return what cleanlab's `CleanLearning.get_label_issues()` returns: in data order, classes as integers."""
        n_classes = int(max(self.given.max(initial=0), self.predicted.max(initial=0))) + 1
        whole = np.int16 if n_classes < np.iinfo(np.int16).max else np.int32  # as cleanlab does
        return self._to_issues("to_cleanlab", "label_quality", self.given.astype(whole), self.predicted.astype(whole))

    def to_datalab(self) -> pandas.DataFrame:
        """Return what cleanlab's `Datalab.get_issues("label")` returns: in data order, classes by name."""
        kind = np.int64 if self.names is None else object
        given, predicted = self.given_label.astype(kind), self.predicted_label.astype(kind)
        return self._to_issues("to_datalab", "label_score", given, predicted)

    def _to_issues(self, use: str, score: str, given: Column, predicted: Column) -> pandas.DataFrame:
        pd, order = import_pandas(use), np.argsort(self.index)  # cleanlab reads its frames by position
        columns = {
            "is_label_issue": self.is_label_issue,
            score: self.label_quality.astype(np.float64),
            "given_label": given,
            "predicted_label": predicted,
        }
        index = self.index[order]
        labels = pd.RangeIndex(len(index)) if np.array_equal(index, np.arange(len(index))) else pd.Index(index)
        frame: pandas.DataFrame = pd.DataFrame({name: values[order] for name, values in columns.items()}, index=labels)
        return frame

    @classmethod
    def from_cleanlab(cls, frame: pandas.DataFrame) -> Findings:
        """Return the table of cleanlab's label issues, from CleanLearning or Datalab.

        The frame's index gives the ids, and the positions too if it is of integers. What the frame does not hold is
        NaN, or 0 for the round. Rows that the frame flags without predicting another label are no label issues here.
        """
        score = next((name for name in ("label_quality", "label_score") if name in frame), None)
        if score is None or "is_label_issue" not in frame:
            raise ValueError(
                f"need columns is_label_issue and label_quality or label_score, got {', '.join(map(str, frame))}; "
                "pass the result of CleanLearning.get_label_issues() or Datalab.get_issues('label')"
            )
        given, predicted, names = read_classes(frame)
        ids, unknown = read_ids(frame.index, len(frame)), np.full(len(frame), np.nan, np.float32)
        return cls(
            index=np.arange(len(frame)) if ids.dtype == object else ids,
            id=ids,
            given=given,
            predicted=predicted,
            predicted_probability=unknown,
            label_quality=frame[score].to_numpy(np.float64),
            removed=frame["is_label_issue"].to_numpy(bool, na_value=False),
            average_loss=unknown,
            average_margin=unknown,
            weight=unknown,
            last_removed_round=np.zeros(len(frame), np.int32),
            names=names,
        )


def _cells(part: Findings, name: str) -> list[Any]:
    """A column with None for an unknown class."""
    values: list[Any] = part[name].tolist()
    is_class = name in ("given_label", "predicted_label")
    return [None if value == UNKNOWN else value for value in values] if is_class else values
