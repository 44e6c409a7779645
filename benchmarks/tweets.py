"""Tweets labeled by one person each: is the rate believable, are the errors found, and what becomes of the rare class?

ROCKAFELLIAN_TWEETS=FOLDER make tweets    some minutes; writes results/tweets.json and docs/tweets.md

The tweets come from a folder of the user's: nothing of them is kept here. T. Davidson, D. Warmsley, M. Macy and
I. Weber, "Automated Hate Speech Detection and the Problem of Offensive Language", 2017. Three or more people judged
each tweet as hate speech, offensive or neither. The given label is the vote of one of them, drawn by seed, the true
one that of the majority, which is itself a matter of opinion.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

import pages
import records
from records import Record
from rivals.measures import of_flags
from rockafellian.integrations.sklearn import RRMClassifier

RESULTS, PAGE = records.RESULTS / "tweets.json", records.DOCS / "tweets.md"
#: Seeds 9 to 11 were looked at before.
SEEDS = (0, 1, 2)
TRAINING = 0.8
VARIABLE, FILE = "ROCKAFELLIAN_TWEETS", "labeled_data.csv"
ADDRESS = f"https://github.com/t-davidson/hate-speech-and-offensive-language/blob/master/data/{FILE}"
CLASSES = ("hate_speech", "offensive_language", "neither")
RARE = CLASSES.index("hate_speech")
MAX_LOSS = 0.01
RIVAL = "CleanLearning"


class Tweets(NamedTuple):
    """Texts, how many people chose each class, and the class of the majority."""

    texts: list[str]
    votes: NDArray[np.int64]
    majority: NDArray[np.int64]


class Rows(NamedTuple):
    """Training rows with one person's vote each, which of these are wrong, and test rows with true labels."""

    x: Any
    y: NDArray[np.int64]
    wrong: NDArray[np.bool_]
    test_x: Any
    test_y: NDArray[np.int64]


def read(folder: str | Path | None = None) -> Tweets:
    """Return the tweets of a folder, by default $ROCKAFELLIAN_TWEETS."""
    import pandas as pd

    named = folder or os.environ.get(VARIABLE)
    if not named:
        raise ValueError(f"need a folder with {FILE}; get it from {ADDRESS} and name its folder in {VARIABLE}")
    path = Path(named).expanduser() / FILE
    if not path.is_file():
        raise FileNotFoundError(f"need {path}; get it from {ADDRESS}")
    frame = pd.read_csv(path, keep_default_na=False)
    if absent := [name for name in (*CLASSES, "class", "tweet") if name not in frame]:
        raise ValueError(f"need the columns {', '.join(absent)} in {path}; get it again from {ADDRESS}")
    return Tweets(
        [str(text) for text in frame["tweet"]],
        frame[list(CLASSES)].to_numpy(np.int64),
        frame["class"].to_numpy(np.int64),
    )


