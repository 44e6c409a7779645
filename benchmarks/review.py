"""A review simulated: thirty rows checked by a person who is always right, and what that tells and gains.

make review        runs everything, resumed where it was, and writes benchmarks/results/review.json and
                   docs/review.md: half an hour
--retrain          trains again, and keeps what else is on record
"""

from __future__ import annotations

import argparse
import os
import statistics
from typing import Any, NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import noise_rate
import pages
import records
import rockafellian as rk
from records import Record
from rivals import losses, measures, problem
from rivals.confident import out_of_sample_probabilities
from rivals.data import DATA, Clean
from rivals.problem import Problem, outputs
from rockafellian import contamination
from rockafellian.auditing.review.estimate import Reviewed, estimate_from_decisions
from rockafellian.auditing.review.sample import draw_sample
from rockafellian.method.bands import Band, split_into_bands
from rockafellian.method.noise_rate import NoiseRate

RESULTS, PAGE = records.RESULTS / "review.json", records.DOCS / "review.md"
#: Number of bands and kind of interval were chosen on seed 21 of these data, how to train again on 51 to 54, 61 and 62.
SEED, RUNS = 31, 200
#: How training again is judged: all is drawn and trained anew with each, as a case varies by a point between them.
SEEDS = tuple(range(31, 41))
CLICKS = (30, 60, 100)
#: Coverage in every set; the width of the interval on average over the sets, after these numbers of decisions.
MIN_COVERAGE, MAX_WIDTHS = 0.87, (0.20, 0.14, 0.10)
#: What training again may lose on test rows, and above which noise rate it should gain.
MAX_LOSS, DIRTY = 0.003, 0.05
#: The parts of the rows that are reviewed from the worst on.
PARTS = (0.01, 0.05, 0.1)
WIDE = 0.2
ROWS, RARE = 6_000, 0.1


class Case(NamedTuple):
    """A data set by its name in the benchmark of rivals, or drawn; its noise; and whether rows have one answer."""

    data: str
    noise: str
    crisp: bool
    kind: str


CASES = {
    "digits, 40 %": Case("digits", "uniform-0.4", True, "dirty"),
    "digits, 2 %": Case("digits", "uniform-0.02", True, "few errors"),
    "MNIST, 0.5 %": Case("mnist", "uniform-0.005", True, "few errors"),
    "MNIST, confused classes": Case("mnist", "kernel-0.3", True, "dirty"),
    "Fashion-MNIST, 20 %": Case("fashion", "uniform-0.2", True, "dirty"),
    "Fashion-MNIST, near the border": Case("fashion", "feature-0.2", True, "dirty"),
    "Fashion-MNIST, rare classes": Case("fashion", "rare-0.1", True, "rare classes"),
    "CIFAR-10N, worst": Case("cifar", "human-worst", True, "dirty"),
    "CIFAR-10N, aggregate": Case("cifar", "human-aggregate", True, "dirty"),
    "IMDb, 10 %": Case("imdb", "uniform-0.1", True, "weak model"),
    "rating of 5 classes, 10 %": Case("rating of 5 classes", "uniform-0.1", False, "ambiguous"),
    "2 classes, Bayes error 30 %, 5 %": Case("2 classes, Bayes error 30 %", "uniform-0.05", False, "ambiguous"),
}


class Ranked(NamedTuple):
    """The rows in the order of a review, the bands of these, and which of them are wrong, in this order."""

    order: NDArray[np.int64]
    bands: list[Band]
    wrong: NDArray[np.bool_]


def load(case: Case, seed: int) -> tuple[Problem, Tensor]:
    """Return rows, given labels and test rows of a case; and the true labels."""
    rate = case.noise.rpartition("-")[2]
    if case.data in DATA:
        clean = DATA[case.data].load(seed)
        clean = _with_rare_classes(clean, seed) if case.noise.startswith("rare") else clean
        noise = case.noise.replace("rare", "uniform")
        return problem.with_noise(clean, noise, seed, DATA[case.data]), clean.y
    drawn = noise_rate.SETS[case.data][1](2 * ROWS, np.random.default_rng([seed, 3]))
    x, y = torch.from_numpy(drawn.x).float(), torch.from_numpy(np.asarray(drawn.y)).long()
    noisy = contamination.uniform(y[:ROWS], float(rate), n_classes=drawn.n_classes, seed=seed)
    made = Problem(x[:ROWS], noisy.labels, noisy.mask, x[ROWS:], y[ROWS:], drawn.n_classes, DATA["digits"])
    return made, y[:ROWS]


