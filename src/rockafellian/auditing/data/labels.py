"""The label column or columns: the classes, those of each row, and how other labels are written there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian.auditing.data.cells import as_text, decoded, has_text, is_text, quoted
from rockafellian.auditing.data.label_checks import (
    WORDS_FOR_NONE,
    about_maybe_missing,
    about_separators,
    about_spaces,
    about_unlabeled,
    about_variants,
    as_numbers,
    check_classes,
)
from rockafellian.auditing.data.reading import Source

Classes: TypeAlias = NDArray[Any]

#: The most rows times classes where rows may have several labels.
MAX_MASK = 2**31
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
    notices: tuple[str, ...] = ()  # what a user should know about the labels

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
    check_classes(found.names, int(found.known.sum()), len(source), found.columns[0], found.multilabel)
    _check_separator(found)
    hint = None if found.multilabel else about_separators(found.names)
    more = _notices(about_variants(found.names), about_maybe_missing(found.names), hint)
    return replace(found, notices=found.notices + more)


def read_labels_like(source: Source, labels: Labels) -> Labels:
    """Return the labels of other data, as classes of `labels`."""
    found = _read(source, labels.columns, labels.separator)
    if found.multilabel != labels.multilabel:
        expected, got = ("lists", "no lists") if labels.multilabel else ("one label a cell", "lists")
        raise ValueError(f"need {expected} in column {labels.columns[0]!r}, as in training, got {got}; convert it")
    if unknown := sorted(set(found.names) - set(labels.names)):
        raise ValueError(
            f"need a class of the training data, got {quoted(unknown[0])} in column {labels.columns[0]!r}; "
            f"the classes are {', '.join(map(quoted, labels.names[:20]))}"
        )
    index = {name: place for place, name in enumerate(labels.names)}
    places = np.array([*(index[name] for name in found.names), -1])
    if not labels.multilabel:
        return replace(found, names=labels.names, given=places[found.given])
    has = np.zeros((len(source), len(labels.names)), bool)
    has[:, places[:-1]] = found.given
    return replace(found, names=labels.names, given=has)


def relabel(source: Source, labels: Labels, rows: NDArray[np.bool_], classes: Classes) -> pa.Table:
    """Return the table with other labels, which have the form of `given`, in the marked rows.

    Other cells are kept, also those of marked rows that have these labels already. `labels` are those of this source.
    """
    same = labels.given == classes
    changed = rows & ~(labels.known & (same.all(1) if labels.multilabel else same))
    table = source.table
    new = _with_classes(source, labels, np.flatnonzero(changed), classes[changed]) if changed.any() else {}
    for name, column in new.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.field(place).with_type(column.type), column)
    return table


def _read(source: Source, columns: Sequence[str], separator: str | None) -> Labels:
    cells = [decoded(source.column(name)) for name in columns]
    if not columns or len(set(columns)) < len(columns):
        raise ValueError(f"need one label column, or several different ones; got {list(columns)}")
    if len(columns) > 1:
        return _from_many(list(columns), cells)
    if separator or _is_list(cells[0].type):
        return _from_lists(columns[0], cells[0], separator)
    names, codes = _encoded(_as_text(cells[0]))
    notices = _notices(about_unlabeled(cells), about_spaces(cells[0]))
    return Labels(tuple(columns), names, codes, codes >= 0, notices=notices)


def _notices(*found: str | None) -> tuple[str, ...]:
    return tuple(notice for notice in found if notice is not None)


def _check_separator(labels: Labels) -> None:
    separator = labels.shown_separator
    mixed = [name for name in labels.names if (name + separator).find(separator) < len(name)]
    if labels.multilabel and mixed:
        raise ValueError(
            f"need labels without {separator!r}, which separates several labels; got {quoted(mixed[0])}; rename it"
        )


def _is_list(kind: pa.DataType) -> bool:
    """Whether these are lists that can be relabeled: pyarrow takes no rows from views."""
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return lists and not pa.types.is_string_view(kind.value_type)


def _as_text(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Labels without surrounding spaces; an empty cell, or a word such as nan, is no label."""
    if pa.types.is_binary(cells.type) or pa.types.is_large_binary(cells.type):
        with suppress(pa.ArrowInvalid):  # unless it is no UTF-8
            cells = cells.cast(pa.large_string())
    if not has_text(cells.type):
        raise ValueError(f"need labels that are text or numbers, got a column of {cells.type}; convert it to text")
    if pa.types.is_floating(cells.type):
        cells = _finite(cells)
    text = pc.utf8_trim_whitespace(as_text(cells))
    return pc.if_else(pc.is_in(text, pa.array(["", *WORDS_FOR_NONE], pa.large_string())), None, text)


