"""Rows that come without a number, once or a few times: StreamWeights beside SampleWeights and plain training.

make streams        trains on MNIST for some minutes and writes benchmarks/results/streams.json and docs/streams.md
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

import rockafellian as rk
from measure import table
from rockafellian import contamination
from rockafellian.weights.stream_weights import StreamWeights
from rockafellian_reproduction import datasets
from rockafellian_reproduction.machine import machine

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "results" / "streams.json", HERE.parent / "docs" / "streams.md"
#: Seeds 0 and 1 served to choose the window and the start of the removals.
SEEDS, TRIED = (2, 3, 4), (0, 1)
NOISE, PASSES = (0.2, 0.4), (1, 2, 3)
#: The network, rate and batches of the MNIST of benchmarks/rivals.
HIDDEN, LR, MOMENTUM, BATCH_SIZE = 128, 0.05, 0.9, 128
#: Many passes of the exact method, and by how much a stream may be less accurate than it.
LONG, MARGIN = 10, 0.01

Weights: TypeAlias = rk.SampleWeights | StreamWeights | None


class Data(NamedTuple):
    """Rows, their labels as given and those of them that are wrong; rows and labels to test on."""

    x: Tensor
    y: Tensor
    wrong: Tensor
    test_x: Tensor
    test_y: Tensor


#: Made for so many rows of which such a share is wrong.
METHODS: dict[str, Callable[[int, float], Weights]] = {
    "plain": lambda n, share: None,
    "exact, told": lambda n, share: rk.SampleWeights(n, rk.RRM(contamination=share)),
    "stream, told": lambda n, share: StreamWeights(rk.RRM(contamination=share)),
    "exact, auto": lambda n, share: rk.SampleWeights(n, rk.RRM()),
    "stream, auto": lambda n, share: StreamWeights(rk.RRM()),
}


def load(noise: float, seed: int, rows: int | None = None) -> Data:
    """MNIST, or its first rows, standardised, with uniformly wrong labels drawn by the seed."""
    found = datasets.images("mnist-10")
    x, test_x = (part[:rows].flatten(1).float() for part in (found.train_x, found.test_x))
    deviation, mean = torch.std_mean(x)
    noisy = contamination.uniform(found.train_y[:rows], noise, n_classes=10, seed=seed)
    return Data((x - mean) / deviation, noisy.labels, noisy.mask, (test_x - mean) / deviation, found.test_y[:rows])


def run(data: Data, noise: float, method: str, passes: int, seed: int, *, falling: bool) -> dict[str, Any]:
    """Train for so many passes, each in a new order; with a rate that falls to 0 in a straight line or stays."""
    torch.manual_seed(seed)
    n = len(data.y)
    model = nn.Sequential(nn.Linear(data.x.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)
    steps = passes * -(-n // BATCH_SIZE)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps if falling else 1.0)
    weights, removed, most_bytes = METHODS[method](n, noise), torch.zeros(n, dtype=torch.bool), 0
    start = time.process_time()
    for _ in range(passes):
        for rows in torch.randperm(n).split(BATCH_SIZE):
            logits = model(data.x[rows])
            losses = nn.functional.cross_entropy(logits, data.y[rows], reduction="none")
            optimizer.zero_grad()
            reduced(weights, losses, rows, logits, data.y[rows]).backward()
            optimizer.step()
            scheduler.step()
            if isinstance(weights, StreamWeights):
                removed[rows] = weights.removed
        if isinstance(weights, rk.SampleWeights):
            weights.step()
            removed = weights.removed
        most_bytes = max(most_bytes, state_bytes(weights))
    cpu_seconds = time.process_time() - start
    with torch.no_grad():
        accuracy = float((model(data.test_x).argmax(1) == data.test_y).double().mean())
    hits = int((removed & data.wrong).sum())
    return {
        **{"noise": noise, "method": method, "passes": passes, "seed": seed},
        "rate": "falling" if falling else "constant",
        "accuracy": accuracy,
        "precision": hits / int(removed.sum()) if removed.any() else None,
        "recall": hits / int(data.wrong.sum()),
        "estimate": None if weights is None or weights.estimate is None else weights.estimate.rate,
        "state_bytes": most_bytes,
        "cpu_seconds": cpu_seconds,
    }


def reduced(weights: Weights, losses: Tensor, rows: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
    """What to call `backward` on; only the exact method is told the rows' numbers."""
    if weights is None:
        return losses.mean()
    if isinstance(weights, StreamWeights):
        return weights.reduce(losses, logits=logits, labels=labels)
    return weights.reduce(losses, rows, logits=logits, labels=labels)


