"""The re-weighting of the paper, exact: thresholds, optimal weights, their certificate and the rule RRM.

Pure functions of one vector of losses. Weights have the scale `N * p_i`: 1 is nominal, 0 is removed, the mean is 1.
`prior` puts given weights q_i (classes, a survey) in the place of the paper's 1/N; any positive scale will do.

The arithmetic runs in NumPy: on the CPU its comparisons and its selection are several times faster than torch's.
Losses on another device make one round trip, and the same losses get the same weights on every device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from torch import Tensor

from rockafellian._internal.arrays import Array, Real, Vector, blocks, to_scalar, to_tensor
from rockafellian._internal.comm import LOCAL, Comm
from rockafellian._internal.kth_largest import kth_largest, max_count, min_count
from rockafellian._internal.validation import (
    Losses,
    LossesLike,
    check_choice,
    mean_of,
    read_losses,
    read_number,
    read_prior,
    read_weights,
    safe_mean,
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
    `comm` says where the rows lie, if not all of them are here.

    >>> import torch
    >>> optimal_weights(torch.tensor([0.0, 0.5, 3.0]), gamma=1.0)
    tensor([2., 1., 0.])
    >>> optimal_weights(torch.tensor([0.0, 0.5, 3.0]), contamination=0.3, spread="kept")
    tensor([1.5000, 1.5000, 0.0000])
    """
    check_choice("spread", spread, get_args(Spread))
    c = read_losses(losses, comm=comm)
    q = None if prior is None else read_prior(prior, c.values, comm)
    return to_tensor(_weights_at(c, _threshold(c, gamma, contamination), spread, q), losses)


def threshold_for(losses: Array, contamination: float) -> Tensor:
    """Largest loss that leaves at least `contamination * N` rows strictly above it.

    The l_{1-C'} of Algorithm 1. If no loss qualifies, it is the least one: rows of least loss are never removed, and
    to remove all others is the most that the linear program does, as gamma goes to 0. It is `inf` if all losses are
    equal. Infinite losses always lie above.

    >>> import torch
    >>> threshold_for(torch.tensor([0.1, 0.2, 0.3, 0.4]), 0.5)
    tensor(0.2000)
    """
    return to_scalar(_threshold(read_losses(losses), None, contamination), losses)


def partition(losses: Array, gamma: float) -> Partition:
    """The four groups of Theorem 3.1, as masks: every row lies in exactly one of them."""
    c = read_losses(losses)
    values, threshold = c.values, _threshold(c, gamma, None)
    smallest = values == c.c_min
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
    c = read_losses(losses)
    values, threshold = c.values, _threshold(c, gamma, None)
    w, q = read_weights(weights, values), read_prior(prior, values)
    rounding = 8 * np.finfo(values.dtype).eps * max(abs(c.c_min), abs(threshold))
    least = np.where(values < threshold - rounding, q, 0)
    with np.errstate(over="ignore"):
        greatest = np.where(values <= c.c_min + rounding, np.inf, np.where(values <= threshold + rounding, q, 0))
    mean_is_one = abs(mean_of(w) - 1) <= tolerance
    return bool(mean_is_one and np.all(w >= least - tolerance) and np.all(w <= greatest + tolerance))


def objective(losses: Array, weights: Array, *, gamma: float, prior: Array | None = None) -> Tensor:
    """Eq. (3) at these weights: mean(w * c) + gamma / 2 * mean|w - q|. A removed row costs nothing, even at `+inf`."""
    _check_one_of(gamma, None)
    values = read_losses(losses).values
    w, q = read_weights(weights, values).astype(np.float64), read_prior(prior, values)
    expected_loss = safe_mean(np.where(w == 0, 0, values), w)
    return to_scalar(expected_loss + float(gamma) / 2 * safe_mean(np.abs(w - q)), losses)


def optimal_value(losses: Array, *, gamma: float, prior: Array | None = None) -> Tensor:
    """The linear program's optimum v(theta) of eq. (3), in closed form: mean(q * min(c, c_min + gamma))."""
    c = read_losses(losses)
    capped = np.minimum(c.values, _threshold(c, gamma, None))
    return to_scalar(safe_mean(capped, read_prior(prior, c.values)), losses)


def optimality_gap(
    losses: Array,
    weights: Array,
    *,
    gamma: float | None = None,
    threshold: Tensor | float | None = None,
    prior: Array | None = None,
) -> Tensor:
    """`objective` minus `optimal_value`: at least 0, and exactly 0 for the Corollary's weights.

    Summed from terms that are never negative, so nothing cancels. `threshold` may stand in place of gamma, as
    c_min + gamma: going through gamma and back would lose the last digit.
    """
    if (gamma is None) == (threshold is None):
        raise ValueError(f"need gamma or threshold, got gamma={gamma} and threshold={threshold}; pass exactly one")
    c = read_losses(losses)
    w, q = read_weights(weights, c.values), read_prior(prior, c.values)
    mean, least = mean_of(w), w.min(initial=0)
    if not (abs(mean - 1) < 1e-3 and least >= -1e-6):
        raise ValueError(f"need weights >= 0 with mean 1, got mean {mean:g} and minimum {least:g}; multiply p_i by N")
    edge = math.nan if threshold is None else read_number("threshold", threshold)
    if threshold is not None and not edge >= c.c_min:
        raise ValueError(f"need a threshold of at least the smallest loss, {c.c_min:g}; got {threshold}")
    given = _threshold(c, gamma, None) if threshold is None else c.values.dtype.type(edge)
    return to_scalar(excess_cost(c, w, q, given) / c.n, losses)


