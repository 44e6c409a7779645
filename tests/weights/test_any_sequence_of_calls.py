"""Whatever is called in whatever order: errors are clear, weights stay weights, and every state can be loaded again."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import known_rate

import rockafellian as rk

N, CLASSES = 12, 3
RULES = [
    {"rule": rk.RRM(crisp=True)},
    {"rule": rk.RRM(contamination=0.3)},
    {"rule": rk.RRM(contamination=0.999, spread="argmin")},
    {"rule": rk.RRM(gamma=0.5)},
    {"rule": rk.RRM(contamination=0.4), "per_class": True},
    {"rule": rk.RRM(contamination=0.4), "every": 2, "warmup": 1},
    {"rule": rk.RRM(crisp=True), "estimate": known_rate(0.3, 0.2, 0.4)},
]
EXPECTED = (
    "need finite losses",
    "need logits and labels",
    "no loss was seen",
    "need predictions for the held-out rows",
)
numbers = st.floats(-10, 10, width=32) | st.sampled_from([0.0, math.nan, math.inf, -math.inf, 3e38, -3e38])
losses_of_a_batch = st.lists(st.tuples(st.integers(0, N - 1), numbers), min_size=1, max_size=N)


def drawn_logits(data: st.DataObject, n: int) -> torch.Tensor:
    values = data.draw(st.lists(numbers, min_size=CLASSES * n, max_size=CLASSES * n))
    return torch.tensor(values).reshape(n, CLASSES)


def refusal(weights: rk.SampleWeights) -> str:
    """The error of a step, or no words."""
    try:
        weights.step()
    except ValueError as error:
        return str(error)
    return ""


def check_reloads(weights: Any, fresh: Any) -> None:
    state = weights.state_dict()
    fresh.load_state_dict(state)
    again = fresh.state_dict()
    assert state.keys() == again.keys()
    for name, part in state.items():
        assert torch.equal(part.nan_to_num(-77), again[name].nan_to_num(-77)), name


@settings(max_examples=40)
@given(st.sampled_from(RULES), st.data())
def test_sample_weights(options: dict[str, Any], data: st.DataObject) -> None:
    weights = rk.SampleWeights(N, **options)
    for _ in range(data.draw(st.integers(1, 5))):
        rows, losses = zip(*data.draw(losses_of_a_batch), strict=True)
        index = torch.tensor(rows)
        known = {"logits": drawn_logits(data, len(rows)), "labels": index % CLASSES} if data.draw(st.booleans()) else {}
        weights.reduce(torch.tensor(losses), index, **known)
        message = refusal(weights)
        assert not message or message.startswith(EXPECTED)
        assert weights.values.min() >= 0
        assert weights.values.mean().item() == pytest.approx(1, abs=1e-4)
        check_reloads(weights, rk.SampleWeights(N, **options))
    weights.reduce(torch.ones(N), range(N), logits=torch.eye(CLASSES).repeat(4, 1), labels=torch.arange(N) % CLASSES)
    if refusal(weights):
        weights.step()  # an error comes once


@settings(max_examples=40)
@given(
    st.sampled_from(
        [rk.RRM(crisp=True), rk.RRM(contamination=0.3), rk.RRM(contamination=0.999), rk.RRM(gamma=0.5, spread="argmin")]
    ),
    st.data(),
)
def test_stream_weights(rule: rk.RRM, data: st.DataObject) -> None:
    def fresh() -> rk.StreamWeights:
        return rk.StreamWeights(rule, window=8, warmup=4, every=2)

    stream = fresh()
    for _ in range(data.draw(st.integers(1, 5))):
        rows, losses = zip(*data.draw(losses_of_a_batch), strict=True)
        known = {}
        if rule.auto or data.draw(st.booleans()):
            known = {"logits": drawn_logits(data, len(rows)), "labels": torch.tensor(rows) % CLASSES}
        try:
            stream.reduce(torch.tensor(losses), **known)
        except ValueError as error:
            if "diverged" not in str(error):
                raise
        assert not math.isnan(stream.threshold)
        assert 0 <= stream.removed_fraction < 1
        check_reloads(stream, fresh())
