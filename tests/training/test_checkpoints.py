import contextlib
import json
import os
import pickle
from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn, optim
from torch.optim import lr_scheduler

from rockafellian.training import checkpoints
from rockafellian.training.checkpoints import Checkpoint, load, save

DTYPES = [
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
]
SHAPES = [(), (0,), (1,), (3,), (2, 3), (2, 0, 3)]


def bits(value: Any) -> Any:
    """Equal for two values if and only if they are equal in type, order and every bit."""
    if isinstance(value, Tensor):
        return value.dtype, value.shape, value.detach().contiguous().reshape(-1).view(torch.uint8).tolist()
    if isinstance(value, dict):
        return type(value), [(type(key), key, bits(part)) for key, part in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [bits(part) for part in value]
    return type(value), repr(value)


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    dtype, shape = draw(st.sampled_from(DTYPES)), draw(st.sampled_from(SHAPES))
    size = torch.empty(shape).numel() * dtype.itemsize
    one_byte = st.integers(
        0, 1 if dtype == torch.bool else 255
    )  # NaN of every kind, and numbers too small to be normal
    drawn = draw(st.lists(one_byte, min_size=size, max_size=size))
    tensor = torch.tensor(drawn, dtype=torch.uint8).view(dtype).reshape(shape)
    return tensor.transpose(0, -1) if tensor.ndim and draw(st.booleans()) else tensor


TEXT = st.text("ab.é\n", min_size=1, max_size=4)
MARKS = st.sampled_from(["$", "$tensor", "$tuple", "$dict", "$counter", "$a"])
KEYS = TEXT | MARKS | st.integers(-3, 2**70)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | TEXT | MARKS | st.just("")
COUNTERS = st.dictionaries(st.integers(), st.integers(), max_size=3).map(Counter)
STATES = st.recursive(
    tensors() | PLAIN | COUNTERS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(TEXT, inner, max_size=4)
        | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, STATES, max_size=4))
def test_a_state_comes_back_equal_in_every_bit(tmp_path_factory, state: dict[Any, Any]) -> None:
    path = tmp_path_factory.getbasetemp() / "any state" / "checkpoint.safetensors"
    save(path, state)
    assert bits(load(path)) == bits(state)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_tied_and_scattered_tensors_come_back_each_on_its_own(tmp_path: Path) -> None:
    grid = torch.arange(12.0).reshape(3, 4).requires_grad_()
    state = {"whole": grid, "again": grid, "part": grid[1:, ::2], "turned": grid.T, "same": grid[:1, :1].expand(2, 3)}
    save(tmp_path / "c", state)
    loaded = load(tmp_path / "c")
    assert bits(loaded) == bits(state)
    loaded["whole"].zero_()
    assert bits(loaded["again"]) == bits(grid)


def test_a_network_with_tied_layers_resumes_with_the_same_outputs(tmp_path: Path) -> None:
    def tied() -> nn.Sequential:
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))
        model[2].weight = model[0].weight
        return model

    first, second, x = tied(), tied(), torch.randn(9, 4)
    first(x)
    save(tmp_path / "c", {"model": first.state_dict()})
    second.load_state_dict(load(tmp_path / "c")["model"])
    assert torch.equal(first.eval()(x), second.eval()(x))
    assert second[2].weight is second[0].weight


OPTIMIZERS = {
    "SGD": lambda parts: optim.SGD(parts, 0.1, momentum=0.9, nesterov=True),
    "Adam": lambda parts: optim.Adam(parts, 0.1, betas=(0.8, 0.9)),
    "AdamW": lambda parts: optim.AdamW(parts, 0.1, amsgrad=True),
    "RMSprop": lambda parts: optim.RMSprop(parts, 0.1, centered=True, momentum=0.5),
    "Adagrad": lambda parts: optim.Adagrad(parts, 0.1),
}
SCHEDULERS = {
    "StepLR": lambda o: lr_scheduler.StepLR(o, 2),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [2, 4, 4]),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 9),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.5, 10, cycle_momentum=not isinstance(o, optim.Adagrad)),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=1, mode="max"),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, 0.1, 4), lr_scheduler.ExponentialLR(o, 0.9)], [4]
    ),
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch),
}


