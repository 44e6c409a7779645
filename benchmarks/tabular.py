"""RRMClassifier, cleanlab's CleanLearning and the estimator alone, on tables of scikit-learn with label noise.

make tabular       fits for some minutes and writes benchmarks/results/tabular.json and docs/tabular.md
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

import records
from pages import bullets, met, page, ran, table
from records import Record
from rivals.measures import of_flags
from rockafellian import contamination
from rockafellian.integrations.sklearn import RRMClassifier

RESULTS, PAGE = records.RESULTS / "tabular.json", records.DOCS / "tabular.md"
#: The settings of RRMClassifier were chosen on seeds from 100.
SEEDS = tuple(range(10))
SHARES, CLEAN = (0.2, 0.4), 0.0
TRAINING = 0.7
RIVAL, OURS = "CleanLearning", "RRM"


class Rows(NamedTuple):
    """Training rows with their given labels, which of these are wrong, and clean test rows."""

    x: NDArray[Any]
    y: NDArray[Any]
    wrong: NDArray[np.bool_]
    test_x: NDArray[Any]
    test_y: NDArray[Any]


@dataclass(frozen=True)
class Cell:
    """One problem for all methods."""

    data: str
    estimator: str
    share: float
    seed: int


def draw(data: str, share: float, seed: int) -> Rows:
    """Return a random part of the set for training, with uniform label noise, and the rest as a clean test."""
    from sklearn.datasets import load_breast_cancer, load_digits

    x, truth = {"cancer": load_breast_cancer, "digits": load_digits}[data](return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(x))
    train, test = np.split(order, [round(TRAINING * len(x))])
    noisy = contamination.uniform(truth[train], share, n_classes=int(truth.max()) + 1, seed=seed)
    return Rows(x[train], noisy.labels.numpy(), noisy.mask.numpy(), x[test], truth[test])


def logistic_regression(seed: int) -> Any:
    """Return LogisticRegression on scaled columns, in a pipeline."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression())


def random_forest(seed: int) -> Any:
    """Return RandomForestClassifier with its own defaults."""
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(random_state=seed)


ESTIMATORS: dict[str, Callable[[int], Any]] = {
    "logistic regression": logistic_regression,
    "random forest": random_forest,
}


def _alone(estimator: Any, rows: Rows, cell: Cell) -> tuple[Any, NDArray[Any] | None]:
    return estimator.fit(rows.x, rows.y), None


def _rival(estimator: Any, rows: Rows, cell: Cell) -> tuple[Any, NDArray[Any] | None]:
    from cleanlab.classification import CleanLearning

    # One process: starting others takes longer than the search on so few rows.
    found = CleanLearning(estimator, seed=cell.seed, find_label_issues_kwargs={"n_jobs": 1})
    found.fit(rows.x, rows.y)
    return found, found.get_label_issues()["is_label_issue"].to_numpy()


def _rrm(estimator: Any, rows: Rows, cell: Cell, **settings: Any) -> tuple[Any, NDArray[Any] | None]:
    found = RRMClassifier(estimator, crisp=True, random_state=cell.seed, **settings).fit(rows.x, rows.y)
    return found, found.removed_


def _rrm_per_class(estimator: Any, rows: Rows, cell: Cell) -> tuple[Any, NDArray[Any] | None]:
    return _rrm(estimator, rows, cell, per_class=True)


def _rrm_told(estimator: Any, rows: Rows, cell: Cell) -> tuple[Any, NDArray[Any] | None]:
    return _rrm(estimator, rows, cell, contamination=float(rows.wrong.mean()))


#: By the names of the record, and on the page.
METHODS = {"alone": _alone, RIVAL: _rival, OURS: _rrm, "RRM, per class": _rrm_per_class, "RRM, told": _rrm_told}
NAMES = {name: name for name in METHODS} | {"RRM, told": "RRM, rate given"}


def measure(cell: Cell) -> Record:
    """Return what each method reaches on the same rows: test accuracy, F1 of its flags, and seconds."""
    rows = draw(cell.data, cell.share, cell.seed)
    found: Record = {}
    for name, method in METHODS.items():
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # cleanlab's advice
            model, flags = method(ESTIMATORS[cell.estimator](cell.seed), rows, cell)
        seconds = time.process_time() - start
        flagged = of_flags(None if flags is None else torch.tensor(flags), torch.from_numpy(rows.wrong))
        accuracy = float((model.predict(rows.test_x) == rows.test_y).mean())
        found[name] = {"accuracy": accuracy, **flagged, "seconds": seconds}
        if getattr(model, "estimate_", None) is not None:
            found[name]["estimate"] = model.estimate_.ceiling._asdict()
    return {**vars(cell), "methods": found}


def cells(seeds: Sequence[int] = SEEDS) -> list[Cell]:
    """Return all problems, seed by seed."""
    return [
        Cell(data, estimator, share, seed)
        for seed, data, estimator, share in product(seeds, ("cancer", "digits"), ESTIMATORS, (CLEAN, *SHARES))
    ]


def render(record: Record) -> str:
    """Return the page docs/tabular.md."""
    found = record["cells"]
    noisy = [each for each in found if each["share"] > 0]
    return page(
        "RRM around scikit-learn's estimators, compared with CleanLearning",
        "benchmarks/tabular.py from benchmarks/results/tabular.json",
        _summary(found),
        "How to use it: [guide](guide/sklearn.md).",
        "## Results",
        table(
            ["mean over all problems with label noise", RIVAL, OURS, "met"], [_judged(*row) for row in targets(found)]
        ),
        "### Test accuracy, per cent",
        _of_methods(noisy, "accuracy", list(METHODS)),
        "### F1 of the flagged rows, per cent",
        _of_methods(noisy, "f1", list(METHODS)[1:]),
        "### Seconds",
        _of_methods(noisy, "seconds", list(METHODS)),
        "## Limits",
        "Where CleanLearning is better:",
        bullets(_behind(noisy), "Nowhere in these means."),
        "## Without label noise",
        "Test accuracy and training rows flagged, in per cent. The labels are those of the data sets; some of them may "
        "be wrong.",
        _on_clean([each for each in found if each["share"] == 0]),
        "## How it was measured",
        _settings(record),
    )


