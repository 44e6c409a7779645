"""The section of docs/results.md on audits, from the records of own_data.py."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from pages import bullets, met, ran, section, table
from records import Record

FOUND = ["data", "seed", "rows", "mislabeled", "flagged", "precision", "recall", "F1", "estimated noise rate"]
FOUND_IN_CLEAN = ["data", "seed", "rows", "flagged", "of all rows", "estimated noise rate"]
SECONDS = ["seconds", "of processors"]
#: What a person needs for one, for the time of the whole way.
SECONDS_PER_DECISION = 4


def render(
    record: Record, large: Record | None = None, speed: Record | None = None, clean: Record | None = None
) -> str:
    """Return the section of docs/results.md on audits."""
    judged = targets(record, large)
    return section(
        "Audits of real data",
        "benchmarks/own_data.py from benchmarks/results/own-data*.json",
        _summary(record),
        "How to use it: [your own data](audit.md).",
        "### Results",
        "F1 of the flagged rows, mean of the seeds; seconds of the slowest run.",
        table(["data", "what", "target", "measured", "met"], [each.cells for each in judged]),
        "### Limits",
        bullets(_limits(judged, large), "All targets are met."),
        "### With label noise",
        _intervals(record),
        table([*FOUND, *SECONDS], [_found(name, run) for name, each in record.items() for run in each["flipped"]]),
        "### Without label noise",
        "The same data sets with their own labels. A flagged row is a false alarm, or a label that was wrong before.",
        table([*FOUND_IN_CLEAN, *SECONDS], [_found_in_clean(name, each["clean"]) for name, each in record.items()]),
        *(_weak_networks(clean) if clean else []),
        *(_large_table(large) if large else []),
        *(_speed(speed, large) if speed else []),
        "### How it was measured",
        _settings(record),
        table(["name", "data", "command"], [_command(name, each["settings"]) for name, each in record.items()]),
    )


@dataclass(frozen=True)
class Target:
    """A target of some data, and what was measured."""

    data: str
    what: str
    target: str
    measured: str
    met: bool

    @property
    def cells(self) -> list[str]:
        """Its row on the page."""
        return [self.data, self.what, self.target, self.measured, met(self.met)]


def targets(record: Record, large: Record | None = None) -> list[Target]:
    """Return the targets of every data set and of the large table, judged by the records."""
    found = [target for name, each in record.items() for target in _of_set(name, each)]
    if large:
        most, peak = large["targets"]["bytes"], large["peak_bytes"]
        found.append(
            Target("large table", "memory", f"at most {most / 1e9:.1f} GB", f"{peak / 1e9:.2f} GB", peak <= most)
        )
    return found


def _limits(judged: list[Target], large: Record | None) -> list[str]:
    unmet = [
        f"{each.data}: {each.what} is {each.measured}; the target is {each.target}" for each in judged if not each.met
    ]
    if large and not _holds(large["flipped"][0]):
        unmet.append("large table: the 90 % interval of the estimate does not contain the true noise rate")
    return unmet


def _of_set(name: str, found: Record) -> list[Target]:
    least, most = found["targets"]["f1"], found["targets"]["seconds"]
    reached = [run["f1"] for run in found["flipped"]]
    mean, slowest = _mean_f1(found), max(run["seconds"] for run in [*found["flipped"], found["clean"]])
    return [
        Target(name, "F1", f"at least {least:.2f}", f"{mean:.3f}, lowest {min(reached):.3f}", mean >= least),
        Target(name, "seconds", f"under {most}", f"{slowest:.0f}", slowest < most),
    ]


def _mean_f1(found: Record) -> float:
    return statistics.mean(run["f1"] for run in found["flipped"])


def _found(name: str, run: Record) -> list[str]:
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


def _found_in_clean(name: str, run: Record) -> list[str]:
    flagged = f"{round(run['flagged'] * run['rows']):,}"
    share = f"{run['flagged']:.1%}"
    return [name, str(run["seed"]), f"{run['rows']:,}", flagged, share, _estimated(run), *_seconds(run)]


def _weak_networks(clean: Record) -> list[str]:
    """How many rows of clean data are flagged where the network knows little."""
    first = next(iter(clean.values()))
    about = "; ".join(f"{name}: {each['settings']['data']}" for name, each in clean.items())
    return [
        "### Without label noise, and with a weak network",
        f"The data, with their own labels: {about}. Percent of the rows, over seeds "
        f"{', '.join(map(str, first['settings']['seeds']))}; what an audit claims was chosen with other seeds.",
        table(
            ["data", "most that may be flagged", "flagged", "largest", "in doubt", "met"],
            [_weak_network(name, each) for name, each in clean.items()],
        ),
        f"{ran(list(clean.values()), 'scikit-learn')}.",
    ]


def _weak_network(name: str, found: Record) -> list[str]:
    flagged, doubtful = ([run[what] for run in found["runs"]] for what in ("flagged", "in_doubt"))
    shares = found["target"], statistics.mean(flagged), max(flagged), statistics.mean(doubtful)
    return [name, *(f"{share:.1%}" for share in shares), met(max(flagged) <= found["target"])]


def _holds(run: Record) -> bool:
    """Return whether the true noise rate lies in the interval of the estimate."""
    found = run["estimate"]
    return found is not None and bool(found["low"] <= run["wrong"] / run["rows"] <= found["high"])


def _intervals(record: Record) -> str:
    held = [_holds(run) for each in record.values() for run in each["flipped"]]
    return (
        "The estimated noise rate comes with a 90 % interval. It contains the true rate in "
        f"{sum(held)} of these {len(held)} runs."
    )


def _seconds(run: Record) -> list[str]:
    return [f"{run[name]:.0f}" for name in ("seconds", "processor_seconds")]


def _estimated(run: Record) -> str:
    found = run["estimate"]
    return "-" if found is None else f"{found['rate']:.3f} ({found['low']:.3f} to {found['high']:.3f})"


def _large_table(large: Record) -> list[str]:
    about, run = large["settings"], large["flipped"][0]
    sizes = ", ".join(f"{name} {size / 1e6:,.1f}" for name, size in large["output_bytes"].items() if size >= 1e5)
    return [
        f"### {run['rows']:,} rows",
        f"A CSV of {run['rows']:,} rows and {about['numbers']} normal numbers, whose class, one of {about['classes']}, "
        f"is the largest of as many weighted sums of them; {about['share']:.0%} label noise by seed {run['seed']}; "
        f"`{about['train']}`, {large['date']}. Peak is the most memory that the process held at once, with all "
        "libraries. The numbers determine the class exactly, so this F1 shows that size does no harm, not what to "
        f"expect of other data.",
        _large_figures(large),
        f"Files written, in MB: {sizes}; all others below 0.1.",
    ]


def _large_figures(large: Record) -> str:
    run, peak, csv = large["flipped"][0], large["peak_bytes"], large["csv_bytes"]
    sizes = [
        f"{peak / 1e9:.2f}",
        f"{peak / large['float32_bytes']:.1f}",
        f"{peak / csv:.1f}",
        f"{csv / 1e6:,.0f}",
        f"{run['processor_seconds'] / 60:.1f}",
    ]
    head = ["peak GB", "/ numbers as float32", "/ CSV", "CSV MB", "minutes of processors", "precision", "recall", "F1"]
    found = [f"{run[measure]:.3f}" for measure in ("precision", "recall", "f1")]
    return table([*head, "estimated noise rate"], [[*sizes, *found, _estimated(run)]])


def _speed(speed: Record, large: Record | None) -> list[str]:
    """How long audits of other data take, and the commands of the tutorial."""
    cases = {name: each for name, each in speed.items() if "target" in each}
    rows = [_speed_row(name, each) for name, each in cases.items()]
    if large and "seconds" in large["targets"]:
        target = large["targets"]["seconds"]
        rows.append(_speed_row("large table", {**large["flipped"][0], "target": target, "before": 2 * target}))
    about = "; ".join(f"{name}: {each['data']}" for name, each in cases.items())
    return [
        "### Speed",
        f"The data: {about}. Seconds of processors, with one thread, which a busy machine changes less than those by "
        "the clock; targets and figures from before are of the same kind.",
        table(["data", "before", "target", "of processors", "by the clock", "met"], rows),
        *([_whole_way(speed["tutorial"])] if "tutorial" in speed else []),
        f"{ran(list(speed.values()), 'scikit-learn')}.",
    ]


def _speed_row(name: str, found: Record) -> list[str]:
    used, before = found["processor_seconds"], found["before"]
    shown = [f"{value:.2f}" if value < 1 else f"{value:.0f}" for value in (found["target"], used, found["seconds"])]
    return [name, "-" if before is None else str(before), *shown, met(used <= found["target"])]


def _whole_way(found: Record) -> str:
    steps = ", ".join(f"{each['step']} {each['processor_seconds']:.0f}" for each in found["steps"])
    review = found["decisions"] * SECONDS_PER_DECISION
    total = review + sum(each["processor_seconds"] for each in found["steps"])
    return (
        f"The whole way of the [tutorial](tutorial.md), in seconds of processors: {steps}. With {found['decisions']} "
        f"decisions at {SECONDS_PER_DECISION} seconds each, which is assumed, that is {total / 60:.0f} minutes."
    )


def _summary(record: Record) -> str:
    said = ", ".join(f"{_mean_f1(each):.2f} ({name})" for name, each in record.items())
    clean = sum(round(each["clean"]["flagged"] * each["clean"]["rows"]) for each in record.values())
    share = next(iter(record.values()))["settings"]["share"]
    return (
        f"With {share:.0%} label noise the F1 of the flagged rows is {said}. Without label noise it flags {clean} "
        "rows in all of these data sets together."
    )


def _settings(record: Record) -> str:
    each = list(record.values())
    about = each[0]["settings"]
    renamed = " `rockafellian train` is another name of `audit`." if " train " in about["train"] else ""
    return (
        f"{ran(each, 'scikit-learn')}. Seeds {', '.join(map(str, about['seeds']))} draw the mislabeled rows: "
        f"{about['share']:.0%} of the labels become another class at random. The command gets only the options shown. "
        "Seconds are by the clock, from start to end of the command, on a shared machine; those of its processors "
        f"stand beside them.{renamed}"
    )


def _command(name: str, settings: Record) -> list[str]:
    return [name, settings["data"], f"`{settings['train']}`"]
