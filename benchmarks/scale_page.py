"""The page docs/scale.md: what distributed.py recorded, and what a model of a network makes of it for more rows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

from measure import table
from rockafellian.weights.holdout import MOST

ROWS = (10**6, 10**7, 10**8, 10**9, 10**10)
RANKS = (1, 8, 64, 1024)
#: What a process is thought to have.
MEMORY = 64e9
#: Bytes a row that `fit` needs in every process to draw an order: two of 8 and two masks.
ORDER = 18
#: Bytes sent by one process per re-weighting of rows that are shared out, and of training beside plain DDP.
MOST_SENT, MOST_SLOWER = 10**6, 1.05
#: Bytes a row of weights with notes, and of what is said of a row in an epoch.
STATE, REPORT = 44, 48
#: Bytes of what is sent of a row that is held out.
ANSWER = 32


@dataclass(frozen=True)
class Network:
    """What lies between processes. Rings: in each step every process sends one piece to the next."""

    bandwidth: float = 25e9 / 8  # bytes a second
    latency: float = 50e-6  # seconds a step

    def all_gather(self, size: float, ranks: int) -> float:
        """Seconds until everyone has the `size` bytes of each."""
        return (ranks - 1) * (self.latency + size / self.bandwidth)

    def all_reduce(self, size: float, ranks: int) -> float:
        """Seconds until everyone has the sum of `size` bytes, which go round in pieces, twice."""
        return 2 * (ranks - 1) * (self.latency + size / ranks / self.bandwidth)


@dataclass(frozen=True)
class Cost:
    """Of one re-weighting, for each process: bytes of memory, bytes sent, seconds."""

    memory: float
    sent: float
    seconds: float


def sharded(record: dict[str, Any], rows: int, ranks: int, network: Network) -> Cost:
    """The model for rows that are shared out: the local part by its own rows, and as many collectives as measured."""
    known = _measured(record, ranks, shared_out=True)
    own, each = rows / ranks, known["rows"] / known["ranks"]
    waiting = sum(
        known["calls"][name] * getattr(network, name)(size / max(known["calls"][name], 1), ranks)
        for name, size in known["bytes"].items()
    )
    sent = (ranks - 1) * (known["bytes"]["all_gather"] + 2 * known["bytes"]["all_reduce"] / ranks)
    return Cost(own * known["memory"] / each, sent, own * known["seconds"] / each + waiting)


def replicated(record: dict[str, Any], rows: int, ranks: int, network: Network) -> Cost:
    """The model for rows that every process holds: all of the work, and everyone's reports to all."""
    known = _measured(record, ranks, shared_out=False)
    report = REPORT * rows / ranks
    seconds = rows * known["seconds"] / known["rows"] + known["calls"]["all_gather"] * network.all_gather(0, ranks)
    gathering = (ranks - 1) * report / network.bandwidth
    return Cost(rows * known["memory"] / known["rows"], (ranks - 1) * report, seconds + gathering)


def targets(record: dict[str, Any]) -> list[dict[str, Any]]:
    """What was to hold, and what was measured."""
    found = [
        (f"bytes sent by a process, rows shared out, {rule}", MOST_SENT, _most_sent(record, rule))
        for rule in dict.fromkeys(step["rule"] for step in record["steps"])
    ]
    found += [
        (f"an epoch of DDP with RRM / without, {name}", MOST_SLOWER, each["ratio"])
        for name, each in record["training"].items()
    ]
    return [
        {"what": what, "limit": limit, "measured": measured, "met": measured <= limit}
        for what, limit, measured in found
    ]


def _most_sent(record: dict[str, Any], rule: str) -> int:
    return max(sum(step["bytes"].values()) for step in record["steps"] if step["sharded"] and step["rule"] == rule)


def _measured(record: dict[str, Any], ranks: int, *, shared_out: bool) -> dict[str, Any]:
    """The largest training with a told share on record: of one process, or of two, which had a core each."""
    return max(
        (
            step
            for step in record["steps"]
            if step["fed"]
            and step["rule"] == "contamination"
            and step["sharded"] == shared_out
            and step["ranks"] == min(ranks, 2)
        ),
        key=lambda step: step["rows"],
    )


