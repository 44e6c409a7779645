"""The page docs/rivals.md and its pictures, from the records alone."""

from __future__ import annotations

import statistics

import records
from pages import bullets, met, page, ran, table
from records import Record
from rivals import memory, plots, tables
from rivals.data import DATA
from rivals.methods import RIVALS
from rivals.summary import Key, Summary
from rivals.targets import WITHIN, targets

PAGE = records.DOCS / "rivals.md"
PICTURES = {"rivals.png": plots.accuracy, "rivals-rates.png": plots.rates}
AHEAD = {"accuracy": "accuracy", "auprc": "AUPRC", "f1": "F1"}

METHODS = """\
- ce, mse, mae, gce, elr: ordinary training on that loss; mse and mae are summed over the classes, so that one learning
  rate fits all. Rows are ranked by the mean margin of the given label over the epochs, and flagged where the predicted
  label is another one. The time of mse, mae, gce and elr includes recording the margins.
- aum: the margins of a run on ce. It gives a ranking, no flags; the time of ce is that of a run without margins.
- coteaching: two networks that choose rows for each other. They are given the true noise rate and leave out as many
  rows after ten epochs; the first is tested.
- cleanlab: five-fold cross-validation, each fold with all epochs, at the epoch that agrees best with the given labels;
  `find_label_issues` with its defaults; trained again without the issues. All of it counts as its time.
- rrm: `RRM(crisp=True)` on ce, which estimates the noise rate; rrm-mse to rrm-elr the same on other losses. rrm-true is
  given the true noise rate, rrm-over ten points more; rrm-per-class estimates it and removes class by class."""


def render(found_records: list[Record], grown: Record | None = None) -> str:
    """Return the page, from the records of the cells and, if there is one, that of the memory."""
    found = Summary(found_records)
    return page(
        "RRM compared with other methods",
        "benchmarks/rivals from benchmarks/results/rivals/",
        _summary(found),
        *_results(found, found_records),
        *_limits(found),
        *_detection(found),
        *_given(found),
        *_cost(found, grown),
        *_weak(found),
        *_rare(found),
        "## How it was measured",
        _what_was_run(found_records),
        _settings(found),
        METHODS,
    )


def _summary(found: Summary) -> str:
    if not found.cells:
        return ""
    means = {
        name: statistics.mean(found.means(found.cells, name, "accuracy"))
        for name in ("ce", "rrm", found.chosen, *RIVALS)
    }
    best = max(RIVALS, key=lambda name: means[name])
    near = statistics.mean(found.behind(key, "accuracy") <= WITHIN for key in found.cells)
    said = dict.fromkeys(("rrm", found.chosen, best, "ce"))
    return (
        f"Mean test accuracy over {len(found.cells)} combinations of data set and label noise (cells): "
        + ", ".join(f"{100 * means[name]:.1f} % ({name})" for name in said)
        + f". {found.chosen} is RRM with an estimated noise rate on its best loss; it is within a point of the best "
        f"other method in {near:.0%} of the cells. Where other methods are better stands under [Limits](#limits)."
    )


def _results(found: Summary, found_records: list[Record]) -> list[str]:
    chosen = found.chosen
    return [
        "## Results",
        f"Means over {len(found.cells)} cells; of AUPRC, AUROC, F1 and missed over the {len(found.noisy_cells)} with "
        "label noise. Missed: mislabeled rows that are not among as many of the worst ranked. Cost: processor time in "
        "units of that of ce. coteaching, rrm-true and rrm-over are given the noise rate.",
        tables.averages(found),
        "![Test accuracy over the noise rate](rivals.png)",
        "## Targets",
        f"In per cent or points, except cost. `{chosen}` is RRM with an estimated noise rate on the loss that is best "
        "on average, chosen by these very cells.",
        _targets(found),
        *_targets_of_rrm(found_records, chosen),
        "## Accuracy",
        "Per cent of clean test labels after the last epoch, mean and deviation over the seeds. "
        f"A star marks cells where `{chosen}` is more than a point behind the best other method.",
        tables.by_cell(
            found, found.cells, tables.TRAINED, "accuracy", lambda key: found.behind(key, "accuracy") > WITHIN
        ),
    ]


def _limits(found: Summary) -> list[str]:
    return [
        "## Limits",
        f"Cells where another method is more than a point better than `{found.chosen}`, and by how many points:",
        bullets(_ahead(found), "Nowhere."),
        "The constants of the estimate were chosen by trials on these data sets and kinds of noise, with other "
        "networks and some of these seeds: errors on new data may be larger. `ce` and the methods with an estimated "
        "noise rate ran after the others, so cost compares two moments of the machine.",
    ]


