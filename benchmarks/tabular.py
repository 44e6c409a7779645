"""RRMClassifier beside cleanlab's CleanLearning and the estimator alone, on tables of scikit-learn with wrong labels.

make tabular       fits for some minutes and writes benchmarks/results/tabular.json and docs/tabular.md
"""

from __future__ import annotations

import json
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from measure import table
from rivals.measures import of_flags
from rockafellian import contamination
from rockafellian.integrations.sklearn import RRMClassifier
from rockafellian_reproduction.machine import machine

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "results" / "tabular.json", HERE.parent / "docs" / "tabular.md"
#: The settings of RRMClassifier were chosen on seeds from 100.
SEEDS = tuple(range(10))
SHARES, CLEAN = (0.2, 0.4), 0.0
TRAINING = 0.7
RIVAL, OURS = "CleanLearning", "RRM"


class Rows(NamedTuple):
    """Training rows with labels as given, which of these are wrong, and clean test rows."""

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
    """A part of the set for training, by the seed, and a share of its labels replaced by another class at random."""
    from sklearn.datasets import load_breast_cancer, load_digits

    x, truth = {"cancer": load_breast_cancer, "digits": load_digits}[data](return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(x))
    train, test = np.split(order, [round(TRAINING * len(x))])
    noisy = contamination.uniform(truth[train], share, n_classes=int(truth.max()) + 1, seed=seed)
    return Rows(x[train], noisy.labels.numpy(), noisy.mask.numpy(), x[test], truth[test])


