"""Files that are damaged, edited, or no states at all: each is an error in one line, and changes nothing."""

from __future__ import annotations

import errno
import json
import math
import os
import random
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import lr_scheduler

import rockafellian as rk
from rockafellian.training import checkpoints
from rockafellian.training.checkpoints import HEADER, Checkpoint, load, save
from toy import make_toy

TOY = make_toy(n=40)


def refused(path: Path, error: type[Exception] = ValueError) -> str:
    with pytest.raises(error) as caught:
        load(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    save(path, {"a": torch.arange(3), "b": [1.5, None, (True, "é")], 4: torch.zeros(())})
    return path


def test_every_flipped_bit_is_noticed(small: Path) -> None:
    whole = small.read_bytes()
    for place in range(len(whole)):
        for bit in {place % 8, 5}:  # 5 turns a letter into its capital
            small.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
            with pytest.raises(ValueError, match=r"another kind of file|holds other tensors|checksum"):
                load(small)
    small.write_bytes(whole)
    assert load(small)["b"] == [1.5, None, (True, "é")]


def test_a_file_cut_anywhere_or_with_more_at_its_end_is_refused(small: Path) -> None:
    whole = small.read_bytes()
    for part in (*(whole[:length] for length in range(len(whole))), whole + b"\0", whole + whole):
        small.write_bytes(part)
        refused(small)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(make: Callable[[Path], object], tmp_path: Path) -> None:
    make(tmp_path / "state")
    assert "need a regular file" in refused(tmp_path / "state")
    make(tmp_path / "checkpoint.safetensors")
    with pytest.raises(ValueError, match="need a regular file"):
        Checkpoint(tmp_path, {}, {}).resume()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", FileNotFoundError)


def header(size: int, content: bytes) -> bytes:
    return struct.pack("<Q", size) + content


TENSOR = {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04 an archive",
        b"\x80\x04N.",
        b"x,y\n1,2\n" * 50,
        header(2**63, b"{}"),
        header(10**8, b"{}"),
        header(100_000, b"[" * 100_000),
        header(2, b"\xff\xfe"),
        header(2, b"[]"),
        header(len(json.dumps({"x": TENSOR})), json.dumps({"x": TENSOR}).encode()),
        header(len(json.dumps({"x": {**TENSOR, "shape": [2**62, 8]}})), json.dumps({"x": TENSOR}).encode()),
        header(len(json.dumps({"x": {**TENSOR, "dtype": "F7"}})), json.dumps({"x": TENSOR}).encode()),
    ],
)
def test_other_kinds_of_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(content)
    refused(tmp_path / "state")


def test_a_large_file_of_zeros_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    path, size = tmp_path / "state", 1 << 28
    described = {"x": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}, "__metadata__": {HEADER: "{}"}}
    text = json.dumps(described).encode()
    path.write_bytes(header(len(text), text))
    os.truncate(path, 8 + len(text) + size)
    tracemalloc.start()
    copies = []
    clone = Tensor.clone
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tensor, "clone", lambda *args, **options: copies.append(1) or clone(*args, **options))
        assert "does not match its checksum" in refused(path)
    assert copies == []
    assert tracemalloc.get_traced_memory()[1] < size / 10
    tracemalloc.stop()


def write_plain(path: Path, plain: str, tensors: dict[str, Tensor]) -> None:
    """Write a file whose checksum is right."""
    save_file(tensors, path, metadata={HEADER: f"{checkpoints._checksum(plain, tensors)} {plain}"})


@pytest.mark.parametrize(
    "plain",
    [
        "",
        "nonsense",
        "[]",
        "3",
        '{"a": ',
        '{"$tensor": "nowhere"}',
        '{"a": {"$tensor": 3}}',
        '{"a": {"$tensor": ["x"]}}',
        '{"a": {"$tensor": "x", "b": 1}}',
        '{"a": {"$tuple": 3}}',
        '{"a": {"$tuple": {"b": 1}}}',
        '{"a": {"$dict": [1]}}',
        '{"a": {"$dict": [[1]]}}',
        '{"a": {"$dict": [[[1], 2]]}}',
        '{"a": {"$dict": [[1, 2], [1, 3]]}}',
        '{"a": {"$dict": {"1": 2}}}',
        '{"a": {"$counter": [[null, 2]]}}',
        '{"a": {"$counter": 7}}',
        '{"a": {"$unknown": 7}}',
        '{"a": ' * 100_000,
        '{"a": ' * 3_000 + "1" + "}" * 3_000,
        '{"a": ' + "[" * 990 + "]" * 990 + "}",
        "9" * 10_000,
    ],
)
def test_plain_values_that_were_never_written_are_refused(plain: str, tmp_path: Path) -> None:
    write_plain(tmp_path / "state", plain, {"x": torch.ones(2)})
    assert len(refused(tmp_path / "state")) < 1_000


