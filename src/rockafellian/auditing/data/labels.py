"""The label column or columns: the classes, those of each row, and how other labels are written there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian.auditing.data.reading import Source

Classes: TypeAlias = NDArray[Any]

MIN_ROWS = 20
#: Between several labels of one row, unless the data have a separator of their own.
DEFAULT_SEPARATOR = " | "
#: What people write in a column that says for one label whether each row has it.
YES, NO = {"1", "true", "yes", "y", "t", "x"}, {"0", "false", "no", "n", "f"}


@dataclass(frozen=True, eq=False)
class Labels:
    """The names of the classes, and the class of each row.

    `given` holds class indices (rows,), or a mask (rows, classes) where rows may have several labels. A row that is not
    `known` has no label.
    """

    columns: tuple[str, ...]
    names: list[str]
    given: Classes
    known: NDArray[np.bool_]
    separator: str | None = None

    @property
    def shown_separator(self) -> str:
        """The separator between several labels of one row wherever they are shown."""
        return self.separator or DEFAULT_SEPARATOR

    @property
    def multilabel(self) -> bool:
        """Whether a row may have several labels, or none of them."""
        return self.given.ndim == 2

    def targets(self) -> Tensor:
        """Return the targets of a loss for the known rows: class indices, or a 0 or 1 for each class."""
        given = self.given[self.known]
        return torch.from_numpy(given.astype(np.float32) if self.multilabel else given)

    def as_text(self, classes: Classes) -> NDArray[Any]:
        """Return labels, which have the form of `given`, as text; None for -1."""
        names = np.array([*self.names, None], dtype=object)
        if not self.multilabel:
            return names[classes]
        sets, place = np.unique(classes, axis=0, return_inverse=True)
        joined = [self.shown_separator.join(names[np.flatnonzero(each)]) for each in sets]
        return np.array(joined, dtype=object)[place.reshape(-1)]


def read_labels(source: Source, columns: Sequence[str], separator: str | None = None) -> Labels:
    """Return the labels in one column, or in several columns of 0 and 1.

    Args:
        source: the rows.
        columns: the label column or columns.
        separator: what separates several labels in one cell; cells that are lists need none.
    """
    found = _read(source, columns, separator)
    _check(found, source)
    return found


def read_labels_like(source: Source, labels: Labels) -> Labels:
    """Return the labels of other data, as classes of `labels`."""
    found = _read(source, labels.columns, labels.separator)
    if unknown := sorted(set(found.names) - set(labels.names)):
        raise ValueError(
            f"need a class of the training data, got {unknown[0]!r} in column {labels.columns[0]!r}; "
            f"the classes are {', '.join(map(repr, labels.names[:20]))}"
        )
    places = np.array([*(labels.names.index(name) for name in found.names), -1])
    if not labels.multilabel:
        return replace(found, names=labels.names, given=places[found.given])
    has = np.zeros((len(source), len(labels.names)), bool)
    has[:, places[:-1]] = found.given
    return replace(found, names=labels.names, given=has)


def relabel(source: Source, labels: Labels, rows: NDArray[np.bool_], classes: Classes) -> pa.Table:
    """Return the table with other labels, which have the form of `given`, in the marked rows; other cells are kept."""
    table = source.table
    for name, cells in _cells(source, labels, classes).items():
        place, old = table.column_names.index(name), table.column(name)
        if pa.types.is_nested(old.type):
            kind = pa.list_(old.type.value_type) if pa.types.is_fixed_size_list(old.type) else old.type
            both = zip(rows, cells.cast(kind).to_pylist(), old.to_pylist(), strict=True)
            table = table.set_column(
                place, name, pa.array([new if marked else kept for marked, new, kept in both], kind)
            )
        else:
            table = table.set_column(place, name, pc.if_else(pa.array(rows), cells.cast(old.type), old))
    return table


def _read(source: Source, columns: Sequence[str], separator: str | None) -> Labels:
    cells = [source.column(name) for name in columns]
    if not columns or len(set(columns)) < len(columns):
        raise ValueError(f"need one label column, or several different ones; got {list(columns)}")
    if len(columns) > 1:
        return _from_many(list(columns), cells)
    if pa.types.is_nested(cells[0].type) or separator:
        return _from_lists(columns[0], _lists(cells[0], separator), separator)
    names, codes = _encoded(_as_text(cells[0]))
    return Labels(tuple(columns), names, codes, codes >= 0)


def _check(labels: Labels, source: Source) -> None:
    rows, classes, column = int(labels.known.sum()), len(labels.names), labels.columns[0]
    if rows == 0:
        raise ValueError(
            f"need labels, got none in column {column!r}: all {len(source)} cells are empty; name another column"
        )
    if classes < 2 and not labels.multilabel:
        raise ValueError(
            f"need at least two classes, got only {labels.names[0]!r} in column {column!r}; name another column"
        )
    if classes * 2 > rows and not labels.multilabel:
        raise ValueError(
            f"need classes of several rows each, got {classes} different labels in {rows} rows of column {column!r}; "
            "it looks like an id or a number to predict: name another column"
        )
    separator = labels.shown_separator
    if labels.multilabel and (mixed := [name for name in labels.names if separator in name]):
        raise ValueError(
            f"need labels without {separator!r}, which separates several labels; got {mixed[0]!r}; rename it"
        )
    if rows < MIN_ROWS:
        raise ValueError(f"need at least {MIN_ROWS} rows with a label, got {rows}; add labeled rows")
    first = np.flatnonzero(labels.known)[:1]
    try:  # now, rather than when the results are written
        relabel(source.take(first), labels, np.ones(1, bool), labels.given[first])
    except pa.ArrowException as error:
        kind = source.column(column).type
        raise ValueError(f"need labels that are text or numbers, got a column of {kind}; convert it to text") from error


def _as_text(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Labels without surrounding spaces; an empty cell is no label."""
    if pa.types.is_floating(cells.type):
        cells = cells.cast(pa.float32()) if pa.types.is_float16(cells.type) else cells
        cells = pc.if_else(pc.is_finite(cells), cells, None)
        whole = pc.and_(pc.equal(cells, pc.floor(cells)), pc.less(pc.abs(cells), 2.0**53))
        cells = cells.cast(pa.int64()) if pc.all(whole).as_py() else cells
    try:
        text = pc.utf8_trim_whitespace(cells.cast(pa.large_string()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(
            f"need labels that are text or numbers, got a column of {cells.type}; convert it to text"
        ) from error
    return pc.if_else(pc.equal(text, ""), None, text)


def _encoded(text: pa.ChunkedArray) -> tuple[list[str], NDArray[np.int64]]:
    """The different labels in order, and the index of each row's label; -1 where there is none."""
    coded = text.combine_chunks().dictionary_encode()
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    found = coded.dictionary.to_pylist()
    names = _in_order(found)
    place = {name: index for index, name in enumerate(names)}
    remap = np.array([*(place[name] for name in found), -1])
    codes: NDArray[np.int64] = remap[np.asarray(coded.indices.fill_null(-1))]
    return names, codes


def _in_order(names: list[str]) -> list[str]:
    """Numbers by size, anything else alphabetically."""
    try:
        return sorted(names, key=float)
    except ValueError:
        return sorted(names)


def _lists(cells: pa.ChunkedArray, separator: str | None) -> list[list[str] | None]:
    if not pa.types.is_nested(cells.type):
        rows = [None if cell is None else cell.split(separator) for cell in _as_text(cells).to_pylist()]
    elif pa.types.is_list(cells.type) or pa.types.is_large_list(cells.type) or pa.types.is_fixed_size_list(cells.type):
        rows = cells.to_pylist()
    else:
        raise ValueError(f"need labels or lists of labels, got a column of {cells.type}; flatten it")
    return [
        None if row is None else [text for each in row if each is not None and (text := str(each).strip())]
        for row in rows
    ]


def _from_lists(column: str, rows: list[list[str] | None], separator: str | None) -> Labels:
    names = _in_order(list({name for row in rows for name in row or ()}))
    place = {name: index for index, name in enumerate(names)}
    has = np.zeros((len(rows), len(names)), bool)
    for index, row in enumerate(rows):
        has[index, [place[name] for name in row or ()]] = True
    known = np.array([row is not None for row in rows])
    return Labels((column,), names, has, known, separator)


def _from_many(columns: list[str], cells: list[pa.ChunkedArray]) -> Labels:
    text = [[None if cell is None else cell.lower() for cell in _as_text(column).to_pylist()] for column in cells]
    for name, column in zip(columns, text, strict=True):
        if other := sorted({cell for cell in column if cell is not None} - YES - NO):
            raise ValueError(
                f"need 0 and 1 (or yes and no) in each of several label columns, got {other[0]!r} in {name!r}; "
                "name one label column if the rows have one label each"
            )
    has = np.array([[cell in YES for cell in column] for column in text]).T
    known = np.array([None not in row for row in zip(*text, strict=True)])
    return Labels(tuple(columns), columns, has, known)


def _cells(source: Source, labels: Labels, classes: Classes) -> dict[str, pa.Array]:
    """For each label column, the cells that say that the rows have these labels."""
    if len(labels.columns) > 1:
        return {name: _yes_or_no(source.column(name), classes[:, i]) for i, name in enumerate(labels.columns)}
    if labels.multilabel and labels.separator is None:
        names = np.array(labels.names, dtype=object)
        return {labels.columns[0]: pa.array([names[row].tolist() for row in classes], pa.list_(pa.string()))}
    return {labels.columns[0]: pa.array(labels.as_text(classes), pa.string())}


def _yes_or_no(cells: pa.ChunkedArray, has: NDArray[np.bool_]) -> pa.Array:
    """The cells in the words that the column uses, such as "yes" and "no"."""
    words = {True: "1", False: "0"}
    for cell in pc.unique(_as_text(cells)).to_pylist():
        if cell is not None:
            words[cell.lower() in YES] = cell
    return pa.array([words[bool(each)] for each in has], pa.string())
