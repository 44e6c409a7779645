"""Label errors of IMDb's test set that people have confirmed: how many does an audit find, and cleanlab?

ROCKAFELLIAN_LABEL_ERRORS=FOLDER make natural-errors    some minutes; writes results/natural_errors.json and the page

The ids of the errors come from a folder of the user's: nothing of it is kept here.
C. Northcutt, A. Athalye and J. Mueller, "Pervasive Label Errors in Test Sets Destabilize Machine Learning Benchmarks",
2021. Five people each judged the 1,310 reviews that confident learning found suspect. A label is wrong by the paper's
count if fewer than three of them chose it: 725 are. Nobody judged the other reviews, so these are not all errors.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import pages
import records
import rockafellian as rk
from records import Record
from rockafellian.auditing.model import noise_rate
from rockafellian.auditing.model.problem import Problem
from rockafellian_reproduction import datasets
from rockafellian_reproduction.data import fetch

RESULTS, PAGE = records.RESULTS / "natural_errors.json", records.DOCS / "natural-errors.md"
SEEDS = (0, 1, 2)
MIN_RECALL, FOLDS = 0.53, 5
VARIABLE, FILE = "ROCKAFELLIAN_LABEL_ERRORS", "imdb_mturk.json"
ADDRESS = f"https://github.com/cleanlab/label-errors/blob/main/mturk/{FILE}"
MAJORITY = 3  # of five people
SIDES, PER_SIDE = ("neg", "pos"), 12_500
ID = re.compile(r"test/(neg|pos)/(\d+)_\d+")

#: How the numbers of the files are sorted in each form of the data; Kaggle's csv has lost the official split.
ORDERS: dict[str, Callable[[int], Any]] = {
    "acl archive": int,
    "acl folder": int,
    "reviews json": "{}_".format,  # as names: 0_2.txt, 10000_4.txt, 10001_1.txt, ...
}


def confirmed_errors(folder: str | Path | None = None, reviews: str | Path | None = None) -> Tensor:
    """Return which of the 25,000 test rows of `datasets.reviews(reviews)` are mislabeled; 725 are known to be.

    `folder`, by default $ROCKAFELLIAN_LABEL_ERRORS, contains imdb_mturk.json, itself or in a folder mturk.
    """
    return _mask([each["id"] for each in _judged(folder) if each["mturk"]["given"] < MAJORITY], reviews)


def judged(folder: str | Path | None = None, reviews: str | Path | None = None) -> Tensor:
    """Return which of the same rows people have judged at all: 1,310."""
    return _mask([each["id"] for each in _judged(folder)], reviews)


def row_numbers(form: str) -> dict[tuple[str, int], int]:
    """Return the row of each test file, by side and number, for a form of the data."""
    if form not in ORDERS:
        raise ValueError(f"need IMDb with its official split ({', '.join(ORDERS)}), got {form}")
    numbers = sorted(range(PER_SIDE), key=ORDERS[form])
    return {(side, number): row for row, (side, number) in enumerate((s, n) for s in SIDES for n in numbers)}


def _mask(ids: list[str], reviews: str | Path | None) -> Tensor:
    rows = row_numbers(fetch.find("imdb", reviews).form.kind)
    mask = torch.zeros(len(rows), dtype=torch.bool)
    for name in ids:
        match = ID.fullmatch(name)
        if match is None or (key := (match[1], int(match[2]))) not in rows:
            raise ValueError(f"need ids such as test/neg/12_3 in {FILE}, got {name!r}; get it again from {ADDRESS}")
        mask[rows[key]] = True
    return mask


def _judged(folder: str | Path | None) -> list[dict[str, Any]]:
    """Return the entries of the file: an id, and how many people chose the given label."""
    named = folder or os.environ.get(VARIABLE)
    if not named:
        raise ValueError(f"need a folder with {FILE}; get it from {ADDRESS} and name its folder in {VARIABLE}")
    place = Path(named).expanduser()
    path = next((path for path in (place / FILE, place / "mturk" / FILE) if path.is_file()), None)
    if path is None:
        raise FileNotFoundError(f"need {FILE} in {place}; get it from {ADDRESS}")
    try:
        content: list[dict[str, Any]] = json.loads(path.read_bytes())
        return [{"id": str(each["id"]), "mturk": {"given": int(each["mturk"]["given"])}} for each in content]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"need a list of {{id, mturk}} in {path}, got another ({error})") from error


def run(seed: int) -> Record:
    """Return what an audit of the 25,000 test reviews found, and cleanlab from five trainings of the same network."""
    import pandas as pd

    confirmed, chosen = confirmed_errors().numpy(), judged().numpy()
    found = datasets.reviews()
    names = np.array(["negative", "positive"])[found.test_y.numpy()]
    frame = pd.DataFrame({"review": found.test, "sentiment": names})
    start = time.process_time()
    audited = rk.audit(frame, "sentiment", text="review", encoder="none", seed=seed, progress="quiet")
    seconds = time.process_time() - start
    assert audited.estimate is not None
    quality, flags, theirs = _cleanlab(audited.problem)
    return {
        "rows": len(frame),
        "confirmed": int(confirmed.sum()),
        "floor": list(audited.estimate.floor),
        "ceiling": list(audited.estimate.ceiling),
        "ours": _measure(audited.plan.rows, audited.flagged, confirmed, chosen) | {"cpu_seconds": seconds},
        "cleanlab": _measure(quality.argsort(), flags, confirmed, chosen) | {"cpu_seconds": theirs},
    }


def _measure(order: NDArray[Any], flags: NDArray[np.bool_], confirmed: NDArray[Any], judged: NDArray[Any]) -> Record:
    worst = np.zeros(len(flags), bool)
    worst[order[: int(judged.sum())]] = True
    return {
        "recall": float((worst & confirmed).sum() / confirmed.sum()),
        "of_the_worst_100": int(confirmed[order[:100]].sum()),
        "flagged": int(flags.sum()),
        "flagged_confirmed": int((flags & confirmed).sum()),
    }


def _cleanlab(problem: Problem) -> tuple[NDArray[np.float64], NDArray[np.bool_], float]:
    """Quality and flags by cleanlab, and the CPU seconds that it took, without those of reading the texts."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    start = time.process_time()
    labels, n = problem.targets.numpy(), len(problem.rows)
    probabilities = np.zeros((n, len(problem.labels.names)))
    order = torch.randperm(n, generator=torch.Generator().manual_seed(problem.settings.seed))
    for held_out in order.chunk(FOLDS):
        probabilities[held_out] = noise_rate.predict_fold(held_out, replace(problem, valid=None)).numpy()
    flags = find_label_issues(labels, probabilities, n_jobs=1)
    return get_label_quality_scores(labels, probabilities), flags, time.process_time() - start


