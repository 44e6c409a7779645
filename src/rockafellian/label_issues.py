"""Findings: what a training found out about each row, worst first, under the names that cleanlab users know."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.arrays import UNKNOWN, Array, blocks
from rockafellian._internal.extras import missing
from rockafellian._internal.files import atomic_write, write_csv
from rockafellian.weights.predictions import Predictions
from rockafellian.weights.sample_weights import SampleWeights

if TYPE_CHECKING:
    import pandas

Column: TypeAlias = NDArray[Any]

SAID = ("given", "predicted", "predicted_probability", "average_margin", "label_quality", "average_loss")
FATE = ("label_quality", "is_label_issue", "last_removed_round")
#: The columns of a table, in this order.
COLUMNS = ["row", "given_label", "predicted_label", "predicted_probability", "label_quality", "is_label_issue"]
COLUMNS += ["average_loss", "average_margin", "weight", "last_removed_round", "reason"]


@dataclass(frozen=True, eq=False, repr=False)
class Findings:
    """One row per example, lowest `label_quality` first; each column is an array.

    A number that is not known is NaN, a class that is not known -1, or None where classes have names.
    """

    number: Column  # the row's place in the data set
    row: Column
    given: Column  # the classes as numbers
    predicted: Column
    predicted_probability: Column
    label_quality: Column
    is_label_issue: Column
    average_loss: Column
    average_margin: Column
    weight: Column
    last_removed_round: Column
    names: Column | None = None  # by class, and None at the end, where -1 points

    def __len__(self) -> int:
        return len(self.row)

    def __repr__(self) -> str:
        return f"Findings({len(self)} rows, {int(self.is_label_issue.sum())} label issues)"

    @overload
    def __getitem__(self, which: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, which: slice | Column) -> Findings: ...
    def __getitem__(self, which: int | slice | Column) -> dict[str, Any] | Findings:
        """The columns of one row, worst first, as a dict; or the rows of a slice, a mask or an array of places."""
        if isinstance(which, slice | np.ndarray):
            per_row = [name for name in self.__dataclass_fields__ if name != "names"]
            return replace(self, **{name: getattr(self, name)[which] for name in per_row})
        one = self[np.array([range(len(self))[which]])]
        return {name: getattr(one, name).tolist()[0] for name in COLUMNS}

    @property
    def given_label(self) -> Column:
        """The label that the training saw, by name if there are names."""
        return self.given if self.names is None else self.names[self.given]

    @property
    def predicted_label(self) -> Column:
        """What the network said last: the label to put there instead."""
        return self.predicted if self.names is None else self.names[self.predicted]

    @property
    def reason(self) -> Column:
        """One line of plain English for each row, made when asked for."""
        names = None if self.names is None else [" ".join(str(name).split()) for name in self.names]
        said = map(partial(_said, names), *(getattr(self, name).tolist() for name in SAID))
        fate = map(_fate, *(getattr(self, name).tolist() for name in FATE))
        return np.array(list(map(str.__add__, said, fate)), dtype=object)

    @property
    def issues(self) -> Findings:
        """Only the rows that stand removed."""
        return self[self.is_label_issue]

    def to_frame(self) -> pandas.DataFrame:
        """All columns, in this order of rows."""
        frame: pandas.DataFrame = _pandas("to_frame").DataFrame({name: getattr(self, name) for name in COLUMNS})
        return frame

    def to_csv(self, path: str | Path) -> None:
        """All columns, unknown ones empty. Text that a spreadsheet would run as a formula gets an apostrophe before."""
        parts = (self[part] for part in blocks(len(self)))
        write_csv(Path(path), COLUMNS, ([_cells(part, name) for name in COLUMNS] for part in parts))

    def to_parquet(self, path: str | Path) -> None:
        """All columns, in full precision."""
        with atomic_write(Path(path)) as partial:
            frame = self.to_frame()
            try:
                frame.to_parquet(partial, engine="pyarrow", index=False)
            except ImportError as error:
                raise missing("pyarrow for to_parquet", "frames") from error

    def to_cleanlab(self) -> pandas.DataFrame:
        """What cleanlab's `CleanLearning.get_label_issues()` gives, in the order of the data set."""
        classes = int(max(self.given.max(initial=0), self.predicted.max(initial=0))) + 1
        whole = np.int16 if classes < np.iinfo(np.int16).max else np.int32  # as cleanlab does
        return self._in_order("to_cleanlab", "label_quality", self.given.astype(whole), self.predicted.astype(whole))

    def to_datalab(self) -> pandas.DataFrame:
        """What cleanlab's `Datalab.get_issues("label")` gives, in the order of the data set."""
        whole = np.int64 if self.names is None else object
        given, predicted = self.given_label.astype(whole), self.predicted_label.astype(whole)
        return self._in_order("to_datalab", "label_score", given, predicted)

    def _in_order(self, use: str, score: str, given: Column, predicted: Column) -> pandas.DataFrame:
        pd, order = _pandas(use), np.argsort(self.number)
        numbers = self.number[order]
        columns = {
            "is_label_issue": self.is_label_issue,
            score: self.label_quality.astype(np.float64),
            "given_label": given,
            "predicted_label": predicted,
        }
        whole = np.array_equal(numbers, np.arange(len(numbers)))
        index = pd.RangeIndex(len(numbers)) if whole else pd.Index(numbers)
        frame: pandas.DataFrame = pd.DataFrame({name: column[order] for name, column in columns.items()}, index=index)
        return frame

    @classmethod
    def from_cleanlab(cls, frame: pandas.DataFrame) -> Findings:
        """The table of cleanlab's label issues, from CleanLearning or Datalab; the index gives the rows' ids."""
        score = next((name for name in ("label_quality", "label_score") if name in frame), None)
        if score is None or "is_label_issue" not in frame:
            raise ValueError(
                f"need columns is_label_issue and label_quality or label_score, got {', '.join(map(str, frame))}; "
                "pass what CleanLearning.get_label_issues() or Datalab.get_issues('label') gives"
            )
        quality = frame[score].to_numpy(np.float64)
        given, predicted, names = _classes(frame)
        row = _read_ids(frame.index, len(frame))
        number = np.arange(len(frame)) if row.dtype == object else row
        unknown, never = np.full(len(frame), np.nan, np.float32), np.zeros(len(frame), np.int32)
        issue = frame["is_label_issue"].to_numpy(bool, na_value=False)
        found = cls(number, row, given, predicted, unknown, quality, issue, unknown, unknown, unknown, never, names)
        return found[np.lexsort((number, quality))]


