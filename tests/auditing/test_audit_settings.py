"""The settings of an audit, checked before any data are read."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rockafellian.auditing.data.settings import LOSS_NAMES, MIN_EPOCHS, Settings


def test_all_settings_have_defaults() -> None:
    settings = Settings()
    assert settings.contamination == "auto"
    assert settings.torch_device().type in ("cpu", "cuda")


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_every_loss_that_is_named_exists(loss: str) -> None:
    from rockafellian.losses import LOSSES

    assert Settings(loss=loss).loss in {*LOSSES, "elr"}


@pytest.mark.parametrize("share", [0, 0.0, 0.2, 0.999, "auto"])
def test_noise_rates_from_0_to_below_1_are_accepted(share: Any) -> None:
    assert Settings(contamination=share).contamination == share


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"contamination": 1.0}, r"need a contamination \(noise rate\) in \[0, 1\)"),
        ({"contamination": -0.1}, r"need a contamination \(noise rate\) in \[0, 1\)"),
        ({"contamination": math.nan}, r"need a contamination \(noise rate\) in \[0, 1\)"),
        ({"contamination": "0.2"}, "got '0.2'"),
        ({"contamination": None}, "got None"),
        ({"loss": "bce"}, "need a loss that is cce"),
        ({"attack": "cw", "eps": 0.1}, "need an attack that is"),
        ({"attack": "fgsm"}, "together"),
        ({"eps": 0.1}, "together"),
        ({"attack": "fgsm", "eps": math.inf}, "need a finite eps"),
        ({"attack": "fgsm", "eps": math.nan}, "need a finite eps"),
        ({"epochs": MIN_EPOCHS - 1}, f"need at least {MIN_EPOCHS} epochs"),
        ({"epochs": 0}, f"need at least {MIN_EPOCHS} epochs"),
        ({"seed": -1}, "need a seed >= 0"),
        ({"seed": 2**63}, "need a seed >= 0"),
        ({"separator": ""}, "need a separator of one character or more"),
        ({"device": "abacus"}, "need a device that torch has here"),
    ],
)
def test_what_makes_no_sense_is_one_line(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        Settings(**wrong)
    assert "\n" not in str(error.value)
