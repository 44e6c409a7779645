"""Wrong arguments of the public functions are one-line errors that say what was needed."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from instances import known_rate
from torch import nn

import rockafellian as rk
from rockafellian import contamination
from rockafellian.attacks import FGSM, PGD
from rockafellian.losses import ELR, cce

X, Y = torch.rand(4, 3), torch.tensor([0, 1, 0, 1])
NOT_NUMBERS: list[Any] = ["x", None, [1, 2], True, math.nan, -1, math.inf]


def refused(call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="need ") as caught:
        call()
    assert "\n" not in str(caught.value)


def fit(**options: Any) -> rk.History:
    model = nn.Linear(3, 2)
    given = {"loss": "cce", "optimizer": torch.optim.SGD(model.parameters(), 0.1), "epochs": 1, "progress": "quiet"}
    return rk.fit(model, (X, Y), **(given | options))


@pytest.mark.parametrize(
    "options",
    [
        {"loss": "nonsense"},
        {"loss": None},
        {"loss": 3},
        {"loss": ["cce"]},
        {"optimizer": None},
        {"optimizer": "sgd"},
        {"epochs": "x"},
        {"epochs": -1},
        {"epochs": 1.5},
        {"epochs": True},
        {"weights": 3},
        {"weights": rk.RRM(crisp=True)},
        {"weights": rk.StreamWeights()},
        {"weights": rk.SampleWeights(5, rk.RRM(gamma=1.0))},
        {"attack": "pgd"},
        {"attack": 3},
        {"transform": 3},
        {"stop": 3},
        {"on_epoch": 3},
        {"batch_size": 0},
        {"batch_size": "x"},
        {"batch_size": 1.5},
        {"accumulate": 0},
        {"seed": "x"},
        {"device": "abacus"},
        {"device": "meta"},
        {"device": 99},
    ],
    ids=str,
)
def test_fit(options: dict[str, Any]) -> None:
    refused(lambda: fit(**options))


@pytest.mark.parametrize("name", ["cce", "mae", "mse", "gce", "truncated_gce", "elr"])
def test_fit_takes_a_loss_by_its_name(name: str) -> None:
    assert len(fit(loss=name).epochs) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"n_samples": "4"},
        {"n_samples": 4.0},
        {"n_samples": True},
        {"class_limit": "x"},
        {"class_limit": math.nan},
        {"class_limit": 1.1},
        {"rule": rk.RRM},
        {"rule": "x"},
        {"rows": 5},
        {"rows": range(0, 4, 2)},
        {"prior": [math.nan] * 4},
        {"prior": [1.7e308] * 4},
        {"estimate": 0.2, "rule": rk.RRM(crisp=True)},
        {"estimate": (0.2, 0.1, 0.3), "rule": rk.RRM(crisp=True)},
        {"estimate": known_rate(0.2, 0.3, 0.1), "rule": rk.RRM(crisp=True)},
        {"seed": "x"},
        {"every": 1.5},
        {"per_class": "no"},
    ],
    ids=str,
)
def test_sample_weights(options: dict[str, Any]) -> None:
    refused(lambda: rk.SampleWeights(**({"n_samples": 4, "rule": rk.RRM(gamma=1.0)} | options)))


@pytest.mark.parametrize(
    "options", [{"rule": 3}, {"window": 1}, {"window": True}, {"window": 2**70}, {"every": 0.5}, {"class_limit": "x"}]
)
def test_stream_weights(options: dict[str, Any]) -> None:
    refused(lambda: rk.StreamWeights(**options))


@pytest.mark.parametrize("attack", [PGD, FGSM])
@pytest.mark.parametrize("eps", NOT_NUMBERS)
def test_attacks_of_no_radius(attack: Callable[..., PGD], eps: Any) -> None:
    refused(lambda: attack(eps))


@pytest.mark.parametrize(
    "options",
    [
        {"steps": 1.5},
        {"steps": "x"},
        {"steps": True},
        {"step_size": "x"},
        {"norm": None},
        {"norm": ["linf"]},
        {"step": 3},
        {"bounds": 1},
        {"bounds": ("a", "b")},
        {"bounds": (0, 1, 2)},
        {"bounds": (math.nan, 1)},
    ],
    ids=str,
)
def test_attacks(options: dict[str, Any]) -> None:
    refused(lambda: PGD(0.1, **options))


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_radius_beyond_the_floats_of_the_inputs(dtype: torch.dtype, norm: Any) -> None:
    model = nn.Linear(3, 2).to(dtype)
    largest = torch.finfo(dtype).max
    for eps in (largest, 1e300):
        refused(lambda eps=eps: PGD(eps, norm=norm)(model, cce, X.to(dtype), Y))
    refused(lambda: PGD(0.1, step_size=1e300, norm=norm)(model, cce, X.to(dtype), Y))
    assert PGD(largest / 100, norm=norm)(model, cce, X.to(dtype), Y).isfinite().all()
    refused(lambda: PGD(0.1)(model, cce, "x", Y))


NOISE: dict[str, Callable[..., contamination.Noisy]] = {
    "uniform": contamination.uniform,
    "flip": contamination.flip,
    "one_sided": contamination.one_sided,
    "transition": lambda labels, rate, **more: contamination.transition(labels, np.full((2, 2), 0.5), rate, **more),
    "feature_dependent": lambda labels, rate, **more: contamination.feature_dependent(
        labels, np.arange(2 * len(labels)).reshape(-1, 2), rate, **more
    ),
}


@pytest.mark.parametrize("name", NOISE)
def test_synthetic_noise(name: str) -> None:
    for rate in (*NOT_NUMBERS, 1, 1e300):
        if rate is not None or name != "transition":
            refused(lambda rate=rate: NOISE[name]([0, 1, 0, 1], rate))
    for labels in ("abcd", [], [0.5, 1.0], [[0], [1]], [-1, 0], ["a", "b"], [None, 1], [2**62, 0]):
        refused(lambda labels=labels: NOISE[name](labels, 0.25))
    for seed in ("x", -1, 1.5, None):
        refused(lambda seed=seed: NOISE[name]([0, 1, 0, 1], 0.25, seed=seed))
    for rate in (0, 5e-324):
        assert not NOISE[name]([0, 1, 0, 1], rate).mask.any()


def test_more_of_synthetic_noise() -> None:
    for n_classes in ("x", 1, 0, 2.5, True, 10**30):
        refused(lambda n_classes=n_classes: contamination.uniform([0, 1], 0.5, n_classes=n_classes))
    for kernel in ("x", None, np.eye(3)[:2], np.eye(2) * np.nan, np.zeros((2, 2)), -np.eye(2), [[1, 2], [3]]):
        refused(lambda kernel=kernel: contamination.transition([0, 1], kernel))
    for sharpness in ("x", -1, math.nan):
        refused(
            lambda sharpness=sharpness: contamination.feature_dependent([0, 1], np.eye(2), 0.5, sharpness=sharpness)
        )
    huge = contamination.feature_dependent([0, 1, 0, 1], 1e308 * np.eye(4), 0.5)
    assert int(huge.mask.sum()) == 2


@pytest.mark.parametrize("options", [{"n_samples": "x"}, {"n_samples": 4.5}, {"beta": "x"}, {"lam": math.nan}])
def test_a_loss_that_remembers_rows(options: dict[str, Any]) -> None:
    refused(lambda: ELR(**({"n_samples": 4, "n_classes": 2} | options)))


def test_states_to_cut_anew() -> None:
    refused(lambda: rk.resharded([{"a": torch.ones(2)}], range(4)))
    refused(lambda: rk.resharded([rk.SampleWeights(4, rk.RRM(gamma=1.0)).state_dict()], 4))
