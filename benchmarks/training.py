"""What does fit() cost? Beside the shortest loop one can write, a DataLoader, Lightning and skorch; all in one run.

make bench        measures, prints, and records benchmarks/results/training.json and docs/training-speed.md
"""

from __future__ import annotations

import argparse
import json
import logging
import warnings
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import lightning
import skorch
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import rockafellian as rk
from measure import seconds, table
from rockafellian.training.data import Rows
from rockafellian_reproduction.machine import machine
from rockafellian_reproduction.networks import mnist3, mnist10

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "results" / "training.json", HERE.parent / "docs" / "training-speed.md"
BATCH, EPOCHS, CONTAMINATION, EPS = 100, 3, 0.4, 1.0
LEARNING_RATE = 1e-3
Data = tuple[Tensor, Tensor]


PROBLEMS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "MNIST-3 MLP": (mnist3, (18_623, 784), 3),
    "MNIST-10 CNN": (mnist10, (2_000, 1, 28, 28), 10),
}


def draw(shape: tuple[int, ...], n_classes: int) -> Data:
    random = torch.Generator().manual_seed(0)
    return torch.randn(shape, generator=random), torch.randint(0, n_classes, shape[:1], generator=random)


def by_hand(model: nn.Module, data: Data) -> None:
    """The shortest loop there is."""
    x, y = data
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    for _ in range(EPOCHS):
        for index in torch.randperm(len(y)).split(BATCH):
            optimizer.zero_grad()
            cross_entropy(model(x[index]), y[index]).backward()
            optimizer.step()


def through_loader(model: nn.Module, data: Data) -> None:
    """The same with a DataLoader as it comes."""
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    for _ in range(EPOCHS):
        for x, y in DataLoader(TensorDataset(*data), batch_size=BATCH, shuffle=True):
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()


def by_fit(model: nn.Module, data: Data, *, start_removed: bool = False, every: int = 0, **options: Any) -> None:
    weights = None
    if every:
        weights = rk.SampleWeights(len(data[1]), rk.RRM(contamination=CONTAMINATION))
        if start_removed:
            assert weights.step(torch.rand(len(data[1])))
        weights.every, weights.epoch = every, 0
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    rk.fit(
        model,
        data,
        loss=rk.losses.cce,
        optimizer=optimizer,
        epochs=EPOCHS,
        weights=weights,
        batch_size=BATCH,
        progress="quiet",
        **options,
    )


