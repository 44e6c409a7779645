"""A state on disk: one safetensors file, with all that is no tensor as JSON in its header. Nothing in it is executed.

Written beside its place and moved there in one step, so that a killed process leaves the old state or the new one.
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
    """What has a state to keep: a module, an optimiser, SampleWeights, a History."""

    def state_dict(self) -> Any: ...  # noqa: D102
    def load_state_dict(self, state: Any, /) -> Any: ...  # noqa: D102


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run's parts in a folder, and the settings that tell one run from another."""

    folder: Path
    parts: Mapping[str, Stateful]
    settings: Mapping[str, Any]
    writes: bool = True  # of several processes one does, and all ask the parts for their state

    @property
    def path(self) -> Path:
        """The one file."""
        return self.folder / "checkpoint.safetensors"

    def save(self) -> None:
        """Put the parts' present state in the place of the last."""
        states = {name: part.state_dict() for name, part in self.parts.items()}
        if self.writes:
            save(self.path, {"settings": self.settings, **states})

    def resume(self) -> None:
        """Give the parts the state saved, if there is one; an error, and nothing changed, if it is another run's."""
        if not self.path.exists():
            return
        state = load(self.path)
        saved = state.get("settings", {})
        differ = [
            f"{name} was {saved.get(name)!r} and is {self.settings.get(name)!r}"
            for name in dict.fromkeys([*self.settings, *saved])
            if saved.get(name) != self.settings.get(name)
        ]
        differ += [f"it has no state of the {name}" for name in self.parts if name not in state]
        if differ:
            raise ValueError(
                f"need the run that {self.path} is of, but {'; '.join(differ)}; name another folder for this run"
            )
        for name, part in self.parts.items():
            part.load_state_dict(state[name])

    def check_free(self) -> None:
        """An error if a run is there already."""
        if self.path.exists():
            raise ValueError(
                f"need a folder without a run, but {self.path} exists; pass resume=True to go on with it, "
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
    """What `save` wrote, equal in every bit."""
    try:
        with safe_open(path, framework="pt") as file:
            plain = (file.metadata() or {}).get(HEADER)
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - not a dict
    except SafetensorError as error:
        raise ValueError(
            f"need a whole checkpoint, but {path} is cut short or something else ({error}); "
            "bring back a copy, or start anew in another folder"
        ) from error
    if plain is None:
        raise ValueError(f"need a checkpoint of a run, but {path} holds other tensors; name another folder")
    state: dict[str, Any] = _with_tensors(json.loads(plain), tensors)
    return state


def _without_tensors(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """What JSON can hold, with a mark where a tensor, a tuple or a dict with other keys than strings was."""

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
    """To the disk, so that the order of events survives a power cut too."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
