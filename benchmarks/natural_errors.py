"""Label errors of IMDb's test set that people have confirmed, from a folder of the user's: nothing of it is kept here.

C. Northcutt, A. Athalye and J. Mueller, "Pervasive Label Errors in Test Sets Destabilize Machine Learning Benchmarks",
2021. Five people each judged the 1,310 reviews that confident learning found suspect. A label is wrong by the paper's
count if fewer than three of them chose it: 725 are. Nobody judged the other reviews, so these are not all errors.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rockafellian_reproduction.data import fetch

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
