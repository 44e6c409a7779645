"""The methods by name: each takes a problem and a seed, and returns an `Outcome`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import rockafellian as rk
from rivals import losses
from rivals.confident import confident
from rivals.coteaching import coteaching
from rivals.outcome import Outcome, timed
from rivals.problem import Problem, outputs

Method = Callable[[Problem, int], Outcome]


def warm_up(problem: Problem, seed: int) -> None:
    """Train one epoch for nothing, so that no method pays for the first calls of torch."""
    problem.train(problem.network(seed), rk.losses.cce, seed, epochs=1)


def plain(problem: Problem, seed: int) -> Outcome:
    """Train on cross-entropy and record nothing: the unit of cost. Its ranking is that of `aum`."""
    model = problem.network(seed)
    _, seconds = timed(lambda: problem.train(model, rk.losses.cce, seed))
    return _flagged_by_network(problem, Outcome(model, seconds))


def recorded(loss: str, problem: Problem, seed: int) -> Outcome:
    """Train on a loss; rank rows by their mean margin and flag those with another predicted label."""
    return _flagged_by_network(problem, _with_margins(loss, problem, seed))


def aum(problem: Problem, seed: int) -> Outcome:
    """Return the margins of plain training: a ranking without flags."""
    return _with_margins("ce", problem, seed)


def rrm(loss: str, rule: Callable[[Problem], rk.RRM], problem: Problem, seed: int, per_class: bool = False) -> Outcome:
    """Train with RRM on a loss."""
    model, weights = problem.network(seed), rk.SampleWeights(len(problem.y), rule(problem), per_class=per_class)
    _, seconds = timed(lambda: problem.train(model, losses.make(loss, problem), seed, weights=weights))
    weights.collect()
    found, predictions = weights.estimate and weights.estimate.ceiling, weights.predictions
    assert predictions is not None
    interval = {} if found is None else {"rate": found.rate, "low": found.low, "high": found.high}
    return Outcome(model, seconds, quality=predictions.label_quality, flags=weights.removed, **interval)


def _with_margins(loss: str, problem: Problem, seed: int) -> Outcome:
    model = problem.network(seed)
    kept = losses.Recorded(losses.make(loss, problem), len(problem.y))
    _, seconds = timed(lambda: problem.train(model, kept, seed))
    return Outcome(model, seconds, quality=kept.total / problem.setting.epochs)


def _flagged_by_network(problem: Problem, outcome: Outcome) -> Outcome:
    """Return the outcome with flags where the predicted label is not the given one."""
    flags = outputs(outcome.model, problem.x).argmax(1) != problem.y
    rate = float(flags.double().mean())
    return Outcome(outcome.model, outcome.cpu_seconds, outcome.quality, flags, rate)


def _estimated(problem: Problem) -> rk.RRM:
    return rk.RRM(crisp=True)


def _given(excess: float, problem: Problem) -> rk.RRM:
    return rk.RRM(contamination=min(problem.rate + excess, 0.95))


#: `ce` comes first: the cost of the others is in units of its seconds.
METHODS: dict[str, Method] = {
    "ce": plain,
    "aum": aum,
    **{name: partial(recorded, name) for name in ("mse", "mae", "gce", "elr")},
    "coteaching": coteaching,
    "cleanlab": confident,
    "rrm": partial(rrm, "ce", _estimated),
    **{f"rrm-{name}": partial(rrm, name, _estimated) for name in ("mse", "mae", "gce", "elr")},
    "rrm-true": partial(rrm, "ce", partial(_given, 0.0)),
    "rrm-over": partial(rrm, "ce", partial(_given, 0.1)),
    "rrm-per-class": partial(rrm, "ce", _estimated, per_class=True),
}
#: RRM with an estimated noise rate.
AUTO = ("rrm", "rrm-mse", "rrm-mae", "rrm-gce", "rrm-elr")
RIVALS = tuple(name for name in METHODS if not name.startswith("rrm"))
