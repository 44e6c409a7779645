"""What a user may say of an audit, checked before anything is read."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rockafellian.auditing.data.settings import LEAST_EPOCHS, LOSSES_BY_NAME, Settings


def test_nothing_need_be_said() -> None:
    settings = Settings()
    assert settings.contamination == "auto"
    assert settings.where().type in ("cpu", "cuda")


@pytest.mark.parametrize("loss", LOSSES_BY_NAME)
def test_every_loss_that_is_named_exists(loss: str) -> None:
    from rockafellian.losses import LOSSES

    assert Settings(loss=loss).loss in {*LOSSES, "elr"}


@pytest.mark.parametrize("share", [0, 0.0, 0.2, 0.999, "auto"])
def test_shares_from_0_to_below_1_are_taken(share: Any) -> None:
    assert Settings(contamination=share).contamination == share


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"contamination": 1.0}, r"need a contamination in \[0, 1\)"),
        ({"contamination": -0.1}, r"need a contamination in \[0, 1\)"),
        ({"contamination": math.nan}, r"need a contamination in \[0, 1\)"),
        ({"contamination": "0.2"}, "got '0.2'"),
        ({"contamination": None}, "got None"),
        ({"loss": "bce"}, "need a loss that is cce"),
        ({"attack": "cw", "eps": 0.1}, "need an attack that is"),
        ({"attack": "fgsm"}, "together"),
        ({"eps": 0.1}, "together"),
        ({"attack": "fgsm", "eps": math.inf}, "need a finite eps"),
        ({"attack": "fgsm", "eps": math.nan}, "need a finite eps"),
        ({"epochs": LEAST_EPOCHS - 1}, f"need at least {LEAST_EPOCHS} epochs"),
        ({"epochs": 0}, f"need at least {LEAST_EPOCHS} epochs"),
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
