"""Pickles made here: read as they should be, and refused if they are cut, odd or hostile."""

import pickle
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import python2_pickle, torch_zip

from rockafellian_reproduction.data.pickles import read_pickle


class Trap:
    """Makes a file when it is unpickled by a reader that trusts."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def test_a_pickle_that_would_run_code_is_refused_and_does_not(tmp_path: Path) -> None:
    mark, path = tmp_path / "ran", tmp_path / "data"
    trap = pickle.dumps({"data": Trap(Path.mkdir, mark)}, 2)
    pickle.loads(trap)  # noqa: S301 - to see that the trap works
    assert mark.exists()
    mark.rmdir()
    makers = [
        Trap(Path.mkdir, mark),
        Trap(exec, f"import os; os.mkdir({str(mark)!r})"),
        Trap(__import__, "antigravity"),
    ]
    for maker in makers:
        for content in (pickle.dumps({"data": maker}, 2), pickle.dumps({"data": maker}, 5), pickle.dumps(maker)):
            for wrapped in (content, torch_zip(content)):
                path.write_bytes(wrapped)
                with pytest.raises(
                    ValueError, match=r"but .*data is another or damaged: it names .*, which could run code"
                ):
                    read_pickle(path)
    assert not mark.exists()
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps({"a": np.array([{}, None], object)}, 2),
        pickle.dumps({"a": np.array(["x"])}, 2),
        pickle.dumps({"a": np.float64(3)}, 2),
        pickle.dumps([1, 2]),
        pickle.dumps({1: 2}),
        pickle.dumps({"a": np.arange(5)}, 2)[:-30],
        b"",
        b"garbage",
        b"cnumpy\ndtype\n)R.",
        b"cnumpy\nndarray\n)R}b.",
        b"\x80\x02}U\x01acnumpy\nndarray\n)Rs.",
        b"\x80\x02}U\x01aI5\nQs.",
        b"\x80\x02}U\x01a\x82\x01s.",
        torch_zip(b""),
    ],
)
def test_pickles_of_anything_else_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data").write_bytes(content)
    with pytest.raises(ValueError, match="need a pickle of arrays and plain values, but"):
        read_pickle(tmp_path / "data")


def test_a_pickle_whose_shape_does_not_fit_is_refused(tmp_path: Path) -> None:
    content = python2_pickle(np.zeros((2, 3072), np.uint8), [1, 2])
    (tmp_path / "data").write_bytes(content.replace(struct.pack("<H", 3072), struct.pack("<H", 3073)))
    with pytest.raises(ValueError, match="shape"):
        read_pickle(tmp_path / "data")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["<i8", ">i8", "<i4", "|u1"])
def test_arrays_come_out_as_they_went_in(tmp_path: Path, kind: str, order: Any) -> None:
    array = np.asarray(np.arange(12).reshape(3, 4), dtype=kind, order=order)
    (tmp_path / "data").write_bytes(pickle.dumps({"a": array, "b": [1, "x"]}, 2))
    found = read_pickle(tmp_path / "data")
    assert np.array_equal(found["a"], array)
    assert found["b"] == [1, "x"]
