"""The page docs/own-data.md, from the records of own_data.py."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from measure import table

FOUND = ["", "seed", "rows", "wrong", "flagged", "precision", "recall", "F1", "estimate", "seconds", "of processors"]
FOUND_IN_CLEAN = ["", "seed", "rows", "flagged", "share", "estimate", "seconds", "of processors"]


def render(record: dict[str, Any], large: dict[str, Any] | None = None) -> str:
    """The page docs/own-data.md: all of it comes from the records."""
    promised = promises(record, large)
    parts = [
        ["# `rockafellian train` on real data"],
        ["<!-- Written by benchmarks/own_data.py from benchmarks/results/own-data*.json. Change those. -->"],
        [_what_was_run(record)],
        table(["", "data", "command"], [_told(name, each["settings"]) for name, each in record.items()]),
        ["## What was promised"],
        ["F1 of the flagged rows against the flipped ones, as the mean of the seeds; seconds of the slowest run."],
        table(["", "what", "promised", "measured", ""], [each.cells for each in promised]),
        [_unmet(promised)],
        ["## What was found"],
        [_intervals(record)],
        table(FOUND, [_found(name, run) for name, each in record.items() for run in each["flipped"]]),
        ["## Nothing flipped"],
        [
            "The same sets with their own labels. What is flagged here is a false alarm, "
            "or a label that was wrong from the start."
        ],
        table(FOUND_IN_CLEAN, [_found_in_clean(name, each["clean"]) for name, each in record.items()]),
        *(_large_table(large) if large else []),
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _told(name: str, settings: dict[str, Any]) -> list[str]:
    return [name, settings["data"], f"`{settings['train']}`"]


def _what_was_run(record: dict[str, Any]) -> str:
    first, dates = next(iter(record.values())), sorted({each["date"] for each in record.values()})
    where, about = first["machine"], first["settings"]
    return (
        f"`{first['command']}`, {' to '.join(dict.fromkeys((dates[0], dates[-1])))}: {where['processor']}, "
        f"{where['cores']} cores, torch {where['torch']}, scikit-learn {where['scikit-learn']}. By seed "
        f"{', '.join(map(str, about['seeds']))}, {about['share']:.0%} of the labels are flipped at random to another "
        "class, and the command is run as a person would, told nothing but what the table shows. Seconds are by the "
        "clock, from start to end of the command, on a machine that is shared; those of its processors stand beside "
        "them."
    )


@dataclass(frozen=True)
class Promise:
    """What was to hold of which data, and what was measured."""

    data: str
    what: str
    promised: str
    measured: str
    met: bool

    @property
    def cells(self) -> list[str]:
        """Its row on the page."""
        return [self.data, self.what, self.promised, self.measured, "met" if self.met else "**not met**"]


def promises(record: dict[str, Any], large: dict[str, Any] | None = None) -> list[Promise]:
    """What was promised of every set and of the large table, judged by the records."""
    found = [promise for name, each in record.items() for promise in _of_set(name, each)]
    if large:
        most, peak = large["targets"]["bytes"], large["peak_bytes"]
        found.append(
            Promise("large table", "memory", f"at most {most / 1e9:.1f} GB", f"{peak / 1e9:.2f} GB", peak <= most)
        )
    return found


def _of_set(name: str, found: dict[str, Any]) -> list[Promise]:
    least, most = found["targets"]["f1"], found["targets"]["seconds"]
    reached = [run["f1"] for run in found["flipped"]]
    mean, slowest = statistics.mean(reached), max(run["seconds"] for run in [*found["flipped"], found["clean"]])
    return [
        Promise(name, "F1", f"at least {least:.2f}", f"{mean:.3f}, lowest {min(reached):.3f}", mean >= least),
        Promise(name, "seconds", f"under {most}", f"{slowest:.0f}", slowest < most),
    ]


def _unmet(promised: list[Promise]) -> str:
    unmet = [f"{each.data}: {each.what} {each.measured}, promised {each.promised}" for each in promised if not each.met]
    return f"Not met: {'; '.join(unmet)}." if unmet else "All of it is met."


def _found(name: str, run: dict[str, Any]) -> list[str]:
    return [
        name,
        str(run["seed"]),
        f"{run['rows']:,}",
        f"{run['wrong']:,}",
        f"{round(run['flagged'] * run['rows']):,}",
        *(f"{run[measure]:.3f}" for measure in ("precision", "recall", "f1")),
        _estimated(run),
        *_seconds(run),
    ]


def _found_in_clean(name: str, run: dict[str, Any]) -> list[str]:
    flagged = f"{round(run['flagged'] * run['rows']):,}"
    share = f"{run['flagged']:.1%}"
    return [name, str(run["seed"]), f"{run['rows']:,}", flagged, share, _estimated(run), *_seconds(run)]


def _holds(run: dict[str, Any]) -> bool:
    """Whether the interval that the command states holds the share of wrong labels that there is."""
    found = run["estimate"]
    return found is not None and bool(found["low"] <= run["wrong"] / run["rows"] <= found["high"])


def _intervals(record: dict[str, Any]) -> str:
    held = [_holds(run) for each in record.values() for run in each["flipped"]]
    return (
        "Estimate: the share of wrong labels that the command states, and an interval that should hold the true one "
        f"nine times in ten. It does in {sum(held)} of these {len(held)} runs."
    )


def _seconds(run: dict[str, Any]) -> list[str]:
    return [f"{run[name]:.0f}" for name in ("seconds", "processor_seconds")]


def _estimated(run: dict[str, Any]) -> str:
    found = run["estimate"]
    return "-" if found is None else f"{found['rate']:.3f} ({found['low']:.3f} to {found['high']:.3f})"


def _large_table(large: dict[str, Any]) -> list[list[str]]:
    about, run, peak = large["settings"], large["flipped"][0], large["peak_bytes"]
    sizes = ", ".join(f"{name} {size / 1e6:,.1f}" for name, size in large["output_bytes"].items() if size >= 1e5)
    return [
        [f"## {run['rows']:,} rows"],
        [
            f"`{about['train']}` on a CSV of {run['rows']:,} rows and {about['numbers']} normal numbers, whose class, "
            f"one of {about['classes']}, is the largest of as many weighted sums of them; {about['share']:.0%} of the "
            f"labels flipped by seed {run['seed']}; {large['date']}. Peak: the "
            "most memory that the process held at once, libraries included. The table is an easy one, as its numbers "
            "tell the class exactly: its F1 says that size does no harm, not what to expect of other data. The "
            f"interval of the estimate {'holds' if _holds(run) else 'does not hold'} the true share."
        ],
        table(
            [
                "peak GB",
                "/ numbers as float32",
                "/ CSV",
                "CSV MB",
                "minutes",
                "training",
                "precision",
                "recall",
                "F1",
                "estimate",
            ],
            [
                [
                    f"{peak / 1e9:.2f}",
                    f"{peak / large['float32_bytes']:.1f}",
                    f"{peak / large['csv_bytes']:.1f}",
                    f"{large['csv_bytes'] / 1e6:,.0f}",
                    f"{run['seconds'] / 60:.1f}",
                    f"{run['training_seconds'] / 60:.1f}",
                    *(f"{run[measure]:.3f}" for measure in ("precision", "recall", "f1")),
                    _estimated(run),
                ]
            ],
        ),
        [f"MB of what it wrote: {sizes}; below 0.1: the rest."],
    ]