def findings(
    weights: SampleWeights,
    labels: Array | None = None,
    *,
    ids: Sequence[str] | Sequence[int] | Array | None = None,
    names: Sequence[str] | Mapping[int, str] | None = None,
) -> Findings:
    """What a training found out about each row, the worst label first.

    `labels` are the given ones, needed only if the loop passed no logits and labels to `reduce`; `ids` are your names
    for the rows, `names` those of the classes. Without logits, quality is 1 / (1 + average loss), and nothing is
    predicted. Equal qualities are told apart by margin or loss, then by row. Memory per row does not grow with classes.
    """
    if not isinstance(weights, SampleWeights):
        raise ValueError(
            f"need the SampleWeights of a training, got {type(weights).__name__}; pass weights, then labels"
        )
    n, loss = len(weights), _numpy(weights.average_losses)  # the first to be read, as it brings the notes up to date
    said = Predictions(n) if weights.predictions is None else weights.predictions
    predicted, margin, given = _numpy(said.predicted), _numpy(said.average_margin), _given(_numpy(said.labels), labels)
    quality = _quality(loss) if weights.predictions is None else _numpy(said.label_quality)
    doubt = -loss if weights.predictions is None else margin
    row = np.arange(n) if ids is None else _read_ids(ids, n)
    called = None if names is None else _read_names(names, given, predicted)
    removed, last, values = (_numpy(part) for part in (weights.removed, weights.last_removed, weights.values))
    rows = (np.arange(n), row, given, predicted, _numpy(said.probability), quality, removed, loss, margin, values, last)
    return Findings(*rows, called)[np.lexsort((doubt, quality))]  # NaN last; copies, which training leaves alone


def _numpy(tensor: Tensor) -> Column:
    values: Column = tensor.detach().cpu().numpy()
    return values


def _quality(losses: Column) -> Column:
    """1 / (1 + loss), so that the largest loss is the lowest; if some are below 0, all are raised by the least."""
    exact = losses.astype(np.float64)
    least = exact[np.isfinite(exact)].min(initial=0.0)
    return 1 / (1 + np.maximum(exact, least) - least)  # type: ignore[no-any-return]


def _given(noted: Column, labels: Array | None) -> Column:
    """The labels that the training saw, by its notes and by what the caller says."""
    if labels is None:
        return noted
    n = len(noted)
    values = _numpy(labels) if isinstance(labels, Tensor) else np.asarray(labels)
    values = values.reshape(-1) if values.shape == (n, 1) else values
    if values.shape != (n,) or values.dtype.kind not in "biuf" or not _are_classes(values):
        raise ValueError(
            f"need {n} labels, one per row, that are whole numbers >= 0; got shape {values.shape} of {values.dtype}; "
            "number the classes from 0 and pass what they are called as names"
        )
    differ = np.flatnonzero((noted != UNKNOWN) & (noted != values))
    if len(differ):
        first, other = differ[0], float(values[differ[0]])
        raise ValueError(
            f"need the labels that the training saw, got others in {len(differ)} rows (row {first}: {other:g}, "
            f"it saw {noted[first]}); leave labels out, or pass them in the order of the data set, not corrected"
        )
    return values.astype(np.int32)