def excess_cost(c: Losses, w: Vector, q: Vector, threshold: float | Real) -> float:
    """N times the optimality gap of weights w over the rows that are here."""
    cap = min(c.values.dtype.type(threshold), np.finfo(c.values.dtype).max)  # so that 0 * (cap - c) is 0
    with np.errstate(over="ignore"):
        if np.isinf(cap - c.c_min):  # losses of both signs near the largest float
            return 4 * excess_cost(replace(c, values=c.values / 4, c_min=c.c_min / 4), w, q, cap / 4)
    parts = (_excess(c.values[rows], w[rows], q[rows], c.c_min, cap) for rows in blocks(len(c.values)))
    return sum(parts, 0.0)


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
    c = read_losses(losses)
    values = c.values.astype(np.float64)
    if np.isinf(c.largest):
        raise ValueError("need finite losses, as the Proposition does; got +inf: leave those rows out")
    lowest = max(-float(c.c_min), 0.0)
    multiplier = None if multiplier is None else read_number("multiplier", multiplier)
    budget = None if budget is None else read_number("budget", budget)
    if multiplier is None:
        multiplier = max(_loss_at_edge(values, budget), lowest)
    if not lowest <= multiplier < math.inf:
        raise ValueError(f"need a finite multiplier >= {lowest:g}, or v_MIX has no minimum; got {multiplier}")
    value = safe_mean(np.minimum(values, multiplier)) - multiplier * (budget or 0.0)
    return WassersteinValue(to_scalar(value, losses), to_scalar(multiplier, losses))


@dataclass(frozen=True, kw_only=True)
class RRM:
    """The rule of Algorithm 3: weights -> (1 - mu) * weights + mu * optimal_weights(losses).

    Give `gamma` or `contamination` (C' of Algorithm 1), or neither: `RRM()` is `contamination="auto"`, the noise rate
    that SampleWeights estimates from predictions. Then `crisp` says whether every row has one right answer, as digits
    and species have: if so, all that the estimate takes for errors is removed, up to its ceiling. By default labels may
    be uncertain by nature, as ratings and outcomes are, and only what no ambiguity explains is removed.

    `mu` is 0.5 with gamma and 1 with a contamination unless given. `penalty="tv"` is eq. (3), which removes above
    c_min + gamma. `penalty="l1"` is the form printed in Algorithm 3, which removes above c_min + 2 * gamma; the paper's
    tables were run with it.
    """

    gamma: float | None = None
    contamination: float | Literal["auto"] | None = None
    mu: float | None = None
    spread: Spread = "kept"
    penalty: Penalty = "tv"
    crisp: bool = False

    def __new__(cls, *unnamed: object, **_: object) -> RRM:
        """A rule, unless an argument has no name: a bare 0.2 could be either of two."""
        if unnamed:
            raise TypeError(f"need RRM(contamination=...) or RRM(gamma=...), got RRM({unnamed[0]!r}); name the number")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        check_choice("spread", self.spread, get_args(Spread))
        check_choice("penalty", self.penalty, get_args(Penalty))
        if not isinstance(self.crisp, bool):
            raise ValueError(f"need crisp to be True or False, got {self.crisp!r}")
        auto = self.auto or (self.gamma is None and self.contamination is None)
        gamma, contamination = _check_one_of(self.gamma, 0.0 if auto else self.contamination)
        mu = (0.5 if contamination is None else 1.0) if self.mu is None else read_number("mu", self.mu)
        if not 0 < mu <= 1:
            raise ValueError(f"need mu in (0, 1], got {mu}; 1 replaces the weights, 0.5 goes half-way")
        numbers = {"gamma": gamma, "contamination": "auto" if auto else contamination, "mu": mu}
        for name, value in numbers.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        usual = {**vars(RRM() if self.gamma is None else RRM(gamma=self.gamma)), "gamma": None}
        return f"RRM({', '.join(f'{name}={value!r}' for name, value in vars(self).items() if value != usual[name])})"

    @property
    def auto(self) -> bool:
        """Whether the noise rate is to be estimated."""
        return isinstance(self.contamination, str) and self.contamination == "auto"

    def with_contamination(self, contamination: float) -> RRM:
        """The same rule with this noise rate."""
        return replace(self, gamma=None, contamination=contamination)

    def threshold(self, losses: LossesLike, comm: Comm = LOCAL) -> float:
        """The loss above which this rule removes a row."""
        return float(_threshold(read_losses(losses, comm=comm), self._eq3_gamma, self._fraction))

    def __call__(
        self, losses: LossesLike, weights: Array, prior: Array | None = None, comm: Comm = LOCAL
    ) -> RuleResult:
        """The next weights, mu of the way from these to the optimum, and the threshold."""
        c = read_losses(losses, comm=comm)
        threshold = _threshold(c, self._eq3_gamma, self._fraction)
        q = None if prior is None else read_prior(prior, c.values, c.comm)
        target = _weights_at(c, threshold, self.spread, q)
        old = read_weights(weights, target)
        assert self.mu is not None
        if self.mu < 1:
            # Paper: Algorithm 3 prints mu * u* + (1 - mu); Table 5 shows that the old u belongs behind the (1 - mu).
            target = (1 - self.mu) * old + self.mu * target
        return RuleResult(to_tensor(target, weights), float(threshold))

    @property
    def _fraction(self) -> float | None:
        if isinstance(self.contamination, str):
            raise ValueError(
                "need a contamination, which RRM() leaves to SampleWeights to estimate; "
                "pass RRM(contamination=0.2) or RRM().with_contamination(0.2)"
            )
        return self.contamination

    @property
    def _eq3_gamma(self) -> float | None:
        # Paper: gamma * ||u||_1 of Algorithm 3 is the (gamma / 2) * ||u||_1 of eq. (3) at twice the gamma.
        if self.gamma is None or self.penalty == "tv":
            return self.gamma
        return min(2 * self.gamma, float(np.finfo(np.float64).max))