def _with_rare_classes(clean: Clean, seed: int) -> Clean:
    """The rows with nine tenths of every other class left out."""
    random = torch.Generator().manual_seed(seed)
    kept = (clean.y % 2 == 0) | (torch.rand(len(clean.y), generator=random) < RARE)
    return clean._replace(x=clean.x[kept], y=clean.y[kept])


def train(made: Problem, rule: rk.RRM, seed: int, **options: Any) -> tuple[rk.SampleWeights, float]:
    """Return the weights after a training, and the accuracy on clean test rows; `options` are those of the weights."""
    model, weights = made.network(seed), rk.SampleWeights(len(made.y), rule, seed=seed, **options)
    made.train(model, losses.make("ce", made), seed, weights=weights)
    weights.collect()
    return weights, measures.on_the_test(outputs(model, made.test_x), made.test_y)["accuracy"]


def rank(weights: rk.SampleWeights, wrong: Tensor) -> Ranked:
    """Return the rows as an audit ranks them: flagged rows first, then by margin."""
    predictions = weights.predictions
    assert predictions is not None
    margins = predictions.average_margin.double().numpy()
    flagged = (weights.removed & predictions.disagrees).numpy()
    order = np.lexsort((margins, ~flagged))
    return Ranked(order, split_into_bands(np.sort(margins), weights.estimate), wrong.numpy()[order])


def simulate(ranked: Ranked, clicks: int, before: NoiseRate) -> dict[str, float]:
    """Return how often the interval holds the truth, and how often one end of the estimate before is outside of it.

    And its mean width, and the mean error of the estimate.
    """
    truth, ends = float(ranked.wrong.mean()), (before.floor.rate, before.ceiling.rate)
    found = [review(ranked, seed, clicks)[0].noise_rate for seed in range(RUNS)]
    return {
        "coverage": statistics.mean(each.low <= truth <= each.high for each in found),
        "width": statistics.mean(each.high - each.low for each in found),
        "error": statistics.mean(abs(each.rate - truth) for each in found),
        "told_apart": statistics.mean(any(not each.low <= end <= each.high for end in ends) for each in found),
    }


def review(ranked: Ranked, seed: int, clicks: int) -> tuple[Reviewed, NDArray[np.int64]]:
    """Return what so many decisions tell, and the rows that were checked."""
    rows = [band.rows for band in ranked.bands]
    sample = draw_sample(rows, seed)
    places = [each.place for each in sample[:clicks]]
    found = estimate_from_decisions(rows, sample, {place: bool(ranked.wrong[place]) for place in places})
    return found, ranked.order[places]


def run(case: Case) -> Record:
    """Return what a case gave: the estimate before, simulated reviews, errors found, and training again."""
    torch.set_num_threads(1)
    made, _ = load(case, SEED)
    weights, _ = train(made, rk.RRM(crisp=case.crisp), SEED)
    ranked, estimate = rank(weights, made.wrong), weights.estimate
    assert estimate is not None
    theirs = _cleanlab_order(made)
    ends = np.cumsum([band.rows for band in ranked.bands])[:-1]
    truths = [float(part.mean()) for part in np.split(ranked.wrong, ends)]
    return {
        "rows": len(made.y),
        "rate": made.rate,
        "floor": list(estimate.floor),
        "ceiling": list(estimate.ceiling),
        "bands": [[*band, truth] for band, truth in zip(ranked.bands, truths, strict=True)],
        "reviews": {str(clicks): simulate(ranked, clicks, estimate) for clicks in CLICKS},
        "found": [_found(made.wrong.numpy()[ranked.order], part) for part in PARTS],
        "found_by_cleanlab": [_found(made.wrong.numpy()[theirs], part) for part in PARTS],
        "accuracies": [accuracies(case, seed) for seed in SEEDS],
    }


def accuracies(case: Case, seed: int) -> list[float]:
    """Return the accuracy before and after training again."""
    torch.set_num_threads(1)
    made, true = load(case, seed)
    weights, before = train(made, rk.RRM(crisp=case.crisp), seed)
    return [before, retrained(made, true, rank(weights, made.wrong), weights, seed)]


