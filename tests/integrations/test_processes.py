"""Two processes end with the same weights as one with the same batches."""

import logging
import runpy
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from ranks import output, run_ranks
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import rockafellian as rk
from toy import Toy, make_toy, precision_and_recall

EXAMPLES = Path(__file__).parents[2] / "examples"
RULES = {"auto": rk.RRM(crisp=True), "given": rk.RRM(contamination=0.4)}
EPOCHS, BATCH = 6, 25
State = dict[str, Tensor]


def problem() -> Toy:
    """An odd number of rows: the sampler pads, so that a row comes twice."""
    return make_toy(n=1501)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))


def loaders(toy: Toy, ranks: list[int]) -> list[DataLoader[Any]]:
    """The loaders of these ranks, out of two."""
    rows = rk.Indexed(TensorDataset(toy.x, toy.y))
    return [DataLoader(rows, BATCH, sampler=DistributedSampler(rows, 2, rank)) for rank in ranks]


def loop(model: nn.Module, rule: rk.RRM, ranks: list[int]) -> rk.SampleWeights:
    """A plain loop over the batches of these ranks, taken together."""
    toy = problem()
    weights, optimizer = rk.SampleWeights(len(toy.y), rule), torch.optim.SGD(model.parameters(), lr=0.1)
    mine = loaders(toy, ranks)
    for epoch in range(EPOCHS):
        for loader in mine:
            loader.sampler.set_epoch(epoch)
        for batches in zip(*mine, strict=True):
            x, y, index = (torch.cat(parts) for parts in zip(*batches, strict=True))
            logits = model(x)
            losses = nn.functional.cross_entropy(logits, y, reduction="none")
            optimizer.zero_grad()
            weights.reduce(losses, index, logits=logits, labels=y).backward()
            optimizer.step()
        weights.step()
    return weights


def by_ddp(folder: Path) -> None:
    """The plain loop, then the example of Accelerate, which uses the same process group and ends it."""
    dist.init_process_group("gloo")
    for name, rule in RULES.items():
        model = DistributedDataParallel(network())
        torch.save(loop(model, rule, [dist.get_rank()]).state_dict(), folder / f"{name}-{dist.get_rank()}.pt")
        dist.barrier()
        del model
    runpy.run_path(str(EXAMPLES / "with_accelerate.py"))


def by_lightning(folder: Path) -> None:
    """Lightning makes the samplers. Each run saves at the end of validation; one is resumed after its third epoch."""
    from lightning import Trainer
    from lightning.pytorch.callbacks import ModelCheckpoint
    from test_lightning import Validated

    from rockafellian.integrations.lightning import Reweight

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    toy = problem()
    data, quiet = TensorDataset(toy.x, toy.y), {"enable_progress_bar": False, "enable_model_summary": False}

    def fit(name: str, path: Path | None = None) -> None:
        weights = rk.SampleWeights(len(data), RULES[name])
        module = Validated(weights)
        module.model = network()
        saving = ModelCheckpoint(folder / name, "{epoch}", save_top_k=-1)
        more = {"accelerator": "cpu", "devices": 2, "strategy": "ddp", "logger": False, **quiet}
        trainer = Trainer(max_epochs=EPOCHS, callbacks=[saving, Reweight(weights)], **more)
        loader = DataLoader(rk.Indexed(data), BATCH, shuffle=True)
        trainer.fit(module, loader, DataLoader(data, 500), ckpt_path=path)
        file = f"{name}-{trainer.global_rank}.pt" if path is None else f"{name}-resumed-{trainer.global_rank}.pt"
        torch.save(weights.state_dict(), folder / file)

    for name in RULES:
        fit(name)
    fit("auto", folder / "auto" / "epoch=2.ckpt")


def assert_close(one: State, other: State, *, atol: float = 0.0) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.allclose(tensor.double(), other[name].double(), rtol=0, atol=atol, equal_nan=True), name


@pytest.fixture(scope="module")
def ddp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the files and the output of two processes."""
    folder = tmp_path_factory.mktemp("ddp")
    run_ranks(by_ddp, 2, folder, folder=folder)
    return folder


def assert_like_one_process(saved: dict[str, State]) -> None:
    for name, rule in RULES.items():
        one = loop(network(), rule, [0, 1])
        precision, recall = precision_and_recall(one.removed, problem().wrong)
        assert precision >= 0.9
        assert recall >= 0.8
        first, second = saved[f"{name}-0"], saved[f"{name}-1"]
        assert_close(first, second)
        assert torch.allclose(first["values"], one.values, rtol=0, atol=1e-6)
        assert torch.equal(first["last_removed"], one.last_removed)
        assert_close(first, one.state_dict(), atol=1e-3)


def loaded(folder: Path) -> dict[str, State]:
    return {path.stem: torch.load(path, weights_only=True) for path in folder.glob("*.pt")}


def test_two_processes_end_with_the_weights_of_one_with_the_same_batches(ddp: Path) -> None:
    assert_like_one_process(loaded(ddp))


def test_the_example_of_accelerate_runs_in_two_processes(ddp: Path) -> None:
    printed = [line for rank in (0, 1) for line in output(ddp, rank).splitlines() if "% of the " in line]
    assert len(printed) == 1  # only one of them prints
    assert int(printed[0].split("%")[0]) >= 90


def test_accelerate_saves_the_weights_in_its_checkpoints(tmp_path: Path) -> None:
    AcceleratorState._reset_state(reset_partial_state=True)  # other tests train in this process too
    accelerator, weights = Accelerator(cpu=True), rk.SampleWeights(50, RULES["given"])
    accelerator.register_for_checkpointing(weights)
    weights.step(torch.rand(50, generator=torch.Generator().manual_seed(0)))
    saved = weights.state_dict()
    accelerator.save_state(str(tmp_path))
    weights.step(torch.rand(50, generator=torch.Generator().manual_seed(1)))
    accelerator.load_state(str(tmp_path))
    assert_close(weights.state_dict(), saved)
    AcceleratorState._reset_state(reset_partial_state=True)


def test_lightning_in_two_processes_ends_with_the_weights_of_one_even_if_resumed(tmp_path: Path) -> None:
    run_ranks(by_lightning, 2, tmp_path, folder=tmp_path)
    saved = loaded(tmp_path)
    assert_like_one_process(saved)
    for rank in (0, 1):
        assert_close(saved[f"auto-resumed-{rank}"], saved["auto-0"])