def _detection(found: Summary) -> list[str]:
    return [
        "## Finding mislabeled rows",
        "Area under the precision-recall curve of the ranking (AUPRC), in per cent:",
        tables.by_cell(found, found.noisy_cells, tables.RANKING, "auprc"),
        "F1 of the flagged rows, in per cent; coteaching flags as many rows as are mislabeled:",
        tables.by_cell(found, found.noisy_cells, tables.FLAGGING, "f1"),
        "## Estimating the noise rate",
        "![Estimated and true noise rates](rivals-rates.png)",
        tables.rates(found),
    ]


def _given(found: Summary) -> list[str]:
    return [
        "## With a given noise rate, and per class",
        "Accuracy:",
        tables.by_cell(found, found.cells, tables.GIVEN, "accuracy"),
        "F1 of the flagged rows:",
        tables.by_cell(found, found.noisy_cells, tables.GIVEN, "f1"),
    ]


def _cost(found: Summary, grown: Record | None) -> list[str]:
    parts = [
        "## Cost",
        "Processor seconds of plain training on one thread, and the time of the others in units of them:",
        tables.costs(found),
    ]
    if grown:
        cell = " ".join(map(str, grown["about"]["cell"][:2]))
        parts += [f"MB by which a process grew beyond the data ({cell}, one run):", memory.by_method(grown)]
    return parts


def write(found_records: list[Record]) -> None:
    """Write the page and draw its pictures."""
    found = Summary(found_records)
    if not found.cells:
        raise ValueError("expected a cell in which every method has run, found none; run without --methods first")
    for name, draw in PICTURES.items():
        draw(found).savefig(PAGE.parent / name, dpi=80)
    PAGE.write_text(render(found_records, memory.load()))


def _what_was_run(found_records: list[Record]) -> str:
    abouts = [record["about"] for record in found_records]
    seeds = sorted({each["seed"] for each in abouts})
    return (
        f"{ran(abouts, 'scikit-learn', 'cleanlab')}, processes of one thread. Every method gets the same network, "
        "mislabeled rows, epochs, batches and optimizer, and is tested after its last epoch on clean labels. Seeds "
        f"{', '.join(map(str, seeds))} draw rows, label noise and the start of the network. Learning rates and epochs "
        "were chosen on seed 0 so that plain training suffers clearly from 40 % label noise by its last epoch; "
        "everything else is at its default."
    )


def _settings(found: Summary) -> str:
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
        ["data", "rows to train and to test on", "network", "learning rate", "epochs", "batch", "label noise"], rows
    )


def _targets(found: Summary) -> str:
    rows = [[each.what, each.target, each.measured, each.rivals, met(each.met)] for each in targets(found)]
    return table(["what", "target", "measured", "others", "met"], rows)


def _targets_of_rrm(found_records: list[Record], chosen: str) -> list[str]:
    if chosen == "rrm":
        return []
    return [
        "The same for `rrm`, on the cross-entropy that most people train with:",
        _targets(Summary(found_records, "rrm")),
    ]


def _weak(found: Summary) -> list[str]:
    if not any(data == "pixels" for data, _ in found.runs):
        return []
    return [
        "## Where the network is weak",
        f"{DATA['pixels'].load.__doc__} Its model errors look like mislabeled rows. Neither these cells nor those of "
        "the rare class count above, as not every method ran in them.",
        tables.weak(found),
    ]


def _rare(found: Summary) -> list[str]:
    if not any(data == "rare" for data, _ in found.runs):
        return []
    return [
        "## A rare class",
        f"{DATA['rare'].load.__doc__} Labels of both classes are flipped at the same rate, so that most rows with the "
        "rare label are mislabeled. AUPRC on the test, and what was flagged of each given class:",
        tables.rare(found),
    ]


def _ahead(found: Summary) -> list[str]:
    return [
        f"{name}: " + ", ".join(_lead(found, key, measure) for key in keys)
        for measure, name in AHEAD.items()
        if (keys := [key for key in _measured(found, measure) if found.behind(key, measure) > WITHIN])
    ]


def _lead(found: Summary, key: Key, measure: str) -> str:
    return f"{' '.join(key)} ({found.best(key, measure)[0]}, {100 * found.behind(key, measure):.1f})"


def _measured(found: Summary, measure: str) -> list[Key]:
    return found.cells if measure == "accuracy" else found.noisy_cells
