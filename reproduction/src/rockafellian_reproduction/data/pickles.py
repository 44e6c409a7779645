"""Read NumPy arrays from untrusted pickles, CIFAR-10's batches and CIFAR-10N, without running anything in them."""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: The types that arrays may have. No objects: an array of those can contain anything.
TYPES = ("u1", "i4", "i8")


def read_pickle(path: Path) -> dict[str, Any]:
    """Return the dictionary in a pickle, or in the zip that torch makes of one: arrays, lists and plain values only.

    Five names are known and replaced by classes of our own, so a pickle has nothing to call.
    """
    try:
        content = _Pickle(io.BytesIO(_content(path)), encoding="bytes").load()
        if not isinstance(content, dict):
            raise ValueError(f"it holds a {type(content).__name__}, not a dictionary")
        return {_text(name): _plain(value) for name, value in content.items()}
    # A damaged pickle can fail in every way that its instructions can.
    except (
        pickle.UnpicklingError,
        zipfile.BadZipFile,
        ArithmeticError,
        AttributeError,
        EOFError,
        LookupError,
    ) as error:
        raise _refused(path, error) from error
    except (MemoryError, NotImplementedError, RecursionError, RuntimeError, TypeError, ValueError) as error:
        raise _refused(path, error) from error


def _refused(path: Path, error: Exception) -> ValueError:
    return ValueError(f"need a pickle of arrays and plain values, but {path} is another or damaged: {error}; not read")


def _content(path: Path) -> bytes:
    if not zipfile.is_zipfile(path):
        return path.read_bytes()
    with zipfile.ZipFile(path) as file:
        member = next(member for member in file.infolist() if member.filename.endswith("/data.pkl"))
        if member.file_size > 1 << 30:
            raise ValueError(f"{member.filename} is {member.file_size} bytes long")
        return file.read(member)


class _Dtype:
    """Replaces numpy.dtype: keeps the state it is given."""

    def __init__(self, code: Any, *_: Any) -> None:
        self.code, self.order = _text(code), "|"

    def __setstate__(self, state: Any) -> None:
        self.order = _text(state[1])

    def dtype(self) -> np.dtype[Any]:
        if self.code not in TYPES or self.order not in ("<", ">", "|", "="):
            raise ValueError(f"an array of {self.order}{self.code}, which is none of {', '.join(TYPES)}")
        return np.dtype(self.order + self.code)


class _Array:
    """Replaces numpy.ndarray: keeps the state it is given."""

    def __setstate__(self, state: Any) -> None:
        _, self.shape, self.kind, self.fortran, self.content = state

    def array(self) -> NDArray[Any]:
        if not isinstance(self.kind, _Dtype) or not isinstance(self.content, bytes):
            raise ValueError("an array whose content is not bytes")
        flat = np.frombuffer(self.content, self.kind.dtype())
        if math.prod(self.shape) != len(flat):
            raise ValueError(f"an array of shape {self.shape} with {len(flat)} entries")
        return flat.reshape(self.shape, order="F" if self.fortran else "C").copy()


class _Pickle(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        match module, name:
            case (("numpy.core.multiarray" | "numpy._core.multiarray"), "_reconstruct"):
                return lambda *_: _Array()  # made anew, since an instruction can write to what it is given
            case "numpy", "ndarray":
                return _Array
            case "numpy", "dtype":
                return _Dtype
            case "_codecs", "encode":
                return lambda text, _: _text(text).encode("latin1")
        raise pickle.UnpicklingError(f"it names {module}.{name}, which could run code")


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("latin1")
    if not isinstance(value, str):
        raise ValueError(f"a {type(value).__name__} where a text should be")
    return value


def _plain(value: Any) -> Any:
    return value.array() if isinstance(value, _Array) else value
