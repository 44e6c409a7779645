"""The section of docs/cost.md on rows and processes, with a model of a cluster that extends the record to more rows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pages import bullets, met, ran, section, table
from records import Record

ROWS = (10**6, 10**7, 10**8, 10**9, 10**10)
RANKS = (1, 8, 64, 1024)
#: The memory that each process is assumed to have.
MEMORY = 64e9
#: Bytes per row that `fit` needs in every process to draw an order: two integers of 8 and two masks.
ORDER = 18
#: Bytes per row of weights with predictions, and of what a process gathers about a row per epoch.
STATE, REPORT = 44, 24
#: Rows that `RRM()` holds out at most, and bytes sent about each of them.
HELD_OUT, HELD_OUT_BYTES = 10_000, 32
#: Targets: bytes sent per process and re-weighting of sharded rows, and the cost of RRM in an epoch of DDP.
MAX_SENT, MAX_RATIO = 10**6, 1.05
#: Targets: seconds of a step of so many rows in one process, bytes per replicated row, collectives of a sharded step.
STEP_ROWS, MAX_STEP_SECONDS, MAX_ROW_BYTES, MAX_COLLECTIVES = 10**7, 0.15, 100, 12


@dataclass(frozen=True)
class Network:
    """The network between processes, with collectives in rings: in each step every process sends one piece."""

    bandwidth: float = 25e9 / 8  # bytes a second
    latency: float = 50e-6  # seconds a step

    def all_gather(self, size: float, ranks: int) -> float:
        """Return seconds until all processes have the `size` bytes of each."""
        return (ranks - 1) * (self.latency + size / self.bandwidth)

    def all_reduce(self, size: float, ranks: int) -> float:
        """Return seconds until all processes have the sum of `size` bytes, which go round in pieces, twice."""
        return 2 * (ranks - 1) * (self.latency + size / ranks / self.bandwidth)


@dataclass(frozen=True)
class Cost:
    """One re-weighting in each process: bytes of memory, bytes sent, seconds."""

    memory: float
    sent: float
    seconds: float


def sharded(record: Record, rows: int, ranks: int, network: Network) -> Cost:
    """Return the model for sharded rows: local work by the rows of a process, and as many collectives as measured."""
    known = _measured(record, ranks, is_sharded=True)
    own, each = rows / ranks, known["rows"] / known["ranks"]
    waiting = sum(
        known["calls"][name] * getattr(network, name)(size / max(known["calls"][name], 1), ranks)
        for name, size in known["bytes"].items()
    )
    sent = (ranks - 1) * (known["bytes"]["all_gather"] + 2 * known["bytes"]["all_reduce"] / ranks)
    return Cost(own * known["memory"] / each, sent, own * known["seconds"] / each + waiting)


def replicated(record: Record, rows: int, ranks: int, network: Network) -> Cost:
    """Return the model for replicated rows: all of the work in each process, and all losses gathered by all."""
    known = _measured(record, ranks, is_sharded=False)
    report = REPORT * rows / ranks
    seconds = rows * known["seconds"] / known["rows"] + known["calls"]["all_gather"] * network.all_gather(0, ranks)
    gathering = (ranks - 1) * report / network.bandwidth
    return Cost(rows * known["memory"] / known["rows"], (ranks - 1) * report, seconds + gathering)


def targets(record: Record) -> list[Record]:
    """Return each target with its limit, the figure measured, and whether it is met."""
    found = [
        (f"bytes sent by a process, sharded, {rule}", MAX_SENT, _most_sent(record, rule))
        for rule in dict.fromkeys(step["rule"] for step in record["steps"])
    ]
    found += [
        (f"an epoch of DDP with RRM / without, {name}", MAX_RATIO, each["ratio"])
        for name, each in record["training"].items()
    ]
    one = _select(record, rule="contamination", sharded=False, fed=False, ranks=1, rows=STEP_ROWS)
    found += [(f"seconds of `step`, {STEP_ROWS:.0e} rows, one process", MAX_STEP_SECONDS, one[0]["seconds"])]
    copied, split = (_measured(record, 2, is_sharded=is_sharded) for is_sharded in (False, True))
    found += [("peak bytes per row, replicated, two processes", MAX_ROW_BYTES, copied["memory"] / copied["rows"])]
    found += [("collectives of a sharded step, contamination", MAX_COLLECTIVES, sum(split["calls"].values()))]
    return [
        {"what": what, "limit": limit, "measured": measured, "met": measured <= limit}
        for what, limit, measured in found
    ]


def _most_sent(record: Record, rule: str) -> int:
    return max(sum(step["bytes"].values()) for step in _select(record, sharded=True, rule=rule))


def _select(record: Record, **wanted: Any) -> list[Record]:
    return [step for step in record["steps"] if wanted.items() <= step.items()]


def _measured(record: Record, ranks: int, *, is_sharded: bool) -> Record:
    """Return the largest step with losses from batches: of one process, or of two, which had a core each."""
    alike = _select(record, fed=True, rule="contamination", sharded=is_sharded, ranks=min(ranks, 2))
    return max(alike, key=lambda step: step["rows"])


def render(record: Record, network: Network = Network()) -> str:
    """Return the section of docs/cost.md on rows and processes."""
    judged = targets(record)
    return section(
        "Many rows, many processes",
        "benchmarks/distributed.py from benchmarks/results/distributed.json",
        _summary(record, network),
        "### What limits the number of rows",
        f"With {_size(MEMORY)} for each process:",
        table(["what each process holds", "bytes per row", "up to rows", "then"], _limits(record, network)),
        "### Targets",
        table(["what", "at most", "measured", "met"], [_judged(row) for row in judged]),
        _about_bytes(record),
        "### Training",
        _training(record),
        table(
            ["network", "rows", "plain, s", "RRM, s", "ratio", "middle half of the ratios"],
            [_trained(name, each) for name, each in record["training"].items()],
        ),
        "### Limits",
        _caveats(record, judged),
        *_modeled(record, network),
        *_all_steps(record),
    )


def _summary(record: Record, network: Network) -> str:
    one, many = sharded(record, 10**10, 1024, network), replicated(record, 10**9, 64, network)
    return (
        "`SampleWeights(n)` is replicated: each process holds the weights of all rows and gathers all losses. "
        "`SampleWeights(n, rows=rk.shard(n))` is sharded: each process holds its own rows and sends a few numbers, as "
        "many for ten thousand rows as for ten billion. By the model below, a re-weighting of 1e9 replicated rows on "
        f"64 processes takes {_time(many.seconds)} and {_size(many.memory)} per process; one of 1e10 sharded rows on "
        f"1,024 processes takes {_time(one.seconds)}, {_size(one.memory)} and {_size(one.sent)} sent."
    )


def _limits(record: Record, network: Network) -> list[list[str]]:
    copied = replicated(record, 10**6, 2, network).memory / 1e6
    own = 2 * sharded(record, 10**6, 2, network).memory / 1e6
    most = max(RANKS)
    return [
        [
            f"replicated: losses of all rows, {REPORT} bytes each, gathered and copied (measured)",
            f"{copied:.0f}",
            f"{MEMORY / copied:.1e}",
            "`rows=rk.shard(n)`",
        ],
        [
            "replicated: weights and predictions of all rows, without gathered losses",
            f"{STATE}",
            f"{MEMORY / STATE:.1e}",
            "`rows=rk.shard(n)`",
        ],
        [
            "the order that `fit` draws, replicated or sharded",
            f"{ORDER}",
            f"{MEMORY / ORDER:.1e}",
            "your own loop over a stream: `reduce` and `step` need no order",
        ],
        [
            f"sharded over {most:,} processes: its own rows and their losses (measured)",
            f"{own:.0f}",
            f"{most * MEMORY / own:.1e}",
            "more processes",
        ],
    ]


def _about_bytes(record: Record) -> str:
    each = _most_sent(record, "per class") / record["settings"]["classes"]
    return (
        f"With `per_class=True` each class takes {_size(each)} whatever the number of rows, so "
        f"{MAX_SENT / each:.0f} classes reach the limit. `RRM()` also sends, once in a run, the predictions of the "
        f"held-out rows, at most {HELD_OUT:,}: {_size(HELD_OUT_BYTES * HELD_OUT)} for all processes together."
    )


def _caveats(record: Record, judged: list[Record]) -> str:
    unmet = [f"Not met: {row['what']}." for row in judged if not row["met"]]
    return bullets(
        [
            *unmet,
            "No cluster was available. What the model says of more than four processes is not measured.",
            "Rings are pessimistic for many processes: NCCL sends small messages along trees, which wait log2(P) "
            "times instead of P - 1.",
            _growth(record),
        ],
        "",
    )


def _growth(record: Record) -> str:
    """Return how local time grew with the two largest numbers of rows in one process."""
    alone = _select(record, ranks=1, sharded=True, rule="contamination", fed=False)
    less, more = sorted(alone, key=lambda step: step["rows"])[-2:]
    return (
        f"The model lets local time grow in proportion to the rows of a process. Here {more['rows']:.0e} rows in one "
        f"process took {more['seconds'] / less['seconds']:.0f} times as long as {less['rows']:.0e}, so its seconds may "
        "be too few for that many rows per process."
    )


def _modeled(record: Record, network: Network) -> list[str]:
    copied, split = (_measured(record, 2, is_sharded=is_sharded) for is_sharded in (False, True))
    rows, own, calls = copied["rows"], split["rows"] / 2, split["calls"]
    head = ["rows", "processes", "replicated: memory", "sent", "seconds", "sharded: memory", "sent", "seconds"]
    return [
        "### The model",
        f"A network of {8 * network.bandwidth / 1e9:.0f} Gbit/s and {1e6 * network.latency:.0f} microseconds per "
        "message, and P processes in a ring. To gather b bytes from each takes (P - 1) (latency + b / bandwidth), and "
        "each sends (P - 1) b. To sum b bytes takes 2 (P - 1) (latency + b / (P bandwidth)), and each sends "
        "2 (P - 1) b / P.",
        f"Replicated: {1e9 * copied['seconds'] / rows:.0f} ns and {copied['memory'] / rows:.0f} bytes per row, "
        f"measured with {rows:.0e} rows in two processes, and {REPORT} bytes gathered per row. Sharded: "
        f"{1e9 * split['seconds'] / own:.0f} ns and {split['memory'] / own:.0f} bytes per own row, measured with "
        f"{split['rows']:.0e} rows, and {calls['all_gather']} gathers of one number and {calls['all_reduce']} sums of "
        f"{_size(split['bytes']['all_reduce'])} together. Memory is the peak from before the weights are made to the "
        "end of the first re-weighting, with the losses of one epoch; data and network come on top. One process alone "
        "has figures of its own, since nothing is gathered.",
        table(head, [_costs(record, rows, ranks, network) for rows in ROWS for ranks in RANKS]),
    ]


def _costs(record: Record, rows: int, ranks: int, network: Network) -> list[str]:
    costs = [model(record, rows, ranks, network) for model in (replicated, sharded)]
    cells = [cell for cost in costs for cell in (_memory(cost.memory), _size(cost.sent), _time(cost.seconds))]
    return [f"{rows:.0e}", f"{ranks:,}", *cells]


def _memory(size: float) -> str:
    return f"{_size(size)} (too much)" if size > MEMORY else _size(size)


def _all_steps(record: Record) -> list[str]:
    about = record["settings"]
    head = ["rows", "weights", "losses", "rule", *(f"ms, {n}" for n in _ranks(record))]
    return [
        "### What was measured",
        f"{ran([record])}, gloo over the loopback, one thread per process, so that four processes share the cores. "
        f"Other jobs ran on the machine: its load average, with that of the part before, was {_loads(record)}.",
        f"Milliseconds of one `SampleWeights.step`: the slowest process of each run, medians of {about['repeats']} "
        f"runs (3 from 1e7 rows on, and per class). Losses are {about['losses']}, passed to `step` or remembered "
        f"batch by batch with logits and labels of {about['classes']} classes. Contamination is "
        f"{about['contamination']}, also per class; gamma is {about['gamma']}. Bytes sent are those of the tensors "
        "that a process passes to all_gather and all_reduce.",
        table([*head, "sent by each of 2", "of 4", "bytes per row held"], _steps(record)),
        _network_here(record),
    ]


def _loads(record: Record) -> str:
    parts = [*(f"steps in {ranks}" for ranks in _ranks(record)), "training"]
    return ", ".join(f"{load:.1f} ({part})" for load, part in zip(record["load"], parts, strict=True))


def _ranks(record: Record) -> list[int]:
    return sorted({step["ranks"] for step in record["steps"]})


def _steps(record: Record) -> list[list[str]]:
    def kind(step: Record) -> tuple[Any, ...]:
        return step["rows"], step["fed"], not step["sharded"], step["rule"]

    return [_step(list(alike)) for _, alike in groupby(sorted(record["steps"], key=kind), kind)]


def _step(alike: list[Record]) -> list[str]:
    """Return a row of the table from the same case in each number of processes."""
    first, last = alike[0], alike[-1]
    held = last["rows"] / (last["ranks"] if last["sharded"] else 1)
    return [
        f"{first['rows']:.0e}",
        "sharded" if first["sharded"] else "replicated",
        "from batches" if first["fed"] else "passed",
        first["rule"],
        *(f"{1000 * step['seconds']:,.1f}" for step in alike),
        *(_size(sum(step["bytes"].values())) for step in alike[1:]),
        "-" if last["memory"] is None else f"{last['memory'] / held:.0f}",
    ]


def _network_here(record: Record) -> str:
    said = [
        f"{ranks} processes: {1e6 * found['all_gather']:.0f} microseconds to gather one number, "
        f"{1e6 * found['all_reduce']:.0f} to sum one, {1e3 * found['all_gather_8MB']:.0f} ms to gather 8 MB from each"
        for ranks, found in record["network"].items()
    ]
    return "The loopback, " + "; ".join(said) + "."


def _training(record: Record) -> str:
    about = record["settings"]
    return (
        f"Two processes, DistributedDataParallel, a DataLoader with batches of {about['batch_size']} in each, and RRM "
        "with the lines of [the guide](guide/processes.md), re-weighting after every epoch included. Seconds per "
        f"epoch, medians; the ratio is the median of {about['epochs']} pairs of epochs that took turns."
    )


def _trained(name: str, found: Record) -> list[str]:
    low, high = found["quartiles"]
    plain, rrm, ratio = (f"{found[key]:.3f}" for key in ("plain_s", "rrm_s", "ratio"))
    return [name, f"{found['rows']:,}", plain, rrm, ratio, f"{low:.3f} to {high:.3f}"]


def _judged(row: Record) -> list[str]:
    limit, measured = (f"{row[key]:,.0f}" if row["limit"] >= 10 else f"{row[key]:.3f}" for key in ("limit", "measured"))
    return [row["what"], limit, measured, met(row["met"])]


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 999.5 or unit == "TB":
            break
        size /= 1000
    return f"{size:.3g} {unit}"


def _time(seconds: float) -> str:
    if seconds < 0.0995:
        return f"{1000 * seconds:.2g} ms"
    return f"{seconds:,.3g} s" if seconds < 999.5 else f"{seconds:,.0f} s"
