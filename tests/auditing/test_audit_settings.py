"""The settings of an audit, checked before any data are read."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rockafellian.auditing.data.settings import LOSS_NAMES, MIN_EPOCHS, Settings, settings_from_json


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
        ({"device": "meta"}, "need a device that torch has here, such as cpu; got 'meta'"),
        ({"device": ""}, "need a device of one character or more"),
        ({"device": 3}, "need a device of one character or more"),
        ({"contamination": True}, "got True"),
        ({"contamination": "0.2x"}, "got '0.2x'"),
        ({"contamination": [0.2]}, "got \\[0.2\\]"),
        ({"attack": "pgd", "eps": 1e300}, "need a finite eps >= 0 and <= 1,000,000"),
        ({"attack": "pgd", "eps": -1}, "need a finite eps"),
        ({"attack": "pgd", "eps": "1"}, "need a finite eps"),
        ({"attack": "pgd", "eps": True}, "need a finite eps"),
        ({"attack": ["pgd"], "eps": 1}, "need an attack that is"),
        ({"loss": 3}, "need a loss that is"),
        ({"epochs": 1_000_001}, "at most 1,000,000; got 1000001"),
        ({"epochs": 12.5}, "at most 1,000,000; got 12.5"),
        ({"epochs": "20"}, "at most 1,000,000; got '20'"),
        ({"epochs": True}, "got True"),
        ({"seed": 1.5}, "need a seed >= 0"),
        ({"seed": True}, "need a seed >= 0"),
        ({"seed": "1"}, "need a seed >= 0"),
        ({"label": "label"}, "need label columns by name"),
        ({"label": ("a", "")}, "need label columns by name"),
        ({"label": ("a", 3)}, "need label columns by name"),
        ({"label": ("a", None)}, "need label columns by name"),
        ({"text": ""}, "need a text of one character"),
        ({"image": 3}, "need an image of one character"),
        ({"id": ()}, "need an id of one character"),
        ({"encoder": ""}, "need an encoder that is auto"),
        ({"encoder": None}, "need an encoder that is auto"),
        ({"encoder": "a\0b"}, "need an encoder that is auto"),
        ({"encoder": "/dev/null"}, "need the folder of a transformers model"),
        ({"encoding": "klingon"}, "need an encoding such as utf-8"),
        ({"encoding": "base64"}, "need an encoding such as utf-8"),
        ({"encoding": "undefined"}, "need an encoding such as utf-8"),
        ({"encoding": 8}, "need an encoding of one character"),
    ],
)
def test_what_makes_no_sense_is_one_line(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        Settings(**wrong)
    assert "\n" not in str(error.value)


def test_an_encoder_that_is_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "encoder")
    with pytest.raises(ValueError, match="need the folder of a transformers model as encoder"):
        Settings(encoder=str(tmp_path / "encoder"))


def test_numbers_of_numpy_and_paths_become_what_json_can_hold(tmp_path: Path) -> None:
    given = {"contamination": np.float32(0.25), "epochs": np.int64(20), "seed": np.uint8(3)}
    settings = Settings(**given, encoder=tmp_path, attack="pgd", eps=np.float16(0.5))
    assert settings_from_json(json.loads(json.dumps(asdict(settings)))) == settings
    assert (settings.epochs, settings.seed, settings.encoder) == (20, 3, str(tmp_path))


@pytest.mark.parametrize(
    "settings", [Settings(), Settings(("a", "b"), contamination=0.2, encoding="latin-1", epochs=30)]
)
def test_settings_come_back_from_json(settings: Settings) -> None:
    assert settings_from_json(json.loads(json.dumps(asdict(settings)))) == settings


def test_new_settings_come_last() -> None:
    assert [field.name for field in fields(Settings)][-3:] == ["device", "encoding", "crisp"]


BAD = (None, [], {}, "x", -1, 10**400, 1e308, math.nan, True, [[]], ["a", 1], {"a": {"b": []}})


@pytest.mark.parametrize("values", [None, 3, "x", [], [[]], {"unknown": 1}, {1: 2}])
def test_what_are_no_settings_is_refused(values: Any) -> None:
    with pytest.raises(ValueError, match=r"need the settings of an audit, got .*; train again") as error:
        settings_from_json(values)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", [field.name for field in fields(Settings)])
def test_any_edit_of_one_setting_is_refused_or_gives_settings(name: str) -> None:
    written, messages, accepted = json.loads(json.dumps(asdict(Settings(("label",))))), [], []
    for value in BAD:
        try:
            accepted.append(settings_from_json({**written, name: value}))
        except ValueError as error:
            messages.append(str(error))
    assert all(message.endswith("; train again") and "\n" not in message for message in messages)
    assert len(messages) >= len(BAD) - 3
    assert all(getattr(settings, name) in ((), None, "x", True) for settings in accepted)
