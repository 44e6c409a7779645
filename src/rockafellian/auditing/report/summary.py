"""What the page of an audit shows, and what it says first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rockafellian.method.noise_rate import Estimate
from rockafellian.training.history import History

Floats: TypeAlias = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Suspect:
    """A row whose label looks wrong, and what a person sees of it: a text, an image, or values by column."""

    row: int  # place in the data, counted from 0
    id: str
    given: str
    suggested: str | None  # None, or the given one: no other label is suggested
    score: float  # label quality in [0, 1], lowest is worst
    probability: float | None  # how sure the network is of the suggestion
    reason: str
    text: str | None = None
    image: str | None = None  # a data: URI
    values: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Report:
    """What a page shows. `key` names the progress that the browser keeps, so it is another one for each run."""

    title: str
    key: str
    kind: str  # "table", "texts" or "images"
    rows: int
    flagged: int
    estimate: Estimate | None
    classes: Sequence[str]
    class_rows: Sequence[int]
    class_flagged: Sequence[int]
    matrix: Sequence[Sequence[int]]  # flagged rows, given (row) against suggested (column)
    history: History
    kept_losses: Floats
    removed_losses: Floats
    threshold: float | None
    suspects: Sequence[Suspect]  # worst first, perhaps not all that are flagged
    facts: Mapping[str, str]
    notices: Sequence[str]
    multi: bool = False  # several labels a row
    joint: str = " | "  # what stands between them


def headline(report: Report) -> str:
    """How many labels look wrong, in a few words."""
    if report.flagged == 0:
        return f"None of {report.rows:,} labels looks wrong"
    return f"{report.flagged:,} of {report.rows:,} labels {'looks' if report.flagged == 1 else 'look'} wrong"


def certainty(report: Report) -> str:
    """What is known of the share of wrong labels, in plain words."""
    if report.estimate is None:
        return "How many labels are wrong in all was not estimated."
    rate, low, high = (_percent(share) for share in report.estimate)
    if report.estimate.rate == 0:
        return f"The estimate over all rows is that no label is wrong; at most {high} could be."
    return f"The estimate over all rows is that {rate} of the labels are wrong ({low} to {high}, nine times in ten)."


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"
