"""The state of a run on disk: one safetensors file, with plain values as JSON in its header. Nothing is unpickled.

Written to a temporary file and renamed, so that a killed process leaves the old state or the new one.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from rockafellian._internal.extras import missing

try:
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save_file
except ImportError as error:
    raise missing("safetensors for checkpoints", "train") from error

HEADER = "rockafellian"


class Stateful(Protocol):
    """What has a state to save: a module, an optimizer, SampleWeights, a History."""

    def state_dict(self) -> Any: ...  # noqa: D102
    def load_state_dict(self, state: Any, /) -> Any: ...  # noqa: D102


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run in a folder.

    Args:
        folder: where the file is.
        parts: parts of the run by name.
        settings: plain values that a resumed run must have too.
        writes: whether this process writes the file; of several processes one does, and all call `state_dict`.
    """

    folder: Path
    parts: Mapping[str, Stateful]
    settings: Mapping[str, Any]
    writes: bool = True

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / "checkpoint.safetensors"

    def save(self) -> None:
        """Replace the saved state by the present one."""
        states = {name: part.state_dict() for name, part in self.parts.items()}
        if self.writes:
            save(self.path, {"settings": self.settings, **states})

    def resume(self) -> None:
        """Load the saved state, if there is one; raise an error, and change nothing, if it belongs to another run."""
        if not self.path.exists():
            return
        state = load(self.path)
        saved = state.get("settings", {})
        differ = [
            f"{name} was {saved.get(name)!r} and is {self.settings.get(name)!r}"
            for name in dict.fromkeys([*self.settings, *saved])
            if saved.get(name) != self.settings.get(name)
        ]
        differ += [f"it lacks the state of the {name}" for name in self.parts if name not in state]
        if differ:
            raise ValueError(
                f"checkpoint {self.path} belongs to another run: {'; '.join(differ)}; name another folder for this run"
            )
        for name, part in self.parts.items():
            part.load_state_dict(state[name])

    def check_free(self) -> None:
        """Raise an error if there is a checkpoint already."""
        if self.path.exists():
            raise ValueError(
                f"need a folder without a checkpoint, but {self.path} exists; pass resume=True to resume it, "
                "or name another folder"
            )


def save(path: Path, state: Mapping[str, Any]) -> None:
    """Write nested dicts, lists and tuples of tensors and plain values, atomically."""
    tensors: dict[str, Tensor] = {}
    plain = json.dumps(_without_tensors(state, "", tensors))
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    save_file(tensors, partial, metadata={HEADER: plain})
    _flush(partial)
    partial.replace(path)
    if os.name == "posix":  # elsewhere a folder cannot be opened
        _flush(path.parent)


def load(path: Path) -> dict[str, Any]:
    """Return what `save` wrote, equal in every bit."""
    try:
        with safe_open(path, framework="pt") as file:
            plain = (file.metadata() or {}).get(HEADER)
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - not a dict
    except SafetensorError as error:
        raise ValueError(
            f"need a whole checkpoint, but {path} is cut short or another kind of file ({error}); "
            "restore a copy, or start again in another folder"
        ) from error
    if plain is None:
        raise ValueError(f"need a checkpoint of a run, but {path} holds other tensors; name another folder")
    state: dict[str, Any] = _with_tensors(json.loads(plain), tensors)
    return state


def _without_tensors(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """Return what JSON can hold, with a mark in place of tensors, tuples and dicts with keys other than strings."""

    def inner(part: Any, key: object) -> Any:
        return _without_tensors(part, f"{path}/{key}" if path else str(key), tensors)

    if isinstance(value, Tensor) and value.layout == torch.strided and not value.is_complex():
        name = f"{len(tensors)} {path}"  # a path alone need not be unique
        tensors[name] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {"$tensor": name}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str | int) for key in value):
            raise TypeError(f"need keys that are strings or whole numbers to save, got others at {path}")
        if isinstance(value, Counter):  # in MultiStepLR
            return {"$counter": list(value.items())}
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: inner(part, key) for key, part in value.items()}
        return {"$dict": [[key, inner(part, key)] for key, part in value.items()]}
    if isinstance(value, tuple | list):
        parts = [inner(part, i) for i, part in enumerate(value)]
        return {"$tuple": parts} if isinstance(value, tuple) else parts
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"need plain values and tensors to save, got {type(value).__name__} at {path}")


def _with_tensors(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_with_tensors(part, tensors) for part in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"$tensor": name}:
            return tensors[name]
        case {"$tuple": parts}:
            return tuple(_with_tensors(part, tensors) for part in parts)
        case {"$dict": pairs}:
            return {key: _with_tensors(part, tensors) for key, part in pairs}
        case {"$counter": pairs}:
            return Counter(dict(pairs))
    return {key: _with_tensors(part, tensors) for key, part in value.items()}


def _flush(path: Path) -> None:
    """Write to the disk now, so that the order of writes also survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
