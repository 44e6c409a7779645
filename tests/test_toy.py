import time

import pytest

import rockafellian as rk
from toy import make_toy, precision_and_recall, train

GAMMA, CONTAMINATION = {"gamma": 1.0}, {"contamination": 0.4}


@pytest.mark.parametrize("mode", [GAMMA, CONTAMINATION], ids=["gamma", "contamination"])
@pytest.mark.parametrize(("spread", "lr", "seed"), [("argmin", 0.1, 0), ("kept", 0.1, 1), ("kept", 1.0, 2)])
def test_the_rows_it_removes_are_the_flipped_ones(mode: dict, seed: int, spread: str, lr: float) -> None:
    toy = make_toy(seed)
    start = time.process_time()
    weights = train(toy, rk.RRM(**mode, spread=spread), lr=lr)
    assert time.process_time() - start < 2
    precision, recall = precision_and_recall(weights.removed, toy.wrong)
    assert precision > 0.9
    assert recall > 0.9
    assert weights.values[toy.wrong].mean() < 0.1


@pytest.mark.parametrize(
    ("mode", "lr", "seed"), [(GAMMA, 1.0, 0), (CONTAMINATION, 1.5, 1)], ids=["gamma", "contamination"]
)
def test_argmin_at_a_hot_rate_is_caught_as_divergence(mode: dict, seed: int, lr: float) -> None:
    with pytest.raises(ValueError, match=r"training has diverged.*lower the learning rate.*spread='kept'"):
        train(make_toy(seed), rk.RRM(**mode, spread="argmin"), lr=lr)
