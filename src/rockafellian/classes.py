"""A rule applied to rows: to all of them together, or to each class on its own, so that no class vanishes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian.notes import UNKNOWN
from rockafellian.reweight import RRM, optimality_gap
from rockafellian.selection import ALONE, fewest, most
from rockafellian.vectors import Across, mean_of, read_losses

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


def weigh(
    rule: Rule,
    losses: Tensor,
    before: Tensor,
    prior: Tensor | None = None,
    said: Said | None = None,
    across: Across = ALONE,
) -> Weighed:
    """The rule's weights for rows whose weights `before` have mean 1, class by class where the rule asks for it."""
    split = [(rule, torch.arange(len(losses), device=losses.device))]
    if isinstance(rule, RRM) and said is not None:
        split = _split(rule, losses, said, across)
    if len(split) == 1:
        return _weigh_part(split[0][0], losses, before, prior, across)
    nominal = torch.ones_like(losses) if prior is None else prior
    everywhere, n = _mean(nominal, across), across.total(len(losses))
    weights, removed = torch.empty_like(losses), torch.empty_like(losses, dtype=torch.bool)
    thresholds, gap = [], 0.0
    for own, rows in split:  # each part keeps its nominal mass
        mass = _mean(nominal[rows], across) / everywhere
        mean = _mean(before[rows], across)
        old = before[rows] / mean if mean > 0 else torch.ones_like(losses[rows])
        part = _weigh_part(own, losses[rows], old, None if prior is None else prior[rows], across)
        weights[rows], removed[rows] = mass * part.weights, part.removed
        thresholds.append(part.threshold)
        gap += mass * part.gap * across.total(len(rows)) / n
    return Weighed(weights, removed, max(thresholds), gap)


def _weigh_part(rule: Rule, losses: Tensor, before: Tensor, prior: Tensor | None, across: Across) -> Weighed:
    more: dict[str, Any] = {} if prior is None else {"prior": prior}
    if across is not ALONE:
        more["across"] = across
    weights = torch.as_tensor(rule(losses, before, **more)).to(losses)
    low, high = weights.aminmax() if len(weights) else (losses.new_zeros(()),) * 2  # NaN wins both
    if weights.shape != losses.shape or not (low >= 0 and high < math.inf):
        raise ValueError(
            f"need the rule to return {len(losses)} finite weights >= 0, got shape {tuple(weights.shape)} "
            f"from {low} to {high}"
        )
    if not hasattr(rule, "threshold"):
        return Weighed(weights, weights == 0, math.nan, math.nan)
    more.pop("prior", None)
    threshold = float(rule.threshold(losses, **more))
    gap = float(optimality_gap(losses, weights, threshold=threshold, prior=prior, across=across))
    return Weighed(weights, losses > threshold, threshold, gap)


def _split(rule: RRM, losses: Tensor, said: Said, across: Across) -> list[tuple[Rule, Tensor]]:
    """The rows in one part or several, each with the rule that holds for it.

    With `per_class` each class is a part. Its share of wrong labels is larger where the network disagrees with more of
    its labels; over all classes it is the rule's. Otherwise a class is split off only if the rule would remove more
    than `class_limit` of it.
    """
    n_labels = int(across.greatest(float(said.labels.max()) if len(said.labels) else UNKNOWN)) + 2  # UNKNOWN is -1
    rows_of = _count(said.labels, n_labels, across)
    if rule.per_class:
        classes = [(said.labels == int(label) - 1).nonzero()[:, 0] for label in np.flatnonzero(rows_of)]
        overall = _share(said.disagrees, across)
        return [
            (_limited(_for_class(rule, said.disagrees[rows], overall, across), losses[rows], across), rows)
            for rows in classes
        ]
    removed = losses > rule.threshold(losses, across)
    removed_of = _count(said.labels[removed], n_labels, across)
    crowded = np.flatnonzero(removed_of > rule.class_limit * rows_of) - 1
    if len(crowded) == 0:
        return [(rule, torch.arange(len(losses), device=losses.device))]
    groups = [(said.labels == int(label)).nonzero()[:, 0] for label in crowded]
    split: list[tuple[Rule, Tensor]] = [(_at_limit(rule, losses[rows], across), rows) for rows in groups]
    rest = ~torch.isin(said.labels, torch.tensor(crowded, dtype=said.labels.dtype, device=said.labels.device))
    if across.total(int(rest.count_nonzero())):  # where it goes on to remove the rows that it would have removed
        split.append((rule.told(_share(removed[rest], across)), rest.nonzero()[:, 0]))
    return split


def _for_class(rule: RRM, disagrees: Tensor, overall: float, across: Across) -> RRM:
    """The rule for one class: a share in proportion to how often the network disagrees there, in whole rows."""
    if rule.gamma is not None:
        return rule
    assert isinstance(rule.contamination, float)
    n = int(across.total(len(disagrees)))
    share = rule.contamination * _share(disagrees, across) / overall if overall else 0.0
    return rule.told(min(fewest(share, n), n - 1) / n)


def _limited(rule: RRM, losses: Tensor, across: Across) -> RRM:
    """The rule, or one that removes no more than `class_limit` of these rows."""
    removed = losses > rule.threshold(losses, across)
    return _at_limit(rule, losses, across) if _share(removed, across) > rule.class_limit else rule


def _at_limit(rule: RRM, losses: Tensor, across: Across) -> RRM:
    """A rule that removes as many of these rows as `class_limit` allows; rows that tie there all stay."""
    values, _ = read_losses(losses, across=across)
    n = int(across.total(len(values)))
    edge, _ = across.kth_largest(values, most(rule.class_limit, n) + 1)
    return rule.told(_share(torch.from_numpy(values > edge), across))


def _share(mask: Tensor, across: Across) -> float:
    return across.total(int(mask.count_nonzero())) / across.total(len(mask))


def _count(labels: Tensor, n_labels: int, across: Across) -> NDArray[np.int64]:
    """How many rows have each label, the unknown one first."""
    return across.totals(np.bincount(labels.cpu().numpy() + 1, minlength=n_labels))


def _mean(values: Tensor, across: Across) -> float:
    return mean_of(values.cpu().numpy(), across)
