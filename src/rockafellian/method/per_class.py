"""A rule applied to rows: to all of them together, or to each class on its own, so that no class vanishes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.kth_largest import LOCAL, max_count, min_count
from rockafellian._internal.validation import UNKNOWN, Comm, mean_of, read_losses
from rockafellian.method.reweight import RRM, RuleResult, optimality_gap


class Rule(Protocol):
    """Maps losses and weights to the next weights and the threshold; pure, so that it can be applied class by class.

    `prior` is passed only where there is one, `comm` only where rows are sharded over processes.
    """

    def __call__(self, losses: Tensor, weights: Tensor, prior: Tensor | None = None, comm: Comm = LOCAL) -> RuleResult:
        """Return the next weights, with the mean of the old, and the threshold."""


class Reweighted(NamedTuple):
    """New weights with the mean of the old, the removed rows, the largest threshold, and the optimality gap."""

    weights: Tensor
    removed: Tensor
    threshold: float | None
    gap: float | None


class LabelEvidence(NamedTuple):
    """What is known of rows beside their losses: their labels, and whether the predicted label is another."""

    labels: Tensor
    disagrees: Tensor


def apply_rule(
    rule: Rule,
    losses: Tensor,
    before: Tensor,
    prior: Tensor | None = None,
    evidence: LabelEvidence | None = None,
    comm: Comm = LOCAL,
    *,
    per_class: bool = False,
    class_limit: float = 0.9,
) -> Reweighted:
    """The rule's weights for rows whose weights `before` have mean 1.

    Args:
        rule: the rule; only an `RRM` can be applied by class.
        losses: one per row.
        before: the weights until now, with mean 1.
        prior: unequal nominal weights.
        evidence: labels and predictions of the rows; without it, all rows are one class.
        comm: where the rows lie.
        per_class: apply the rule to each class, so that each keeps its nominal mass.
        class_limit: the largest fraction of a class that may be removed.
    """
    split = [(rule, torch.arange(len(losses), device=losses.device))]
    if isinstance(rule, RRM) and evidence is not None:
        split = _split(rule, losses, evidence, comm, per_class, class_limit)
    if len(split) == 1:
        return _apply_to_part(split[0][0], losses, before, prior, comm)
    nominal = torch.ones_like(losses) if prior is None else prior
    everywhere, n = _mean(nominal, comm), comm.total(len(losses))
    weights, removed = torch.empty_like(losses), torch.empty_like(losses, dtype=torch.bool)
    thresholds, gap = [-math.inf], 0.0
    for own, rows in split:  # each part keeps its nominal mass
        mass = _mean(nominal[rows], comm) / everywhere
        mean = _mean(before[rows], comm)
        old = before[rows] / mean if mean > 0 else torch.ones_like(losses[rows])
        part = _apply_to_part(own, losses[rows], old, None if prior is None else prior[rows], comm)
        weights[rows], removed[rows] = mass * part.weights, part.removed
        assert part.threshold is not None  # an RRM has both
        assert part.gap is not None
        thresholds.append(part.threshold)
        gap += mass * part.gap * comm.total(len(rows)) / n
    return Reweighted(weights, removed, max(thresholds), gap)


def _apply_to_part(rule: Rule, losses: Tensor, before: Tensor, prior: Tensor | None, comm: Comm) -> Reweighted:
    more: dict[str, Any] = {} if prior is None else {"prior": prior}
    if comm is not LOCAL:
        more["comm"] = comm
    made = rule(losses, before, **more)
    if not isinstance(made, tuple) or len(made) != 2:
        raise ValueError(
            f"need the rule to return (weights, threshold), got {type(made).__name__}; threshold may be None"
        )
    weights, threshold = torch.as_tensor(made[0]).to(losses), made[1]
    low, high = weights.aminmax() if len(weights) else (losses.new_zeros(()),) * 2  # NaN wins both
    if weights.shape != losses.shape or not (low >= 0 and high < math.inf):
        raise ValueError(
            f"need the rule to return {len(losses)} finite weights >= 0, got shape {tuple(weights.shape)} "
            f"from {low} to {high}"
        )
    if threshold is None:
        return Reweighted(weights, weights == 0, None, None)
    gap = float(optimality_gap(losses, weights, threshold=threshold, prior=prior, comm=comm))
    return Reweighted(weights, losses > threshold, float(threshold), gap)


def _split(
    rule: RRM, losses: Tensor, evidence: LabelEvidence, comm: Comm, per_class: bool, limit: float
) -> list[tuple[Rule, Tensor]]:
    """The rows in one part or several, each with the rule that holds for it.

    With `per_class` each class is a part. Its share of wrong labels is larger where the network disagrees with more of
    its labels; over all classes it is the rule's. Otherwise a class is split off only if the rule would remove more
    than `class_limit` of it.
    """
    n_labels = (
        int(comm.greatest(float(evidence.labels.max()) if len(evidence.labels) else UNKNOWN)) + 2
    )  # UNKNOWN is -1
    rows_of = _count(evidence.labels, n_labels, comm)
    if per_class:
        classes = [(evidence.labels == int(label) - 1).nonzero()[:, 0] for label in np.flatnonzero(rows_of)]
        overall = _share(evidence.disagrees, comm)
        return [
            (_limited(_for_class(rule, evidence.disagrees[rows], overall, comm), losses[rows], comm, limit), rows)
            for rows in classes
        ]
    removed = losses > rule.threshold(losses, comm)
    removed_of = _count(evidence.labels[removed], n_labels, comm)
    crowded = np.flatnonzero(removed_of > limit * rows_of) - 1
    if len(crowded) == 0:
        return [(rule, torch.arange(len(losses), device=losses.device))]
    groups = [(evidence.labels == int(label)).nonzero()[:, 0] for label in crowded]
    split: list[tuple[Rule, Tensor]] = [(_at_limit(rule, losses[rows], comm, limit), rows) for rows in groups]
    rest = ~torch.isin(
        evidence.labels, torch.tensor(crowded, dtype=evidence.labels.dtype, device=evidence.labels.device)
    )
    if comm.total(int(rest.count_nonzero())):  # where it goes on to remove the rows that it would have removed
        split.append((rule.with_contamination(_share(removed[rest], comm)), rest.nonzero()[:, 0]))
    return split


def _for_class(rule: RRM, disagrees: Tensor, overall: float, comm: Comm) -> RRM:
    """The rule for one class: a share in proportion to how often the network disagrees there, in whole rows."""
    if rule.gamma is not None:
        return rule
    assert isinstance(rule.contamination, float)
    n = int(comm.total(len(disagrees)))
    share = rule.contamination * _share(disagrees, comm) / overall if overall else 0.0
    return rule.with_contamination(min(min_count(share, n), n - 1) / n)


def _limited(rule: RRM, losses: Tensor, comm: Comm, limit: float) -> RRM:
    """The rule, or one that removes no more than `class_limit` of these rows."""
    removed = losses > rule.threshold(losses, comm)
    return _at_limit(rule, losses, comm, limit) if _share(removed, comm) > limit else rule


def _at_limit(rule: RRM, losses: Tensor, comm: Comm, limit: float) -> RRM:
    """A rule that removes as many of these rows as `class_limit` allows; rows that tie there all stay."""
    values, _ = read_losses(losses, comm=comm)
    n = int(comm.total(len(values)))
    edge, _ = comm.kth_largest(values, max_count(limit, n) + 1)
    return rule.with_contamination(_share(torch.from_numpy(values > edge), comm))


def _share(mask: Tensor, comm: Comm) -> float:
    return comm.total(int(mask.count_nonzero())) / comm.total(len(mask))


def _count(labels: Tensor, n_labels: int, comm: Comm) -> NDArray[np.int64]:
    """How many rows have each label, the unknown one first."""
    return comm.totals(np.bincount(labels.cpu().numpy() + 1, minlength=n_labels))


def _mean(values: Tensor, comm: Comm) -> float:
    return mean_of(values.cpu().numpy(), comm)
