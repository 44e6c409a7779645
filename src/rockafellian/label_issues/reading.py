"""Labels, ids and class names as callers pass them, checked and read as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.arrays import UNKNOWN, Array
from rockafellian._internal.extras import missing

if TYPE_CHECKING:
    import pandas

Column: TypeAlias = NDArray[Any]


def read_labels(labels: Array | None, seen: Column) -> Column:
    """The given labels: those seen in training, or those that the caller passes, which must agree with them."""
    if labels is None:
        return seen
    n = len(seen)
    values = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    values = values.reshape(-1) if values.shape == (n, 1) else values
    if values.shape != (n,) or values.dtype.kind not in "biuf" or not _are_classes(values):
        raise ValueError(
            f"need {n} labels, one per row, integers >= 0; got shape {values.shape} of {values.dtype}; "
            "encode the classes as 0, 1, 2, ... and pass their names as names"
        )
    differ = np.flatnonzero((seen != UNKNOWN) & (seen != values))
    if len(differ):
        first, other = differ[0], float(values[differ[0]])
        raise ValueError(
            f"need the labels used in training, got others in {len(differ)} rows (row {first}: {other:g}, in training "
            f"{seen[first]}); leave labels out, or pass them in the order of the data and uncorrected"
        )
    return values.astype(np.int32)


def read_ids(ids: Any, n: int) -> Column:
    """N different ids, as integers or as objects that are strings."""
    values = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    kinds = {type(value) for value in values}
    text = all(issubclass(kind, str) for kind in kinds)
    whole = not text and all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds)
    if isinstance(ids, str) or not (text or whole) or len(values) != n or len(set(values)) != n:
        raise ValueError(
            f"need {n} different ids, one per row, all strings or all integers; got {len(values)}, "
            f"{len(set(map(str, values)))} of them different, of type {', '.join(sorted(k.__name__ for k in kinds))}"
        )
    try:
        for value in values if text else ():
            value.encode()
        return np.array(values, dtype=object if text else np.int64)
    except (OverflowError, UnicodeEncodeError) as error:
        raise ValueError(f"need ids of Unicode text or 64 bits, got one that is not ({error}); rename it") from error


def read_names(names: Sequence[str] | Mapping[int, str], *classes: Column) -> Column:
    """The name of every class that occurs, and None at the end, where UNKNOWN points."""
    by_class = dict(names if isinstance(names, Mapping) else enumerate(names))
    present = np.flatnonzero(np.bincount(np.concatenate(classes) - UNKNOWN)[1:]).tolist()
    unnamed = [each for each in present if each not in by_class]
    if isinstance(names, str) or unnamed:
        raise ValueError(
            f"need a name for every class, got {names if isinstance(names, str) else len(by_class)!r} and none for "
            f"{unnamed[:5]}; pass a sequence in the order of the classes, or a dict from class to name"
        )
    array = np.full(max(present, default=0) + 2, None, dtype=object)
    array[present] = [str(by_class[each]) for each in present]
    return array


def read_classes(frame: pandas.DataFrame) -> tuple[Column, Column, Column | None]:
    """Given and predicted classes of a cleanlab frame as integers, and their names if its labels are no numbers."""
    pd = import_pandas("from_cleanlab")
    nothing = pd.Series(np.nan, index=frame.index)
    given, predicted = (frame.get(name, nothing) for name in ("given_label", "predicted_label"))
    both = pd.concat([given, predicted], ignore_index=True)
    names = None
    if not pd.api.types.is_numeric_dtype(both):
        codes, classes = pd.factorize(both, sort=True)
        both, names = pd.Series(codes), np.array([*map(str, classes), None], dtype=object)
    values = both.to_numpy(np.float64, na_value=UNKNOWN)
    if not _are_classes(values - UNKNOWN):
        raise ValueError("need labels that are classes, got numbers that are not integers >= 0; pass them as strings")
    return *np.split(values.astype(np.int32), 2), names  # type: ignore[return-value]


def import_pandas(use: str) -> ModuleType:
    """The module pandas, or an error that says what needs it and how to install it."""
    try:
        import pandas
    except ImportError as error:
        raise missing(f"pandas for {use}", "frames") from error
    return pandas


def _are_classes(values: Column) -> bool:
    return bool(((values >= 0) & (values < 2**31) & (values == np.floor(values))).all())
