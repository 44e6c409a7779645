"""What does fit() cost, compared with a loop by hand, a DataLoader, Lightning and skorch?

make bench        measures, prints, and writes benchmarks/results/training.json and docs/cost.md
"""

from __future__ import annotations

import argparse
import logging
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import lightning
import skorch
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import records
import rockafellian as rk
from measure import seconds
from pages import bullets, met, ran, section, table, write_section
from records import Record
from rockafellian.training.data import Rows
from rockafellian_reproduction.networks import mnist3, mnist10

RESULTS, PAGE = records.RESULTS / "training.json", records.DOCS / "cost.md"
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
    """Train with the shortest loop there is."""
    x, y = data
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    for _ in range(EPOCHS):
        for index in torch.randperm(len(y)).split(BATCH):
            optimizer.zero_grad()
            cross_entropy(model(x[index]), y[index]).backward()
            optimizer.step()


def through_loader(model: nn.Module, data: Data) -> None:
    """Train with the same loop over a DataLoader with its defaults."""
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
    """The shortest module that Lightning accepts."""

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


def measure(problems: list[str], repeats: int, rows: int | None = None) -> Record:
    """Return seconds per epoch of every job on every problem, and of making its batches alone."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    results: Record = {
        **records.about("make bench", "lightning", "skorch"),
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


#: Targets: an epoch of the first job takes at most so many times as long as one of the second.
LIMITS = [
    ("fit, ERM", "by hand", 1.10),
    ("fit, RRM", "fit, ERM", 1.03),
    ("fit, A-RRM", "fit, AT", 1.05),
    ("fit, RRM, 40 % removed and skipped", "fit, ERM", 0.70),
    ("fit, ERM", "by hand through a DataLoader", 0.20),
]


def _targets(results: Record) -> list[Record]:
    ratios = [
        (name, f"{job} / {other}", limit, _ratio(found, job, other))
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


def _ratio(found: Record, job: str, other: str) -> float:
    return found["epoch_s"][job] / found["epoch_s"][other]


def render(results: Record) -> str:
    """Return the section of docs/cost.md on an epoch."""
    unmet = [row for row in results["targets"] if not row["met"]]
    return section(
        "An epoch of training",
        "benchmarks/training.py from benchmarks/results/training.json",
        _summary(results),
        "### Results",
        "Milliseconds per epoch, and the ratio to the loop by hand:",
        _by_job(results["problems"]),
        "Making the batches alone, milliseconds per pass:",
        _of_batches(results["problems"]),
        "### Targets",
        "As ratios:",
        table(
            ["problem", "what", "at most", "measured", "met"],
            [
                [row["problem"], row["what"], f"{row['limit']:.2f}", f"{row['measured']:.3f}", met(row["met"])]
                for row in results["targets"]
            ],
        ),
        "### Limits",
        bullets(
            (f"{row['problem']}: {row['what']} is {row['measured']:.3f}, not {row['limit']:.2f}" for row in unmet),
            "All targets are met.",
        ),
        "### How it was measured",
        _settings(results),
    )


def _summary(results: Record) -> str:
    def ratios(job: str, other: str) -> str:
        found = sorted(_ratio(each, job, other) for each in results["problems"].values())
        return " to ".join(dict.fromkeys((f"{found[0]:.2f}", f"{found[-1]:.2f}")))

    return (
        f"An epoch of `fit` takes {ratios('fit, ERM', 'by hand')} times as long as a PyTorch loop by hand. RRM takes "
        f"{ratios('fit, RRM', 'fit, ERM')} times as long as plain training, and "
        f"{ratios('fit, RRM, 40 % removed and skipped', 'fit, ERM')} times where 40 % of the rows are removed and "
        "`skip_removed=True` leaves them out."
    )


def _by_job(problems: Record) -> str:
    rows = [
        [
            job,
            *(
                cell
                for found in problems.values()
                for cell in (f"{1000 * found['epoch_s'][job]:,.0f}", f"{_ratio(found, job, 'by hand'):.2f}")
            ),
        ]
        for job in JOBS
    ]
    return table(["", *(cell for name in problems for cell in (name, "/ by hand"))], rows)


def _of_batches(problems: Record) -> str:
    rows = []
    for name, found in problems.items():
        own, loader = found["batches_alone_s"]["fit"], found["batches_alone_s"]["DataLoader"]
        rows.append([name, f"{1000 * own:,.0f}", f"{1000 * loader:,.0f}", f"{loader / own:.1f}"])
    return table(["", "fit", "DataLoader", "times faster"], rows)


def _settings(results: Record) -> str:
    about, threads = results["settings"], results["machine"]["torch_threads"]
    rows = ", ".join(f"{found['rows']:,} rows for the {name}" for name, found in results["problems"].items())
    return (
        f"{ran([results], 'lightning', 'skorch')}, {threads} thread. Medians of {about['repeats']} runs of "
        f"{about['epochs']} epochs, in which the jobs take turns; batches of {about['batch_size']}; random inputs of "
        f"the shape of MNIST: {rows}. Attacks are FGSM. RRM re-weights after every epoch but the last, by the losses "
        f'seen in training, with contamination {about["contamination"]}; only the row "40 % removed and skipped" has '
        "epochs without a re-weighting."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    torch.set_num_threads(1)
    results = measure(list(PROBLEMS), parser.parse_args().repeats)
    records.save(RESULTS, results)
    write_section(PAGE, render(results))
    print(render(results))


if __name__ == "__main__":
    main()
