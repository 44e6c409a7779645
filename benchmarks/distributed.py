"""What does a re-weighting in several processes cost in seconds and bytes, and an epoch of DDP with it?

make scale        measures, prints, and writes benchmarks/results/distributed.json and docs/cost.md
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import records
import rockafellian as rk
import scale_page
from measure import extra_bytes
from pages import write_section
from records import Record

RESULTS, PAGE = records.RESULTS / "distributed.json", records.DOCS / "cost.md"
RANKS = (1, 2, 4)
SIZES = (10**5, 10**6, 10**7, 10**8)
#: The most rows for weights that every process holds, for losses from batches, and for losses that are gathered or
#: split by class: more would take too long here.
MAX_REPLICATED, MAX_FED, MAX_GATHERED = 10**7, 10**7, 10**6
#: From this number of rows on, and by class, there are at most three repeats.
FEW_REPEATS_FROM = 10**7
CONTAMINATION, GAMMA = 0.4, 1.0
RULES = {
    "contamination": rk.RRM(contamination=CONTAMINATION),
    "gamma": rk.RRM(gamma=GAMMA),
    "per class": rk.RRM(contamination=CONTAMINATION),
}
CLASSES, BATCH, LEARNING_RATE = 10, 100, 1e-3
PIECE = 8 * 2**20


@dataclass(frozen=True)
class Case:
    """One measurement of `step`: with losses passed to it or, if `fed`, with those that batches brought."""

    rows: int
    rule: str
    sharded: bool
    fed: bool = False


def cases(sizes: tuple[int, ...]) -> list[Case]:
    """Return all measurements for one number of processes, the smallest first."""
    given = [
        Case(n, rule, sharded)
        for n in sizes
        for sharded in (True, False)
        for rule in ("contamination", "gamma")
        if sharded or n <= MAX_REPLICATED
    ]
    fed = [
        Case(n, rule, sharded, fed=True)
        for n in sizes
        for rule, sharded in (("contamination", True), ("contamination", False), ("per class", True))
        if n <= (MAX_FED if rule == "contamination" and sharded else MAX_GATHERED)
    ]
    return sorted(given + fed, key=lambda case: case.rows)


class Sent:
    """Counts calls of collectives within `counting`, and the bytes of the tensors passed to them."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {"all_gather": 0, "all_reduce": 0}
        self.bytes: dict[str, int] = {"all_gather": 0, "all_reduce": 0}

    @contextmanager
    def counting(self) -> Iterator[Sent]:
        """Count what is passed to torch.distributed within the block."""
        originals = {name: getattr(dist, name) for name in self.calls}
        for name, original in originals.items():
            setattr(dist, name, self._counted(name, original))
        try:
            yield self
        finally:
            for name, original in originals.items():
                setattr(dist, name, original)

    def _counted(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def collective(*args: Any, **options: Any) -> Any:
            own: Tensor = args[-1]  # all_gather(parts, own) and all_reduce(own)
            self.calls[name] += 1
            self.bytes[name] += own.numel() * own.element_size()
            return original(*args, **options)

        return collective


def measure_step(case: Case, repeats: int) -> Record:
    """Return seconds, bytes sent and memory of one `step` in this process; all processes must call it."""
    mine, sent, took, made = rk.shard(case.rows), Sent(), [], []
    random = torch.Generator().manual_seed(mine.start)
    losses = torch.empty(len(mine) if case.fed or case.sharded else case.rows).exponential_(generator=random)

    def first() -> None:
        weights = rk.SampleWeights(
            case.rows, RULES[case.rule], per_class=case.rule == "per class", rows=mine if case.sharded else None
        )
        made.append(weights)
        given = _ready(case, weights, losses, mine)
        with sent.counting():
            weights.step(given)

    _give_back_pages()
    memory = extra_bytes(first)
    (weights,) = made
    for _ in range(repeats if case.rows < FEW_REPEATS_FROM and case.rule != "per class" else min(repeats, 3)):
        given = _ready(case, weights, losses, mine)
        start = time.perf_counter()
        weights.step(given)
        took.append(time.perf_counter() - start)
    return {
        "seconds": took,
        "calls": sent.calls,
        "bytes": sent.bytes,
        "memory": memory if len(weights) >= 10**6 else None,  # less is lost in the noise
    }


def _ready(case: Case, weights: rk.SampleWeights, losses: Tensor, mine: range) -> Tensor | None:
    """Return what to pass to `step`, when all processes are ready."""
    if case.fed:
        _feed(weights, losses, mine)
    dist.barrier()
    return None if case.fed else losses


def _give_back_pages() -> None:
    """Return free pages to the system: a job that reuses them would seem to need no memory."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def _feed(weights: rk.SampleWeights, losses: Tensor, rows: range) -> None:
    """Remember one epoch of losses and predictions, of which a seventh disagrees with the label."""
    for batch in torch.arange(len(losses)).split(10_000):
        index = batch + rows.start
        labels = index % CLASSES
        logits = 5 * torch.eye(CLASSES)[(labels + (index % 7 == 0)) % CLASSES]
        weights.remember(losses[batch], index, logits=logits, labels=labels)


def measure_network(repeats: int) -> dict[str, float]:
    """Return median seconds of a collective of 8 bytes, and of one of 8 MB; all processes must call it."""
    small, large = torch.zeros(1, dtype=torch.float64), torch.zeros(PIECE // 8, dtype=torch.float64)
    found = {}
    for name, own in (("all_gather", small), ("all_reduce", small), ("all_gather_8MB", large)):
        parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        took = []
        for _ in range(repeats):
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(own) if name == "all_reduce" else dist.all_gather(parts, own)
            took.append(time.perf_counter() - start)
        found[name] = statistics.median(took)
    return found


def mlp() -> tuple[nn.Module, TensorDataset]:
    """Return an MLP 784-320-320-10 and 12,000 rows."""
    model = nn.Sequential(nn.Linear(784, 320), nn.ReLU(), nn.Linear(320, 320), nn.ReLU(), nn.Linear(320, CLASSES))
    return model, _draw(12_000, 784)


def cnn() -> tuple[nn.Module, TensorDataset]:
    """Return a network with two convolutions and 3,000 rows of 28 x 28."""
    convolutions = [nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(800, CLASSES)), _draw(3_000, 1, 28, 28)


NETWORKS = {"MLP": mlp, "CNN": cnn}


def _draw(*shape: int) -> TensorDataset:
    random = torch.Generator().manual_seed(0)
    return TensorDataset(torch.randn(shape, generator=random), torch.randint(0, CLASSES, shape[:1], generator=random))


def plain_epoch(model: nn.Module, train: TensorDataset, epoch: int) -> None:
    """Train an epoch with DDP alone."""
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    sampler = DistributedSampler(train)
    sampler.set_epoch(epoch)
    for inputs, labels in DataLoader(train, batch_size=BATCH, sampler=sampler):
        optimizer.zero_grad()
        cross_entropy(model(inputs), labels).backward()
        optimizer.step()


def rrm_epoch(model: nn.Module, train: TensorDataset, epoch: int, weights: rk.SampleWeights) -> None:
    """Train an epoch with the lines of docs/guide/processes.md, re-weighting included."""
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    sampler = DistributedSampler(train)
    sampler.set_epoch(epoch)
    for inputs, labels, index in DataLoader(rk.Indexed(train), batch_size=BATCH, sampler=sampler):
        optimizer.zero_grad()
        logits = model(inputs)
        losses = cross_entropy(logits, labels, reduction="none")
        weights.reduce(losses, index, logits=logits, labels=labels).backward()
        optimizer.step()
    weights.step()


def measure_training(name: str, repeats: int) -> Record:
    """Return seconds per epoch of both loops, which take turns; all processes must call it. The first is a warm-up."""
    torch.manual_seed(0)
    network, train = NETWORKS[name]()
    model = DistributedDataParallel(network)
    weights = rk.SampleWeights(len(train), RULES["contamination"])
    loops = {"plain": plain_epoch, "rrm": lambda *these: rrm_epoch(*these, weights)}
    took: dict[str, list[float]] = {loop: [] for loop in loops}
    for epoch in range(repeats + 1):
        for loop in sorted(loops, reverse=bool(epoch % 2)):
            dist.barrier()
            start = time.perf_counter()
            loops[loop](model, train, epoch)
            dist.barrier()
            took[loop].append(time.perf_counter() - start)
    return {"rows": len(train), **{loop: each[1:] for loop, each in took.items()}}


def work(rank: int, n_ranks: int, folder: str, jobs: Record) -> None:
    """Do all jobs in one process, and write what it measured to a file."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=n_ranks)
    found: Record = {
        "steps": [measure_step(case, jobs["repeats"]) for case in jobs["cases"]],
        "network": measure_network(20 * jobs["repeats"]) if n_ranks > 1 else None,
        "training": {name: measure_training(name, jobs["epochs"]) for name in jobs["networks"]},
    }
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def run(n_ranks: int, jobs: Record) -> list[Record]:
    """Return what each of `n_ranks` processes measured."""
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (n_ranks, folder, jobs), nprocs=n_ranks)
        return [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(n_ranks)]


