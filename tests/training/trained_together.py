"""A training that tests start in one process or, by torchrun, in several: `python trained_together.py SETTINGS OUT`."""

import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import rockafellian as rk
from rockafellian._internal.comm import shard
from rockafellian.weights.sharding import whole_state
from toy import make_toy

N = 409  # a prime: shares and last batches are uneven


@dataclass(frozen=True)
class Settings:
    """What differs between two trainings."""

    contamination: float | None = None
    sharded: bool = False
    attacked: bool = False
    losses_from: str = "training"
    skip_removed: bool = False
    how: str = "plain"  # or "ddp", "fsdp": how the network is handed to fit
    epochs: int = 6
    batch_size: int = 50
    accumulate: int = 1
    checkpoint: str | None = None
    killed_in: int | None = None  # the last rank ends itself in this epoch, once

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def network(how: str) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 3))
    if how == "fsdp":
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for part in (model[0], model[2], model):
            fully_shard(part, mesh=mesh)
    return DistributedDataParallel(model) if how == "ddp" else model


def run(settings: Settings) -> dict[str, Tensor]:
    """Weights after each epoch, the fate of each row, the parameters, and what was recorded."""
    toy = make_toy(n=N)
    model = network(settings.how)
    weights = rk.SampleWeights(
        N, rk.RRM(contamination=settings.contamination, crisp=True), rows=shard(N) if settings.sharded else None
    )
    values = []

    def note(epoch: rk.Epoch) -> None:
        values.append(whole_state(weights)["values"])
        if settings.killed_in == epoch.epoch and int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1:
            mark = Path(str(settings.checkpoint)) / "killed"
            if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    history = rk.fit(
        model,
        (toy.x, toy.y),
        loss=rk.losses.cce,
        optimizer=torch.optim.SGD(
            model.parameters(), lr=0.002 * settings.batch_size * settings.accumulate, momentum=0.9
        ),
        epochs=settings.epochs,
        weights=weights,
        attack=rk.attacks.FGSM(0.1) if settings.attacked else None,
        valid=(toy.x[:101], toy.y[:101]),
        batch_size=settings.batch_size,
        accumulate=settings.accumulate,
        losses_from=settings.losses_from,
        skip_removed=settings.skip_removed,
        wrong=toy.wrong,
        checkpoint=settings.checkpoint,
        resume=settings.checkpoint is not None,
        progress="quiet",
        on_epoch=note,
    )
    assert history.best is not None
    told = [(e.loss, e.accuracy, e.valid_loss, e.valid_accuracy, e.removed_fraction) for e in history.epochs]
    return {
        "values": torch.stack(values),
        "last_removed": whole_state(weights)["last_removed"],
        "best": torch.cat([part.flatten() for part in history.best.model.values()]),
        "epochs": torch.tensor(told),
        "rounds": torch.tensor([(r.removed_fraction, r.precision or 0, r.recall or 0) for r in history.rounds]),
    }


def main(all_settings: str, out: str) -> None:
    torch.set_num_threads(1)
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        dist.init_process_group("gloo")
    found = [run(Settings(**settings)) for settings in json.loads(all_settings)]
    if int(os.environ.get("RANK", 0)) == 0:
        torch.save(found, out)
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
