"""Calls of the library with odd arguments: each returns, or raises ValueError or TypeError with one line."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import rockafellian as rk

NUMBERS: list[Any] = [0, 1, -1, 0.2, 0.5, 1.0, 1e-320, 1e308, float("nan"), float("inf"), -float("inf"), 2**70, True]
ODD: list[Any] = [None, "x", "", [], {}, (), object(), b"x", 1j, NUMBERS]
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int64, torch.bool]


def vector(draw: random.Random, n: int) -> Any:
    """One number a row, as a tensor, an array or a list; some are NaN, infinite or huge, some of another length."""
    values = np.array([draw.expovariate(1) for _ in range(draw.choice([n, n, n, n, n - 1, 0, 1]))])
    for _ in range(draw.choice([0, 0, 0, 1, 3])):
        if len(values):
            values[draw.randrange(len(values))] = draw.choice([np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0, 5e-324])
    form = draw.randrange(8)
    if form < 4:
        with np.errstate(all="ignore"):
            found = torch.from_numpy(values).to(draw.choice(DTYPES) if form == 3 else torch.float32)
        return found.reshape(-1, 1) if draw.random() < 0.1 else found
    if form == 4:
        return values.tolist()
    with np.errstate(all="ignore"):
        return values.astype(draw.choice(["f4", "f8"])) if form < 7 else draw.choice(ODD)


def whole(draw: random.Random, n: int, top: int) -> Any:
    """One integer a row, of any integer type; some are out of range or of another shape."""
    low, high = draw.choice([(0, top - 1)] * 6 + [(-1, top), (0, 10 * top)])
    values = [draw.randint(low, high) for _ in range(draw.choice([n, n, n, n, n + 1, 0]))]
    kinds = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.float32, torch.bool, torch.uint16]
    form = draw.randrange(5)
    if form < 3:
        kind = draw.choice(kinds) if form else torch.int64
        return torch.tensor(values, dtype=torch.int64).to(kind)
    return values if form == 3 else draw.choice([np.array(values), np.array(values, "i4"), range(n), *ODD])


def number(draw: random.Random, usual: list[Any]) -> Any:
    """A usual number, or an odd one."""
    return draw.choice(usual if draw.random() < 0.7 else NUMBERS + ODD)


def rule(draw: random.Random) -> Any:
    """A rule of re-weighting, or something else."""
    names = draw.sample(["contamination", "gamma", "mu", "spread"], draw.choice([0, 1, 1, 2]))
    usual = {"contamination": [0.1, 0.3], "gamma": [0.5, 2.0], "mu": [0.5, 1.0], "spread": ["kept", "argmin"]}
    return rk.RRM(**{name: number(draw, usual[name]) for name in names}) if draw.random() < 0.9 else draw.choice(ODD)


def sample_weights(draw: random.Random) -> None:
    """Some batches and steps; a state saved, changed and loaded."""
    n = draw.randrange(5, 40)
    weights = rk.SampleWeights(
        number(draw, [n]) if draw.random() < 0.1 else n, rule(draw), per_class=draw.random() < 0.2
    )
    for _ in range(draw.randrange(1, 5)):
        batch = draw.randrange(1, n + 1)
        index, losses = whole(draw, batch, n), vector(draw, batch)
        if draw.random() < 0.7:
            index, losses = torch.randperm(n)[:batch], torch.rand(batch)
        options = {}
        if draw.random() < 0.6:
            k = draw.choice([3, 3, 3, 4, 1])
            options = {
                "logits": torch.randn(batch, k),
                "labels": whole(draw, batch, k) if draw.random() < 0.3 else torch.zeros(batch).long(),
            }
        weights.reduce(losses, index, **options)
        if draw.random() < 0.5:
            weights.step(*([vector(draw, n)] if draw.random() < 0.3 else []))
    state = weights.state_dict()
    if draw.random() < 0.5:
        key = draw.choice(list(state))
        state[key] = draw.choice(
            [state[key].double() * float("nan"), state[key][:0] if state[key].ndim else -state[key], torch.tensor(-1)]
        )
    weights.load_state_dict(state)
    rk.findings(weights)


def stream_weights(draw: random.Random) -> None:
    """Some batches of a stream."""
    weights = rk.StreamWeights(rule(draw), **({"window": number(draw, [10, 100])} if draw.random() < 0.5 else {}))
    for _ in range(draw.randrange(1, 6)):
        n = draw.randrange(1, 20)
        weights.reduce(vector(draw, n), logits=torch.randn(n, 3), labels=whole(draw, n, 3))


def closed_forms(draw: random.Random) -> None:
    """The functions of the method."""
    n = draw.randrange(1, 20)
    losses, gamma = vector(draw, n), number(draw, [0.1, 1.0])
    weights = vector(draw, n)
    one: Callable[[], object] = draw.choice(
        [
            lambda: rk.optimal_weights(losses, weights, gamma=gamma),
            lambda: rk.optimal_weights(losses, contamination=gamma),
            lambda: rk.threshold_for(losses, gamma),
            lambda: rk.partition(losses, gamma),
            lambda: rk.objective(losses, weights, gamma=gamma),
            lambda: rk.optimal_value(losses, gamma=gamma, prior=draw.choice([None, weights])),
            lambda: rk.optimality_gap(losses, weights, gamma=gamma),
            lambda: rk.is_optimal(losses, weights, gamma=gamma),
            lambda: rk.wasserstein_value(losses, gamma),
        ]
    )
    one()


def noise_rates(draw: random.Random) -> None:
    """The estimate, and synthetic label noise."""
    n, k = draw.randrange(1, 60), draw.choice([1, 2, 3, 5])
    labels, rate = whole(draw, n, k), number(draw, [0.1, 0.4])
    probabilities = torch.randn(n, k).softmax(1)
    if draw.random() < 0.4:
        probabilities = draw.choice([probabilities * 0, -probabilities, probabilities * float("nan"), vector(draw, n)])
    one: Callable[[], object] = draw.choice(
        [
            lambda: rk.estimate_noise_rate(probabilities, labels),
            lambda: rk.contamination.uniform(labels, rate, n_classes=number(draw, [None, k])),
            lambda: rk.contamination.flip(labels, rate, seed=number(draw, [0, 7])),
            lambda: rk.contamination.one_sided(labels, rate),
            lambda: rk.contamination.transition(labels, np.full((k, k), 1 / k), rate),
            lambda: rk.contamination.feature_dependent(labels, probabilities, rate),
        ]
    )
    one()


def training(draw: random.Random) -> None:
    """A training with odd settings."""
    n = 12
    model = torch.nn.Linear(3, 2)
    options: dict[str, Any] = {"loss": "cce", "epochs": 2, "batch_size": 5, "progress": "quiet"}
    odd = {
        "loss": ["mse", "elr", "nonsense", None, rk.losses.cce, 3],
        "epochs": [1, *NUMBERS],
        "batch_size": [1, 100, *NUMBERS],
        "grad_clip": [1.0, *NUMBERS],
        "accumulate": [2, *NUMBERS],
        "losses_from": ["evaluation", "x", None],
        "weights": [rk.SampleWeights(n), rk.SampleWeights(n + 1), "x", 3],
        "attack": [rk.attacks.FGSM(0.1), "x", 3],
        "seed": [1, *NUMBERS],
        "device": ["cpu", "meta", "abacus", 3],
        "valid": [(torch.randn(4, 3), torch.zeros(4).long()), 3, (), "x"],
        "progress": ["quiet", "x", None],
    }
    for name in draw.sample(list(odd), draw.choice([1, 1, 2])):
        options[name] = draw.choice(odd[name])
    if options["epochs"] == 2**70 or options["epochs"] == 1e308:
        options["epochs"] = 1
    x, y = torch.randn(n, 3), whole(draw, n, 2) if draw.random() < 0.3 else torch.arange(n) % 2
    rk.fit(model, (x, y), optimizer=torch.optim.SGD(model.parameters(), lr=0.1), **options)


CALLS = (sample_weights, sample_weights, stream_weights, closed_forms, closed_forms, noise_rates, training)


def run(seed: str) -> None:
    """Make a call; print an error of the allowed kinds as the command would, and let others through."""
    draw = random.Random(seed)
    torch.manual_seed(draw.randrange(2**31))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            draw.choice(CALLS)(draw)
        except (ValueError, TypeError, FloatingPointError) as error:
            if "\n" in str(error) or not str(error):
                raise
            print(f"error: {error}", file=sys.stderr)
            sys.exit(2)