def retrained(made: Problem, true: Tensor, ranked: Ranked, before: rk.SampleWeights, seed: int) -> float:
    """Return the accuracy after training again with a hundred decisions, as `rockafellian retrain` does."""
    found, checked = review(ranked, seed, CLICKS[-1])
    rows = torch.from_numpy(checked.copy())
    trusted, corrected = torch.zeros(len(made.y), dtype=torch.bool), made.y.clone()
    trusted[rows], corrected[rows] = True, true[rows]
    again = Problem(made.x, corrected, made.wrong, made.test_x, made.test_y, made.n_classes, made.setting)
    estimate, warmup = found.to_remove(before.removed_fraction), before.history[0].epoch - 1
    return train(again, rk.RRM(crisp=True), seed, trusted=trusted, estimate=estimate, warmup=warmup)[1]


def _found(wrong: NDArray[np.bool_], part: float) -> float | None:
    """The part of the errors among the first rows."""
    return float(wrong[: round(part * len(wrong))].sum() / wrong.sum()) if wrong.any() else None


def _cleanlab_order(made: Problem) -> NDArray[np.int64]:
    from cleanlab.rank import get_label_quality_scores

    order: NDArray[np.int64] = get_label_quality_scores(
        made.y.numpy(), out_of_sample_probabilities(made, SEED)
    ).argsort()
    return order


def render(record: Record) -> str:
    """Return the page of a record."""
    cells = record["cases"]
    about = (
        f"Each case is trained with `RRM()` (`crisp=True` but for ambiguous ones, seed {SEED}). Then {RUNS} "
        "reviews are simulated: a person who is always right checks rows drawn from five bands of the ranking, and "
        "the noise rate is estimated from these decisions alone. Ambiguous labels that were drawn as such count as "
        "right. The number of bands and the kind of interval were chosen on seed 21 of the same data, how to train "
        "again on seeds 51 to 54, 61 and 62; rare classes were not looked at before. Test rows have clean labels."
    )
    return pages.page(
        "What thirty decisions tell",
        "`make review` from benchmarks/results/review.json",
        _sentences(cells),
        "## Targets\n\n" + pages.table(("target", "figure", "reached"), _targets(cells)),
        "## The noise rate from decisions\n\nCoverage of the 90 % interval, and its mean width in points:",
        pages.table(
            ("case", "kind", "true rate", *_heads()), [_review_row(name, cell) for name, cell in cells.items()]
        ),
        "## Expected before any decision\n\nBy band of the ranking, the worst first: rows, expected fractions wrong, "
        "from the floor to the ceiling, and the true one.",
        pages.table(("case", *(f"band {n}" for n in range(1, 6))), [_band_row(*each) for each in cells.items()]),
        "## Errors found from the worst on\n\nThe part of all errors among the worst 1, 5 and 10 % of the rows; by "
        "cleanlab's ranking, from five trainings, in parentheses.",
        pages.table(("case", "1 %", "5 %", "10 %"), [_found_row(*each) for each in cells.items()]),
        "## Training again with 100 decisions\n\nAccuracy on clean test rows, before and after, on average over "
        f"{len(SEEDS)} seeds, and the smallest and the largest difference of a seed:",
        pages.table(
            ("case", "before", "after", "difference", "by seed"), [_accuracy_row(*each) for each in cells.items()]
        ),
        "## How it was measured\n\n" + about,
        f"{pages.ran([record], 'scikit-learn', 'cleanlab')}.",
    )


def _heads() -> list[str]:
    return [f"{clicks} decisions" for clicks in CLICKS]


def _coverages(cells: Record) -> list[float]:
    return [cell["reviews"][str(clicks)]["coverage"] for cell in cells.values() for clicks in CLICKS]


def _widths(cells: Record) -> list[float]:
    return [statistics.mean(cell["reviews"][str(clicks)]["width"] for cell in cells.values()) for clicks in CLICKS]


def _sentences(cells: Record) -> str:
    widths = _widths(cells)
    gains = [_gain(cell) for cell in cells.values()]
    return (
        f"After thirty decisions the 90 % interval of the noise rate is {100 * widths[0]:.0f} points wide on average "
        f"over {len(cells)} cases, after a hundred {100 * widths[-1]:.0f}; it holds the truth in at least "
        f"{min(_coverages(cells)):.0%} of the reviews of every case. Training again with a hundred decisions changes "
        f"the accuracy by {100 * min(gains):+.1f} to {100 * max(gains):+.1f} points, a mean of {len(SEEDS)} seeds."
    )