def draw(tweets: Tweets, seed: int) -> Rows:
    """Return one person's vote for each tweet, split by seed; TF-IDF of words and pairs of training words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    generator = np.random.default_rng(seed)
    order = generator.permutation(len(tweets.texts))
    train, test = np.split(order, [round(TRAINING * len(order))])
    shares = (tweets.votes / tweets.votes.sum(1, keepdims=True)).cumsum(1)
    votes = (generator.random(len(order))[:, None] > shares).sum(1)[train]
    encoder = TfidfVectorizer(min_df=3, ngram_range=(1, 2), sublinear_tf=True)
    x = encoder.fit_transform([tweets.texts[row] for row in train])
    test_x = encoder.transform([tweets.texts[row] for row in test])
    return Rows(x, votes, votes != tweets.majority[train], test_x, tweets.majority[test])


def _estimator() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=10, max_iter=1000)


def _alone(rows: Rows, seed: int) -> tuple[Any, NDArray[np.bool_] | None]:
    return _estimator().fit(rows.x, rows.y), None


def _rival(rows: Rows, seed: int) -> tuple[Any, NDArray[np.bool_] | None]:
    from cleanlab.classification import CleanLearning

    found = CleanLearning(_estimator(), seed=seed, find_label_issues_kwargs={"n_jobs": 1}).fit(rows.x, rows.y)
    return found, found.get_label_issues()["is_label_issue"].to_numpy()


def _rrm(**settings: Any) -> Callable[[Rows, int], tuple[Any, NDArray[np.bool_] | None]]:
    def fit(rows: Rows, seed: int) -> tuple[Any, NDArray[np.bool_] | None]:
        found = RRMClassifier(_estimator(), random_state=seed, **settings).fit(rows.x, rows.y)
        return found, np.asarray(found.findings()["is_label_issue"], bool)

    return fit


#: By their names on the page.
METHODS = {
    "alone": _alone,
    RIVAL: _rival,
    "RRM": _rrm(),
    "RRM, crisp": _rrm(crisp=True),
    "RRM, crisp, per class": _rrm(crisp=True, per_class=True),
}


def run(tweets: Tweets, seed: int) -> Record:
    """Return what each method reaches on the same rows."""
    from sklearn.metrics import accuracy_score, f1_score

    rows = draw(tweets, seed)
    found: Record = {"true_rate": float(rows.wrong.mean()), "rows": len(rows.y), "methods": {}}
    for name, method in METHODS.items():
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # cleanlab's advice
            model, flags = method(rows, seed)
        seconds, predicted = time.process_time() - start, model.predict(rows.test_x)
        right = (rows.y == RARE) & ~rows.wrong
        found["methods"][name] = {
            "accuracy": float(accuracy_score(rows.test_y, predicted)),
            "macro_f1": float(f1_score(rows.test_y, predicted, average="macro")),
            **of_flags(None if flags is None else torch.tensor(flags), torch.from_numpy(rows.wrong)),
            "rare_flagged": None if flags is None else float(flags[right].mean()),
            "cpu_seconds": seconds,
        }
        if (estimate := getattr(model, "estimate_", None)) is not None:
            found["methods"][name] |= {"floor": list(estimate.floor), "ceiling": list(estimate.ceiling)}
    return found


def render(record: Record) -> str:
    """Return the page of a record."""
    cells = list(record["seeds"].values())
    return pages.page(
        "Tweets labeled by one person each",
        "`make tweets` from benchmarks/results/tweets.json",
        _summary(cells),
        pages.table(
            ("", "accuracy, %", "macro-F1, %", "F1 of the flags, %", "flagged, %", "of right rare labels, %", "CPU s"),
            [_row(name, cells) for name in METHODS],
        ),
        "The rare class is hate speech. Flags are label issues, so that the predicted label is not the given one; the "
        "last column but one is the fraction flagged of the right labels of the rare class.",
        pages.table(
            ("target", "measured", "met"), [(what, shown, pages.met(ok)) for what, shown, ok in targets(cells)]
        ),
        "Whether a tweet is hate speech has no one right answer, as people disagree: by what this project advises, "
        "`crisp` should be left out here, or used with `per_class=True`. Each tweet got the vote of one of the people "
        "who judged it; a vote against the majority counts as an error.",
        f"{pages.ran([record], 'scikit-learn', 'cleanlab')}, seeds {', '.join(record['seeds'])}; seeds 9 to 11 were "
        f"looked at before. {cells[0]['rows']:,} of the tweets of Davidson et al. (2017) for training, logistic "
        "regression on TF-IDF of words and pairs of words.",
    )


def _summary(cells: list[Record]) -> str:
    rate = np.mean([cell["true_rate"] for cell in cells])
    ends = [cell["methods"]["RRM"] for cell in cells]
    between = f"{100 * min(e['floor'][0] for e in ends):.1f} to {100 * max(e['ceiling'][0] for e in ends):.1f} %"
    crisp, theirs = (100 * _mean(cells, name, "f1") for name in ("RRM, crisp", RIVAL))
    macro = {name: f"{100 * _mean(cells, name, 'macro_f1'):.1f} %" for name in METHODS}
    return (
        f"{rate:.1%} of the votes are not those of the majority; floor and ceiling say {between}. Macro-F1 on the "
        f"majority's labels: by default {macro['RRM']}, plain {macro['alone']}, CleanLearning {macro[RIVAL]}. With "
        f"`crisp=True` more errors are found, with an F1 of {crisp:.1f} % (CleanLearning {theirs:.1f} %), but the rare "
        f"class suffers: macro-F1 {macro['RRM, crisp']}; with `per_class=True` it is {macro['RRM, crisp, per class']}."
    )


def targets(cells: list[Record]) -> list[tuple[str, str, bool]]:
    """Return each target, what was measured, and whether it was met."""
    rows: list[tuple[str, str, bool]] = []
    for name in ("RRM", "RRM, crisp", "RRM, crisp, per class"):
        least = min(_of(cells, name, "macro_f1")[i] - _of(cells, "alone", "macro_f1")[i] for i in range(len(cells)))
        target = f"macro-F1 of `{name}` at most a point below plain, worst seed"
        rows.append((target, f"{100 * least:+.1f}", least >= -MAX_LOSS))
    ours, theirs = _mean(cells, "RRM, crisp", "f1"), _mean(cells, RIVAL, "f1")
    rows.append(
        ("F1 of the flags of `RRM, crisp` at least CleanLearning's", f"{100 * (ours - theirs):+.1f}", ours >= theirs)
    )
    held = [
        cell["methods"]["RRM"]["floor"][1] <= cell["true_rate"] <= cell["methods"]["RRM"]["ceiling"][2]
        for cell in cells
    ]
    rows.append(("true rate between the ends of floor and ceiling", f"{sum(held)} of {len(held)}", all(held)))
    return rows


def _row(name: str, cells: list[Record]) -> tuple[str, ...]:
    keys = ("accuracy", "macro_f1", "f1", "flagged", "rare_flagged")
    return name, *(pages.spread(_of(cells, name, key)) for key in keys), f"{_mean(cells, name, 'cpu_seconds'):.1f}"


def _of(cells: list[Record], method: str, key: str) -> list[float]:
    return [cell["methods"][method][key] for cell in cells]


def _mean(cells: list[Record], method: str, key: str) -> float:
    return float(np.mean(_of(cells, method, key)))


def main() -> None:
    """Run what is missing, record it and write the page."""
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(1)
    record = records.load(RESULTS) or {"seeds": {}}
    record |= records.about("make tweets", "scikit-learn", "cleanlab")
    tweets = read()
    with threadpool_limits(1):
        for seed in SEEDS:
            if str(seed) not in record["seeds"]:
                record["seeds"][str(seed)] = run(tweets, seed)
                records.save(RESULTS, record)
                print(seed, record["seeds"][str(seed)], flush=True)
    PAGE.write_text(render(record), encoding="utf-8")


if __name__ == "__main__":
    main()