@pytest.mark.parametrize(("optimizer", "scheduler"), [*zip(cycle(OPTIMIZERS), SCHEDULERS, strict=False)])
def test_optimizers_and_schedulers_resume_as_if_never_interrupted(optimizer: str, scheduler: str, tmp_path) -> None:
    def fresh() -> tuple[Any, ...]:
        layer = nn.Linear(3, 2)
        optimized = OPTIMIZERS[optimizer]([{"params": [layer.weight]}, {"params": [layer.bias], "lr": 0.2}])
        return layer, optimized, SCHEDULERS[scheduler](optimized)

    def steps(parts: tuple[Any, ...], numbers: range) -> list[Any]:
        layer, optimized, scheduled = parts
        trace = []
        for i in numbers:
            for part in layer.parameters():
                part.grad = torch.sin(torch.arange(part.numel()) + i).reshape(part.shape)
            optimized.step()
            scheduled.step(*[1.0] if scheduler == "ReduceLROnPlateau" else [])
            trace.append(bits([part.clone() for part in layer.parameters()]))
        return [*trace, *(bits(part.state_dict()) for part in (optimized, scheduled))]

    one, other = fresh(), fresh()
    steps(one, range(3))
    save(tmp_path / "c", {str(i): part.state_dict() for i, part in enumerate(one)})
    expected = steps(one, range(3, 6))
    for part, state in zip(other, load(tmp_path / "c").values(), strict=True):
        part.load_state_dict(state)
    assert steps(other, range(3, 6)) == expected


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint.safetensors"
    save(path, {"round": 1, "weights": torch.arange(100)})
    return path


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 50, 0.5, 0.9, -1])
def test_a_file_cut_short_is_an_error_and_left_as_it_was(old: Path, length: float) -> None:
    whole = old.read_bytes()
    cut = whole[: int(length * len(whole)) if 0 < length < 1 else int(length)]
    old.write_bytes(cut)
    with pytest.raises(ValueError, match=r"checkpoint\.safetensors is cut short .* start again in another folder"):
        load(old)
    assert old.read_bytes() == cut


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_a_file_of_other_tensors_is_an_error(tmp_path: Path, metadata) -> None:
    save_file({"x": torch.ones(2)}, tmp_path / "c", metadata=metadata)
    with pytest.raises(ValueError, match="c holds other tensors; name another folder"):
        load(tmp_path / "c")


def test_equal_states_give_equal_files(old: Path) -> None:
    for number in range(20):
        save(old.with_name(str(number)), {"round": 1, "weights": torch.arange(100)})
        assert old.with_name(str(number)).read_bytes() == old.read_bytes()


def test_the_file_is_one_of_safetensors_and_json(old: Path) -> None:
    with safe_open(old, framework="np") as file:
        checksum, _, plain = file.metadata()["rockafellian"].partition(" ")
        assert len(checksum) == 64
        plain = json.loads(plain)
        assert plain["round"] == 1
        assert file.get_tensor(plain["weights"]["$tensor"]).tolist() == list(range(100))


class Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("trap"),)


def test_what_a_pickle_would_do_is_not_done(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for write in (lambda: Path("c").write_bytes(pickle.dumps(Trap())), lambda: torch.save(Trap(), "c")):
        write()
        with pytest.raises(ValueError, match="cut short or another kind of file"):
            load(Path("c"))
        assert not Path("trap").exists()


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"a": {"b": [1, (2, object())]}}, "got object at a/b/1/1"),
        ({"a": {3: {"$b": np.int64(3)}}}, r"got int64 at a/3/\$b"),
        ({"a": {1, 2}}, "got set at a"),
        ({"a": [lambda: None]}, "got function at a/0"),
        ({"a": np.ones(2)}, "got ndarray at a"),
        ({"a": b"bytes"}, "got bytes at a"),
    ],
)
def test_what_cannot_be_saved_is_named_and_the_old_state_remains(old: Path, state, message: str) -> None:
    before = old.read_bytes()
    with pytest.raises(TypeError, match=f"plain values and tensors to save, {message}$"):
        save(old, state)
    assert old.read_bytes() == before


A, B = torch.zeros(1), torch.ones(2)


@pytest.mark.parametrize(
    "state",
    [{"a": {"b": A}, "a/b": B}, {1: A, "1": B}, {"": {"a": A}, "a": B}, {"__metadata__": A}, {(1, 2): 3}],
    ids=["a slash", "a number and its name", "an empty key", "safetensors' own name", "a tuple"],
)
def test_odd_keys_are_saved_or_refused_and_never_cost_a_state(old: Path, state: dict[Any, Any]) -> None:
    before = bits(load(old))
    with contextlib.suppress(TypeError, ValueError):
        save(old, state)
    assert bits(load(old)) in (before, bits(state))


def test_what_a_killed_process_left_half_written_disturbs_nothing_and_goes_when_the_run_is_resumed(old: Path) -> None:
    partial = old.with_name(old.name + ".4711.partial")
    partial.write_bytes(b"half" * 1000)
    assert load(old)["round"] == 1
    save(old, {"settings": {}})
    Checkpoint(old.parent, {}, {}).resume()
    assert [file.name for file in old.parent.iterdir()] == [old.name]


