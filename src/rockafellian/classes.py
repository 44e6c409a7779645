"""A rule applied to rows: to all of them together, or to each class on its own, so that no class vanishes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from rockafellian.reweight import RRM, optimality_gap
from rockafellian.selection import fewest, kth_largest, most
from rockafellian.vectors import read_losses

Rule: TypeAlias = Callable[..., Tensor]


class Weighed(NamedTuple):
    """New weights with the mean of the old, the rows above the threshold, the largest threshold, and the gap."""

    weights: Tensor
    removed: Tensor
    threshold: float
    gap: float


class Said(NamedTuple):
    """What is known of rows beside their losses: their labels, and whether the network says something else."""

    labels: Tensor
    disagrees: Tensor


def weigh(rule: Rule, losses: Tensor, before: Tensor, prior: Tensor | None = None, said: Said | None = None) -> Weighed:
    """The rule's weights for rows whose weights `before` have mean 1, class by class where the rule asks for it."""
    split = [(rule, torch.arange(len(losses), device=losses.device))]
    if isinstance(rule, RRM) and said is not None:
        split = _split(rule, losses, said)
    if len(split) == 1:
        return _weigh_part(split[0][0], losses, before, prior)
    nominal = torch.ones_like(losses) if prior is None else prior
    weights, removed = torch.empty_like(losses), torch.empty_like(losses, dtype=torch.bool)
    thresholds, gap = [], 0.0
    for own, rows in split:  # each part keeps its nominal mass
        mass = float(nominal[rows].mean() / nominal.mean())
        mean = before[rows].mean()
        old = before[rows] / mean if mean > 0 else torch.ones_like(losses[rows])
        part = _weigh_part(own, losses[rows], old, None if prior is None else prior[rows])
        weights[rows], removed[rows] = mass * part.weights, part.removed
        thresholds.append(part.threshold)
        gap += mass * part.gap * len(rows) / len(losses)
    return Weighed(weights, removed, max(thresholds), gap)


def _weigh_part(rule: Rule, losses: Tensor, before: Tensor, prior: Tensor | None) -> Weighed:
    weights = rule(losses, before) if prior is None else rule(losses, before, prior=prior)
    weights = torch.as_tensor(weights).to(losses)
    low, high = weights.aminmax()  # NaN wins both
    if weights.shape != losses.shape or not (low >= 0 and high < math.inf):
        raise ValueError(
            f"need the rule to return {len(losses)} finite weights >= 0, got shape {tuple(weights.shape)} "
            f"from {low} to {high}"
        )
    if not hasattr(rule, "threshold"):
        return Weighed(weights, weights == 0, math.nan, math.nan)
    threshold = float(rule.threshold(losses))
    gap = float(optimality_gap(losses, weights, threshold=threshold, prior=prior))
    return Weighed(weights, losses > threshold, threshold, gap)


def _split(rule: RRM, losses: Tensor, said: Said) -> list[tuple[Rule, Tensor]]:
    """The rows in one part or several, each with the rule that holds for it.

    With `per_class` each class is a part. Its share of wrong labels is larger where the network disagrees with more of
    its labels; over all classes it is the rule's. Otherwise a class is split off only if the rule would remove more
    than `class_limit` of it.
    """
    if rule.per_class:
        classes = [(said.labels == label).nonzero()[:, 0] for label in torch.unique(said.labels)]
        return [(_limited(_for_class(rule, said.disagrees, rows), losses[rows]), rows) for rows in classes]
    removed = losses > rule.threshold(losses)
    rows_of, removed_of = (torch.bincount(labels + 1) for labels in (said.labels, said.labels[removed]))
    crowded = (removed_of > rule.class_limit * rows_of[: len(removed_of)]).nonzero()[:, 0] - 1  # UNKNOWN is -1
    if len(crowded) == 0:
        return [(rule, torch.arange(len(losses), device=losses.device))]
    groups = [(said.labels == label).nonzero()[:, 0] for label in crowded]
    split: list[tuple[Rule, Tensor]] = [(_at_limit(rule, losses[rows]), rows) for rows in groups]
    rest = ~torch.isin(said.labels, crowded)
    if rest.any():  # where it goes on to remove the rows that it would have removed
        split.append((rule.told(_share(removed[rest])), rest.nonzero()[:, 0]))
    return split


def _for_class(rule: RRM, disagrees: Tensor, rows: Tensor) -> RRM:
    """The rule for one class: a share in proportion to how often the network disagrees there, in whole rows."""
    if rule.gamma is not None:
        return rule
    assert isinstance(rule.contamination, float)
    n, overall = len(rows), _share(disagrees)
    share = rule.contamination * _share(disagrees[rows]) / overall if overall else 0.0
    return rule.told(min(fewest(share, n), n - 1) / n)


def _limited(rule: RRM, losses: Tensor) -> RRM:
    """The rule, or one that removes no more than `class_limit` of these rows."""
    return _at_limit(rule, losses) if _share(losses > rule.threshold(losses)) > rule.class_limit else rule


def _at_limit(rule: RRM, losses: Tensor) -> RRM:
    """A rule that removes as many of these rows as `class_limit` allows; rows that tie there all stay."""
    values, _ = read_losses(losses)
    edge, _ = kth_largest(values, most(rule.class_limit, len(values)) + 1)
    return rule.told(int((values > edge).sum()) / len(values))


def _share(mask: Tensor) -> float:
    return int(mask.count_nonzero()) / len(mask)
