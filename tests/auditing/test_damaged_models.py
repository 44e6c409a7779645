"""Models that are damaged or edited: each is refused in one line, or still makes probabilities; nothing else."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from samples import image_folder, table, texts
from torch import Tensor

from rockafellian.auditing.data.reading import Source, read
from rockafellian.auditing.data.settings import Settings
from rockafellian.auditing.model.classifier import DESCRIPTION, TENSORS, Classifier
from rockafellian.auditing.model.problem import prepare
from rockafellian.auditing.model.training import new_classifier
from rockafellian.training.checkpoints import load, save

KINDS = ("table", "texts", "images")


def data(kind: str, folder: Path) -> Any:
    """Rows of every kind of features."""
    if kind == "table":
        return table(40)[0].assign(review=texts(40, seed=1)[0]["review"])
    if kind == "texts":
        return texts(30)[0]
    image_folder(folder, 20)
    return folder


@pytest.fixture(scope="module", params=KINDS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Source]:
    """The folder of a model that was not trained, which does not matter here, and rows to predict."""
    folder = tmp_path_factory.mktemp(request.param)
    rows = data(request.param, folder / "data")
    label = () if request.param == "images" else ("label",)
    new_classifier(prepare(rows, Settings(label, encoder="none"))).save(folder / "model")
    return folder / "model", read(rows)


def outcome(folder: Path, source: Source) -> str:
    """What comes of loading a model and predicting: "fine" or the error; anything else fails."""
    try:
        probabilities = Classifier.load(folder).probabilities(source)
    except (ValueError, OSError) as error:
        return one_line(str(error))
    assert probabilities.shape == (len(source), 2)
    assert np.isfinite(probabilities).all()
    return "fine"


def one_line(message: str) -> str:
    assert "\n" not in message
    assert len(message) < 2_000
    return message


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Values with the keys that lead to them; of a list the first three; and every list and dict itself."""
    if place:
        yield place, value
    parts = value.items() if isinstance(value, Mapping) else enumerate(value[:3]) if isinstance(value, list) else ()
    for key, part in parts:
        yield from leaves(part, (*place, key))


DELETED = object()


def with_change(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    first, *rest = place
    changed = dict(value) if isinstance(value, Mapping) else list(value)
    if not rest and new is DELETED:
        del changed[first]
    else:
        changed[first] = with_change(value[first], tuple(rest), new) if rest else new
    return changed


def tampered(value: Any) -> Iterator[Any]:
    yield from (DELETED, None, "", "text", -1, 0, 10**12, 10**400, True, [], {}, [value, value], {"a": [value]})
    if isinstance(value, Tensor):
        yield from (
            value.double(),
            value.reshape(-1)[:1],
            value * math.nan,
            torch.full_like(value, math.inf),
            torch.cat([value, value]),
        )
    elif isinstance(value, int | float):
        yield from (-value, 1e308, 2.5, float(value))


def test_no_edit_of_the_description_ends_in_anything_but_one_line(saved: tuple[Path, Source]) -> None:
    folder, source = saved
    path = folder / DESCRIPTION
    whole = path.read_text(encoding="utf-8")
    assert outcome(folder, source) == "fine"
    described, fine = json.loads(whole), []
    for place, value in leaves(described):
        for new in tampered(value):
            path.write_text(json.dumps(with_change(described, place, new)), encoding="utf-8")
            if outcome(folder, source) == "fine" and new is not DELETED and new != value:
                fine.append(place[0] if place[0] != "network" else place[1])
    path.write_text(whole, encoding="utf-8")
    # A sentence for people, other names of classes, several labels instead of one; columns are the features' to need.
    assert set(fine) <= {"inputs", "classes", "multilabel", "rows", "dropout"}


def test_no_edit_of_the_state_ends_in_anything_but_one_line(
    saved: tuple[Path, Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # for speed
    folder, source = saved
    whole, state = (folder / TENSORS).read_bytes(), load(folder / TENSORS)
    refused = 0
    for place, value in leaves(state):
        for new in tampered(value):
            save(folder / TENSORS, with_change(state, place, new))
            result = outcome(folder, source)
            refused += result != "fine"
            if place[0] == "network":
                assert result != "fine", place
    (folder / TENSORS).write_bytes(whole)
    assert outcome(folder, source) == "fine"
    assert refused > 100


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "need a trained model, but .*model.json is not one"),
        (b"{", "need a trained model"),
        (b"[]", "need a trained model"),
        (b"\xff\xfe", "need a trained model"),
        (b"[" * 100_000, "need a trained model"),
        (b'{"format": 2, "kind": ' + b"[" * 100_000, "need a trained model"),
        (b'{"format": 2}', "missing required field"),
        (b'{"format": 1}', "need a model of format 2, got 1"),
    ],
)
def test_a_description_that_is_none_is_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / DESCRIPTION).write_bytes(content)
    save(tmp_path / TENSORS, {})
    with pytest.raises(ValueError, match=message) as caught:
        Classifier.load(tmp_path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("; train again")


@pytest.mark.parametrize("name", [DESCRIPTION, TENSORS])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_file_is_not_waited_for(
    name: str, make: Callable[[Path], object], saved: tuple[Path, Source], tmp_path: Path
) -> None:
    for each in (DESCRIPTION, TENSORS):
        (tmp_path / each).write_bytes((saved[0] / each).read_bytes())
    (tmp_path / name).unlink()
    make(tmp_path / name)
    assert f"has no {name}" in outcome(tmp_path, saved[1])


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ({"network": "mlp", "inputs": 10**12, "classes": 2}, "Expected `int` <= 10000000"),
        ({"network": "mlp", "inputs": 10**7, "classes": 2, "hidden": 10**7}, "need 0.weight of .*10000000|got others"),
        ({"network": "cnn", "channels": 10**6, "side": 64, "classes": 2, "width": 8 * 10**6}, "got others"),
        ({"network": "mlp", "inputs": 3, "classes": 3}, "need a network for 2 classes, got one for 3"),
        ({"network": "forest", "classes": 2}, "need a network that is mlp or cnn"),
    ],
)
def test_a_network_that_is_described_too_large_or_otherwise_is_never_made(
    network: dict[str, Any], message: str, saved: tuple[Path, Source], tmp_path: Path
) -> None:
    described = json.loads((saved[0] / DESCRIPTION).read_text(encoding="utf-8"))
    (tmp_path / DESCRIPTION).write_text(json.dumps({**described, "network": network}), encoding="utf-8")
    (tmp_path / TENSORS).write_bytes((saved[0] / TENSORS).read_bytes())
    with pytest.raises(ValueError, match=message):
        Classifier.load(tmp_path)


def test_outputs_that_are_not_finite_are_no_probabilities(saved: tuple[Path, Source], tmp_path: Path) -> None:
    folder, source = saved
    state = load(folder / TENSORS)
    last = [name for name in state["network"] if name.endswith("weight")][-1]
    state["network"][last].fill_(3e38)
    (tmp_path / DESCRIPTION).write_bytes((folder / DESCRIPTION).read_bytes())
    save(tmp_path / TENSORS, state)
    assert "need finite outputs of the network, got NaN or infinity for row" in outcome(tmp_path, source)


def test_loading_changes_no_random_numbers(saved: tuple[Path, Source]) -> None:
    before = torch.get_rng_state()
    Classifier.load(saved[0])
    assert torch.equal(before, torch.get_rng_state())