def render(record: Record) -> str:
    """Return the page of a record."""
    cells = record["seeds"].values()
    ours, theirs = ([cell[name] for cell in cells] for name in ("ours", "cleanlab"))
    rows = []
    for name, title in (("ours", "audit"), ("cleanlab", f"cleanlab, {FOLDS} trainings of the same network")):
        each = [cell[name] for cell in cells]
        counts = [
            f"{np.mean([one[key] for one in each]):,.0f}"
            for key in ("of_the_worst_100", "flagged", "flagged_confirmed")
        ]
        seconds = f"{np.mean([one['cpu_seconds'] for one in each]):.0f}"
        rows.append((title, pages.spread(one["recall"] for one in each), *counts, seconds))
    first = next(iter(cells))
    known, judged_rows = first["confirmed"] / first["rows"], 1310 / first["rows"]
    ends = [f"{100 * cell['floor'][1]:.1f} to {100 * cell['ceiling'][2]:.1f} %" for cell in cells]
    recalls = [np.mean([one["recall"] for one in each]) for each in (ours, theirs)]
    return pages.page(
        "Errors that people made",
        "`make natural-errors` from benchmarks/results/natural_errors.json",
        f"Among the 1,310 worst of IMDb's 25,000 test reviews an audit finds {recalls[0]:.0%} of the 725 labels that "
        f"people have confirmed to be wrong; cleanlab finds {recalls[1]:.0%} there. At least {known:.1%} of the labels "
        "are wrong; the audit's noise rate, from the lower end of the floor to the upper end of the ceiling, is "
        f"{', '.join(ends)} by seed.",
        pages.table(
            (
                "",
                "recall among the worst 1,310, %",
                "confirmed among the worst 100",
                "flagged",
                "confirmed of these",
                "CPU seconds",
            ),
            rows,
        ),
        f"Wanted: a recall of at least {100 * MIN_RECALL:.0f} %: {pages.met(bool(recalls[0] >= MIN_RECALL))}. People "
        f"judged only the {judged_rows:.1%} of the reviews that confident learning found suspect (C. Northcutt, "
        "A. Athalye and J. Mueller, 2021), which favors cleanlab: errors that it did not suspect are not known. The "
        "time of the audit includes reading the texts, that of cleanlab does not.",
        f"{pages.ran([record], 'cleanlab')}, seeds {', '.join(record['seeds'])}.",
    )


def main() -> None:
    """Run what is missing, record it and write the page."""
    record = records.load(RESULTS) or {"seeds": {}}
    record |= records.about("make natural-errors", "cleanlab")
    for seed in SEEDS:
        if str(seed) not in record["seeds"]:
            record["seeds"][str(seed)] = run(seed)
            records.save(RESULTS, record)
            print(seed, record["seeds"][str(seed)], flush=True)
    PAGE.write_text(render(record), encoding="utf-8")


if __name__ == "__main__":
    main()