def state_bytes(weights: Weights) -> int:
    """Of all tensors that are kept from batch to batch."""
    state = {} if weights is None else weights.state_dict()
    return sum(part.numel() * part.element_size() for part in state.values())


def measure(seeds: Sequence[int] = SEEDS, rows: int | None = None, long: int = LONG) -> dict[str, Any]:
    """Every method in every number of passes, at a constant rate in the most passes; the exact one for long."""
    runs = []
    for noise, seed in product(NOISE, seeds):
        data = load(noise, seed, rows)
        jobs = [(name, passes, True) for passes in PASSES for name in METHODS]
        jobs += [("exact, told", long, True), *((name, max(PASSES), False) for name in METHODS)]
        runs += [run(data, noise, name, passes, seed, falling=falling) for name, passes, falling in jobs]
    default = StreamWeights()
    return {
        "command": "make streams",
        "date": date.today().isoformat(),
        "machine": machine("rockafellian"),
        "settings": {
            "rows": len(data.y),
            "test_rows": len(data.test_y),
            "hidden": HIDDEN,
            "learning_rate": LR,
            "momentum": MOMENTUM,
            "batch_size": BATCH_SIZE,
            **{name: getattr(default, name) for name in ("window", "warmup", "every")},
            "long": long,
            "margin": MARGIN,
            "seeds": list(seeds),
            "tried": list(TRIED),
        },
        "runs": runs,
    }