def test_a_full_disk_is_an_error_of_the_system_and_leaves_the_old_state(tmp_path: Path) -> None:
    code = f"""
import os, resource, signal, torch
from pathlib import Path
from rockafellian.training.checkpoints import load, save
folder = Path({str(tmp_path)!r})
save(folder / "state", {{"round": 1}})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    save(folder / "state", {{"round": 2, "x": torch.zeros(50_000)}})
except OSError as error:
    print(error.errno, error.filename == str(folder / "state"), load(folder / "state"), os.listdir(folder))
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == f"{errno.EFBIG} True {{'round': 1}} ['state']\n"


@pytest.mark.parametrize(
    ("message", "number"),
    [
        ("Error while serializing: I/O error: No space left on device (os error 28)", errno.ENOSPC),
        ("something else", None),
    ],
)
def test_what_safetensors_could_not_write_is_an_error_of_the_system(
    message: str, number: int | None, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(tensors: object, path: Path, **options: object) -> None:
        path.write_bytes(b"half")
        raise checkpoints.SafetensorError(message)

    monkeypatch.setattr(checkpoints, "save_file", fail)
    before = small.read_bytes()
    with pytest.raises(OSError, match=r"No space left|something else") as caught:
        save(small, {"round": 2})
    assert caught.value.errno == number
    assert "\n" not in str(caught.value)
    assert [file.name for file in small.parent.iterdir()] == [small.name]
    assert small.read_bytes() == before


class Parts:
    """A run with every part that a checkpoint can have."""

    def __init__(self, folder: Path, *, seed: int = 0, scheduler: str = "StepLR") -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.scheduler = getattr(lr_scheduler, scheduler)(self.optimizer, 2)
        self.weights = rk.SampleWeights(40, rk.RRM(contamination=0.2))
        self.loss = rk.losses.ELR(40, 3)
        self.folder = folder

    def fit(self, epochs: int, **options: Any) -> rk.History:
        return rk.fit(
            self.model,
            (TOY.x, TOY.y),
            loss=self.loss,
            optimizer=self.optimizer,
            scheduler=self.scheduler,
            weights=self.weights,
            valid=(TOY.x[:20], TOY.y[:20]),
            epochs=epochs,
            checkpoint=self.folder,
            progress="quiet",
            batch_size=20,
            **{"resume": True, **options},
        )

    def bits(self) -> Any:
        """Everything that a resume may change, and the random numbers."""
        parts = (self.model, self.optimizer, self.scheduler, self.weights, self.loss)
        states = [frozen(part.state_dict()) for part in parts]
        return [*states, frozen(torch.get_rng_state()), random.getstate(), repr(np.random.get_state())]  # noqa: NPY002


def frozen(value: Any) -> Any:
    """Equal for two values if and only if they are equal in every bit."""
    if isinstance(value, Tensor):
        return str(value.dtype), tuple(value.shape), value.detach().contiguous().reshape(-1).view(torch.uint8).tolist()
    if isinstance(value, Mapping):
        return [(key, frozen(part)) for key, part in value.items()]
    if isinstance(value, list | tuple):
        return [frozen(part) for part in value]
    return repr(value)


Place = tuple[Any, ...]


def leaves(value: Any, path: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every plain value and tensor of a state, with the keys that lead to it."""
    if isinstance(value, Mapping) and value:
        for key, part in value.items():
            yield from leaves(part, (*path, key))
    elif isinstance(value, list | tuple) and value:
        for key, part in enumerate(value):
            yield from leaves(part, (*path, key))
    else:
        yield path, value


DELETED = object()


def with_change(value: Any, path: Place, new: Any) -> Any:
    """A copy of a state with another value at one place, or without it."""
    if not path:
        return new
    first, *rest = path
    if isinstance(value, tuple):
        return tuple(with_change(list(value), path, new))
    changed = dict(value) if isinstance(value, dict) else list(value)
    if rest or new is not DELETED:
        changed[first] = with_change(value[first], tuple(rest), new)
    else:
        del changed[first]
    return type(value)(changed) if isinstance(value, dict) else changed