class Module(lightning.LightningModule):
    """The least that Lightning needs."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def training_step(self, batch: Data, _: int) -> Tensor:  # noqa: D102
        return cross_entropy(self.model(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:  # noqa: D102
        return torch.optim.SGD(self.parameters(), lr=LEARNING_RATE)


def by_lightning(model: nn.Module, data: Data) -> None:
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Module(model), DataLoader(TensorDataset(*data), batch_size=BATCH, shuffle=True))


def by_skorch(model: nn.Module, data: Data) -> None:
    net = skorch.NeuralNetClassifier(
        model,
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.SGD,
        lr=LEARNING_RATE,
        max_epochs=EPOCHS,
        batch_size=BATCH,
        iterator_train__shuffle=True,
        train_split=None,
        verbose=0,
    )
    net.fit(*data)


JOBS: dict[str, Callable[[nn.Module, Data], None]] = {
    "by hand": by_hand,
    "fit, ERM": by_fit,
    "fit, RRM": partial(by_fit, every=1),
    "fit, AT": partial(by_fit, attack=rk.attacks.FGSM(EPS)),
    "fit, A-RRM": partial(by_fit, every=1, attack=rk.attacks.FGSM(EPS)),
    "fit, RRM, 40 % removed and skipped": partial(by_fit, every=100, start_removed=True, skip_removed=True),
    "the same, re-weighted after every epoch": partial(by_fit, every=1, start_removed=True, skip_removed=True),
    "by hand through a DataLoader": through_loader,
    "Lightning": by_lightning,
    "skorch": by_skorch,
}


def measure(problems: list[str], repeats: int, rows: int | None = None) -> dict[str, Any]:
    """Seconds an epoch of every job on every problem, and of making its batches alone."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    results: dict[str, Any] = {
        "command": "make bench",
        "date": date.today().isoformat(),
        "machine": machine("lightning", "skorch"),
        "settings": {
            "batch_size": BATCH,
            "epochs": EPOCHS,
            "contamination": CONTAMINATION,
            "eps": EPS,
            "repeats": repeats,
        },
        "problems": {},
    }
    for name in problems:
        make, shape, n_classes = PROBLEMS[name]
        data = draw((rows or shape[0], *shape[1:]), n_classes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Lightning's advice on workers
            found = seconds(*(partial(job, make(), data) for job in JOBS.values()), repeats=repeats, warm_up=1)
        sliced, loaded = seconds(partial(_slices, data), partial(_loads, data), repeats=repeats, warm_up=1)
        results["problems"][name] = {
            "rows": len(data[1]),
            "epoch_s": {job: took / EPOCHS for job, took in zip(JOBS, found, strict=True)},
            "batches_alone_s": {"fit": sliced, "DataLoader": loaded},
        }
    return {**results, "targets": _targets(results)}


def _slices(data: Data) -> int:
    return sum(1 for _ in Rows(data).batches(torch.randperm(len(data[1])), BATCH))


def _loads(data: Data) -> int:
    return sum(1 for _ in DataLoader(TensorDataset(*data), batch_size=BATCH, shuffle=True))


#: What is to hold: this job's epoch is at most so much of that one's.
LIMITS = [
    ("fit, ERM", "by hand", 1.10),
    ("fit, RRM", "fit, ERM", 1.05),
    ("fit, A-RRM", "fit, AT", 1.05),
    ("fit, RRM, 40 % removed and skipped", "fit, ERM", 0.70),
    ("fit, ERM", "by hand through a DataLoader", 0.20),
]


def _targets(results: dict[str, Any]) -> list[dict[str, Any]]:
    ratios = [
        (name, f"{job} / {other}", limit, found["epoch_s"][job] / found["epoch_s"][other])
        for name, found in results["problems"].items()
        for job, other, limit in LIMITS
    ]
    ratios += [
        (name, "batches alone: fit / DataLoader", 0.20, alone["fit"] / alone["DataLoader"])
        for name, alone in ((name, found["batches_alone_s"]) for name, found in results["problems"].items())
    ]
    return [
        {"problem": name, "what": what, "limit": limit, "measured": ratio, "met": ratio <= limit}
        for name, what, limit, ratio in ratios
    ]


def render(results: dict[str, Any]) -> str:
    """The page docs/training-speed.md: all of it comes from the record."""
    about, where = results["settings"], results["machine"]
    names = list(results["problems"])
    rows = [
        [
            job,
            *(
                cell
                for found in results["problems"].values()
                for cell in (
                    f"{1000 * found['epoch_s'][job]:,.0f}",
                    f"{found['epoch_s'][job] / found['epoch_s']['by hand']:.2f}",
                )
            ),
        ]
        for job in JOBS
    ]
    batches = [
        [
            name,
            f"{1000 * found['batches_alone_s']['fit']:,.0f}",
            f"{1000 * found['batches_alone_s']['DataLoader']:,.0f}",
            f"{found['batches_alone_s']['DataLoader'] / found['batches_alone_s']['fit']:.1f}",
        ]
        for name, found in results["problems"].items()
    ]
    lines = [
        "# Speed of training",
        "",
        "<!-- Written by benchmarks/training.py from benchmarks/results/training.json. Change those. -->",
        "",
        f"`{results['command']}`, {results['date']}: {where['processor']}, {where['cores']} cores, "
        f"{where['torch_threads']} thread, torch {where['torch']}, lightning {where['lightning']}, "
        f"skorch {where['skorch']}. Milliseconds an epoch, from runs of {about['epochs']} epochs, medians of "
        f"{about['repeats']} turns; batches of {about['batch_size']}; random inputs of the shape of MNIST: "
        + ", ".join(f"{found['rows']:,} rows for the {name}" for name, found in results["problems"].items())
        + ". Attacks are FGSM. RRM re-weights after every epoch but the last, by the losses seen in training, with "
        f'C\' = {about["contamination"]}; only "removed and skipped" times epochs between two re-weightings.',
        "",
        *table(["", *(cell for name in names for cell in (name, "/ by hand"))], rows),
        "",
        "Making the batches alone, milliseconds a pass:",
        "",
        *table(["", "fit", "DataLoader", "times faster"], batches),
        "",
        "Targets, as ratios:",
        "",
        *table(
            ["problem", "what", "at most", "measured", "met"],
            [
                [
                    row["problem"],
                    row["what"],
                    f"{row['limit']:.2f}",
                    f"{row['measured']:.3f}",
                    "yes" if row["met"] else "no",
                ]
                for row in results["targets"]
            ],
        ),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    torch.set_num_threads(1)
    results = measure(list(PROBLEMS), parser.parse_args().repeats)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    PAGE.write_text(render(results))
    print(render(results))


if __name__ == "__main__":
    main()