def render(record: dict[str, Any]) -> str:
    """The page docs/streams.md: all of it comes from the record."""
    about, runs = record["settings"], record["runs"]
    cases = [Case(noise, passes, rate, told) for noise, rate, passes, told in _cases(runs)]
    judged = [case.judge(record) for case in cases]
    parts = [
        ["# Streams: rows that come without a number"],
        ["<!-- Written by benchmarks/streams.py from benchmarks/results/streams.json. Change those. -->"],
        [_what_was_run(record)],
        ["## What was promised"],
        [
            f"The stream is no more than {100 * about['margin']:.0f} point behind the exact method in as many passes. "
            f"The last columns compare it with the exact method, told the share, after {about['long']} passes at a "
            "falling rate, which is more than was promised. Per cent of the test rows, mean of the seeds."
        ],
        [_verdict(judged)],
        table(
            ["", "rate", "plain", "stream", "exact", "stream - exact", "", f"exact, {about['long']}", "stream - that"],
            [each.cells for each in judged],
        ),
        [
            "In one pass the exact method cannot remove anything, as it re-weights after a pass. What it has there is "
            "plain training, without the fifth of the rows that it holds out if it is told nothing. It may hold them "
            f"out for longer: {_waiting(runs)} Compare the rows that say told."
        ],
        ["## All runs"],
        [
            "Mean and deviation over the seeds, per cent. What a stream removed is that of its last pass, in which a "
            "first pass has its warm-up; what the exact method removed is that at the end."
        ],
        table(
            [
                "wrong",
                "rate",
                "passes",
                "",
                "accuracy",
                "removed rows that are wrong",
                "wrong rows removed",
                "estimate",
            ],
            [_all_of(runs, *key) for key in _sorted_keys(runs)],
        ),
        ["## Memory and time"],
        [
            "The most bytes that were kept from batch to batch, measured after each pass, and seconds of the processor "
            "in a pass, as the median of the runs with a falling rate on a machine that is shared."
        ],
        table(["", "passes", "kept bytes", "bytes a row", "seconds a pass"], _costs(runs, about["rows"])),
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


class Judged(NamedTuple):
    """A row of the page, and whether what was promised holds in it."""

    cells: list[str]
    met: bool


class Case(NamedTuple):
    """Where the stream is held against the exact method."""

    noise: float
    passes: int
    rate: str
    told: str

    def judge(self, record: dict[str, Any]) -> Judged:
        """By the mean accuracy over the seeds."""
        margin, long = record["settings"]["margin"], record["settings"]["long"]
        plain, stream, exact, full = (
            statistics.mean(_select(record["runs"], "accuracy", self.noise, rate, passes, method))
            for method, passes, rate in (
                ("plain", self.passes, self.rate),
                (f"stream, {self.told}", self.passes, self.rate),
                (f"exact, {self.told}", self.passes, self.rate),
                ("exact, told", long, "falling"),
            )
        )
        met = stream >= exact - margin
        name = f"{self.noise:.0%} wrong, {self.passes} {'pass' if self.passes == 1 else 'passes'}, {self.told}"
        cells = [name, self.rate, *(f"{100 * each:.1f}" for each in (plain, stream, exact))]
        cells += [f"{100 * (stream - exact):+.2f}", "met" if met else "**not met**"]
        return Judged([*cells, f"{100 * full:.1f}", f"{100 * (stream - full):+.2f}"], met)


def _cases(runs: list[dict[str, Any]]) -> list[tuple[float, str, int, str]]:
    keys = [key[:3] for key in _sorted_keys(runs) if key[3] == "plain"]
    return [(*key, told) for key in keys for told in ("told", "auto")]


def _verdict(judged: list[Judged]) -> str:
    unmet = [f"{each.cells[0]}, rate {each.cells[1]}" for each in judged if not each.met]
    return f"Not met: {'; '.join(unmet)}." if unmet else f"It is met in all {len(judged)} cases."


def _waiting(runs: list[dict[str, Any]]) -> str:
    own = [each["recall"] for each in runs if each["method"] == "exact, auto"]
    return f"in {own.count(0)} of its {len(own)} runs here it has removed nothing at the end either, and is no test."


def _what_was_run(record: dict[str, Any]) -> str:
    about, where = record["settings"], record["machine"]
    return (
        f"`{record['command']}`, {record['date']}: {where['processor']}, torch {where['torch']}. MNIST, "
        f"{about['rows']:,} training rows with uniformly wrong labels and {about['test_rows']:,} clean ones to test "
        f"on; an MLP 784-{about['hidden']}-10, SGD with momentum {about['momentum']} and batches of "
        f"{about['batch_size']}. Its rate of {about['learning_rate']} stays, or falls to 0 in a straight line over all "
        "passes; where it stays, accuracy depends much on the last steps. Plain: ordinary training. Exact: "
        "`SampleWeights`, which knows each row by its number. Stream: `StreamWeights`, which does not, with its "
        f"defaults (window {about['window']:,}, warmup {about['warmup']:,}, a look every {about['every']} batches). "
        "Told: the true share of wrong labels; auto: nothing. Seeds "
        f"{', '.join(map(str, about['seeds']))}; the defaults were chosen on the same images with seeds "
        f"{' and '.join(map(str, about['tried']))}, by the accuracy on these test rows."
    )


def _sorted_keys(runs: list[dict[str, Any]]) -> list[tuple[float, str, int, str]]:
    """Noise, rate, passes and method of the runs, the methods in their order."""
    keys = dict.fromkeys((each["noise"], each["rate"], each["passes"], each["method"]) for each in runs)
    return sorted(keys, key=lambda key: (key[0], key[1] == "constant", key[2]))


def _select(
    runs: list[dict[str, Any]], what: str, noise: float, rate: str, passes: int, method: str
) -> list[float | None]:
    wanted = {"noise": noise, "rate": rate, "passes": passes, "method": method}
    return [each[what] for each in runs if wanted.items() <= each.items()]


def _all_of(runs: list[dict[str, Any]], noise: float, rate: str, passes: int, method: str) -> list[str]:
    measures = ("accuracy", "precision", "recall", "estimate")
    found = [_spread(_select(runs, what, noise, rate, passes, method)) for what in measures]
    return [f"{noise:.0%}", rate, str(passes), method, *(found[:1] + ["-"] * 3 if method == "plain" else found)]


def _spread(found: list[float | None]) -> str:
    values = [value for value in found if value is not None]
    if not values:
        return "-"
    deviation = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.1f}{deviation}"


def _costs(runs: list[dict[str, Any]], n: int) -> list[list[str]]:
    rows = []
    for method, passes in product(METHODS, (min(PASSES), max(PASSES))):
        wanted = {"method": method, "passes": passes, "rate": "falling"}
        own = [each for each in runs if wanted.items() <= each.items()]
        kept = max(each["state_bytes"] for each in own)
        seconds = statistics.median(each["cpu_seconds"] / passes for each in own)
        rows.append([method, str(passes), f"{kept:,}", f"{kept / n:.1f}", f"{seconds:.1f}"])
    return rows


def main() -> None:
    torch.set_num_threads(1)
    record = measure()
    RESULTS.write_text(json.dumps(record, indent=2) + "\n")
    PAGE.write_text(render(record))


if __name__ == "__main__":
    main()