def render(record: dict[str, Any], network: Network = Network()) -> str:
    """The page docs/scale.md: all of it comes from the record and the model."""
    parts = [
        ["# Scale"],
        ["<!-- Written by benchmarks/distributed.py from benchmarks/results/distributed.json. Change those. -->"],
        [_in_short(record, network)],
        ["## What breaks first"],
        [f"With {_size(MEMORY)} for each process:"],
        table(["", "bytes a row", "up to rows", "then"], _breaks(record, network)),
        ["## The model"],
        [_model(record, network)],
        table(HEAD, [_modelled(record, rows, ranks, network) for rows in ROWS for ranks in RANKS]),
        ["## What was measured"],
        [_what_was_run(record)],
        table(
            ["rows", "rows are", "losses", "rule", *(f"ms, {n}" for n in _ranks(record)), *SENT],
            _steps(record),
        ),
        [_network_here(record)],
        ["## Training"],
        [_training(record)],
        table(
            ["network", "rows", "plain, s", "RRM, s", "ratio", "middle half of the ratios"],
            [_trained(name, each) for name, each in record["training"].items()],
        ),
        ["## Targets"],
        table(["what", "at most", "measured", "met"], [_judged(row) for row in targets(record)]),
        [_by_class(record)],
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


HEAD = [
    "rows",
    "processes",
    "everywhere: memory",
    "sent",
    "seconds",
    "shared out: memory",
    "sent",
    "seconds",
]
SENT = ["sent by each of 2", "of 4", "memory a row held"]


def _in_short(record: dict[str, Any], network: Network) -> str:
    one, many = sharded(record, 10**10, 1024, network), replicated(record, 10**9, 64, network)
    return (
        "`SampleWeights(n, rule)` holds every row in each process and sends what was seen; "
        "`SampleWeights(n, rule, rows=shard(n))` holds a process's own rows and sends a few numbers, as many for ten "
        f"thousand rows as for ten billion. By the model below a re-weighting of 1e9 rows on 64 processes takes "
        f"{_time(many.seconds)} and {_size(many.memory)} a process if rows are everywhere; of 1e10 rows on 1,024 it "
        f"takes {_time(one.seconds)}, {_size(one.memory)} and {_size(one.sent)} sent if they are shared out. No such "
        "cluster was at hand: only the figures under [what was measured](#what-was-measured) are measured."
    )


def _breaks(record: dict[str, Any], network: Network) -> list[list[str]]:
    everywhere = replicated(record, 10**6, 2, network).memory / 1e6
    own = 2 * sharded(record, 10**6, 2, network).memory / 1e6
    most = max(RANKS)
    return [
        [
            f"everyone's reports in each process, {REPORT} bytes a row, copied and taken down (measured)",
            f"{everywhere:.0f}",
            f"{MEMORY / everywhere:.1e}",
            "`rows=shard(n)`",
        ],
        [
            "weights and notes of all rows, if there were no reports",
            f"{STATE}",
            f"{MEMORY / STATE:.1e}",
            "`rows=shard(n)`",
        ],
        [
            "the order that `fit` draws, in each process, shared out or not",
            f"{ORDER}",
            f"{MEMORY / ORDER:.1e}",
            "a loop of one's own over a stream: `reduce` and `step` need no order",
        ],
        [
            f"a process's own rows and reports of them, of {most:,} processes (measured)",
            f"{own:.0f} of its own",
            f"{most * MEMORY / own:.1e}",
            "more processes",
        ],
    ]


def _model(record: dict[str, Any], network: Network) -> str:
    everywhere, shared = (_measured(record, 2, shared_out=shared_out) for shared_out in (False, True))
    rows, own, calls = everywhere["rows"], shared["rows"] / 2, shared["calls"]
    return (
        f"A network of {8 * network.bandwidth / 1e9:.0f} Gbit/s and {1e6 * network.latency:.0f} microseconds a "
        "message. P processes in a ring: to gather b bytes from each takes (P - 1) (latency + b / bandwidth), and each "
        "sends (P - 1) b; to sum b bytes takes 2 (P - 1) (latency + b / (P bandwidth)), and each sends 2 (P - 1) b / P"
        ". Trees, which NCCL takes for small messages, wait log2(P) times instead of P - 1: the seconds of many "
        "processes are pessimistic.\n\n"
        f"Everywhere: {1e9 * everywhere['seconds'] / rows:.0f} ns and {everywhere['memory'] / rows:.0f} bytes for each "
        f"row, from {rows:.0e} rows in two processes here, and {REPORT} bytes of report for each row gathered from "
        f"all. Shared out: {1e9 * shared['seconds'] / own:.0f} ns and {shared['memory'] / own:.0f} bytes for each own "
        f"row, from {shared['rows']:.0e} rows, and {calls['all_gather']} gatherings of one number and "
        f"{calls['all_reduce']} sums of {_size(shared['bytes']['all_reduce'])} together. Memory is the peak from "
        "before the weights are made until the first re-weighting, an epoch's reports included; data and network come "
        "on top. One process alone has figures of its own: it takes reports down as they come.\n\n"
        f"Seconds of the local part are taken to grow as the rows of a process do. {_growth(record)}"
    )


def _growth(record: dict[str, Any]) -> str:
    """How far that held for one process here, by the two largest numbers of rows."""
    alone = [
        step
        for step in record["steps"]
        if step["ranks"] == 1 and step["sharded"] and step["rule"] == "contamination" and not step["fed"]
    ]
    less, more = sorted(alone, key=lambda step: step["rows"])[-2:]
    return (
        f"Here, with losses given to one process, {more['rows']:.0e} rows took "
        f"{more['seconds'] / less['seconds']:.0f} times as long as {less['rows']:.0e}: with so many rows in a process "
        "the model's seconds may be too few."
    )


def _modelled(record: dict[str, Any], rows: int, ranks: int, network: Network) -> list[str]:
    costs = [model(record, rows, ranks, network) for model in (replicated, sharded)]
    cells = [cell for cost in costs for cell in (_memory(cost.memory), _size(cost.sent), _time(cost.seconds))]
    return [f"{rows:.0e}", f"{ranks:,}", *cells]


def _memory(size: float) -> str:
    return f"{_size(size)}, too much" if size > MEMORY else _size(size)


def _what_was_run(record: dict[str, Any]) -> str:
    where, about = record["machine"], record["settings"]
    return (
        f"`{record['command']}`, {record['date']}: {where['processor']}, {where['cores']} cores, "
        f"torch {where['torch']}, gloo over the loopback, one thread a process. Others used the "
        f"machine too: its load, that of the part before included, was {_loads(record)} as the parts began. "
        f"Four processes share {where['cores']} cores. Milliseconds of one "
        "`SampleWeights.step`, the slowest process of each turn, medians of "
        f"{about['repeats']} turns (3 of 1e7 rows and more, and by class). Losses: {about['losses']}; given to `step`, "
        f"or told batch by batch with logits and labels of {about['classes']} classes. Sent are the bytes of the "
        "tensors that a process hands to all_gather and all_reduce, counted there. Contamination is "
        f"{about['contamination']}, also by class; gamma is {about['gamma']}."
    )


def _loads(record: dict[str, Any]) -> str:
    parts = [*(f"with {ranks}" for ranks in _ranks(record)), "of training"]
    return ", ".join(f"{load:.1f} (part {part})" for load, part in zip(record["load"], parts, strict=True))


def _ranks(record: dict[str, Any]) -> list[int]:
    return sorted({step["ranks"] for step in record["steps"]})


def _steps(record: dict[str, Any]) -> list[list[str]]:
    def kind(step: dict[str, Any]) -> tuple[Any, ...]:
        return step["rows"], step["fed"], not step["sharded"], step["rule"]

    return [_step(list(alike)) for _, alike in groupby(sorted(record["steps"], key=kind), kind)]


def _step(alike: list[dict[str, Any]]) -> list[str]:
    """A row of the table: the same by number of processes."""
    first, last = alike[0], alike[-1]
    held = last["rows"] / (last["ranks"] if last["sharded"] else 1)
    return [
        f"{first['rows']:.0e}",
        "shared out" if first["sharded"] else "everywhere",
        "told" if first["fed"] else "given",
        first["rule"],
        *(f"{1000 * step['seconds']:,.1f}" for step in alike),
        *(_size(sum(step["bytes"].values())) for step in alike[1:]),
        "-" if last["memory"] is None else f"{last['memory'] / held:.0f}",
    ]


def _network_here(record: dict[str, Any]) -> str:
    said = [
        f"{ranks} processes: {1e6 * found['all_gather']:.0f} microseconds to gather one number, "
        f"{1e6 * found['all_reduce']:.0f} to sum one, {1e3 * found['all_gather_8MB']:.0f} ms to gather 8 MB from each"
        for ranks, found in record["network"].items()
    ]
    return "The loopback, " + "; ".join(said) + "."


def _training(record: dict[str, Any]) -> str:
    about = record["settings"]
    return (
        f"Two processes, DistributedDataParallel, a DataLoader with batches of {about['batch_size']} in each, and RRM "
        "with the lines of [the guide](guide/ddp.md), a re-weighting after every epoch included. Seconds an epoch, "
        f"medians; the ratio is the median of {about['epochs']} pairs of epochs taken in turns."
    )


def _trained(name: str, found: dict[str, Any]) -> list[str]:
    low, high = found["quartiles"]
    plain, rrm, ratio = (f"{found[key]:.3f}" for key in ("plain_s", "rrm_s", "ratio"))
    return [name, f"{found['rows']:,}", plain, rrm, ratio, f"{low:.3f} to {high:.3f}"]


def _by_class(record: dict[str, Any]) -> str:
    each = _most_sent(record, "per class") / record["settings"]["classes"]
    return (
        f"By class, each class is asked about on its own: {_size(each)} a class, whatever the number of rows, so that "
        f"{MOST_SENT / each:.0f} classes reach the limit. `RRM()` sends, once in a run, what the network said of the "
        f"rows that are held out, {MOST:,} at the most: {_size(ANSWER * MOST)}, all processes together."
    )


def _judged(row: dict[str, Any]) -> list[str]:
    limit, measured = (f"{row[key]:,.0f}" if row["limit"] > 100 else f"{row[key]:.3f}" for key in ("limit", "measured"))
    return [row["what"], limit, measured, "yes" if row["met"] else "no"]


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 999.5 or unit == "TB":
            break
        size /= 1000
    return f"{size:.3g} {unit}"


def _time(seconds: float) -> str:
    return (
        f"{1000 * seconds:.2g} ms"
        if seconds < 0.0995
        else f"{seconds:,.3g} s"
        if seconds < 999.5
        else f"{seconds:,.0f} s"
    )
