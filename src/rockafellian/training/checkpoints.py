"""The state of a run on disk: one safetensors file, with plain values as JSON in its header. Nothing is unpickled.

Written to a temporary file and renamed, so that a killed process leaves the old state or the new one. A checksum of all
content stands before the JSON, so that a damaged file is an error.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from rockafellian._internal.comm import is_distributed
from rockafellian._internal.extras import missing
from rockafellian._internal.files import atomic_write, check_regular
from rockafellian.training.state_checks import check_epochs, check_state

try:
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save_file
except ImportError as error:
    raise missing("safetensors for checkpoints", "train") from error

logger = logging.getLogger(__name__)

HEADER = "rockafellian"
#: States that are written in less time are saved after every epoch.
SLOW_SECONDS = 0.1
FIX = "restore a copy, or start again in another folder"


class Stateful(Protocol):
    """What has a state to save: a module, an optimizer, SampleWeights, a History."""

    def state_dict(self) -> Any: ...  # noqa: D102
    def load_state_dict(self, state: Any, /) -> Any: ...  # noqa: D102


@dataclass
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
    #: From when on `save_in_time` saves again; and whether it has left out the present state.
    _due_at: float = 0.0
    _left_out: bool = False

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / "checkpoint.safetensors"

    def save(self) -> None:
        """Replace the saved state by the present one."""
        states = {name: part.state_dict() for name, part in self.parts.items()}
        if self.writes:
            save(self.path, {"settings": self.settings, **states})
            logger.debug("saved %s", self.path)

    def save_in_time(self) -> None:
        """Save, unless writing large states would take more than a fifth of the time; several processes always save."""
        start = time.monotonic()
        self._left_out = start < self._due_at
        if self._left_out:
            return
        self.save()
        took = time.monotonic() - start
        if took > SLOW_SECONDS and not is_distributed():  # processes would not agree on the time
            self._due_at = start + 5 * took

    def save_rest(self) -> None:
        """Save the state that `save_in_time` left out, if it did."""
        if self._left_out:
            self.save()
            self._left_out = False

    def resume(self) -> None:
        """Load the saved state, if there is one; an error leaves every part as it was."""
        for leftover in self.folder.glob(f"{self.path.name}.*.partial"):  # of a process that was killed while it wrote
            leftover.unlink(missing_ok=True)
        if not self.path.exists():
            return
        state = load(self.path)
        self._check_same_run(state)
        own = {name: _copied(part.state_dict()) for name, part in self.parts.items()}
        with self._complaints():
            for name, part in self.parts.items():
                check_state(state[name], part, own[name], name)
            check_epochs(state, self.parts, own)
        try:
            with self._complaints():
                for name, part in self.parts.items():
                    part.load_state_dict(state[name])
            logger.info("resumed %s", self.path)
        except BaseException:
            for name, part in self.parts.items():
                part.load_state_dict(own[name])
            raise

    def check_free(self) -> None:
        """Raise an error if there is a checkpoint already."""
        if self.path.exists():
            raise ValueError(
                f"need a folder without a checkpoint, but {self.path} exists; pass resume=True to resume it, "
                "or name another folder"
            )

    def _check_same_run(self, state: Mapping[str, Any]) -> None:
        saved = state.get("settings")
        if not isinstance(saved, dict) or _has_tensors(saved):
            raise ValueError(f"need a checkpoint with the settings of its run, but {self.path} has none; {FIX}")
        differ = [
            f"{name} was {saved.get(name)!r} and is {self.settings.get(name)!r}"
            for name in dict.fromkeys([*self.settings, *saved])
            if not _equal(saved.get(name), self.settings.get(name))
        ]
        differ += [f"it lacks the state of the {name}" for name in self.parts if name not in state]
        differ += [f"it has the state of a {name}" for name in state if name not in (*self.parts, "settings")]
        if differ:
            raise ValueError(
                f"checkpoint {self.path} belongs to another run: {'; '.join(differ)}; name another folder for this run"
            )

    @contextmanager
    def _complaints(self) -> Iterator[None]:
        """Turn whatever goes wrong with a state that does not fit into one line."""
        try:
            yield
        except ImportError:  # nothing is wrong with the state
            raise
        except Exception as error:  # a part may raise anything
            raise ValueError(
                f"need a checkpoint that fits this run, but {self.path} does not: {_one_line(error)}; {FIX}"
            ) from error


def save(path: Path, state: Mapping[str, Any]) -> None:
    """Write nested dicts, lists and tuples of tensors and plain values, atomically."""
    tensors: dict[str, Tensor] = {}
    plain = json.dumps(_without_tensors(state, "", tensors))
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as partial:
        try:
            # One entry, as safetensors writes several in any order, and equal states should give equal files.
            save_file(tensors, partial, metadata={HEADER: f"{_checksum(plain, tensors)} {plain}"})
        except SafetensorError as error:
            raise _system_error(error, path) from error
        _flush(partial)
    if os.name == "posix":  # elsewhere a folder cannot be opened
        _flush(path.parent)


def load(path: Path) -> dict[str, Any]:
    """Return what `save` wrote, equal in every bit; anything else is an error."""
    check_regular(path)
    try:
        with safe_open(path, framework="pt") as file:
            header = (file.metadata() or {}).get(HEADER)
            mapped = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            checksum, _, plain = (header or "").partition(" ")
            intact = _checksum(plain, mapped) == checksum
            # Only now, as tensors that are mapped take no memory.
            tensors = {name: tensor.clone() for name, tensor in mapped.items()} if intact else {}
    except OSError:
        raise
    except Exception as error:  # safetensors and torch raise many kinds for a file that is none of theirs
        raise ValueError(
            f"need a whole state, but {path} is cut short or another kind of file ({_one_line(error)}); {FIX}"
        ) from error
    if header is None:
        raise ValueError(f"need a state of rockafellian, but {path} holds other tensors; name another folder")
    if not intact:
        raise ValueError(
            f"need a state as it was written, but {path} does not match its checksum: it is damaged, or of an older "
            f"version; {FIX}"
        )
    try:
        state: dict[str, Any] = _with_tensors(json.loads(plain), tensors)
        if not isinstance(state, dict):
            raise ValueError("it is no dict")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"need a state as it was written, but that in {path} is broken ({error}); {FIX}") from error
    return state


def _checksum(plain: str, tensors: Mapping[str, Tensor]) -> str:
    """Return a hash of the plain values and of the name, type, shape and bytes of every tensor."""
    found = hashlib.blake2b(plain.encode(), digest_size=32)
    for name in sorted(tensors):
        tensor = tensors[name]
        found.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _system_error(error: SafetensorError, path: Path) -> OSError:
    """Return the error of the system that safetensors met, such as that of a full disk."""
    number = re.search(r"os error (\d+)", str(error))
    if number is None:
        return OSError(f"need to write {path}, but safetensors says: {_one_line(error)}")
    return OSError(int(number[1]), os.strerror(int(number[1])), str(path))


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
        case {"$tensor": str(name), **others} if name in tensors and not others:
            return tensors[name]
        case {"$tuple": list(parts), **others} if not others:
            return tuple(_with_tensors(part, tensors) for part in parts)
        case {"$dict": list(pairs), **others} if _are_pairs(pairs) and not others:
            return {key: _with_tensors(part, tensors) for key, part in pairs}
        case {"$counter": list(pairs), **others} if _are_pairs(pairs) and not others:
            return Counter(dict(pairs))
    if wrong := next((key for key in value if key.startswith("$")), None):
        raise ValueError(f"a mark {wrong} has unknown contents")
    return {key: _with_tensors(part, tensors) for key, part in value.items()}


def _are_pairs(pairs: list[Any]) -> bool:
    """Return whether these are keys with their values, and no key comes twice."""
    if not all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str | int) for pair in pairs):
        return False
    return len({key for key, _ in pairs}) == len(pairs)


def _copied(value: Any) -> Any:
    """Return a copy of a state in the memory of the host."""
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, Mapping):
        parts = {key: _copied(part) for key, part in value.items()}
        return Counter(parts) if isinstance(value, Counter) else parts
    return type(value)(map(_copied, value)) if type(value) in (list, tuple) else value


def _has_tensors(value: Any) -> bool:
    found: dict[str, Tensor] = {}
    _without_tensors(value, "", found)
    return bool(found)


def _equal(one: Any, other: Any) -> bool:
    """Return whether two plain values are equal, where True is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}"


def _flush(path: Path) -> None:
    """Write to the disk now, so that the order of writes also survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