def _summary(found: list[Record]) -> str:
    (_, accuracy, our_accuracy, _), (_, f1, our_f1, _), (_, seconds, our_seconds, _) = targets(found)
    return (
        "With label noise of 20 % and 40 %, `RRMClassifier(estimator, crisp=True)` is right on "
        f"{our_accuracy:.1%} of the clean test rows and `CleanLearning(estimator)` on {accuracy:.1%}; the F1 of the "
        f"flagged rows is {our_f1:.3f} and {f1:.3f}. RRM takes {our_seconds / seconds:.2f} times as long."
    )


def _settings(record: Record) -> str:
    seeds = sorted({each["seed"] for each in record["cells"]})
    return (
        f"{ran([record], 'scikit-learn', 'cleanlab')}. Breast cancer (two classes) and digits (ten) from scikit-learn; "
        f"{TRAINING:.0%} of the rows for training, with uniform label noise, the rest as a clean test; means of "
        f"{len(seeds)} seeds, {seeds[0]} to {seeds[-1]}. All have their defaults; for comparison RRM with "
        "`per_class=True`, and with the true noise rate given. The defaults of RRM were chosen on other seeds of the "
        "same two sets. Seconds are processor seconds in one thread."
    )


def targets(found: list[Record]) -> list[tuple[str, float, float, bool]]:
    """Return each target over all problems with label noise: the figures of the rival and of RRM, and whether met."""
    noisy = [each for each in found if each["share"] > 0]
    mean = {
        name: [statistics.mean(each["methods"][method][name] for each in noisy) for method in (RIVAL, OURS)]
        for name in ("accuracy", "f1", "seconds")
    }
    return [
        (
            "test accuracy, at least that of CleanLearning",
            *mean["accuracy"],
            mean["accuracy"][1] >= mean["accuracy"][0],
        ),
        ("F1 of the flags, at least that of CleanLearning", *mean["f1"], mean["f1"][1] >= mean["f1"][0]),
        ("seconds, at most those of CleanLearning", *mean["seconds"], mean["seconds"][1] <= mean["seconds"][0]),
    ]


def _judged(what: str, rival: float, ours: float, reached: bool) -> list[str]:
    return [what, f"{rival:.3f}", f"{ours:.3f}", met(reached)]


def _groups(found: list[Record]) -> dict[tuple[str, str, float], list[Record]]:
    groups: dict[tuple[str, str, float], list[Record]] = {}
    for each in found:
        groups.setdefault((each["data"], each["estimator"], each["share"]), []).append(each)
    return groups


def _of(group: list[Record], method: str, name: str) -> list[float]:
    return [each["methods"][method][name] for each in group]


def _of_methods(found: list[Record], name: str, methods: list[str]) -> str:
    """Return a table of means and deviations over the seeds, per cent; of seconds, the ratio to the rival's."""
    timed = name == "seconds"

    def cell(values: list[float]) -> str:
        mean, spread = statistics.mean(values), statistics.pstdev(values)
        return f"{mean:.3f}" if timed else f"{100 * mean:.1f} ± {100 * spread:.1f}"

    rows = [
        [data, estimator, f"{share:.0%}", *(cell(_of(group, method, name)) for method in methods)]
        + ([f"{sum(_of(group, OURS, name)) / sum(_of(group, RIVAL, name)):.2f}"] if timed else [])
        for (data, estimator, share), group in _groups(found).items()
    ]
    total = ["all", "", "", *(cell(_of(found, method, name)) for method in methods)]
    total += [f"{sum(_of(found, OURS, name)) / sum(_of(found, RIVAL, name)):.2f}"] if timed else []
    head = [
        "data",
        "estimator",
        "noise",
        *(NAMES[method] for method in methods),
        *(["RRM / CleanLearning"] if timed else []),
    ]
    return table(head, [*rows, total])


def _behind(found: list[Record]) -> list[str]:
    return [
        f"{data}, {estimator}, {share:.0%} noise: {label} {100 * ours:.1f}, CleanLearning {100 * rival:.1f}"
        for (data, estimator, share), group in _groups(found).items()
        for name, label in (("accuracy", "accuracy"), ("f1", "F1"))
        for rival, ours in [[statistics.mean(_of(group, method, name)) for method in (RIVAL, OURS)]]
        if ours < rival
    ]


def _on_clean(found: list[Record]) -> str:
    methods = [name for name in METHODS if "told" not in name]

    def mean(group: list[Record], method: str, name: str) -> str:
        return f"{100 * statistics.mean(_of(group, method, name)):.1f}"

    rows = [
        [data, estimator]
        + [mean(group, method, "accuracy") for method in methods]
        + [mean(group, method, "flagged") for method in methods[1:]]
        for (data, estimator, _), group in _groups(found).items()
    ]
    return table(["data", "estimator", *methods, *(f"flagged by {name}" for name in methods[1:])], rows)


def main() -> None:
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(1)
    with threadpool_limits(1):
        measure(Cell("cancer", "logistic regression", 0.2, 1000))  # imports and caches are no part of the seconds
        found = [measure(cell) for cell in cells()]
    record = {**records.about("make tabular", "rockafellian", "scikit-learn", "cleanlab"), "cells": found}
    records.save(RESULTS, record)
    PAGE.write_text(render(record))


if __name__ == "__main__":
    main()
