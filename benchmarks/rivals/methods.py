"""The methods by name: each takes a problem and a seed, and returns an `Outcome`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import rockafellian as rk
from rivals import losses
from rivals.confident import confident
from rivals.coteaching import coteaching
from rivals.neighbors import neighbors
from rivals.outcome import Outcome, timed
from rivals.problem import Problem, outputs
from rivals.recent import gaussians
from rivals.self_confidence import self_confidence

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
    found, predictions = weights.estimate, weights.predictions
    assert predictions is not None
    ends = {}
    if found is not None:
        rate, low, high = found.ceiling
        ends = {"rate": rate, "low": low, "high": high, "floor": found.floor.rate}
    flags = weights.removed & predictions.disagrees
    return Outcome(model, seconds, quality=predictions.label_quality, flags=flags, **ends)


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


def _default(problem: Problem) -> rk.RRM:
    return rk.RRM()


def _given(problem: Problem) -> rk.RRM:
    return rk.RRM(contamination=min(problem.rate, 0.95))


#: `ce` comes first: the cost of the others is in units of its seconds.
METHODS: dict[str, Method] = {
    "ce": plain,
    "aum": aum,
    **{name: partial(recorded, name) for name in ("mse", "mae", "gce", "elr")},
    "coteaching": coteaching,
    "cleanlab": confident,
    "neighbors": neighbors,
    "self-confidence": self_confidence,
    "gaussians": gaussians,
    "rrm": partial(rrm, "ce", _estimated),
    **{f"rrm-{name}": partial(rrm, name, _estimated) for name in ("mse", "gce")},
    "rrm-default": partial(rrm, "ce", _default),
    "rrm-true": partial(rrm, "ce", _given),
    "rrm-per-class": partial(rrm, "ce", _estimated, per_class=True),
}
#: A method that costs ten trainings and more runs on small data only.
SLOW = {"gaussians": ("digits", "cancer")}
#: RRM with an estimated noise rate, every row with one right answer.
AUTO = ("rrm", "rrm-mse", "rrm-gce")
EVERYWHERE = tuple(name for name in METHODS if name not in SLOW)
RIVALS = tuple(name for name in EVERYWHERE if not name.startswith("rrm"))