def half_written(tensors, path: Path, **options) -> None:
    save_file(tensors, path, **options)
    os.truncate(path, path.stat().st_size // 2)
    raise OSError("No space left on device")


def refused(*_: object) -> None:
    raise OSError("No space left on device")


@pytest.mark.parametrize(
    ("where", "name", "fault"),
    [(checkpoints, "save_file", half_written), (os, "replace", refused), (os, "fsync", refused)],
)
def test_a_failure_while_writing_leaves_the_old_state_loadable(old: Path, where, name: str, fault, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(where, name, fault)
        with pytest.raises(OSError, match="No space left"):
            save(old, {"round": 2})
    assert [file.name for file in old.parent.iterdir()] == [old.name]
    assert bits(load(old)) == bits({"round": 1, "weights": torch.arange(100)})
    save(old, {"round": 2})
    assert load(old) == {"round": 2}


def test_the_new_file_is_on_the_disk_before_it_takes_the_place_of_the_old(old: Path, monkeypatch) -> None:
    events = []
    fsync, replace = os.fsync, os.replace

    def record_fsync(descriptor: int) -> None:
        events.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def record_replace(source: Path, target: Path) -> None:
        events.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", record_replace)
    save(old, {"round": 2})
    assert events == [old.stat().st_ino, "replace", old.parent.stat().st_ino]


class Part:
    def __init__(self, value: Any) -> None:
        self.value = value

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.value = state["value"]


SETTINGS = {"rows": 7, "rule": "RRM", "grad_clip": None, "eps": (0.1, 0.2), "attack_valid": False}


def run(folder: Path, value: Any, settings: dict[str, Any] = SETTINGS) -> tuple[Part, Part, Checkpoint]:
    one, two = Part(value), Part([value])
    return one, two, Checkpoint(folder, {"one": one, "two": two}, settings)


def test_a_run_is_resumed_where_it_was_saved_last(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "first"
    one, _, checkpoint = run(folder, 1)
    checkpoint.save()
    one.value = 2
    checkpoint.save()
    again, other, resumed = run(folder, 0)
    resumed.resume()
    assert (again.value, other.value) == (2, [1])
    assert checkpoint.path == folder / "checkpoint.safetensors"


def test_states_that_take_long_to_write_are_saved_less_often_and_at_the_end(tmp_path: Path, monkeypatch) -> None:
    one, _, saved = run(tmp_path, 0)
    monkeypatch.setattr(checkpoints, "SLOW_SECONDS", 0.0)
    clock = iter([0.0, 2.0, 5.0, 9.0, 11.0, 13.0, 14.0])
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: next(clock))

    def saved_value() -> int:
        return int(load(saved.path)["one"]["value"])

    for value, wanted in ((1, 1), (2, 1), (3, 1), (4, 4), (5, 4)):  # the first took until 2, so the next is due at 10
        one.value = value
        saved.save_in_time()
        assert saved_value() == wanted
    saved.save_rest()
    assert saved_value() == 5


def test_where_no_run_is_a_new_one_starts(tmp_path: Path) -> None:
    one, two, checkpoint = run(tmp_path, 5)
    checkpoint.path.with_name("checkpoint.safetensors.partial").write_bytes(b"half")
    checkpoint.resume()
    checkpoint.check_free()
    assert (one.value, two.value) == (5, [5])
    checkpoint.save()
    with pytest.raises(
        ValueError, match=r"a folder without a checkpoint, but .*checkpoint\.safetensors exists; pass resume=True"
    ):
        checkpoint.check_free()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": 8}, ": rows was 7 and is 8; name another folder"),
        ({"rows": "7"}, ": rows was 7 and is '7'; name"),
        ({"grad_clip": 1.0}, ": grad_clip was None and is 1.0; name"),
        ({"eps": (0.1, 0.3)}, r": eps was \(0.1, 0.2\) and is \(0.1, 0.3\); name"),
        (
            {"attack_valid": True, "rule": "other"},
            ": rule was 'RRM' and is 'other'; attack_valid was False and is True; name",
        ),
        ({"seed": 3}, ": seed was None and is 3; name"),
    ],
)
def test_a_run_with_other_settings_is_an_error_and_changes_nothing(tmp_path: Path, changes, message: str) -> None:
    run(tmp_path, 1)[2].save()
    one, two, checkpoint = run(tmp_path, 0, SETTINGS | changes)
    before = checkpoint.path.read_bytes()
    with pytest.raises(ValueError, match=f"belongs to another run{message}"):
        checkpoint.resume()
    assert (one.value, two.value) == (0, [0])
    assert checkpoint.path.read_bytes() == before


def test_a_state_that_lacks_a_part_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    Checkpoint(tmp_path, {"one": Part(1)}, SETTINGS).save()
    one, _, checkpoint = run(tmp_path, 0)
    with pytest.raises(ValueError, match="lacks the state of the two"):
        checkpoint.resume()
    assert one.value == 0
