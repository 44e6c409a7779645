"""The re-weighting of the paper, exact: thresholds, optimal weights, their certificate and the rule RRM.

Pure functions of one vector of losses. Weights have the scale `N * p_i`: 1 is nominal, 0 is removed, the mean is 1.
`prior` puts given weights q_i (classes, a survey) in the place of the paper's 1/N; any positive scale will do.

The arithmetic runs in numpy: on the CPU its comparisons and its selection are several times faster than torch's.
Losses on another device make one round trip, and the same losses get the same weights on every device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.kth_largest import LOCAL, kth_largest, max_count, min_count
from rockafellian._internal.validation import (
    Array,
    Comm,
    Real,
    Vector,
    blocks,
    check_distribution,
    read_losses,
    read_prior,
    read_weights,
    to_scalar,
    to_tensor,
)

Spread: TypeAlias = Literal["argmin", "kept"]
Penalty: TypeAlias = Literal["tv", "l1"]


class Partition(NamedTuple):
    """Where each row lies (Theorem 3.1): I_min, I_mid, I_big, and the rows above c_min + gamma, which are removed."""

    smallest: Tensor
    middle: Tensor
    edge: Tensor
    above: Tensor


class RuleResult(NamedTuple):
    """What a rule returns: the next weights, and the loss above which it removed rows (None if it has none)."""

    weights: Tensor
    threshold: float | None


class WassersteinValue(NamedTuple):
    """v_MIX of section 3.4 and the multiplier gamma_theta that goes with it."""

    value: Tensor
    multiplier: Tensor


def optimal_weights(
    losses: Array,
    *,
    gamma: float | None = None,
    contamination: float | None = None,
    spread: Spread = "argmin",
    prior: Array | None = None,
    comm: Comm = LOCAL,
) -> Tensor:
    """Weights that remove every row above the threshold and give its mass to others.

    `spread="argmin"` is the Corollary to Theorem 3.1, an optimum of the linear program: rows of least loss take all.
    `spread="kept"` is the target of eq. (2): all kept rows share. No optimum, but calm enough to train with.
    `across` says where the rows lie, if not all of them are here.

    >>> import torch
    >>> optimal_weights(torch.tensor([0.0, 0.5, 3.0]), gamma=1.0)
    tensor([2., 1., 0.])
    >>> optimal_weights(torch.tensor([0.0, 0.5, 3.0]), contamination=0.3, spread="kept")
    tensor([1.5000, 1.5000, 0.0000])
    """
    _check_choice("spread", spread, Spread)
    values, c_min = read_losses(losses, comm=comm)
    n = comm.total(len(values))
    weights, kept, smallest = _keep(values, c_min, _threshold(values, c_min, gamma, contamination, comm))
    mass = float(kept)
    if prior is not None:
        weights *= read_prior(prior, values, comm)
        mass = float(weights.sum(dtype=np.float64))
    mass = comm.total(mass)
    if spread == "kept":
        weights *= n / mass
    else:
        weights[smallest] *= 1 + (n - mass) / comm.total(float(weights[smallest].sum(dtype=np.float64)))
    return to_tensor(weights, losses)


def threshold_for(losses: Array, contamination: float) -> Tensor:
    """Largest loss that leaves at least `contamination * N` rows strictly above it.

    The l_{1-C'} of Algorithm 1; `inf`, i.e. remove nothing, if no loss qualifies. Infinite losses always lie above.

    >>> import torch
    >>> threshold_for(torch.tensor([0.1, 0.2, 0.3, 0.4]), 0.5)
    tensor(0.2000)
    """
    values, c_min = read_losses(losses)
    return to_scalar(_threshold(values, c_min, None, contamination), losses)


def partition(losses: Array, gamma: float) -> Partition:
    """The four groups of Theorem 3.1, as masks: every row lies in exactly one of them."""
    values, c_min = read_losses(losses)
    threshold = _threshold(values, c_min, gamma, None)
    smallest = values == c_min
    edge = (values == threshold) & ~smallest
    above = values > threshold
    return Partition(*(to_tensor(mask, losses) for mask in (smallest, ~(smallest | edge | above), edge, above)))


def is_optimal(
    losses: Array, weights: Array, gamma: float, *, prior: Array | None = None, tolerance: float = 1e-6
) -> bool:
    """Whether the weights solve the linear program: membership in the complete set of solutions of Theorem 3.1.

    The set for S_1 = S_2 = {} holds all the others, so the theorem comes down to two bounds a row: nothing is taken
    below the edge, nothing is given except to the smallest, nothing is left above it.
    `tolerance` is on the weights; losses are compared to within a few units in the last place.
    """
    values, c_min = read_losses(losses)
    w, q = read_weights(weights, values), read_prior(prior, values)
    threshold = _threshold(values, c_min, gamma, None)
    rounding = 8 * np.finfo(values.dtype).eps * max(abs(c_min), abs(threshold))
    least = np.where(values < threshold - rounding, q, 0)
    greatest = np.where(values <= c_min + rounding, np.inf, np.where(values <= threshold + rounding, q, 0))
    mean_is_one = abs(w.mean(dtype=np.float64) - 1) <= tolerance
    return bool(mean_is_one and np.all(w >= least - tolerance) and np.all(w <= greatest + tolerance))


def objective(losses: Array, weights: Array, *, gamma: float, prior: Array | None = None) -> Tensor:
    """Eq. (3) at these weights: mean(w * c) + gamma / 2 * mean|w - q|. A removed row costs nothing, even at `+inf`."""
    _check_one_of(gamma, None)
    values, _ = read_losses(losses)
    w, q = read_weights(weights, values).astype(np.float64), read_prior(prior, values)
    expected_loss = np.where(w == 0, 0, values) @ w / len(values)
    return to_scalar(expected_loss + gamma / 2 * np.abs(w - q).mean(), losses)


def optimal_value(losses: Array, *, gamma: float, prior: Array | None = None) -> Tensor:
    """The linear program's optimum v(theta) of eq. (3), in closed form: mean(q * min(c, c_min + gamma))."""
    values, c_min = read_losses(losses)
    capped = np.minimum(values, _threshold(values, c_min, gamma, None))
    return to_scalar((capped * read_prior(prior, values)).mean(dtype=np.float64), losses)


def optimality_gap(
    losses: Array,
    weights: Array,
    *,
    gamma: float | None = None,
    threshold: Tensor | float | None = None,
    prior: Array | None = None,
    comm: Comm = LOCAL,
) -> Tensor:
    """`objective` minus `optimal_value`: at least 0, and exactly 0 for the Corollary's weights.

    Summed from terms that are never negative, so nothing cancels. `threshold` may stand in place of gamma, as
    c_min + gamma: going through gamma and back would lose the last digit.
    """
    if (gamma is None) == (threshold is None):
        raise ValueError(f"need gamma or threshold, got gamma={gamma} and threshold={threshold}; pass exactly one")
    values, c_min = read_losses(losses, comm=comm)
    w, q = read_weights(weights, values), read_prior(prior, values, comm)
    check_distribution(w, comm)
    given = _threshold(values, c_min, gamma, None) if threshold is None else values.dtype.type(float(threshold))
    cap = min(given, np.finfo(values.dtype).max)  # so that 0 * (cap - c) is 0
    total = sum(_waste(values[rows], w[rows], q[rows], c_min, cap) for rows in blocks(len(values)))
    return to_scalar(comm.total(total) / comm.total(len(values)), losses)


def wasserstein_value(
    losses: Array, *, multiplier: float | None = None, budget: float | None = None
) -> WassersteinValue:
    """v_MIX of section 3.4 in closed form, for a multiplier gamma_theta or for a budget epsilon.

    A multiplier gives mean(min(c, multiplier)), the problem printed in the Proposition. A budget gives the constrained
    problem of its proof: weights shrink from the largest loss down until their mean absolute change is the budget, and
    the multiplier is the loss at that edge, or -c_min once growing the row of least loss pays more.
    """
    if (multiplier is None) == (budget is None):
        raise ValueError(
            f"need multiplier or budget, got multiplier={multiplier} and budget={budget}; pass exactly one"
        )
    values, c_min = read_losses(losses)
    values = values.astype(np.float64)
    if np.isinf(values).any():
        raise ValueError("need finite losses, as the Proposition does; got +inf: leave those rows out")
    lowest = max(-float(c_min), 0.0)
    if multiplier is None:
        multiplier = max(_loss_at_edge(values, budget), lowest)
    if not lowest <= multiplier < math.inf:
        raise ValueError(f"need a finite multiplier >= {lowest:g}, or v_MIX has no minimum; got {multiplier}")
    value = np.minimum(values, multiplier).mean() - multiplier * (budget or 0.0)
    return WassersteinValue(to_scalar(value, losses), to_scalar(multiplier, losses))


@dataclass(frozen=True)
class RRM:
    """The rule of Algorithm 3: weights -> (1 - mu) * weights + mu * optimal_weights(losses).

    Give `gamma` or `contamination` (C' of Algorithm 1), or neither: `RRM()` is `contamination="auto"`, the share that
    SampleWeights finds from what the network says. `mu` is 0.5 with gamma and 1 with a contamination unless given.
    `penalty="tv"` is eq. (3), which removes above c_min + gamma. `penalty="l1"` is the form printed in Algorithm 3,
    which removes above c_min + 2 * gamma; the paper's tables were run with it.
    """

    gamma: float | None = None
    contamination: float | Literal["auto"] | None = None
    mu: float | None = None
    spread: Spread = "kept"
    penalty: Penalty = "tv"

    def __post_init__(self) -> None:
        if self.gamma is None and self.contamination is None:
            object.__setattr__(self, "contamination", "auto")
        _check_one_of(self.gamma, 0.0 if self.contamination == "auto" else self.contamination)
        _check_choice("spread", self.spread, Spread)
        _check_choice("penalty", self.penalty, Penalty)
        if self.mu is None:
            object.__setattr__(self, "mu", 0.5 if self.contamination is None else 1.0)
        elif not 0 < self.mu <= 1:
            raise ValueError(f"need mu in (0, 1], got {self.mu}; 1 replaces the weights, 0.5 goes half-way")

    @property
    def auto(self) -> bool:
        """Whether the share of wrong labels is still to be found."""
        return self.contamination == "auto"

    def with_contamination(self, contamination: float) -> RRM:
        """The same rule with this share of wrong labels."""
        return replace(self, gamma=None, contamination=contamination)

    def threshold(self, losses: Array, comm: Comm = LOCAL) -> Tensor:
        """The loss above which this rule removes a row."""
        values, c_min = read_losses(losses, comm=comm)
        return to_scalar(_threshold(values, c_min, self._eq3_gamma, self._share, comm), losses)

    def __call__(self, losses: Array, weights: Array, prior: Array | None = None, comm: Comm = LOCAL) -> RuleResult:
        """The next weights, mu of the way from these to the optimum, and the threshold."""
        gamma, share = self._eq3_gamma, self._share
        optimum = optimal_weights(losses, gamma=gamma, contamination=share, spread=self.spread, prior=prior, comm=comm)
        target = optimum.cpu().numpy()
        assert self.mu is not None
        # Paper: Algorithm 3 prints mu * u* + (1 - mu); Table 5 shows that the old u belongs behind the (1 - mu).
        mixed = (1 - self.mu) * read_weights(weights, target) + self.mu * target
        return RuleResult(to_tensor(mixed, losses), float(self.threshold(losses, comm)))

    @property
    def _share(self) -> float | None:
        if self.contamination == "auto":
            raise ValueError(
                "need a share of wrong labels, which RRM() leaves to SampleWeights to find; "
                "pass RRM(contamination=0.2) or RRM().told(0.2)"
            )
        return self.contamination

    @property
    def _eq3_gamma(self) -> float | None:
        # Paper: gamma * ||u||_1 of Algorithm 3 is the (gamma / 2) * ||u||_1 of eq. (3) at twice the gamma.
        return 2 * self.gamma if self.gamma is not None and self.penalty == "l1" else self.gamma


def _threshold(
    values: Vector, c_min: Real, gamma: float | None, contamination: float | None, comm: Comm = LOCAL
) -> Real:
    """The loss above which rows are removed, c_min + gamma or l_{1-C'}: one number serves both modes."""
    _check_one_of(gamma, contamination)
    if contamination is not None:
        return _quantile(values, contamination, comm)
    with np.errstate(over="ignore"):
        threshold: Real = min(c_min + values.dtype.type(gamma), np.finfo(values.dtype).max)
    return threshold


def _quantile(values: Vector, contamination: float, comm: Comm) -> Real:
    real = values.dtype.type
    largest, none_qualifies = real(comm.greatest(values.max(initial=-np.inf))), real(np.inf)
    if np.isinf(largest):  # an infinite loss is removed whatever the share
        finite = values[np.isfinite(values)].max(initial=-np.inf)
        largest = none_qualifies = real(comm.greatest(finite))
    rows_above = min_count(contamination, int(comm.total(len(values))))
    if rows_above == 0:
        return largest
    _, below = comm.kth_largest(values, rows_above)
    return below if below > -np.inf else none_qualifies


def _keep(values: Vector, c_min: Real, threshold: Real) -> tuple[Vector, int, NDArray[np.intp]]:
    """Ones for the rows to keep and zeros above the threshold, how many are kept, and which have the least loss."""
    weights, kept, smallest = np.empty_like(values), 0, []
    for rows in blocks(len(values)):
        below = values[rows] <= threshold
        weights[rows] = below
        kept += int(np.count_nonzero(below))
        if values[rows].min() == c_min:
            smallest.append(np.flatnonzero(values[rows] == c_min) + rows.start)
    return weights, kept, np.concatenate([np.empty(0, np.intp), *smallest])


def _waste(c: Vector, w: Vector, q: Vector, c_min: Real, cap: Real) -> float:
    """What these rows add to the objective beyond the optimum, whose multiplier is c_min + gamma / 2."""
    with np.errstate(over="ignore"):
        given = np.maximum(w - q, 0) * (np.minimum(c, cap) - c_min)  # to a row that is not of least loss
        taken = np.maximum(q - w, 0) * np.maximum(cap - c, 0)  # from a row below the threshold
        left = w * np.maximum(np.where(w > 0, c, cap) - cap, 0)  # on a row above it
        return float((given + taken + left).sum(dtype=np.float64))


def _loss_at_edge(values: Vector, budget: float | None) -> float:
    """The loss of the first row that a budget cannot remove in full, largest first; 0 if it removes them all."""
    if budget is None or not 0 <= budget < math.inf:
        raise ValueError(f"need a finite budget >= 0, the mean absolute change of the weights; got {budget}")
    removed = max_count(budget, len(values))
    return float(kth_largest(values, removed + 1)[0]) if removed < len(values) else 0.0


def _check_one_of(gamma: float | None, contamination: float | None) -> None:
    if (gamma is None) == (contamination is None):
        raise ValueError(
            f"need gamma or contamination, got gamma={gamma} and contamination={contamination}; pass exactly one"
        )
    if gamma is not None and not 0 < gamma < math.inf:
        raise ValueError(f"need a finite gamma > 0, in units of the loss; got {gamma}")
    if contamination is not None and (isinstance(contamination, str) or not 0 <= contamination < 1):
        raise ValueError(f"need a contamination in [0, 1), a share of the rows; got {contamination!r}")


def _check_choice(name: str, value: object, choices: Any) -> None:
    if value not in get_args(choices):
        raise ValueError(f"need {name} to be one of {', '.join(map(repr, get_args(choices)))}; got {value!r}")