def _are_classes(values: Column) -> bool:
    return bool(((values >= 0) & (values < 2**31) & (values == np.floor(values))).all())


def _read_ids(ids: Any, n: int) -> Column:
    """N different ids, as whole numbers or as objects that are strings."""
    values = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    kinds = {type(value) for value in values}
    text = all(issubclass(kind, str) for kind in kinds)
    whole = not text and all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds)
    if isinstance(ids, str) or not (text or whole) or len(values) != n or len(set(values)) != n:
        raise ValueError(
            f"need {n} different ids, one per row, all strings or all whole numbers; got {len(values)}, "
            f"{len(set(map(str, values)))} of them different, of type {', '.join(sorted(k.__name__ for k in kinds))}"
        )
    try:
        for value in values if text else ():
            value.encode()
        return np.array(values, dtype=object if text else np.int64)
    except (OverflowError, UnicodeEncodeError) as error:
        raise ValueError(f"need ids of Unicode text or 64 bits, got one that is not ({error}); rename it") from error


def _read_names(names: Sequence[str] | Mapping[int, str], *classes: Column) -> Column:
    """The names by class, for every class there is, and None at the end."""
    called = dict(names if isinstance(names, Mapping) else enumerate(names))
    present = np.flatnonzero(np.bincount(np.concatenate(classes) - UNKNOWN)[1:]).tolist()
    missing = [number for number in present if number not in called]
    if isinstance(names, str) or missing:
        raise ValueError(
            f"need a name for every class, got {names if isinstance(names, str) else len(called)!r} and none for "
            f"{missing[:5]}; pass a sequence in the order of the classes, or a dict from class to name"
        )
    by_class = np.full(max(present, default=0) + 2, None, dtype=object)
    by_class[present] = [str(called[number]) for number in present]
    return by_class


def _classes(frame: pandas.DataFrame) -> tuple[Column, Column, Column | None]:
    """Given and predicted label as class numbers, and the names of the classes if the labels were not numbers."""
    pd = _pandas("from_cleanlab")
    nothing = pd.Series(np.nan, index=frame.index)
    given, predicted = (frame.get(name, nothing) for name in ("given_label", "predicted_label"))
    both = pd.concat([given, predicted], ignore_index=True)
    names = None
    if not pd.api.types.is_numeric_dtype(both):
        codes, called = pd.factorize(both, sort=True)
        both, names = pd.Series(codes), np.array([*map(str, called), None], dtype=object)
    values = both.to_numpy(np.float64, na_value=UNKNOWN)
    if not _are_classes(values - UNKNOWN):
        raise ValueError("need labels that are classes, got numbers that are not whole or below 0; map them to strings")
    return *np.split(values.astype(np.int32), 2), names  # type: ignore[return-value]


def _said(
    names: list[str] | None, given: int, predicted: int, sure: float, margin: float, quality: float, loss: float
) -> str:
    """What is known against a label, or for it."""
    if math.isnan(quality):
        seen = predicted != UNKNOWN or not math.isnan(loss)
        return "seen in training, but without logits that are numbers" if seen else "not seen in training"
    if predicted == UNKNOWN:
        return f"label quality {quality:.2g}" if math.isnan(loss) else f"average loss {loss:.3g}"
    label, answer = (names[number] if names else f"class {number}" for number in (given, predicted))
    agrees = given == predicted
    if math.isnan(margin):
        return f"predicted {answer}" + ", as labelled" * agrees
    said = f"the network says {answer}" + ", as labelled," * agrees
    leant = f"{'and' if agrees == (margin >= 0) else 'but'} on average leant {'to' if margin >= 0 else 'away from'}"
    return f"{said} with {sure:.2f} {leant} {label} (margin {margin:.1f})"


def _fate(quality: float, issue: bool, last: int) -> str:
    if issue:
        return f"; removed in round {last}" if last else "; a label issue"
    if math.isnan(quality):
        return ""
    return f"; kept, last removed in round {last}" if last else "; kept"


def _cells(part: Findings, name: str) -> list[Any]:
    """A column as a file shows it: a class that is not known is None."""
    values: list[Any] = getattr(part, name).tolist()
    label = name in ("given_label", "predicted_label")
    return [None if value == UNKNOWN else value for value in values] if label else values


def _pandas(use: str) -> ModuleType:
    try:
        import pandas
    except ImportError as error:
        raise missing(f"pandas for {use}", "frames") from error
    return pandas