def tampered(value: Any) -> Iterator[tuple[str, Any]]:
    """Values that are none a run would write in this place."""
    yield "deleted", DELETED
    yield "text", "text" if not isinstance(value, str) else f"{value} "
    yield "deep", {"a": {"b": [{"c": value}]}}
    if isinstance(value, Tensor):
        yield "none", None
        yield "other type", value.to(torch.float16 if value.dtype != torch.float16 else torch.float32)
        yield "other shape", torch.cat([value.reshape(-1), value.reshape(-1)[:1]])
        if value.is_floating_point() and value.numel():
            yield "nan", value.clone().reshape(-1).index_fill(0, torch.tensor(0), math.nan).reshape(value.shape)
    else:
        yield "tensor", torch.ones(2)
        if not isinstance(value, bool):
            yield "bool", True
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield "nan", math.nan
            yield "infinity", math.inf
            yield "huge", 10**400
            yield "negative", -value - 1
            yield "none", None
        else:
            yield "number", 3.5


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("whole")
    Parts(folder).fit(3)
    return load(folder / "checkpoint.safetensors")


def complaint(call: Callable[[], object]) -> str:
    try:
        call()
    except ValueError as error:
        return str(error)
    return "none"


def is_possible(place: Place, kind: str) -> bool:
    """Whether another run might have written this too: then nothing can tell that it was edited."""
    match place:
        case ("settings", _):
            return kind == "deleted" and place[1] in ("amp", "grad_clip")  # None is the default
        case ("history", "epochs", _, "loss"):
            return kind == "negative"  # a loss of the user's may be
        case ("history", "epochs", _, "valid_loss"):  # training continues whatever it is; only the best one has effects
            return kind in ("nan", "infinity", "negative")
    return False


