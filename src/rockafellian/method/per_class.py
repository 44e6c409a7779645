"""A rule applied to rows: to all of them together, or class by class, so that no class vanishes."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.arrays import UNKNOWN, Vector, as_numpy, blocks
from rockafellian._internal.comm import LOCAL, Comm
from rockafellian._internal.kth_largest import max_count, min_count
from rockafellian._internal.validation import Losses, mean_of, read_losses, read_prior
from rockafellian.method.reweight import RRM, RuleResult, excess_cost

Mask = NDArray[np.bool_]
Index = NDArray[np.intp]


#: The largest fraction of a class that may be removed, unless set.
CLASS_LIMIT = 0.9
#: Of outcomes that may be uncertain, no class may lose more than so many times the fraction removed of all rows.
MAX_DISPROPORTION = 3.0


class Rule(Protocol):
    """Maps losses and weights to the next weights and the threshold; pure, so that it can be applied class by class.

    `prior` is passed only where there is one, `comm` only where rows are sharded over processes.
    """

    def __call__(self, losses: Tensor, weights: Tensor, prior: Tensor | None = None, comm: Comm = LOCAL) -> RuleResult:
        """Return the next weights, with the mean of the old, and the threshold."""


class LabelEvidence(NamedTuple):
    """What is known of rows beside their losses: their labels, and whether the predicted label is another."""

    labels: NDArray[np.int32]
    disagrees: Mask


class Reweighted(NamedTuple):
    """New weights with the mean of the old, the removed rows, the largest threshold, and the optimality gap."""

    weights: Vector
    removed: Mask
    threshold: float | None
    gap: float | None


class Rows(NamedTuple):
    """What a rule is applied to: losses, the weights until now (with mean 1), and a prior if there is one."""

    losses: Losses
    weights: Vector
    prior: Vector | None = None

    def take(self, at: Index | Mask) -> Rows:
        """Some of the rows, as a problem of their own."""
        comm, prior = self.losses.comm, None if self.prior is None else self.prior[at]
        before = self.weights[at]
        mean = mean_of(before, comm)
        before = before / before.dtype.type(mean) if mean > 0 else np.ones_like(before)
        return Rows(read_losses(self.losses.values[at], comm=comm), before, prior)


def apply_rule(
    rule: Rule,
    rows: Rows,
    evidence: LabelEvidence | None = None,
    *,
    per_class: bool = False,
    class_limit: float = CLASS_LIMIT,
) -> Reweighted:
    """The rule's weights for the rows, the removed rows, and how far they are from an optimum.

    Args:
        rule: the rule; only an `RRM` can be applied by class.
        rows: losses, weights and prior.
        evidence: labels and predictions of the rows; without it, all rows are one class.
        per_class: apply the rule to each class, so that each keeps its nominal mass.
        class_limit: the largest fraction of a class that may be removed.
    """
    if not isinstance(rule, RRM) or evidence is None:
        return _apply(rule, rows)
    if per_class:
        return _join(rows, _split_all(rule, rows, evidence, class_limit))
    made = _apply(rule, rows)
    crowded = _crowded(made.removed, evidence.labels, class_limit, rows.losses.comm)
    return _join(rows, _split_off(rule, rows, evidence, made.removed, crowded, class_limit)) if crowded else made


def balanced_limit(class_limit: float, rule: RRM, removed: float) -> float:
    """The largest fraction of a class that may be removed, if this fraction is removed of all rows.

    A model doubts the labels of a rare class most, right or wrong. A class that is doubted more than others counts as
    one with more errors only if every row has one right answer (`crisp`).
    """
    return class_limit if rule.crisp else min(class_limit, MAX_DISPROPORTION * removed)


def _apply(rule: Rule, rows: Rows) -> Reweighted:
    """The rule applied to all rows together."""
    c, comm = rows.losses, rows.losses.comm
    if isinstance(rule, RRM):
        found = rule(c, rows.weights, rows.prior)
        weights = as_numpy(found.weights)
    else:
        found, weights = _call_custom(rule, rows)
    if found.threshold is None:
        return Reweighted(weights, weights == 0, None, None)
    q = read_prior(rows.prior, c.values, comm)
    gap = comm.total(excess_cost(c, weights, q, found.threshold)) / c.n
    return Reweighted(weights, c.values > found.threshold, found.threshold, gap)


def _call_custom(rule: Rule, rows: Rows) -> tuple[RuleResult, Vector]:
    """What a user's rule returns, checked."""
    c = rows.losses
    more: dict[str, Any] = {} if rows.prior is None else {"prior": torch.from_numpy(rows.prior)}
    if c.comm is not LOCAL:
        more["comm"] = c.comm
    made: Any = rule(torch.from_numpy(c.values), torch.from_numpy(rows.weights), **more)
    if not isinstance(made, tuple) or len(made) != 2:
        raise ValueError(
            f"need the rule to return (weights, threshold), got {type(made).__name__}; the threshold may be None"
        )
    weights = as_numpy(torch.as_tensor(made[0])).astype(c.values.dtype, copy=False)
    low, high = weights.min(initial=np.inf), weights.max(initial=-np.inf)  # NaN wins both
    if weights.shape != c.values.shape or (len(weights) and not (low >= 0 and high < math.inf)):
        raise ValueError(
            f"need the rule to return {len(c.values)} finite weights >= 0, got shape {weights.shape} "
            f"from {low} to {high}"
        )
    return RuleResult(made[0], None if made[1] is None else float(made[1])), weights


