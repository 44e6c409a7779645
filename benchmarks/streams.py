"""Rows without an index that come once or a few times: StreamWeights, SampleWeights and plain training.

make streams    trains on MNIST for some minutes and writes benchmarks/results/streams.json and docs/guide/streams.md
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

import records
import rockafellian as rk
from pages import met, ran, section, spread, table, write_section
from records import Record
from rockafellian import contamination
from rockafellian_reproduction import datasets

RESULTS, PAGE = records.RESULTS / "streams.json", records.DOCS / "guide" / "streams.md"
#: The window and the warm-up were chosen with the seeds in TRIED.
SEEDS, TRIED = (2, 3, 4), (0, 1)
NOISE, PASSES = (0.2, 0.4), (1, 2, 3)
#: The network, rate and batches of the MNIST of benchmarks/rivals.
HIDDEN, LR, MOMENTUM, BATCH_SIZE = 128, 0.05, 0.9, 128
#: Passes of the long run of SampleWeights, and by how much a stream may be less accurate in equal passes.
LONG, MARGIN = 10, 0.01

Weights: TypeAlias = rk.SampleWeights | rk.StreamWeights | None


class Data(NamedTuple):
    """Rows, their given labels, which of these are wrong, and clean test rows."""

    x: Tensor
    y: Tensor
    wrong: Tensor
    test_x: Tensor
    test_y: Tensor


#: By the names of the record, from the number of rows and the noise rate.
METHODS: dict[str, Callable[[int, float], Weights]] = {
    "plain": lambda n, rate: None,
    "exact, told": lambda n, rate: rk.SampleWeights(n, rk.RRM(contamination=rate)),
    "stream, told": lambda n, rate: rk.StreamWeights(rk.RRM(contamination=rate)),
    "exact, auto": lambda n, rate: rk.SampleWeights(n, rk.RRM(crisp=True)),
    "stream, auto": lambda n, rate: rk.StreamWeights(rk.RRM(crisp=True)),
}
#: The same on the page; "told" is a given noise rate, "auto" an estimated one.
NAMES = {
    "plain": "plain training",
    "exact, told": "SampleWeights, rate given",
    "stream, told": "StreamWeights, rate given",
    "exact, auto": "SampleWeights, rate estimated",
    "stream, auto": "StreamWeights, rate estimated",
}
NOISE_RATE = {"told": "given", "auto": "estimated"}


def load(noise: float, seed: int, rows: int | None = None) -> Data:
    """Return MNIST, or its first rows, standardized, with uniform label noise drawn by the seed."""
    found = datasets.images("mnist-10")
    x, test_x = (part[:rows].flatten(1).float() for part in (found.train_x, found.test_x))
    deviation, mean = torch.std_mean(x)
    noisy = contamination.uniform(found.train_y[:rows], noise, n_classes=10, seed=seed)
    return Data((x - mean) / deviation, noisy.labels, noisy.mask, (test_x - mean) / deviation, found.test_y[:rows])


def run(data: Data, noise: float, method: str, passes: int, seed: int, *, falling: bool) -> Record:
    """Train for some passes, each in a new order; the learning rate decays linearly to 0 if `falling`."""
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
            if isinstance(weights, rk.StreamWeights):
                removed[rows] = weights.removed
        if isinstance(weights, rk.SampleWeights):
            weights.step()
            removed = weights.removed
        most_bytes = max(most_bytes, state_bytes(weights))
    cpu_seconds = time.process_time() - start
    with torch.no_grad():
        accuracy = float((model(data.test_x).argmax(1) == data.test_y).double().mean())
    about = {"noise": noise, "method": method, "passes": passes, "seed": seed}
    about |= {"rate": "falling" if falling else "constant", "accuracy": accuracy}
    return {**about, **_removals(weights, removed, data.wrong), "state_bytes": most_bytes, "cpu_seconds": cpu_seconds}


def _removals(weights: Weights, removed: Tensor, wrong: Tensor) -> dict[str, float | None]:
    hits = int((removed & wrong).sum())
    return {
        "precision": hits / int(removed.sum()) if removed.any() else None,
        "recall": hits / int(wrong.sum()),
        "estimate": None if weights is None or weights.estimate is None else weights.estimate.ceiling.rate,
    }


def reduced(weights: Weights, losses: Tensor, rows: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
    """Return the scalar to call `backward` on; only SampleWeights gets the index of the rows."""
    if weights is None:
        return losses.mean()
    if isinstance(weights, rk.StreamWeights):
        return weights.reduce(losses, logits=logits, labels=labels)
    return weights.reduce(losses, rows, logits=logits, labels=labels)


def state_bytes(weights: Weights) -> int:
    """Return the bytes of all tensors that are kept from batch to batch."""
    state = {} if weights is None else weights.state_dict()
    return sum(part.numel() * part.element_size() for part in state.values())


def measure(seeds: Sequence[int] = SEEDS, rows: int | None = None, long: int = LONG) -> Record:
    """Return the record: every method in every number of passes, with a constant rate in the most, and one long run."""
    runs = []
    for noise, seed in product(NOISE, seeds):
        data = load(noise, seed, rows)
        jobs = [(name, passes, True) for passes in PASSES for name in METHODS]
        jobs += [("exact, told", long, True), *((name, max(PASSES), False) for name in METHODS)]
        runs += [run(data, noise, name, passes, seed, falling=falling) for name, passes, falling in jobs]
    default = rk.StreamWeights()
    settings = {
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
    }
    return {**records.about("make streams", "rockafellian"), "settings": settings, "runs": runs}


def render(record: Record) -> str:
    """Return the results of docs/guide/streams.md."""
    about, runs = record["settings"], record["runs"]
    judged = [Case(*key).judge(record) for key in _cases(runs)]
    return section(
        "Results on MNIST",
        "benchmarks/streams.py from benchmarks/results/streams.json",
        _summary(record, judged),
        "### Accuracy",
        "Test accuracy in per cent, mean of the seeds. The target is to be at most "
        f"{100 * about['margin']:.0f} point behind SampleWeights in as many passes. The last two columns compare with "
        f"SampleWeights after {about['long']} passes, with the noise rate given and a falling learning rate.",
        table([*RESULT_HEAD, f"SampleWeights, {about['long']} passes", "difference"], [each.cells for each in judged]),
        "### Limits",
        "SampleWeights re-weights after a pass, so in one pass it is plain training; with an estimated noise rate it "
        f"also trains without the held-out rows, a fifth. {_held_out(runs)} Those rows of the table are no test of the "
        "stream: compare the rows with a given noise rate.",
        "### All runs",
        "Mean and deviation over the seeds, per cent. Precision and recall are those of the removed rows: of a stream "
        "those of its last pass, which in a first pass includes the warm-up; of SampleWeights those at the end.",
        table(
            ["noise", "learning rate", "passes", "method", "accuracy", "precision", "recall", "estimated noise rate"],
            [_all_of(runs, *key) for key in _sorted_keys(runs)],
        ),
        "### Memory and time",
        "The most bytes kept from batch to batch, measured after each pass, and processor seconds per pass: medians of "
        "the runs with a falling learning rate, on a shared machine.",
        table(["method", "passes", "bytes kept", "bytes per row", "seconds per pass"], _costs(runs, about["rows"])),
        "### How it was measured",
        _settings(record),
    )


RESULT_HEAD = [
    "noise",
    "passes",
    "learning rate",
    "noise rate is",
    "plain training",
    "StreamWeights",
    "SampleWeights",
    "difference",
    "met",
]


def _summary(record: Record, judged: list[Judged]) -> str:
    about, n_met = record["settings"], sum(each.met for each in judged)
    kept = max(each["state_bytes"] for each in record["runs"] if each["method"].startswith("stream"))
    behind = sorted(-float(each.cells[-1]) for each in judged)
    return (
        "`StreamWeights` needs no index and no second pass. "
        f"On MNIST it is at most {100 * about['margin']:.0f} point less accurate than `SampleWeights` in as many "
        f"passes in {n_met} of {len(judged)} cases, and keeps {kept:,} bytes whatever the number of rows. "
        f"`SampleWeights` after {about['long']} passes is {behind[0]:.1f} to {behind[-1]:.1f} points more accurate: "
        "use it if rows have an index and come more than a few times."
    )


class Judged(NamedTuple):
    """A row of the results, and whether the target is met in it."""

    cells: list[str]
    met: bool


class Case(NamedTuple):
    """Runs in which StreamWeights is compared with SampleWeights; `told` is "told" or "auto"."""

    noise: float
    rate: str
    passes: int
    told: str

    def judge(self, record: Record) -> Judged:
        """Compare the mean accuracy over the seeds."""
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
        reached = stream >= exact - margin
        cells = [f"{self.noise:.0%}", str(self.passes), self.rate, NOISE_RATE[self.told]]
        cells += [*(f"{100 * each:.1f}" for each in (plain, stream, exact)), f"{100 * (stream - exact):+.2f}"]
        return Judged([*cells, met(reached), f"{100 * full:.1f}", f"{100 * (stream - full):+.2f}"], reached)


def _cases(runs: list[Record]) -> list[tuple[float, str, int, str]]:
    keys = [key[:3] for key in _sorted_keys(runs) if key[3] == "plain"]
    return [(*key, told) for key in keys for told in NOISE_RATE]


def _held_out(runs: list[Record]) -> str:
    own = [each["recall"] for each in runs if each["method"] == "exact, auto"]
    return f"In {own.count(0)} of these {len(own)} runs it had removed nothing at the end."


def _settings(record: Record) -> str:
    about = record["settings"]
    return (
        f"{ran([record])}. MNIST, {about['rows']:,} training rows with uniform label noise and {about['test_rows']:,} "
        f"clean test rows; an MLP 784-{about['hidden']}-10, SGD with momentum {about['momentum']} and batches of "
        f"{about['batch_size']}. The learning rate of {about['learning_rate']} is constant, or falls linearly to 0 "
        "over all passes; where it is constant, accuracy depends much on the last steps. StreamWeights has its "
        f"defaults (window {about['window']:,}, warmup {about['warmup']:,}, every {about['every']} batches). Seeds "
        f"{', '.join(map(str, about['seeds']))}; the defaults were chosen on the same images with seeds "
        f"{' and '.join(map(str, about['tried']))}, by the accuracy on these test rows."
    )


def _sorted_keys(runs: list[Record]) -> list[tuple[float, str, int, str]]:
    """Return noise, rate, passes and method of the runs, the methods in their order."""
    keys = dict.fromkeys((each["noise"], each["rate"], each["passes"], each["method"]) for each in runs)
    return sorted(keys, key=lambda key: (key[0], key[1] == "constant", key[2]))


def _select(runs: list[Record], what: str, noise: float, rate: str, passes: int, method: str) -> list[float | None]:
    wanted = {"noise": noise, "rate": rate, "passes": passes, "method": method}
    return [each[what] for each in runs if wanted.items() <= each.items()]


def _all_of(runs: list[Record], noise: float, rate: str, passes: int, method: str) -> list[str]:
    measures = ("accuracy", "precision", "recall", "estimate")
    found = [spread(_select(runs, what, noise, rate, passes, method)) for what in measures]
    shown = found[:1] + ["-"] * 3 if method == "plain" else found
    return [f"{noise:.0%}", rate, str(passes), NAMES[method], *shown]


def _costs(runs: list[Record], n: int) -> list[list[str]]:
    rows = []
    for method, passes in product(METHODS, (min(PASSES), max(PASSES))):
        wanted = {"method": method, "passes": passes, "rate": "falling"}
        own = [each for each in runs if wanted.items() <= each.items()]
        kept = max(each["state_bytes"] for each in own)
        seconds = statistics.median(each["cpu_seconds"] / passes for each in own)
        rows.append([NAMES[method], str(passes), f"{kept:,}", f"{kept / n:.1f}", f"{seconds:.1f}"])
    return rows


def main() -> None:
    torch.set_num_threads(1)
    record = measure()
    records.save(RESULTS, record)
    write_section(PAGE, render(record))


if __name__ == "__main__":
    main()