def test_no_edit_of_a_saved_state_is_accepted_and_none_leaves_a_trace(
    saved: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For each value in the state: deleted, NaN, another type, shape or sign, with a checksum that is right."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # for speed
    path, run = tmp_path / "checkpoint.safetensors", Parts(tmp_path, seed=1)
    opened = []
    monkeypatch.setattr(Checkpoint, "check_free", lambda checkpoint: opened.append(checkpoint))
    run.fit(0, resume=False)
    [checkpoint] = opened
    before = run.bits(), frozen(checkpoint.parts["history"].state_dict())
    tried = 0
    for place, value in leaves(saved):
        if place[0] == "weights":  # SampleWeights check theirs, and test it
            continue
        for kind, new in tampered(value):
            if is_possible(place, kind):
                continue
            save(path, with_change(saved, place, new))
            tried += 1
            message = complaint(checkpoint.resume)
            assert message.count(str(path)) == 1, (place, kind, message)
            assert "\n" not in message, (place, kind)
            assert (run.bits(), frozen(checkpoint.parts["history"].state_dict())) == before, (place, kind)
    assert tried > 800
    save(path, saved)
    checkpoint.resume()
    assert run.bits()[0] == frozen(saved["model"])


@pytest.mark.parametrize(
    ("place", "new", "message"),
    [
        (("optimizer", "param_groups", 0, "lr"), -1.0, "optimizer/param_groups/lr is -1.0"),
        (("optimizer", "param_groups", 0, "betas"), (0.9,), "optimizer/param_groups/betas is not 2 values"),
        (("optimizer", "param_groups", 0, "params"), [0, 1, 2], "optimizer/param_groups/params is not"),
        (("optimizer", "state"), {}, "optimizer/state is empty"),
        (("optimizer", "state"), {99: {}}, "optimizer/state is not of the parameters"),
        (("scheduler", "last_epoch"), 7, "scheduler is of epoch 7, the history of epoch 3"),
        (("weights", "epoch"), torch.tensor(9), "weights is of epoch 9, the history of epoch 2"),
        (("history", "epochs"), [], "need re-weightings after epochs 1 to 0"),
        (("history", "epochs", 1, "epoch"), 7, "need a history of epochs 1, 2, 3, ..., got 1, 7, 3"),
        (("history", "rounds", 0, "epoch"), 9, "need re-weightings after epochs 1 to 3"),
        (("history", "rounds", 0, "n_removed"), 39, "re-weightings in the history are not those of the weights"),
        (("history", "rounds"), [], "re-weightings in the history are not those of the weights"),
        (("history", "best", "epoch"), 99, "need the best epoch to be that of the best validation"),
        (("history", "best", "model"), {}, "history/best/model has other keys"),
    ],
)
def test_what_does_not_belong_together_is_named(
    place: Place, new: Any, message: str, saved: dict[str, Any], tmp_path: Path
) -> None:
    save(tmp_path / "checkpoint.safetensors", with_change(saved, place, new))
    run = Parts(tmp_path, seed=1)
    before = run.bits()
    with pytest.raises(ValueError, match=message):
        run.fit(5)
    assert run.bits() == before


class LateFailure:
    """A part that takes its own state, and no other."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def state_dict(self) -> Any:
        return self.state

    def load_state_dict(self, state: Any) -> None:
        if state != self.state:
            raise self.state["error"]


@pytest.mark.parametrize("error", [RuntimeError("no\nway"), KeyError("x"), KeyboardInterrupt()])
def test_parts_that_were_loaded_before_one_failed_are_as_before(error: BaseException, tmp_path: Path) -> None:
    def parts(last: Any) -> dict[str, Any]:
        model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return {"model": model, "optimizer": optimizer, "last": LateFailure(last)}

    trained = parts({"epoch": 3})
    trained["model"](torch.randn(5, 2)).square().sum().backward()
    trained["optimizer"].step()
    Checkpoint(tmp_path, trained, {}).save()
    fresh = parts({"error": error})
    before = [frozen(part.state_dict()) for part in fresh.values()]
    expected = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else ValueError
    with pytest.raises(expected) as caught:
        Checkpoint(tmp_path, fresh, {}).resume()
    assert "\n" not in str(caught.value)
    assert [frozen(part.state_dict()) for part in fresh.values()] == before


@pytest.mark.parametrize(
    "make",
    [
        lambda parts: torch.optim.SGD(parts, 0.1),
        lambda parts: torch.optim.SGD(parts, 1, momentum=0.9),
        lambda parts: torch.optim.Adam(parts, torch.tensor(0.1)),
        lambda parts: torch.optim.AdamW(parts, amsgrad=True),
        lambda parts: torch.optim.Adagrad(parts),
        lambda parts: torch.optim.RMSprop(parts, centered=True, momentum=0.5),
        lambda parts: torch.optim.Adadelta(parts),
        lambda parts: torch.optim.Adamax(parts),
        lambda parts: torch.optim.NAdam(parts),
        lambda parts: torch.optim.RAdam(parts),
        lambda parts: torch.optim.ASGD(parts),
        lambda parts: torch.optim.Rprop(parts),
        lambda parts: torch.optim.Adafactor(parts),
    ],
)
def test_every_optimizer_is_resumed_and_none_with_a_state_that_is_cut_or_nan(make: Any, tmp_path: Path) -> None:
    def parts() -> dict[str, Any]:
        model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
        model[0].bias.requires_grad_(False)  # has no state
        return {"model": model, "optimizer": make(model.parameters())}

    trained = parts()
    for _ in range(2):
        trained["model"](torch.randn(5, 3)).square().sum().backward()
        trained["optimizer"].step()
    checkpoint = Checkpoint(tmp_path, trained, {})
    checkpoint.save()
    other = parts()
    Checkpoint(tmp_path, other, {}).resume()
    assert frozen(other["optimizer"].state_dict()) == frozen(trained["optimizer"].state_dict())
    state = load(checkpoint.path)
    entries = [place for place, value in leaves(state["optimizer"]["state"]) if isinstance(value, Tensor)]
    fresh = parts()
    before = [frozen(part.state_dict()) for part in fresh.values()]
    for place in entries:
        value = state["optimizer"]["state"][place[0]][place[1]]
        for new in (DELETED, "x", value * math.nan, value.repeat(2, *[1] * value.ndim)):
            save(checkpoint.path, with_change(state, ("optimizer", "state", *place), new))
            with pytest.raises(ValueError, match="optimizer/state"):
                Checkpoint(tmp_path, fresh, {}).resume()
            assert [frozen(part.state_dict()) for part in fresh.values()] == before


@pytest.mark.parametrize("scheduler", ["StepLR", "CosineAnnealingLR", "ReduceLROnPlateau", "PolynomialLR"])
def test_schedulers_are_resumed_in_a_later_process_and_in_the_same_one(scheduler: str, tmp_path: Path) -> None:
    def made(folder: str) -> Parts:
        run = Parts(tmp_path / folder)
        more = ["min"] if scheduler == "ReduceLROnPlateau" else [3]
        run.scheduler = getattr(lr_scheduler, scheduler)(run.optimizer, *more)
        return run

    whole, first, same = made("whole"), made("parts"), made("same")
    whole.fit(5)
    first.fit(2)
    second = made("parts")
    second.fit(5)
    same.fit(2)
    same.fit(5)
    assert whole.bits()[:-3] == second.bits()[:-3] == same.bits()[:-3]


def test_a_network_with_a_layer_named_part_is_checked_as_a_whole(tmp_path: Path) -> None:
    def network() -> nn.Module:
        return nn.ModuleDict({"part": nn.Linear(2, 2), "other": nn.Linear(2, 2)})

    Checkpoint(tmp_path, {"model": network()}, {}).save()
    Checkpoint(tmp_path, {"model": network()}, {}).resume()
    state = load(tmp_path / "checkpoint.safetensors")
    state["model"]["other.weight"].fill_(math.inf)
    save(tmp_path / "checkpoint.safetensors", state)
    with pytest.raises(ValueError, match=r"model/other\.weight holds infinity"):
        Checkpoint(tmp_path, {"model": network()}, {}).resume()