def measure(sizes: tuple[int, ...], repeats: int, epochs: int) -> Record:
    """Return the record: every case in every number of processes, the network, and training."""
    results: Record = {
        **records.about("make scale"),
        "settings": {
            "losses": "exponential, float32",
            "contamination": CONTAMINATION,
            "gamma": GAMMA,
            "classes": CLASSES,
            "batch_size": BATCH,
            "repeats": repeats,
            "epochs": epochs,
        },
        "load": [],
        "steps": [],
        "network": {},
    }
    for n_ranks in RANKS:
        wanted = cases(sizes)
        results["load"].append(os.getloadavg()[0])
        found = run(n_ranks, {"cases": wanted, "repeats": repeats, "networks": [], "epochs": 0})
        results["steps"] += [
            _joined(case, n_ranks, [each["steps"][i] for each in found]) for i, case in enumerate(wanted)
        ]
        if n_ranks > 1:
            results["network"][str(n_ranks)] = found[0]["network"]
    results["load"].append(os.getloadavg()[0])
    trained = run(2, {"cases": [], "repeats": 1, "networks": list(NETWORKS), "epochs": epochs})[0]["training"]
    results["training"] = {name: _compared(each) for name, each in trained.items()}
    return results


def _joined(case: Case, n_ranks: int, found: list[Record]) -> Record:
    """Return a row of the record: the slowest process of each run, and the one that sends or needs most."""
    slowest = [max(turn) for turn in zip(*(each["seconds"] for each in found), strict=True)]
    memory = [each["memory"] for each in found]
    return {
        **asdict(case),
        "ranks": n_ranks,
        "seconds": statistics.median(slowest),
        "calls": found[0]["calls"],
        "bytes": {name: max(each["bytes"][name] for each in found) for name in found[0]["bytes"]},
        "memory": None if None in memory else max(memory),
    }


def _compared(found: Record) -> Record:
    ratios = sorted(rrm / plain for rrm, plain in zip(found["rrm"], found["plain"], strict=True))
    low, median, high = statistics.quantiles(ratios, n=4)
    return {
        "rows": found["rows"],
        "plain_s": statistics.median(found["plain"]),
        "rrm_s": statistics.median(found["rrm"]),
        "ratio": median,
        "quartiles": [low, high],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = measure(SIZES, options.repeats, options.epochs)
    records.save(RESULTS, results)
    write_section(PAGE, scale_page.render(results))
    print(scale_page.render(results))


if __name__ == "__main__":
    main()
