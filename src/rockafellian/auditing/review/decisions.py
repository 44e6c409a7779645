"""The decisions of one or several people: keep, relabel, drop or skip, as the page exports them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rockafellian._internal.files import escape_formula, unescape_formula
from rockafellian.auditing.data.labels import Classes, Labels
from rockafellian.auditing.data.reading import read

COLUMNS = ("index", "id", "decision", "label")
#: For each decision, whether the label is wrong; None if nobody could tell.
WRONG = {"keep": False, "relabel": True, "drop": True, "skip": None}
#: How many rows in dispute a message names.
N_SHOWN = 5


class Decision(NamedTuple):
    """What a person decided about a row, and the label to give it instead, if one."""

    word: str
    label: str | None = None

    @property
    def wrong(self) -> bool | None:
        """Whether the given label is wrong; None if the person could not tell."""
        return WRONG[self.word]


class Decisions(NamedTuple):
    """By row: what all who decided agree on; and the rows in dispute, with what each decided."""

    agreed: Mapping[int, Decision]
    disputed: Mapping[int, Sequence[Decision]] = {}

    @property
    def notices(self) -> list[str]:
        """What a user should know about rows in dispute."""
        if not self.disputed:
            return []
        shown = [f"{row} ({', '.join(_shown(each) for each in all_)})" for row, all_ in self.disputed.items()]
        more = ", ..." * (len(shown) > N_SHOWN)
        return [f"{len(shown):,} rows are in dispute and stay as they are: {', '.join(shown[:N_SHOWN])}{more}"]


class Corrected(NamedTuple):
    """Labels with the decisions in them, by row of the data: the new classes, and what was decided."""

    given: Classes
    relabeled: NDArray[np.bool_]
    dropped: NDArray[np.bool_]
    trusted: NDArray[np.bool_]  # a person kept or changed the label


def read_decisions(files: Sequence[Any], ids: Sequence[str]) -> Decisions:
    """Return the decisions in some files or frames, one for each reviewer; who skipped a row has not decided it.

    Args:
        files: paths, or frames with the columns index, id, decision and label.
        ids: the id of each row of the run.
    """
    everyones: dict[int, list[Decision]] = {}
    for file in files:
        for row, decision in _read_one(file, ids).items():
            everyones.setdefault(row, []).append(decision)
    agreed, disputed = {}, {}
    for row, given in sorted(everyones.items()):
        firm = list(dict.fromkeys(each for each in given if each.wrong is not None)) or given[:1]
        if len(firm) == 1:
            agreed[row] = firm[0]
        else:
            disputed[row] = firm
    return Decisions(agreed, disputed)


def correct(labels: Labels, decisions: Mapping[int, Decision]) -> Corrected:
    """Return the labels of a run with these decisions."""
    n = len(labels.known)
    given, masks = labels.given.copy(), np.zeros((3, n), bool)
    relabeled, dropped, trusted = masks
    for row, decision in decisions.items():
        if decision.word == "relabel":
            given[row], relabeled[row] = _read_class(decision.label, labels, row), True
        dropped[row] = decision.word == "drop"
        trusted[row] = decision.word in ("keep", "relabel")
    return Corrected(given, relabeled, dropped, trusted)


def _read_one(file: Any, ids: Sequence[str]) -> dict[int, Decision]:
    """By the index of the row, the decisions in one file."""
    table, name = read(file).table, file if isinstance(file, str) or hasattr(file, "name") else "the frame"
    if missing := [column for column in COLUMNS if column not in table.column_names]:
        raise ValueError(f"need columns {', '.join(COLUMNS)}, as the page exports them; {name} has no {missing[0]!r}")
    chosen: dict[int, Decision] = {}
    for line in table.select(COLUMNS).to_pylist():
        cells = {column: None if cell is None else str(cell) for column, cell in line.items()}  # CSV, Excel or JSON
        index, decided = _read_index(cells, name, ids), Decision(str(cells["decision"]), cells["label"])
        if decided.word not in WRONG:
            raise ValueError(
                f"need a decision that is {', '.join(WRONG)}; got {cells['decision']!r} for row {index} in {name}"
            )
        decided = decided if decided.word == "relabel" else Decision(decided.word)
        if chosen.setdefault(index, decided) != decided:
            raise ValueError(
                f"need one decision for each row, but {name} has two for row {index}: "
                f"{_shown(chosen[index])} and {_shown(decided)}"
            )
    return chosen


def _shown(decision: Decision) -> str:
    return decision.word if decision.label is None else f"{decision.word} to {decision.label}"


def _read_index(line: Mapping[str, str | None], name: Any, ids: Sequence[str]) -> int:
    index = int(str(line["index"])) if re.fullmatch("[0-9]{1,15}", line["index"] or "") else -1
    if not 0 <= index < len(ids) or line["id"] not in (ids[index], escape_formula(ids[index])):
        raise ValueError(
            f"need rows of the run, but {name} has index {line['index']} with id {line['id']!r}; "
            "were these decisions exported from another run?"
        )
    return index


def _read_class(label: str | None, labels: Labels, row: int) -> int | list[bool]:
    """The class, or a mask of the classes, of a label: in the form of the page, or as it is where that fails."""
    for text in (unescape_formula(label or ""), label or ""):
        if labels.multilabel:
            wanted = [part.strip() for part in text.split(labels.shown_separator) if part.strip()]
        else:
            wanted = [text]
        unknown = [name for name in wanted if name not in labels.names]
        if not unknown:
            return [name in wanted for name in labels.names] if labels.multilabel else labels.names.index(text)
    shown = ", ".join(map(repr, labels.names[:20]))
    raise ValueError(f"need a label that is one of {shown}; got {unknown[0]!r} for row {row}")