def _finite(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Floats, null where not finite, without negative zeros; integers if all are whole."""
    cells = cells.cast(pa.float32()) if pa.types.is_float16(cells.type) else cells
    cells = pc.add(pc.if_else(pc.is_finite(cells), cells, None), pa.scalar(0, cells.type))  # -0.0 + 0 is 0.0
    whole = pc.and_(pc.equal(cells, pc.floor(cells)), pc.less(pc.abs(cells), 2.0**53))
    return cells.cast(pa.int64()) if pc.all(whole).as_py() else cells


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
    numbers = as_numbers(names)
    return sorted(names) if numbers is None else [name for _, name in sorted(zip(numbers, names, strict=True))]


def _from_lists(column: str, cells: pa.ChunkedArray, separator: str | None) -> Labels:
    lists = _lists(column, cells, separator)
    values = pa.chunked_array([lists.flatten()])
    names, codes = _encoded(_as_text(decoded(values)))
    if len(lists) * len(names) > MAX_MASK:
        raise ValueError(
            f"need fewer different labels, got {len(names):,} in {len(lists):,} rows of column {column!r}; "
            "name another separator or column"
        )
    has = np.zeros((len(lists), len(names)), bool)
    has[np.asarray(lists.value_parent_indices())[codes >= 0], codes[codes >= 0]] = True
    notices = _notices(about_unlabeled([cells, values]))
    return Labels((column,), names, has, np.asarray(lists.is_valid()), separator, notices)


def _lists(column: str, cells: pa.ChunkedArray, separator: str | None) -> pa.Array:
    """The labels of each row as a list, which may be empty; null where the row has no label."""
    if not _is_list(cells.type):
        if not is_text(cells.type):
            raise ValueError(
                f"need text in column {column!r} to split at {separator!r}, got {cells.type}; leave out the separator"
            )
        cells = pc.split_pattern(pc.if_else(_as_text(cells).is_valid(), cells, None), separator)
    lists = cells.combine_chunks()
    return lists.cast(pa.list_(lists.type.value_type)) if pa.types.is_fixed_size_list(lists.type) else lists


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
    return Labels(tuple(columns), columns, has, known, notices=_notices(about_unlabeled(cells)))


def _with_classes(source: Source, labels: Labels, rows: NDArray[Any], classes: Classes) -> dict[str, pa.ChunkedArray]:
    """The label columns, with the cells that say that these rows have these classes."""
    columns = {name: source.column(name) for name in labels.columns}
    if len(columns) > 1:
        new = [_yes_or_no(column, has) for column, has in zip(columns.values(), classes.T, strict=True)]
    elif not labels.multilabel:
        new = [_cells_of(column, labels, classes) for column in columns.values()]
    elif all(_is_list(column.type) for column in columns.values()):
        new = [_lists_of(column, classes) for column in columns.values()]
    else:  # the separator alone is a row with none of the labels; an empty cell would be one without a label
        new = [pa.array([text or labels.shown_separator for text in labels.as_text(classes)], pa.large_string())]
    return {name: _put(columns[name], rows, cells) for name, cells in zip(columns, new, strict=True)}


def _cells_of(column: pa.ChunkedArray, labels: Labels, classes: Classes) -> pa.Array:
    """For each class a cell that has it, as it stands in the column; without surrounding spaces if there is one."""
    spaced = pc.not_equal(as_text(column), _as_text(decoded(column))).fill_null(True)
    rows = np.argsort(np.asarray(spaced), kind="stable")
    rows = rows[labels.known[rows]]
    example = rows[np.unique(labels.given[rows], return_index=True)[1]]
    return _takeable(column).take(pa.array(example[classes])).combine_chunks()


def _lists_of(column: pa.ChunkedArray, classes: Classes) -> pa.Array:
    """Lists of the labels of each row, each label as it stands in the column."""
    values = pa.chunked_array([column.combine_chunks().flatten()])
    codes = _encoded(_as_text(decoded(values)))[1]
    found, example = np.unique(codes, return_index=True)
    values = values.take(pa.array(example[found >= 0][np.nonzero(classes)[1]])).combine_chunks()
    offsets = pa.array(np.append(0, classes.sum(1).cumsum()), pa.int64())
    return pa.LargeListArray.from_arrays(offsets, values)


def _put(column: pa.ChunkedArray, rows: NDArray[Any], cells: pa.Array) -> pa.ChunkedArray:
    """The column with other cells in these rows; lists of a fixed size become lists."""
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        kind = pa.list_(kind.value_field)
        column = column.cast(kind)
    old = _takeable(column)
    order = np.arange(len(old))
    order[rows] = len(old) + np.arange(len(rows))
    both = pa.chunked_array([*old.chunks, cells.cast(old.type)])
    return both.take(pa.array(order)).cast(kind)


def _takeable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column, with a type of text from which rows can be taken."""
    return column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column


def _yes_or_no(cells: pa.ChunkedArray, has: NDArray[np.bool_]) -> pa.Array:
    """The cells in the words that the column uses, such as "yes" and "no"."""
    words = {True: "1", False: "0"}
    for cell in pc.unique(_as_text(decoded(cells))).to_pylist():
        if cell is not None:
            words[cell.lower() in YES] = cell
    return pa.array([words[bool(each)] for each in has], pa.string())
