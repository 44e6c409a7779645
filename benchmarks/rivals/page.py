"""The page docs/rivals.md and its pictures, from the records alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from measure import table
from rivals import memory, plots, tables
from rivals.data import DATA
from rivals.promises import WITHIN, promises
from rivals.summary import Key, Summary

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rivals.md"
PICTURES = {"rivals.png": plots.accuracy, "rivals-rates.png": plots.rates}
AHEAD = {"accuracy": "accuracy", "auprc": "AUPRC", "f1": "F1"}

METHODS = """\
- ce, mse, mae, gce, elr: ordinary training on that loss; mse and mae are summed over the classes, so that one learning
  rate serves all. Rows are ranked by the mean over the epochs of the margin of the given label, and flagged where the
  trained network says something else. The time of mse, mae, gce and elr includes keeping the margins.
- aum: the margins of a run on ce. It gives a ranking, no flags; the time of ce is that of a run without it.
- coteaching: two networks that choose rows for each other, told the true share, which they leave out in full after ten
  epochs; the first is tested.
- cleanlab: five-fold cross-validation, each fold with all epochs, at the epoch that agrees best with the given labels;
  `find_label_issues` with its defaults; trained again without the issues. All of it counts as its time.
- rrm: `RRM()`, which guesses the share of wrong labels by itself, on ce; rrm-mse to rrm-elr the same on other losses.
  rrm-true is told the true share, rrm-over ten points more, rrm-per-class guesses and removes class by class."""


def render(records: list[dict[str, Any]], grown: dict[str, Any] | None = None) -> str:
    """The page: all of it comes from the records of the cells and, if there is one, of the memory."""
    found = Summary(records)
    chosen = found.chosen
    parts = [
        ["# rockafellian beside its rivals"],
        ["<!-- Written by benchmarks/rivals from benchmarks/results/rivals/. Change those. -->"],
        [_what_was_run(records)],
        _settings(found),
        [METHODS],
        ["## What was promised"],
        [
            "Per cent or points, but for the cost. "
            f"`{chosen}` is RRM, told nothing, on the loss that is best on average: chosen by these very cells. "
            "The constants of the estimate were chosen by trials on these data sets and noises, other networks and "
            "some of these seeds: its figures are not those of fresh data. `ce` and the methods that guess were run "
            "after the others, so the cost of those compares two moments of the machine."
        ],
        _promises(found),
        *_plain_promises(records, chosen),
        ["## All cells together"],
        [
            f"Means over {len(found.cells)} cells, and over the {len(found.noisy_cells)} with wrong labels for what "
            "finds them. Missed: the share of wrong rows that are not among as many of the worst ranked. Cost: "
            "processor time in units of ce's. coteaching, rrm-true and rrm-over were told the share of wrong labels."
        ],
        tables.averages(found),
        ["![Test accuracy over the share of wrong labels](rivals.png)"],
        ["## Accuracy"],
        [
            "Per cent of clean test labels after the last epoch, mean and deviation over the seeds. "
            f"A star marks cells where `{chosen}` is more than a point behind the best rival."
        ],
        tables.by_cell(
            found, found.cells, tables.TRAINED, "accuracy", lambda key: found.behind(key, "accuracy") > WITHIN
        ),
        ["## Finding wrong rows"],
        ["Area under precision and recall of the ranking (AUPRC), in per cent:"],
        tables.by_cell(found, found.noisy_cells, tables.RANKING, "auprc"),
        ["F1 of the flagged rows, in per cent; coteaching flags as many rows as are wrong:"],
        tables.by_cell(found, found.noisy_cells, tables.FLAGGING, "f1"),
        ["## How many labels are wrong"],
        ["![Guessed and true shares of wrong labels](rivals-rates.png)"],
        tables.rates(found),
        ["## Told the share, told too much, class by class"],
        ["Accuracy:"],
        tables.by_cell(found, found.cells, tables.TOLD, "accuracy"),
        ["F1 of the flagged rows:"],
        tables.by_cell(found, found.noisy_cells, tables.TOLD, "f1"),
        ["## Cost"],
        ["Processor seconds of plain training on one thread, and the time of the others in units of them:"],
        tables.costs(found),
        *_memory(grown),
        *_weak(found),
        *_rare(found),
        ["## Where rivals are ahead"],
        [f"Cells where a rival is more than a point ahead of `{chosen}`, and by how many points:"],
        _ahead(found),
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def write(records: list[dict[str, Any]]) -> None:
    """Write the page and draw its pictures."""
    found = Summary(records)
    if not found.cells:
        raise ValueError("need a cell that every method has run in; run without --methods first")
    for name, draw in PICTURES.items():
        draw(found).savefig(PAGE.parent / name, dpi=80)
    PAGE.write_text(render(records, memory.load()))


def _what_was_run(records: list[dict[str, Any]]) -> str:
    abouts = [record["about"] for record in records]
    first, dates, seeds = (
        abouts[0],
        sorted({each["date"] for each in abouts}),
        sorted({each["seed"] for each in abouts}),
    )
    where = first["machine"]
    return (
        f"`{first['command']}`, {' to '.join(dict.fromkeys((dates[0], dates[-1])))}: {where['processor']}, processes "
        f"of one thread; torch {where['torch']}, scikit-learn {where['scikit-learn']}, cleanlab "
        f"{where['cleanlab']}. Every method gets the same network, wrong labels, epochs, batches and optimiser, and is "
        f"tested after its last epoch on clean labels. Seeds {', '.join(map(str, seeds))} draw rows, wrong labels and "
        f"the start. Learning rates and epochs were chosen on seed 0 so that plain training suffers clearly "
        f"from 40 % wrong labels by its last epoch; all else is at its default."
    )


def _settings(found: Summary) -> list[str]:
    rows = []
    for data, setting in DATA.items():
        keys = [key for key in found.runs if key[0] == data]
        if keys:
            about = found.runs[keys[0]][0]["about"]["settings"]
            rows.append(
                [
                    data,
                    (setting.load.__doc__ or "").split("\n")[0].rstrip("."),
                    "-".join(map(str, about["layers"])),
                    *(f"{about[name]:g}" for name in ("learning_rate", "epochs", "batch_size")),
                    ", ".join(noise for _, noise in keys),
                ]
            )
    return table(
        ["data", "rows to train and to test on", "network", "learning rate", "epochs", "batch", "labels"], rows
    )


def _promises(found: Summary) -> list[str]:
    said = {True: "met", False: "**not met**", None: "reported"}
    rows = [[each.what, each.promised, each.measured, each.rivals, said[each.met]] for each in promises(found)]
    return table(["what", "promised", "measured", "rivals", ""], rows)


def _plain_promises(records: list[dict[str, Any]], chosen: str) -> list[list[str]]:
    if chosen == "rrm":
        return []
    return [
        ["The same for `rrm`, on the cross-entropy that most people train with:"],
        _promises(Summary(records, "rrm")),
    ]


def _memory(grown: dict[str, Any] | None) -> list[list[str]]:
    if grown is None:
        return []
    about = grown["about"]
    said = f"MB by which a process grew beyond the data ({' '.join(map(str, about['cell'][:2]))}, one run):"
    return [[said], memory.lines(grown)]


def _weak(found: Summary) -> list[list[str]]:
    if not any(data == "pixels" for data, _ in found.runs):
        return []
    return [
        ["## Where the network is weak"],
        [
            f"{DATA['pixels'].load.__doc__} Its own mistakes look like wrong labels. Neither these cells nor those of "
            "the rare class count above, as not every method ran in them."
        ],
        tables.weak(found),
    ]


def _rare(found: Summary) -> list[list[str]]:
    if not any(data == "rare" for data, _ in found.runs):
        return []
    return [
        ["## A rare class"],
        [
            f"{DATA['rare'].load.__doc__} Labels of both classes are turned round alike, so that most of those that "
            "are given the rare label do not deserve it. AUPRC of the test; what was flagged of each given class:"
        ],
        tables.rare(found),
    ]


def _ahead(found: Summary) -> list[str]:
    lines = [
        f"- {name}: " + ", ".join(_lead(found, key, measure) for key in keys)
        for measure, name in AHEAD.items()
        if (keys := [key for key in _measured(found, measure) if found.behind(key, measure) > WITHIN])
    ]
    return lines or ["- nowhere"]


def _lead(found: Summary, key: Key, measure: str) -> str:
    return f"{' '.join(key)} ({found.best(key, measure)[0]}, {100 * found.behind(key, measure):.1f})"


def _measured(found: Summary, measure: str) -> list[Key]:
    return found.cells if measure == "accuracy" else found.noisy_cells