def _changes(cell: Record) -> list[float]:
    return [after - before for before, after in cell["accuracies"]]


def _gain(cell: Record) -> float:
    """By how much training again changes the accuracy, on average."""
    return statistics.mean(_changes(cell))


def _targets(cells: Record) -> list[tuple[str, str, str]]:
    widths, worst = _widths(cells), min(_coverages(cells))
    named = ", ".join(f"{100 * limit:.0f}" for limit in MAX_WIDTHS)
    apart = [cell for cell in cells.values() if cell["ceiling"][0] - cell["floor"][0] >= WIDE]
    told = [cell["reviews"]["30"]["told_apart"] for cell in apart]
    changes = {name: _gain(cell) for name, cell in cells.items()}
    dirty = [changes[name] for name, cell in cells.items() if CASES[name].kind == "dirty"]
    rest = [changes[name] for name in cells if CASES[name].kind != "dirty"]
    wins = [
        mine >= theirs - 1e-9
        for cell in cells.values()
        for mine, theirs in zip(cell["found"], cell["found_by_cleanlab"], strict=True)
    ]
    return [
        (
            f"coverage at least {MIN_COVERAGE:.0%} in every case",
            f"{worst:.0%} at the least",
            pages.met(worst >= MIN_COVERAGE),
        ),
        (
            f"mean width at most {named} points after 30, 60 and 100 decisions",
            ", ".join(f"{100 * width:.1f}" for width in widths),
            pages.met(all(width <= limit for width, limit in zip(widths, MAX_WIDTHS, strict=True))),
        ),
        (
            "where floor and ceiling lie 20 points apart, the interval after thirty decisions leaves one of them out",
            ", ".join(f"{each:.0%} of the reviews" for each in told) or "no such case",
            pages.met(all(each > MIN_COVERAGE for each in told) if told else None),
        ),
        ("as many errors found as by cleanlab's ranking", f"{sum(wins)} of {len(wins)}", pages.met(all(wins))),
        (
            "training again gains on dirty cases",
            f"{sum(each > 0 for each in dirty)} of {len(dirty)}",
            pages.met(min(dirty) > 0),
        ),
        (
            f"and loses at most {100 * MAX_LOSS:.1f} points elsewhere",
            f"{100 * min(rest):+.1f} points at the least",
            pages.met(min(rest) >= -MAX_LOSS),
        ),
    ]


def _review_row(name: str, cell: Record) -> tuple[str, ...]:
    found = [cell["reviews"][str(clicks)] for clicks in CLICKS]
    shown = [f"{each['coverage']:.0%}, {100 * each['width']:.1f}" for each in found]
    return (name, CASES[name].kind, f"{cell['rate']:.1%}", *shown)


def _band_row(name: str, cell: Record) -> tuple[str, ...]:
    shown = [f"{rows:,}: {low:.0%} to {high:.0%}, {truth:.0%}" for rows, low, high, truth in cell["bands"]]
    return (name, *shown, *["-"] * (5 - len(shown)))


def _found_row(name: str, cell: Record) -> tuple[str, ...]:
    pairs = zip(cell["found"], cell["found_by_cleanlab"], strict=True)
    return (name, *(f"{mine:.2f} ({theirs:.2f})" for mine, theirs in pairs))


def _accuracy_row(name: str, cell: Record) -> tuple[str, ...]:
    changes = _changes(cell)
    before, after = (statistics.mean(pair[side] for pair in cell["accuracies"]) for side in (0, 1))
    difference, least, most = (f"{100 * each:+.1f}" for each in (_gain(cell), min(changes), max(changes)))
    return (name, f"{100 * before:.1f}", f"{100 * after:.1f}", difference, f"{least} to {most}")


def main() -> None:
    """Run what is missing, record it and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--retrain", action="store_true")
    again = parser.parse_args().retrain
    record = records.load(RESULTS) or {"cases": {}}
    record |= records.about("make review", "scikit-learn", "cleanlab")
    for name, case in CASES.items():
        if again:
            record["cases"][name]["accuracies"] = [accuracies(case, seed) for seed in SEEDS]
        elif name not in record["cases"]:
            record["cases"][name] = run(case)
        records.save(RESULTS, record)
        print(name, record["cases"][name]["accuracies"], flush=True)
    PAGE.write_text(render(record), encoding="utf-8")


if __name__ == "__main__":
    main()
