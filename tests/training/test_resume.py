"""Training that is killed without warning, again and again, ends as if it had never been interrupted."""

import random
import signal
import time
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch
from ranks import processes
from torch import nn

import rockafellian as rk
from rockafellian.attacks import PGD
from rockafellian.losses import ELR, cce, gce, mse
from rockafellian.training import checkpoints
from toy import make_toy

METHODS = ["ERM", "RRM", "A-RRM"]
KILLS = 5
EPOCHS = 40
N = 600


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
        record.pop("rule_seconds", None)  # rounds have it
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
def test_killed_again_and_again_at_random_and_resumed_it_ends_in_the_same_bits(method: str, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    seconds = finish(method, whole)
    chance = random.Random(f"moments for {method}")
    reached = set()
    for _ in range(KILLS):
        process, _ = start(method, broken)
        time.sleep(chance.uniform(0, seconds / KILLS))
        process.kill()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
        if (broken / "run" / "checkpoint.safetensors").exists():
            saved = checkpoints.load(broken / "run" / "checkpoint.safetensors")
            reached.add(len(saved["history"]["epochs"]))
    assert len(reached) > 1  # killed runs got somewhere, and the next went on from there
    assert max(reached) < EPOCHS
    finish(method, broken)
    assert_same_bits(result(whole / "end"), result(broken / "end"))


@pytest.mark.parametrize("method", METHODS)
def test_a_finished_run_can_be_made_longer_as_if_it_had_been_planned_so(method: str, tmp_path: Path) -> None:
    for epochs in (4, 9):  # with every=3 and warmup=1 a re-weighting is due after epoch 4, and was left out at first
        finish(method, tmp_path / "longer", epochs=epochs, name=f"end {epochs}")
    finish(method, tmp_path / "planned", epochs=9)
    assert_same_bits(result(tmp_path / "planned" / "end"), result(tmp_path / "longer" / "end 9"))


def per_class(n: int) -> rk.SampleWeights:
    return rk.SampleWeights(n, rk.RRM(contamination=0.4), per_class=True, class_limit=0.8)


TOY = make_toy(n=60)
OTHER = make_toy(seed=3, n=60)


def fit_here(folder: Path, **changes) -> rk.History:
    torch.manual_seed(0)
    model = changes.pop("model", None) or nn.Linear(2, 3)
    settings = {
        "train": (TOY.x, TOY.y),
        "loss": cce,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "epochs": 3,
        "weights": rk.SampleWeights(60, rk.RRM(contamination=0.4)),
        "resume": True,
    }
    return rk.fit(model, checkpoint=folder, progress="quiet", **{**settings, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 1}, "seed was 0 and is 1"),
        ({"train": (TOY.x, OTHER.y)}, "labels was .* and is"),
        ({"train": (OTHER.x[:50], OTHER.y[:50]), "weights": None}, "rows was 60 and is 50"),
        ({"valid": (TOY.x, TOY.y)}, "validation rows was None and is 60"),
        ({"model": nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 3))}, "model was 'Linear .*' and is 'Sequential"),
        ({"loss": mse}, "loss was 'cce' and is 'mse'"),
        ({"loss": partial(gce, q=0.5)}, "loss was 'cce' and is \"gce .*0.5"),
        ({"attack": PGD(0.1)}, r"attack was 'None' and is \"PGD\(eps=0.1"),
        ({"weights": rk.SampleWeights(60, rk.RRM(contamination=0.3))}, "rule was .*0.4.* and is .*0.3"),
        ({"weights": rk.SampleWeights(60, rk.RRM(contamination=0.4), every=2)}, "every was 1 and is 2"),
        ({"batch_size": 7}, "batch_size was 100 and is 7"),
        ({"weights": per_class(60)}, "per_class was False and is True; class_limit was 0.9 and is 0.8"),
        ({"skip_removed": True}, "skip_removed was False and is True"),
        ({"accumulate": 2}, "accumulate was 1 and is 2"),
        ({"amp": "float16"}, "amp was None and is 'float16'; it lacks the state of the scaler"),
        ({"transform": torch.neg}, "transform was 'None' and is '.*neg.*'"),
        ({"grad_clip": 1.0}, "grad_clip was None and is 1.0"),
        ({"resume": False}, "exists; pass resume=True"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_and_left_alone(changes, message: str, tmp_path: Path) -> None:
    fit_here(tmp_path)
    file = tmp_path / "checkpoint.safetensors"
    before = file.read_bytes()
    with pytest.raises(ValueError, match=message):
        fit_here(tmp_path, epochs=5, **changes)
    assert file.read_bytes() == before
    assert len(fit_here(tmp_path, epochs=4).epochs) == 4


def test_a_checkpoint_cut_short_is_refused_and_left_alone(tmp_path: Path) -> None:
    fit_here(tmp_path)
    file = tmp_path / "checkpoint.safetensors"
    half = file.read_bytes()[: file.stat().st_size // 2]
    file.write_bytes(half)
    with pytest.raises(ValueError, match="cut short"):
        fit_here(tmp_path, epochs=5)
    assert file.read_bytes() == half


def test_a_run_that_was_told_to_stop_has_stopped_for_good(tmp_path: Path) -> None:
    for _ in range(2):
        assert len(fit_here(tmp_path, epochs=9, stop=lambda epoch: epoch.epoch >= 4).epochs) == 4


LARGER = make_toy(n=500)


@pytest.mark.filterwarnings("ignore:the run ended before the noise rate")
@pytest.mark.parametrize("skip", [False, True])
def test_a_run_that_estimates_the_noise_rate_is_resumed_while_rows_are_held_out_and_after(
    skip: bool, tmp_path: Path
) -> None:
    def run(folder: Path, epochs: int, seed: int = 0) -> rk.SampleWeights:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))
        weights = rk.SampleWeights(500, rk.RRM(crisp=True), seed=seed)
        fit_here(
            folder,
            model=model,
            train=(LARGER.x, LARGER.y),
            weights=weights,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
            epochs=epochs,
            skip_removed=skip,
        )
        return weights

    whole = run(tmp_path / "whole", 10)
    assert whole.estimate is not None
    held = []
    for epochs in range(1, 10):
        folder = tmp_path / f"cut after {epochs}"
        held.append(run(folder, epochs).held_out is not None)
        run(folder, 10, seed=1)  # the held-out rows are those of the state
        assert_same_bits(*(result(path / "checkpoint.safetensors") for path in (tmp_path / "whole", folder)))
    assert held[0]
    assert not held[-1]
