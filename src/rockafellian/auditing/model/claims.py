"""Which rows an audit claims to be mislabeled: fewer than training removes where the network may be wrong instead.

Where every row has one right answer, training removes rows whose label the network contradicts, up to the ceiling of
the noise rate. But a weak network contradicts many right labels, and nothing in its predictions tells these from wrong
ones. To remove such a row costs training little; to claim that its label is wrong costs the trust of a person.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rockafellian.auditing.model.problem import Problem
from rockafellian.label_issues import Findings
from rockafellian.method.noise_rate import NoiseRate

#: The least skill of a network whose contradictions are claimed, and how far apart floor and ceiling may be.
MIN_SKILL, MAX_GAP = 0.5, 0.1


def claim_limit(problem: Problem, estimate: NoiseRate | None) -> float | None:
    """Return the share of rows that is claimed at most, although every row is taken to have one right answer.

    Nothing with a weak network, and what the floor is sure of if floor and ceiling are far apart. Otherwise there is no
    limit, nor if the user said that every row has one right answer, or a person has reviewed rows.
    """
    if estimate is None or not problem.crisp or problem.settings.crisp or problem.review is not None:
        return None
    if estimate.skill < MIN_SKILL:
        return 0.0
    return estimate.floor.low if estimate.ceiling.rate - estimate.floor.rate > MAX_GAP else None


def claimed(problem: Problem, estimate: NoiseRate | None, found: Findings) -> NDArray[np.bool_]:
    """Return the rows that are flagged: all label issues, or as many of the worst as may be claimed."""
    issues: NDArray[np.bool_] = found.is_label_issue
    limit = claim_limit(problem, estimate)
    if limit is None:
        return issues
    rows = np.flatnonzero(issues)
    worst = rows[np.argsort(found.label_quality[rows], kind="stable")][: int(limit * len(issues))]
    kept = np.zeros(len(issues), bool)
    kept[worst] = True
    return kept


def n_doubtful(estimate: NoiseRate | None, rows: int, flagged: int) -> int:
    """Return how many rows are not claimed, although the network contradicts their label."""
    return 0 if estimate is None else max(round(estimate.ceiling.rate * rows) - flagged, 0)
