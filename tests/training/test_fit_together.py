"""fit in several processes: the result of one process, and what happens when a process dies."""

import os
import signal
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
from ranks import output, run_ranks, start_ranks
from torch import Tensor
from trained_together import N, Settings, main, run

import rockafellian as rk
from rockafellian._internal import comm as distributed
from toy import make_toy, precision_and_recall

SCRIPT = Path(__file__).with_name("trained_together.py")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # or torchrun's second start meets addresses of the first
}
SAME = {
    f"{'auto' if share is None else 'known rate'}, {'sharded' if sharded else 'all rows'}": Settings(
        contamination=share, sharded=sharded
    )
    for share, sharded in product((None, 0.4), (False, True))
}
SAME |= {
    "A-RRM by fresh losses": Settings(attacked=True, losses_from="clean", how="ddp"),
    "A-RRM, sharded, attacked losses": Settings(attacked=True, losses_from="attacked", sharded=True),
    "without removed rows": Settings(contamination=0.4, skip_removed=True),
    "batches smaller than the processes are many": Settings(contamination=0.4, epochs=2, batch_size=3),
    "two batches a step, with DDP": Settings(contamination=0.4, batch_size=25, accumulate=2),
    "two batches a step, with FSDP": Settings(contamination=0.4, batch_size=25, accumulate=2, how="fsdp"),
    "A-RRM with FSDP": Settings(attacked=True, how="fsdp"),
    "A-RRM with FSDP, sharded, known rate": Settings(contamination=0.4, attacked=True, how="fsdp", sharded=True),
}
OF_FOUR = ("auto, sharded", "batches smaller than the processes are many", "A-RRM with FSDP")


def together(n: int, all_settings: Sequence[Settings], folder: Path) -> list[dict[str, Tensor]]:
    """What a number of processes found, as the first of them tells it."""
    run_ranks(main, n, *arguments(all_settings, folder), folder=folder)
    return torch.load(folder / "out.pt", weights_only=True)  # type: ignore[no-any-return]


def arguments(all_settings: Sequence[Settings], folder: Path) -> list[str]:
    return [dumps([asdict(settings) for settings in all_settings]), str(folder / "out.pt")]


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], *, epochs_apart: int = 0) -> None:
    torch.testing.assert_close(found["values"], expected["values"][epochs_apart:], rtol=0, atol=1e-6)
    assert torch.equal(found["last_removed"], expected["last_removed"])
    for name in ("best", "epochs", "rounds"):
        torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, str], dict[str, Tensor]]:
    """What two and four processes found: two with all settings, four with those that use each way of sharing rows."""
    asked = {2: list(SAME), 4: list(OF_FOUR)}
    return {
        (n, name): result
        for n, names in asked.items()
        for name, result in zip(
            names, together(n, [SAME[name] for name in names], tmp_path_factory.mktemp("together")), strict=True
        )
    }


@pytest.mark.parametrize(("n", "name"), [*product([2], SAME), *product([4], OF_FOUR)])
def test_several_processes_train_as_one_does(n: int, name: str, found) -> None:
    expected = run(replace(SAME[name], how="plain"))
    assert len(expected["rounds"])
    assert_same(found[n, name], expected)


def test_two_batches_a_step_in_two_processes_are_one_twice_as_large_in_one(found) -> None:
    expected = run(Settings(contamination=0.4, batch_size=50))
    for name in ("two batches a step, with DDP", "two batches a step, with FSDP"):
        assert_same(found[2, name], expected)


def test_what_they_remove_is_mislabeled(found) -> None:
    for n, name in ((2, "auto, sharded"), (2, "A-RRM with FSDP"), (4, "auto, sharded")):
        rows = found[n, name]["last_removed"]
        precision, recall = precision_and_recall(rows == rows.max(), make_toy(n=N).wrong)
        assert precision >= 0.9
        assert recall >= 0.8


@pytest.mark.parametrize("sharded", [False, True], ids=["all rows", "sharded"])
def test_when_a_rank_is_killed_the_others_say_so_and_any_number_resumes(sharded: bool, tmp_path: Path) -> None:
    whole = run(Settings(sharded=sharded))
    settings = Settings(sharded=sharded, checkpoint=str(tmp_path / "run"), killed_in=4)
    ranks = start_ranks(main, 2, *arguments([settings], tmp_path), folder=tmp_path)  # and nobody who ends the others
    ranks[1].join(120)
    assert ranks[1].exitcode == -signal.SIGKILL
    died = time.monotonic()
    ranks[0].join(60)
    assert time.monotonic() - died < 30
    assert ranks[0].exitcode == 1
    said = output(tmp_path, 0)
    assert "ConnectionError: need all 2 processes" in said
    assert "resume=True" in said.splitlines()[-1]
    for n in (1, 4):
        copied = tmp_path / f"run-{n}"
        copied.mkdir()
        (copied / "checkpoint.safetensors").write_bytes((tmp_path / "run" / "checkpoint.safetensors").read_bytes())
        resuming = replace(settings, checkpoint=str(copied), killed_in=None)
        resumed = run(resuming) if n == 1 else together(n, [resuming], tmp_path)[0]
        assert_same(resumed, whole, epochs_apart=3)  # epochs 1 to 3 were saved


def test_torchrun_starts_a_run_again_that_lost_a_rank(tmp_path: Path) -> None:
    settings = Settings(contamination=0.4, checkpoint=str(tmp_path / "run"), killed_in=3)
    command = [*TORCHRUN, str(SCRIPT), *arguments([settings], tmp_path)]
    subprocess.run(command, env=os.environ | ENVIRONMENT, check=True, timeout=300)
    [found] = torch.load(tmp_path / "out.pt", weights_only=True)
    assert (tmp_path / "run" / "killed").exists()
    assert_same(found, run(Settings(contamination=0.4)), epochs_apart=2)


def test_a_loss_with_a_memory_of_rows_is_refused_where_rows_go_from_process_to_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rockafellian.training.epoch.is_distributed", lambda: True)
    model = torch.nn.Linear(2, 3)
    settings = {"optimizer": torch.optim.SGD(model.parameters(), lr=0.1), "epochs": 1, "progress": "quiet"}
    with pytest.raises(ValueError, match="without a memory of rows"):
        rk.fit(model, (torch.rand(9, 2), torch.arange(9) % 3), loss=rk.losses.ELR(9, 3), **settings)


def test_sharded_weights_and_skip_removed_exclude_each_other() -> None:
    model = torch.nn.Linear(2, 3)
    weights = rk.SampleWeights(9, rk.RRM(contamination=0.2), rows=distributed.shard(9))
    settings = {"optimizer": torch.optim.SGD(model.parameters(), lr=0.1), "epochs": 1, "progress": "quiet"}
    with pytest.raises(ValueError, match="weights of all rows in each process for skip_removed"):
        rk.fit(
            model,
            (torch.rand(9, 2), torch.arange(9) % 3),
            loss=rk.losses.cce,
            weights=weights,
            skip_removed=True,
            **settings,
        )
