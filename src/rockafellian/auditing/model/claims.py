"""Which rows an audit claims to be mislabeled: fewer than training removes where the network may be wrong instead.

Where every row has one right answer, training removes rows whose label the network contradicts, up to the ceiling of
the noise rate. But a weak network contradicts many right labels, often surely, so that even the floor of the noise rate
takes them for wrong ones. To remove such a row costs training little; to claim that its label is wrong costs the trust
of a person.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rockafellian.auditing.model.problem import Problem
from rockafellian.label_issues import Findings
from rockafellian.method.noise_rate import NoiseRate
from rockafellian.method.out_of_sample import Estimate

#: The least skill of a network that is believed, and how far apart floor and ceiling may be.
MIN_SKILL, MAX_GAP = 0.5, 0.1


def reported_estimate(problem: Problem, estimate: NoiseRate | None) -> NoiseRate | None:
    """Return the noise rate that is claimed: of texts and images with a weak network, without errors for sure."""
    if estimate is None or not problem.kind.crisp or estimate.skill >= MIN_SKILL:
        return estimate
    return estimate._replace(floor=Estimate(0.0, 0.0, estimate.floor.high))


def claim_limit(problem: Problem, estimate: NoiseRate | None) -> float | None:
    """Return the share of rows that is claimed at most, although training may remove more; None without a limit.

    After a review that is what it leaves. Where every row is taken to have one right answer by default, it is the
    ceiling; with a weak network, or if both are far apart, it is what the reported floor is sure of.
    """
    if problem.reviewed_rate:
        return problem.reviewed_rate.floor.rate
    if estimate is None or not problem.crisp or problem.settings.crisp:
        return None
    unclear = estimate.skill < MIN_SKILL or estimate.ceiling.rate - estimate.floor.rate > MAX_GAP
    return estimate.floor.low if unclear else estimate.ceiling.rate


def claimed(problem: Problem, estimate: NoiseRate | None, found: Findings) -> NDArray[np.bool_]:
    """Return the rows that are flagged: all label issues, or as many of the worst as may be claimed."""
    issues: NDArray[np.bool_] = found.is_label_issue
    limit = claim_limit(problem, estimate)
    if limit is None:
        return issues
    rows = np.flatnonzero(issues)
    worst = rows[np.argsort(found.label_quality[rows], kind="stable")][: round(limit * len(issues))]
    kept = np.zeros(len(issues), bool)
    kept[worst] = True
    return kept


def n_doubtful(estimate: NoiseRate | None, rows: int, flagged: int) -> int:
    """Return how many rows are not claimed, although the network contradicts their label."""
    return 0 if estimate is None else max(round(estimate.ceiling.rate * rows) - flagged, 0)
