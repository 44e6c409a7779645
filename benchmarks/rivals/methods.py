"""The methods by name: a problem and a seed in, an `Outcome` out."""

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
    """One epoch that is thrown away: what torch does on its first call is not the cost of the first method."""
    problem.train(problem.network(seed), rk.losses.cce, seed, epochs=1)


def plain(problem: Problem, seed: int) -> Outcome:
    """Ordinary training on cross-entropy, with nothing recorded: the unit of cost. Its ranking is that of `aum`."""
    model = problem.network(seed)
    _, seconds = timed(lambda: problem.train(model, rk.losses.cce, seed))
    return _judged_by_network(problem, Outcome(model, seconds))


def recorded(loss: str, problem: Problem, seed: int) -> Outcome:
    """Ordinary training on a loss; rows are ranked by their mean margin and flagged where the network disagrees."""
    return _judged_by_network(problem, _with_margins(loss, problem, seed))


def aum(problem: Problem, seed: int) -> Outcome:
    """The margins of a plain run: a ranking, without flags."""
    return _with_margins("ce", problem, seed)


def rrm(loss: str, rule: Callable[[Problem], rk.RRM], problem: Problem, seed: int, per_class: bool = False) -> Outcome:
    """RRM on a loss."""
    model, weights = problem.network(seed), rk.SampleWeights(len(problem.y), rule(problem), per_class=per_class)
    _, seconds = timed(lambda: problem.train(model, losses.make(loss, problem), seed, weights=weights))
    found, predictions = weights.estimate, weights.predictions
    assert predictions is not None
    interval = {} if found is None else {"rate": found.rate, "low": found.low, "high": found.high}
    return Outcome(model, seconds, quality=predictions.label_quality, flags=weights.removed, **interval)


def _with_margins(loss: str, problem: Problem, seed: int) -> Outcome:
    model = problem.network(seed)
    kept = losses.Recorded(losses.make(loss, problem), len(problem.y))
    _, seconds = timed(lambda: problem.train(model, kept, seed))
    return Outcome(model, seconds, quality=kept.total / problem.setting.epochs)


def _judged_by_network(problem: Problem, outcome: Outcome) -> Outcome:
    """The same with flags where the trained network does not say what was given."""
    flags = outputs(outcome.model, problem.x).argmax(1) != problem.y
    rate = float(flags.double().mean())
    return Outcome(outcome.model, outcome.cpu_seconds, outcome.quality, flags, rate)


def _unknown(problem: Problem) -> rk.RRM:
    return rk.RRM()


def _told(excess: float, problem: Problem) -> rk.RRM:
    return rk.RRM(contamination=min(problem.rate + excess, 0.95))


#: `ce` comes first: the others' cost is told in its seconds.
METHODS: dict[str, Method] = {
    "ce": plain,
    "aum": aum,
    **{name: partial(recorded, name) for name in ("mse", "mae", "gce", "elr")},
    "coteaching": coteaching,
    "cleanlab": confident,
    "rrm": partial(rrm, "ce", _unknown),
    **{f"rrm-{name}": partial(rrm, name, _unknown) for name in ("mse", "mae", "gce", "elr")},
    "rrm-true": partial(rrm, "ce", partial(_told, 0.0)),
    "rrm-over": partial(rrm, "ce", partial(_told, 0.1)),
    "rrm-per-class": partial(rrm, "ce", _unknown, per_class=True),
}
#: RRM that is told nothing: what a user gets.
AUTO = ("rrm", "rrm-mse", "rrm-mae", "rrm-gce", "rrm-elr")
RIVALS = tuple(name for name in METHODS if not name.startswith("rrm"))
