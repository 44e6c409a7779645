"""Files of NumPy arrays, X (rows, ...) and y, read only after their headers have been checked."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rockafellian.auditing.data.archives import check_unpacked, whole_archive

MAX_COLUMNS = 200_000
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class Arrays(NamedTuple):
    """A table of X and y, X itself if its rows have more than one dimension, and what was changed."""

    table: pa.Table
    images: NDArray[Any] | None
    notices: tuple[str, ...]


def read_npz(path: Path, content: bytes, labeled: bool) -> Arrays:
    """Return the arrays X and y as columns x0, x1, ... and y, or y0, y1, ...; without labels y may be missing."""
    arrays = _read_arrays(path, content, ("X", "y") if labeled else ("X",))
    x, notices = _native(arrays["X"])
    if x.ndim < 2 or x.dtype.kind not in "fiub" or 0 in x.shape[1:]:
        raise ValueError(f"need numbers X (rows, ...) in {path}, got {x.shape} of {x.dtype}; convert them")
    if x.ndim == 2 and x.shape[1] > MAX_COLUMNS:
        raise ValueError(f"need at most {MAX_COLUMNS:,} columns of X in {path}, got {x.shape[1]:,}; select some")
    columns = {f"x{i}": pa.array(x[:, i]) for i in range(x.shape[1])} if x.ndim == 2 else {}
    if "y" in arrays:
        columns |= _labels(path, arrays["y"], len(x))
    table = pa.table(columns) if columns else pa.table({"row": pa.array(range(len(x)))})
    return Arrays(table, x if x.ndim > 2 else None, notices)


def write_npz(path: Path, table: pa.Table, images: NDArray[Any] | None) -> None:
    """Write X and y as they were read; a y with several columns was read as y0, y1, ..."""
    numbers = [table.column(name).to_numpy() for name in table.column_names if name.startswith("x")]
    labels = [table.column(name).to_numpy() for name in table.column_names if name.startswith("y")]
    x = np.column_stack(numbers) if images is None else images
    y = labels[0] if "y" in table.column_names else np.column_stack(labels)
    y = y.astype(str) if y.dtype == object else y  # so that nothing is pickled
    with path.open("wb") as file:
        np.savez(file, X=x, y=y)


def _read_arrays(path: Path, content: bytes, wanted: Sequence[str]) -> dict[str, NDArray[Any]]:
    """X, and y if it is there; an error if a wanted one is not."""
    with whole_archive(path, "a whole .npz file"), zipfile.ZipFile(io.BytesIO(content)) as file:
        names = [name.removesuffix(".npy") for name in file.namelist() if name.endswith(".npy")]
        if absent := [name for name in wanted if name not in names]:
            raise ValueError(f"need arrays {' and '.join(wanted)} in {path}, got {names}; {absent[0]} is missing")
        return {name: _read_array(path, file, f"{name}.npy") for name in ("X", "y") if name in names}


def _read_array(path: Path, file: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """One array, if its header fits its number of bytes: NumPy would first make room for whatever a header says."""
    member = file.getinfo(name)
    check_unpacked(path, member.file_size, member.compress_size)
    with file.open(member) as header:
        shape, kind, size = _read_header(path, header, name)
    if size != member.file_size:
        raise ValueError(f"need a whole .npz file, but {name} of {path} has not the size of {shape} of {kind}")
    with file.open(member) as array:
        found: NDArray[Any] = np.lib.format.read_array(array, allow_pickle=False)
    return found


def _read_header(path: Path, file: Any, name: str) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """The shape and type of an array, and the bytes it takes with its header."""
    try:
        shape, _, kind = HEADERS[np.lib.format.read_magic(file)](file)
    except (ValueError, KeyError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"need arrays of numbers or text, but {name} of {path} is none; save it again") from error
    if kind.hasobject:
        raise ValueError(f"need arrays of numbers or text in {path}, got pickled objects, which are not read")
    if any(length < 0 for length in shape):
        raise ValueError(f"need arrays of numbers or text, but {name} of {path} has the shape {shape}; save it again")
    return shape, kind, file.tell() + math.prod(shape) * kind.itemsize


def _native(x: NDArray[Any]) -> tuple[NDArray[Any], tuple[str, ...]]:
    """The array in the byte order of this machine, in C order, and in a type that tables know."""
    x = np.ascontiguousarray(x, x.dtype.newbyteorder("=")) if x.ndim else x
    if x.dtype.kind == "f" and x.dtype.itemsize > 8:
        return x.astype(np.float64), (f"X of {x.dtype} is read as float64",)
    return (x.astype(np.float32) if x.dtype == np.float16 else x), ()


def _labels(path: Path, y: NDArray[Any], rows: int) -> dict[str, pa.Array]:
    if y.ndim not in (1, 2) or len(y) != rows:
        raise ValueError(f"need one label y for each of the {rows} rows of X in {path}, got {y.shape}")
    if y.ndim == 2 and y.shape[1] > MAX_COLUMNS:
        raise ValueError(f"need at most {MAX_COLUMNS:,} columns of y in {path}, got {y.shape[1]:,}; select some")
    if y.dtype.kind not in "fiubUS":
        raise ValueError(f"need labels y of numbers or text in {path}, got {y.dtype}; convert them")
    y, _ = _native(y)
    try:
        y = np.strings.decode(y, "utf-8") if y.dtype.kind == "S" else y
        return {"y": pa.array(y)} if y.ndim == 1 else {f"y{i}": pa.array(y[:, i]) for i in range(y.shape[1])}
    except (ValueError, pa.ArrowException) as error:
        raise ValueError(f"need labels y of numbers or text in {path}, got text that is no Unicode") from error
