"""The files of a trained model, checked: a description in JSON, the tensors of a network, the state of the features."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_type_hints

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from rockafellian._internal.extras import missing
from rockafellian.auditing.features.images import EfficientNet, Pixels
from rockafellian.auditing.features.kinds import FEATURES, KINDS, Features, Kind
from rockafellian.auditing.features.tables import TableFeatures
from rockafellian.auditing.features.texts import TextFeatures
from rockafellian.auditing.model.networks import build

try:
    from msgspec import Meta, Struct, ValidationError, convert
    from msgspec.json import decode
except ImportError as error:
    raise missing("msgspec to load a model", "audit") from error

#: The version of the saved files.
FORMAT = 2
#: The largest description in bytes, and the largest side of an image and size of a layer.
MAX_BYTES, MAX_SIDE, MAX_SIZE = 100_000_000, 1024, 10_000_000

Size: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_SIZE)]


class Description(Struct, forbid_unknown_fields=True):
    """The contents of the JSON file."""

    format: int
    kind: str
    rows: dict[str, Any]
    features: str
    inputs: str
    network: dict[str, Size | Annotated[float, Meta(ge=0, lt=1)] | str]
    classes: Annotated[list[str], Meta(min_length=1)]
    multilabel: bool


def read_description(path: Path) -> Description:
    """Return the contents of the JSON file, or raise an error."""
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path.stat().st_size:,} bytes are too many")
    content = path.read_bytes()
    version = decode(content, type=dict[str, Any]).get("format")
    if version != FORMAT:
        raise ValueError(f"need a model of format {FORMAT}, got {version}")
    described = decode(content, type=Description)
    for name, known in (("kind", KINDS), ("features", FEATURES)):
        if (found := getattr(described, name)) not in known:
            raise ValueError(f"need a {name} that is {', '.join(known)}; got {found!r}")
    if len(set(described.classes)) < len(described.classes):
        raise ValueError("need classes with different names, got one twice")
    if described.network.get("classes") != len(described.classes):
        outputs = described.network.get("classes")
        raise ValueError(f"need a network for {len(described.classes)} classes, got one for {outputs}")
    return described


def read_kind(described: Description) -> Kind:
    """Return what the rows are."""
    kind = KINDS[described.kind]
    if unknown := described.rows.keys() - {each.name for each in fields(kind)}:
        raise ValueError(f"need the settings of {described.kind}, got {', '.join(unknown)} too")
    found: Kind = convert(described.rows, kind)
    return found


def read_network(described: Description, state: Any) -> nn.Module:
    """Return the network with these tensors. Nothing is allocated by the sizes of the description."""
    with torch.device("meta"):
        network = build(described.network)
    like = network.state_dict()
    if not isinstance(state, dict) or state.keys() != like.keys():
        raise ValueError("need the tensors of the network that is described, got others")
    for name, value in state.items():
        if not isinstance(value, Tensor) or value.dtype != like[name].dtype or value.shape != like[name].shape:
            raise ValueError(f"need {name} of {like[name].dtype} {tuple(like[name].shape)}, got others")
        _check_finite(value, name)
    network.load_state_dict(state, assign=True)
    return network.eval()


def read_features(described: Description, state: Any) -> Features:
    """Return the features with this state, if their inputs are those of the network."""
    features: Features = FEATURES[described.features].from_state(state)
    _check_types(features, described.features)
    if getattr(features, "side", 1) not in range(1, MAX_SIDE + 1):
        raise ValueError(f"need images of 1 to {MAX_SIDE} pixels a side")
    network = described.network
    image = network.get("channels"), network.get("side"), network.get("side")
    wanted = image if described.features == "Pixels" else (network.get("inputs"),)
    made = _inputs_of_an_empty_row(features)
    if made.shape != (1, *wanted) or made.dtype != torch.float32:
        raise ValueError(
            f"need inputs of {torch.float32} {wanted}, as the network has them, but the features make {made.dtype} "
            f"{tuple(made.shape[1:])}"
        )
    _check_finite(made, "the inputs of an empty row")
    return features


def _inputs_of_an_empty_row(features: Features) -> Tensor:
    """Return the inputs of a row of missing values; a pretrained encoder, which takes long to load, is not asked."""
    if isinstance(features, TableFeatures):
        return features(pa.table({each.name: [""] for each in features.encoders}))
    if isinstance(features, TextFeatures):
        sentences = [] if features.sentences is None else [torch.zeros(1, features.sentences.width)]
        return (torch.cat([features.words([""]), *sentences], 1) - features.center) / features.scale
    return features(np.zeros((1, 8, 8))) if isinstance(features, Pixels) else torch.zeros(1, EfficientNet.width)


def _check_types(value: Any, where: str) -> None:
    """Raise an error unless the fields of a dataclass have the declared types, in all dataclasses within it."""
    hints = get_type_hints(type(value))
    for field in fields(value):
        content, name = getattr(value, field.name), f"{where}.{field.name}"
        parts = content if isinstance(content, tuple) else (content,)
        if any(map(is_dataclass, parts)):
            for part in parts:
                _check_types(part, name)
            continue
        try:
            convert(content, hints[field.name])
        except ValidationError as error:
            raise ValueError(f"{name}: {error}") from error
        for part in parts:
            if isinstance(part, float | Tensor):
                _check_finite(torch.as_tensor(part), name)
        if field.name == "deviation" and min(parts) <= 0:
            raise ValueError(f"need numbers above 0 in {name}, got {min(parts)}")


def _check_finite(values: Tensor, name: str) -> None:
    if not values.isfinite().all():
        raise ValueError(f"need finite numbers in {name}, got NaN or infinity")