def logistic_regression(seed: int) -> Any:
    """LogisticRegression on scaled columns, in a pipeline."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression())


def random_forest(seed: int) -> Any:
    """RandomForestClassifier with its own defaults."""
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
    found = RRMClassifier(estimator, random_state=cell.seed, **settings).fit(rows.x, rows.y)
    return found, found.removed_


def _rrm_per_class(estimator: Any, rows: Rows, cell: Cell) -> tuple[Any, NDArray[Any] | None]:
    return _rrm(estimator, rows, cell, per_class=True)


def _rrm_told(estimator: Any, rows: Rows, cell: Cell) -> tuple[Any, NDArray[Any] | None]:
    return _rrm(estimator, rows, cell, contamination=float(rows.wrong.mean()))


METHODS = {"alone": _alone, RIVAL: _rival, OURS: _rrm, "RRM, per class": _rrm_per_class, "RRM, told": _rrm_told}


def measure(cell: Cell) -> dict[str, Any]:
    """What each method reaches on the same rows: accuracy on the test, F1 of its flags, and seconds."""
    rows = draw(cell.data, cell.share, cell.seed)
    found: dict[str, Any] = {}
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
            found[name]["estimate"] = model.estimate_._asdict()
    return {**vars(cell), "methods": found}


def cells(seeds: Sequence[int] = SEEDS) -> list[Cell]:
    """All problems, seed by seed."""
    return [
        Cell(data, estimator, share, seed)
        for seed, data, estimator, share in product(seeds, ("cancer", "digits"), ESTIMATORS, (CLEAN, *SHARES))
    ]


def render(record: dict[str, Any]) -> str:
    """The page docs/tabular.md: all of it comes from the record."""
    found, about = record["cells"], record["machine"]
    noisy = [each for each in found if each["share"] > 0]
    seeds = sorted({each["seed"] for each in found})
    parts = [
        ["# RRM around scikit-learn's estimators, beside CleanLearning"],
        ["<!-- Written by benchmarks/tabular.py from benchmarks/results/tabular.json. Change those. -->"],
        [
            f"`{record['command']}`, {record['date']}, scikit-learn {about['scikit-learn']}, cleanlab "
            f"{about['cleanlab']}, {about['processor']}. Breast cancer (two classes) and digits (ten) from "
            f"scikit-learn; {TRAINING:.0%} of the rows for training, of which a share gets another label at random, "
            f"the rest as a clean test; means of {len(seeds)} seeds, {seeds[0]} to {seeds[-1]}. Defaults throughout: "
            f"`RRMClassifier(estimator)`, `CleanLearning(estimator)`, the estimator alone; for comparison RRM with "
            "`per_class=True`, and told the true share of wrong labels. RRM's own defaults were "
            "chosen on other seeds of the same two sets. Seconds are those of the processor, in one thread."
        ],
        ["## What was promised"],
        table(["RRM beside CleanLearning", "CleanLearning", "RRM", ""], [_judged(*each) for each in promises(found)]),
        ["## Test accuracy, per cent"],
        _of_methods(noisy, "accuracy", list(METHODS)),
        ["## F1 of the flagged rows, per cent"],
        _of_methods(noisy, "f1", list(METHODS)[1:]),
        ["## Seconds"],
        _of_methods(noisy, "seconds", list(METHODS)),
        ["## Where CleanLearning is better"],
        _behind(noisy),
        ["## On labels as they are"],
        ["Per cent of test rows that are right, and of training rows that are flagged; some of these may be wrong."],
        _on_clean([each for each in found if each["share"] == 0]),
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def promises(found: list[dict[str, Any]]) -> list[tuple[str, float, float, bool]]:
    """What was to hold over all problems with wrong labels: the figure of the rival, ours, and whether it holds."""
    noisy = [each for each in found if each["share"] > 0]
    mean = {
        name: [statistics.mean(each["methods"][method][name] for each in noisy) for method in (RIVAL, OURS)]
        for name in ("accuracy", "f1", "seconds")
    }
    return [
        ("mean test accuracy not below", *mean["accuracy"], mean["accuracy"][1] >= mean["accuracy"][0]),
        ("mean F1 of the flags not below", *mean["f1"], mean["f1"][1] >= mean["f1"][0]),
        ("mean seconds not above", *mean["seconds"], mean["seconds"][1] <= mean["seconds"][0]),
    ]


def _judged(what: str, rival: float, ours: float, met: bool) -> list[str]:
    return [what, f"{rival:.3f}", f"{ours:.3f}", "met" if met else "**not met**"]


def _groups(found: list[dict[str, Any]]) -> dict[tuple[str, str, float], list[dict[str, Any]]]:
    groups: dict[tuple[str, str, float], list[dict[str, Any]]] = {}
    for each in found:
        groups.setdefault((each["data"], each["estimator"], each["share"]), []).append(each)
    return groups


def _of(group: list[dict[str, Any]], method: str, name: str) -> list[float]:
    return [each["methods"][method][name] for each in group]


def _of_methods(found: list[dict[str, Any]], name: str, methods: list[str]) -> list[str]:
    """Mean and deviation over the seeds, per cent or seconds; for seconds also ours by the rival's."""
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
    head = ["data", "estimator", "wrong", *methods, *(["RRM / CleanLearning"] if timed else [])]
    return table(head, [*rows, total])


def _behind(found: list[dict[str, Any]]) -> list[str]:
    said = [
        f"- {data}, {estimator}, {share:.0%} wrong: {label} {100 * ours:.1f}, CleanLearning {100 * rival:.1f}"
        for (data, estimator, share), group in _groups(found).items()
        for name, label in (("accuracy", "accuracy"), ("f1", "F1"))
        for rival, ours in [[statistics.mean(_of(group, method, name)) for method in (RIVAL, OURS)]]
        if ours < rival
    ]
    return said or ["Nowhere in these means."]


def _on_clean(found: list[dict[str, Any]]) -> list[str]:
    methods = [name for name in METHODS if "told" not in name]

    def mean(group: list[dict[str, Any]], method: str, name: str) -> str:
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
    record = {
        "command": "make tabular",
        "date": date.today().isoformat(),
        "machine": machine("rockafellian", "scikit-learn", "cleanlab"),
        "cells": found,
    }
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")
    PAGE.write_text(render(record))


if __name__ == "__main__":
    main()