def _join(rows: Rows, parts: list[tuple[RRM, Index]]) -> Reweighted:
    """The rule of each part applied to its rows; each part keeps its nominal mass."""
    c, comm = rows.losses, rows.losses.comm
    nominal = np.broadcast_to(np.float32(1), c.values.shape) if rows.prior is None else rows.prior
    everywhere = mean_of(nominal, comm)
    weights, removed = np.empty_like(c.values), np.empty(len(c.values), bool)
    threshold, gap = -math.inf, 0.0
    for rule, at in parts:
        mass = mean_of(nominal[at], comm) / everywhere
        made = _apply(rule, part := rows.take(at))
        assert made.threshold is not None  # an RRM has both
        assert made.gap is not None
        weights[at], removed[at] = made.weights * weights.dtype.type(mass), made.removed
        threshold = max(threshold, made.threshold)
        gap += mass * made.gap * part.losses.n / c.n
    return Reweighted(weights, removed, threshold, gap)


def _split_all(rule: RRM, rows: Rows, evidence: LabelEvidence, limit: float) -> list[tuple[RRM, Index]]:
    """A part for each class, each with the rule for it.

    Its contamination is larger where the network disagrees with more of its labels; over all classes it is the rule's.
    """
    comm = rows.losses.comm
    disagreements = _total(evidence.disagrees, comm)
    parts = []
    for label in np.flatnonzero(_count(evidence.labels, comm)) - 1:
        at = np.flatnonzero(evidence.labels == label)
        own = _for_class(rule, evidence.disagrees[at], Fraction(rows.losses.n, max(disagreements, 1)), comm)
        losses = read_losses(rows.losses.values[at], comm=comm)
        removed = losses.values > own.threshold(losses)
        parts.append((_at_limit(own, losses, limit) if fraction(removed, comm) > limit else own, at))
    return parts


def _split_off(
    rule: RRM, rows: Rows, evidence: LabelEvidence, removed: Mask, crowded: list[int], limit: float
) -> list[tuple[RRM, Index]]:
    """A part for each class of which the rule would remove too much, and one for all others."""
    comm, parts = rows.losses.comm, []
    for label in crowded:
        at = np.flatnonzero(evidence.labels == label)
        parts.append((_at_limit(rule, read_losses(rows.losses.values[at], comm=comm), limit), at))
    rest = ~np.isin(evidence.labels, crowded)
    if comm.total(int(np.count_nonzero(rest))):  # the same rows of the others are removed as before
        parts.append((rule.with_contamination(fraction(removed[rest], comm)), np.flatnonzero(rest)))
    return parts


def _crowded(removed: Mask, labels: NDArray[np.int32], limit: float, comm: Comm) -> list[int]:
    """The labels of which more than the limit is removed."""
    n_labels = _n_labels(labels, comm)
    both = np.zeros((2, n_labels), np.int64)
    for rows in blocks(len(labels)):
        shifted = labels[rows] - UNKNOWN
        both[0] += np.bincount(shifted, minlength=n_labels)
        both[1] += np.bincount(shifted[removed[rows]], minlength=n_labels)
    rows_of, removed_of = comm.totals(both)
    found: list[int] = (np.flatnonzero(removed_of / np.maximum(rows_of, 1) > limit) + UNKNOWN).tolist()
    return found


def _for_class(rule: RRM, disagrees: Mask, rows_per_disagreement: Fraction, comm: Comm) -> RRM:
    """The rule for one class: a contamination in proportion to how often the network disagrees, in whole rows."""
    if rule.gamma is not None:
        return rule
    assert isinstance(rule.contamination, float)
    n, own = int(comm.total(len(disagrees))), _total(disagrees, comm)
    wanted = min_count(rule.contamination, own * rows_per_disagreement) if own else 0
    return rule.with_contamination(min(wanted, n - 1) / n)


def _at_limit(rule: RRM, losses: Losses, limit: float) -> RRM:
    """A rule that removes as many of these rows as the limit allows; rows that tie there all stay."""
    edge, _ = losses.comm.kth_largest(losses.values, max_count(limit, losses.n) + 1)
    return rule.with_contamination(fraction(losses.values > edge, losses.comm))


def _total(mask: Mask, comm: Comm) -> int:
    """How many of all rows, wherever they lie, are in the mask."""
    return int(comm.total(int(np.count_nonzero(mask))))


def fraction(mask: Mask, comm: Comm) -> float:
    """The fraction of all rows, wherever they lie, that are in the mask."""
    everyones = comm.exchange([int(np.count_nonzero(mask)), len(mask)])
    return float(everyones[:, 0].sum() / everyones[:, 1].sum())


def _n_labels(labels: NDArray[np.int32], comm: Comm) -> int:
    """How many labels there are, the unknown one included."""
    return int(comm.greatest(float(labels.max(initial=UNKNOWN)))) - UNKNOWN + 1


def _count(labels: NDArray[np.int32], comm: Comm) -> NDArray[np.int64]:
    """How many rows have each label, the unknown one first."""
    return comm.totals(np.bincount(labels - UNKNOWN, minlength=_n_labels(labels, comm)))
