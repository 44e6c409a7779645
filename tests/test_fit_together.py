"""fit in several processes: the result of one process, and what happens when a process dies."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import product
from json import dumps
from pathlib import Path

import pytest
import torch
from torch import Tensor
from trained_together import N, Settings, run

import rockafellian as rk
from rockafellian import distributed
from toy import make_toy, precision_and_recall

SCRIPT = Path(__file__).with_name("trained_together.py")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # or torchrun's second start meets addresses of the first
}
SAME = {
    f"{'auto' if share is None else 'told'}, {'rows apart' if sharded else 'rows everywhere'}": Settings(
        contamination=share, sharded=sharded
    )
    for share, sharded in product((None, 0.4), (False, True))
}
SAME |= {
    "A-RRM by fresh losses": Settings(attacked=True, losses_from="clean", how="ddp"),
    "A-RRM, rows apart, attacked losses": Settings(attacked=True, losses_from="attacked", sharded=True),
    "without removed rows": Settings(contamination=0.4, skip_removed=True),
    "batches smaller than the processes are many": Settings(contamination=0.4, epochs=2, batch_size=3),
    "A-RRM with FSDP": Settings(attacked=True, how="fsdp"),
    "A-RRM with FSDP, rows apart, told": Settings(contamination=0.4, attacked=True, how="fsdp", sharded=True),
}


def together(n: int, all_settings: Sequence[Settings], folder: Path, *options: str) -> list[dict[str, Tensor]]:
    """What a number of processes found, as the first of them tells it."""
    arguments = [dumps([asdict(settings) for settings in all_settings]), str(folder / "out.pt")]
    command = [*TORCHRUN, str(n), *options, str(SCRIPT), *arguments]
    done = subprocess.run(command, env=os.environ | ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return torch.load(folder / "out.pt", weights_only=True)  # type: ignore[no-any-return]


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], *, epochs_apart: int = 0) -> None:
    torch.testing.assert_close(found["values"], expected["values"][epochs_apart:], rtol=0, atol=1e-6)
    assert torch.equal(found["last_removed"], expected["last_removed"])
    for name in ("best", "epochs", "rounds"):
        torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module", params=[2, 4])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Tensor]]:
    folder = tmp_path_factory.mktemp("together")
    return dict(zip(SAME, together(request.param, list(SAME.values()), folder), strict=True))


@pytest.mark.parametrize("name", SAME)
def test_several_processes_train_as_one_does(name: str, found: dict[str, dict[str, Tensor]]) -> None:
    expected = run(replace(SAME[name], how="plain"))
    assert len(expected["rounds"])
    assert_same(found[name], expected)


def test_what_they_remove_is_wrong(found: dict[str, dict[str, Tensor]]) -> None:
    for name in ("auto, rows apart", "A-RRM with FSDP"):
        rows = found[name]["last_removed"]
        precision, recall = precision_and_recall(rows == rows.max(), make_toy(n=N).wrong)
        assert precision >= 0.9
        assert recall >= 0.8


def start(rank: int, n: int, port: int, settings: Settings, folder: Path) -> subprocess.Popen[str]:
    """One process as a cluster's own launcher would start it, with nobody who ends the others."""
    own = {"RANK": rank, "WORLD_SIZE": n, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    environment = os.environ | ENVIRONMENT | {name: str(value) for name, value in own.items()}
    command = [sys.executable, str(SCRIPT), dumps([asdict(settings)]), str(folder / "out.pt")]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.parametrize("sharded", [False, True], ids=["rows everywhere", "rows apart"])
def test_when_a_rank_is_killed_the_others_say_so_and_any_number_goes_on(sharded: bool, tmp_path: Path) -> None:
    whole = run(Settings(sharded=sharded))
    settings = Settings(sharded=sharded, checkpoint=str(tmp_path / "run"), killed_in=4)
    port = free_port()
    ranks = [start(rank, 2, port, settings, tmp_path) for rank in range(2)]
    ranks[1].communicate(timeout=120)
    assert ranks[1].returncode == -signal.SIGKILL
    died = time.monotonic()
    said = ranks[0].communicate(timeout=60)[1]
    assert time.monotonic() - died < 30
    assert ranks[0].returncode == 1
    assert "ConnectionError: need all 2 processes to go on, but another one has ended" in said
    assert "resume=True" in said.splitlines()[-1]
    for n in (1, 4):
        copied = tmp_path / f"run-{n}"
        copied.mkdir()
        (copied / "checkpoint.safetensors").write_bytes((tmp_path / "run" / "checkpoint.safetensors").read_bytes())
        going_on = replace(settings, checkpoint=str(copied), killed_in=None)
        resumed = run(going_on) if n == 1 else together(n, [going_on], tmp_path)[0]
        assert_same(resumed, whole, epochs_apart=3)  # epochs 1 to 3 were saved


def test_torchrun_starts_a_run_again_that_lost_a_rank(tmp_path: Path) -> None:
    settings = Settings(contamination=0.4, checkpoint=str(tmp_path / "run"), killed_in=3)
    [found] = together(2, [settings], tmp_path, "--max-restarts", "1")
    assert (tmp_path / "run" / "killed").exists()
    assert_same(found, run(Settings(contamination=0.4)), epochs_apart=2)


def test_a_loss_with_a_memory_of_rows_is_refused_where_rows_go_from_process_to_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rockafellian.loop.is_shared", lambda: True)
    model = torch.nn.Linear(2, 3)
    settings = {"optimizer": torch.optim.SGD(model.parameters(), lr=0.1), "epochs": 1, "progress": "quiet"}
    with pytest.raises(ValueError, match="without a memory of rows"):
        rk.fit(model, (torch.rand(9, 2), torch.arange(9) % 3), loss=rk.losses.ELR(9, 3), **settings)


def test_rows_apart_and_skip_removed_do_not_go_together() -> None:
    model = torch.nn.Linear(2, 3)
    weights = rk.SampleWeights(9, rk.RRM(contamination=0.2), rows=distributed.shard(9))
    settings = {"optimizer": torch.optim.SGD(model.parameters(), lr=0.1), "epochs": 1, "progress": "quiet"}
    with pytest.raises(ValueError, match="all rows known to each process for skip_removed"):
        rk.fit(
            model,
            (torch.rand(9, 2), torch.arange(9) % 3),
            loss=rk.losses.cce,
            weights=weights,
            skip_removed=True,
            **settings,
        )
