"""The page docs/rivals.md and its pictures, from the records alone."""

from __future__ import annotations

import statistics

import records
from pages import bullets, met, page, ran, table
from records import Record
from rivals import memory, plots, tables
from rivals.data import DATA
from rivals.methods import RIVALS, SLOW
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
- neighbors: the labels of the ten nearest rows by cosine vote, the idea of SimiFeat (Zhu et al., ICML 2022); no network
  is trained to find the wrong labels, one is trained without them.
- self-confidence: two halves, each predicted by a network trained on the other; a row is flagged if another label is
  predicted and its own is less probable than the mean of its class; trained again without these rows.
- gaussians: ALED (Chaudhry et al., arXiv:2601.10084, 2026), written anew: likelihood ratios of robust Gaussians in
  projections of a hidden layer. For more than two classes it is our extension. It runs on small data only.
- rrm: `RRM(crisp=True)` on ce, which estimates the noise rate: every row here has one right answer. rrm-mse and rrm-gce
  are the same on other losses, rrm-default is `RRM()`, which removes only what nothing but a wrong label explains.
  rrm-true is given the true noise rate; rrm-per-class estimates it and removes class by class. Flagged are removed rows
  for which another label is predicted."""


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
        *_slow(found),
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
    flags = {
        name: statistics.mean(values)
        for name in (found.chosen, *RIVALS)
        if (values := found.means(found.noisy_cells, name, "f1"))
    }
    finder = max((name for name in flags if name != found.chosen), key=lambda name: flags[name])
    clean = {name: found.means(found.of_kind("none"), name, "flagged") for name in ("rrm", "cleanlab", "neighbors")}
    alarms = ", ".join(f"{name} up to {100 * max(each):.1f} %" for name, each in clean.items() if each)
    return (
        f"A classifier trained on wrong labels loses accuracy: over {len(found.cells)} combinations of data set and "
        f"label noise (cells), plain training ends at {100 * means['ce']:.1f} % on clean test labels, RRM at "
        f"{100 * means[found.chosen]:.1f} % ({found.chosen}, on its best loss; {100 * means['rrm']:.1f} % on "
        f"cross-entropy) and the best other method at {100 * means[best]:.1f} % ({best}). RRM is not given the "
        f"noise rate, and is within a point of the best other method in {near:.0%} of the cells. Of the rows "
        f"that it flags as mislabeled, the mean F1 is {100 * flags[found.chosen]:.1f} %, that of the best other method "
        f"{100 * flags[finder]:.1f} % ({finder}); without any wrong labels, flagged are {alarms or 'none'}. Where "
        "others are better stands under [Limits](#limits)."
    )


def _results(found: Summary, found_records: list[Record]) -> list[str]:
    chosen = found.chosen
    return [
        "## Results",
        f"Means over {len(found.cells)} cells; of AUPRC, AUROC, F1 and missed over the {len(found.noisy_cells)} with "
        "label noise. Missed: mislabeled rows that are not among as many of the worst ranked. Cost: processor time in "
        "units of that of ce. coteaching and rrm-true are given the noise rate.",
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
        "networks and some of these seeds: errors on new data may be larger. Not all methods ran on the same day: the "
        "cost of each is in units of a run of `ce` beside it.",
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


def _slow(found: Summary) -> list[str]:
    parts = []
    for name, data in SLOW.items():
        keys = [key for key in found.noisy_cells if key[0] in data and found.values(key, name, "f1")]
        if keys:
            costs = found.costs(keys, name)
            methods = (name, "cleanlab", "neighbors", "rrm", found.chosen)
            parts += [
                f"## {name.capitalize()}",
                f"It costs {min(costs):.0f} to {max(costs):.0f} times plain training here. F1 of the flagged rows:",
                tables.by_cell(found, keys, methods, "f1"),
            ]
    return parts


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