def _threshold(c: Losses, gamma: float | None, contamination: float | None) -> Real:
    """The loss above which rows are removed, c_min + gamma or l_{1-C'}: one number serves both modes."""
    gamma, contamination = _check_one_of(gamma, contamination)
    if contamination is not None:
        return _quantile(c, contamination)
    with np.errstate(over="ignore"):
        threshold: Real = min(c.c_min + c.values.dtype.type(gamma), np.finfo(c.values.dtype).max)
    return threshold


def _quantile(c: Losses, contamination: float) -> Real:
    rows_above = min_count(contamination, c.n)
    if rows_above == 0:
        return c.largest_finite  # an infinite loss is removed whatever the contamination
    _, below = c.comm.kth_largest(c.values, rows_above)
    if below > -np.inf:
        return below
    return c.c_min if c.c_min < c.largest else c.values.dtype.type(np.inf)


def _weights_at(c: Losses, threshold: Real, spread: Spread, q: Vector | None) -> Vector:
    """The target of a re-weighting: nothing above the threshold, its mass with the kept rows or those of least loss."""
    weights, kept, smallest = np.empty_like(c.values), 0, []
    for rows in blocks(len(c.values)):
        block = c.values[rows]
        below = block <= threshold
        weights[rows] = below
        kept += int(np.count_nonzero(below))
        if spread == "argmin" and block.min() == c.c_min:
            smallest.append(np.flatnonzero(block == c.c_min) + rows.start)
    if q is not None:
        weights *= q
    here = kept if q is None else weights.sum(dtype=np.float64)
    least = np.concatenate([np.empty(0, np.intp), *smallest])
    everyones = c.comm.exchange([here, weights[least].sum(dtype=np.float64)])
    mass, least_mass = (sum(part.tolist()) for part in everyones.T)
    if spread == "kept":
        weights *= c.n / mass
    else:
        weights[least] *= 1 + (c.n - mass) / least_mass
    return weights


def _excess(c: Vector, w: Vector, q: Vector, c_min: Real, cap: Real) -> float:
    """What these rows add to the objective beyond the optimum, whose multiplier is c_min + gamma / 2."""
    capped, moved = np.minimum(c, cap), w - q
    left = np.flatnonzero((c > cap) & (w > 0))  # on a row above the threshold
    with np.errstate(over="ignore"):
        given = np.maximum(moved, 0) * (capped - c_min)  # to a row that is not of least loss
        taken = np.minimum(moved, 0) * (capped - cap)  # from a row below it
        return float((given + taken).sum(dtype=np.float64) + (w[left] * (c[left] - cap)).sum(dtype=np.float64))


def _loss_at_edge(values: Vector, budget: float | None) -> float:
    """The loss of the first row that a budget cannot remove in full, largest first; 0 if it removes them all."""
    if budget is None or not 0 <= budget < math.inf:
        raise ValueError(f"need a finite budget >= 0, the mean absolute change of the weights; got {budget}")
    removed = max_count(budget, len(values))
    return float(kth_largest(values, removed + 1)[0]) if removed < len(values) else 0.0


def _check_one_of(gamma: object, contamination: object) -> tuple[float, None] | tuple[None, float]:
    """Gamma and contamination as floats, of which one must be given."""
    if (gamma is None) == (contamination is None):
        raise ValueError(
            f"need gamma or contamination, got gamma={gamma} and contamination={contamination}; pass exactly one"
        )
    if gamma is not None:
        gamma = read_number("gamma", gamma)
        if not 0 < gamma < math.inf:
            raise ValueError(f"need a finite gamma > 0, in units of the loss; got {gamma}")
        return gamma, None
    contamination = read_number("contamination in [0, 1), a fraction of the rows,", contamination)
    if not 0 <= contamination < 1:
        raise ValueError(f"need a contamination in [0, 1), a fraction of the rows; got {contamination!r}")
    return None, contamination
