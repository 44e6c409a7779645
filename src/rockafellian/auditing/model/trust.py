"""Whether what an audit found can be trusted: what speaks against it, each with a reason and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rockafellian.auditing.data.cells import named
from rockafellian.auditing.features.leaks import MAX_ROWS, find_leaks
from rockafellian.auditing.model import claims
from rockafellian.auditing.model.problem import Problem
from rockafellian.method.noise_rate import NoiseRate

#: With fewer rows than this, little is certain.
FEW_ROWS = 200
#: A network that gains less than this on always predicting the most frequent label knows little, even if the labels are
#: uncertain by nature.
MIN_SKILL = 0.2
#: What makes a network better, by what the rows are.
MORE_TO_LEARN_FROM = {
    "table": "add columns or rows that tell the classes apart",
    "texts": "add rows, or name an --encoder",
    "images": "add images, or give a table of the features that a better network finds in them",
}
#: A class of which more is flagged is one that the network has not learned, or that has another meaning.
MAX_FLAGGED = 0.5
#: Between the ends of the noise rate.
WIDE_GAP = 0.2
#: So many names are shown.
MAX_SHOWN = 3


class Doubt(NamedTuple):
    """Something that speaks against what was found, and what to do about it."""

    check: str
    reason: str
    fix: str

    def __str__(self) -> str:
        return f"{self.reason}; {self.fix}"


def find_doubts(
    problem: Problem, estimate: NoiseRate | None, flagged: NDArray[np.bool_], accuracy: float | None
) -> list[Doubt]:
    """Return what speaks against the findings of an audit; nothing, if they can be trusted.

    Args:
        problem: the data.
        estimate: the noise rate, if it was estimated.
        flagged: by row of the data.
        accuracy: of the network on the given labels, in the last epoch.
    """
    about_rate = _about_rate(estimate)
    return [
        *_about_leaks(problem),
        *_about_model(problem, estimate, accuracy),
        *_about_flags(problem, flagged),
        *about_rate,
    ]


def _about_leaks(problem: Problem) -> Iterator[Doubt]:
    if problem.kind.name != "table" or problem.labels.multilabel:
        return
    labels = problem.labels
    rows, table = problem.rows[:MAX_ROWS], problem.source.table
    part = table.slice(0, len(rows)) if labels.known.all() else table.take(pa.array(rows))
    if found := find_leaks(part, labels.given[rows], without={*labels.columns, problem.settings.id}):
        shown = ", ".join(map(named, found[:MAX_SHOWN])) + ", ..." * (len(found) > MAX_SHOWN)
        reason = f"column {shown} alone determines the label, wrong labels included"
        yield Doubt("leak", reason, "if it was made from the label, remove it and run again")


def _about_model(problem: Problem, estimate: NoiseRate | None, accuracy: float | None) -> Iterator[Doubt]:
    rows = len(problem.rows)
    if rows < FEW_ROWS:
        yield Doubt("few rows", f"{rows} rows are few to learn from", "check the flagged rows yourself")
    skill = _skill_on_given(problem, accuracy) if estimate is None else estimate.skill
    if skill < (claims.MIN_SKILL if problem.crisp and estimate is not None else MIN_SKILL):
        reason = "the network hardly understands the data: on always predicting the most frequent label, "
        reason += f"it gains {skill:.0%} of what a perfect one would"
        yield Doubt("weak model", reason, MORE_TO_LEARN_FROM[problem.kind.name])


def _skill_on_given(problem: Problem, accuracy: float | None) -> float:
    """Return the skill by the labels that the network was trained on, which is too high where it learned errors."""
    labels = problem.labels
    if accuracy is None or labels.multilabel:
        return 1.0
    frequent = float(np.bincount(labels.given[labels.known]).max()) / len(problem.rows)
    return max((accuracy - frequent) / (1 - frequent), 0.0) if frequent < 1 else 0.0


def _about_flags(problem: Problem, flagged: NDArray[np.bool_]) -> Iterator[Doubt]:
    labels = problem.labels
    if labels.multilabel:
        return
    counts, marked = (
        np.bincount(labels.given[rows], minlength=len(labels.names)) for rows in (labels.known, labels.known & flagged)
    )
    if mostly := [labels.names[each] for each in np.flatnonzero(marked > MAX_FLAGGED * counts)]:
        shown = ", ".join(map(named, mostly[:MAX_SHOWN])) + ", ..." * (len(mostly) > MAX_SHOWN)
        reason = f"most rows of {shown} are flagged, so the network may not have learned what this label means"
        yield Doubt("class mostly flagged", reason, "check some of them before you change any")


def _about_rate(estimate: NoiseRate | None) -> Iterator[Doubt]:
    if estimate is None:
        return
    low, high = estimate.floor.low, estimate.ceiling.high
    if estimate.is_unsure or high - low > WIDE_GAP:
        why = (
            "too few rows or too weak a model to tell" if estimate.is_unsure else "ambiguous rows and errors look alike"
        )
        reason = f"the noise rate may be anything from {low:.0%} to {high:.0%}: {why}"
        yield Doubt("wide gap", reason, "check thirty rows on the page to know it better")
