"""Training that is killed without warning, again and again, ends as if it had never been interrupted."""

import random
import signal
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch
from torch import nn

import rockafellian as rk
from rockafellian import checkpoints
from rockafellian.attacks import PGD
from rockafellian.losses import ELR
from toy import make_toy

METHODS = ["ERM", "RRM", "A-RRM"]
KILLS = 10
EPOCHS = 60
N = 600
# Children of a server that has torch loaded, but has never run it: they start at once and share no thread with us.
processes = get_context("forkserver")
processes.set_forkserver_preload(["torch._dynamo", "rockafellian.training", "rockafellian.checkpoints"])


def train(method: str, folder: Path, started: Connection, *, epochs: int = EPOCHS, name: str = "end") -> None:
    """What a user's script does: the same call whether or not there is something to resume."""
    torch.set_num_threads(1)
    toy, clean = make_toy(n=N), make_toy(seed=1, n=90)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [10, 30])
    loss = ELR(N, 3)
    weights = None if method == "ERM" else rk.SampleWeights(N, rk.RRM(contamination=0.4), every=3, warmup=1)
    started.send("started")
    begin = time.perf_counter()
    history = rk.fit(
        model,
        (toy.x, toy.y),
        loss=loss,
        optimizer=optimizer,
        scheduler=scheduler,
        epochs=epochs,
        weights=weights,
        attack=PGD(0.3, steps=2) if method == "A-RRM" else None,
        valid=(clean.x, clean.y),
        skip_removed=method == "RRM",
        wrong=toy.wrong,
        batch_size=50,
        checkpoint=folder / "run",
        resume=True,
        progress="quiet",
    )
    started.send(time.perf_counter() - begin)
    parts = {"model": model, "loss": loss, "optimizer": optimizer, "scheduler": scheduler, "history": history}
    if weights is not None:
        parts["weights"] = weights
    checkpoints.save(folder / name, {key: part.state_dict() for key, part in parts.items()})


def start(method: str, folder: Path, **options):
    ours, theirs = processes.Pipe()
    process = processes.Process(target=train, args=(method, folder, theirs), kwargs=options)
    process.start()
    theirs.close()
    assert ours.recv() == "started"
    return process, ours


def finish(method: str, folder: Path, **options) -> float:
    process, connection = start(method, folder, **options)
    seconds = connection.recv()
    process.join(60)
    assert process.exitcode == 0
    return seconds


def result(path: Path) -> dict:
    """The end of a run, without the seconds it took."""
    state = checkpoints.load(path)
    for record in state["history"]["epochs"] + state["history"]["rounds"]:
        del record["seconds"]
    return state


def assert_same_bits(a, b, where: str = "") -> None:
    assert type(a) is type(b), where
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype, where
        assert torch.equal(a.nan_to_num(-1.0), b.nan_to_num(-1.0)), where
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_same_bits(a[key], b[key], f"{where}/{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same_bits(x, y, f"{where}/{i}")
    else:
        assert a == b, where


@pytest.mark.parametrize("method", METHODS)
def test_killed_ten_times_at_random_and_resumed_it_ends_in_the_same_bits(method: str, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    seconds = finish(method, whole)
    chance = random.Random(f"moments for {method}")
    reached = set()
    for _ in range(KILLS):
        process, _ = start(method, broken)
        time.sleep(chance.uniform(0, seconds / 10))
        process.kill()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
        if (broken / "run" / "checkpoint.safetensors").exists():
            saved = checkpoints.load(broken / "run" / "checkpoint.safetensors")
            reached.add(len(saved["history"]["epochs"]))
    assert len(reached) > 2  # killed runs got somewhere, and the next went on from there
    assert max(reached) < EPOCHS
    finish(method, broken)
    assert_same_bits(result(whole / "end"), result(broken / "end"))


@pytest.mark.parametrize("method", METHODS)
def test_a_finished_run_can_be_made_longer_as_if_it_had_been_planned_so(method: str, tmp_path: Path) -> None:
    for epochs in (4, 9):  # with every=3 and warmup=1 a re-weighting is due after epoch 4, and was left out at first
        finish(method, tmp_path / "longer", epochs=epochs, name=f"end {epochs}")
    finish(method, tmp_path / "planned", epochs=9)
    assert_same_bits(result(tmp_path / "planned" / "end"), result(tmp_path / "longer" / "end 9"))
