"""Small data of every kind, on which a network learns something within seconds, and the command to run on them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from PIL import Image

from rockafellian.cli.main import main

WORDS = {"good": "splendid warm honest funny bright", "bad": "dull cold stale noisy broken"}


def command(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """The exit code of `rockafellian` with these arguments, in this process."""
    monkeypatch.setattr(sys, "argv", ["rockafellian", *map(str, arguments)])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def flips(n: int, share: float = 0.2, seed: int = 0) -> NDArray[np.bool_]:
    """Which rows get a wrong label."""
    wrong = np.zeros(n, bool)
    wrong[np.random.default_rng(seed).permutation(n)[: round(share * n)]] = True
    return wrong


def table(n: int = 300, share: float = 0.2, seed: int = 0) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
    """Two classes told apart by two numbers, with a category, a date and missing cells; and the wrong rows."""
    random = np.random.default_rng(seed)
    true = random.integers(0, 2, n)
    wrong = flips(n, share, seed)
    frame = pd.DataFrame(
        {
            "id": [f"row-{i:04d}" for i in range(n)],
            "height": true * 3 + random.normal(size=n),
            "width": np.where(random.random(n) < 0.05, np.nan, random.normal(size=n) - 2 * true),
            "colour": random.choice(["red", "green", "blue"], n),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 300, n), unit="D"),
            "label": np.array(["cat", "dog"])[np.where(wrong, 1 - true, true)],
        }
    )
    return frame, wrong


def texts(n: int = 300, share: float = 0.2, seed: int = 0) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
    """Reviews of made-up words, and the wrong rows."""
    random = np.random.default_rng(seed)
    kinds = np.array(list(WORDS))
    true, wrong = random.integers(0, 2, n), flips(n, share, seed)
    filler = ["the", "a", "film", "it", "was", "and", "with", "some", "people", "in", "many", "rooms"]
    predicted = [" ".join([*random.choice(filler, 9), *random.choice(WORDS[kinds[k]].split(), 4)]) for k in true]
    return pd.DataFrame({"review": predicted, "label": kinds[np.where(wrong, 1 - true, true)]}), wrong


def image_folder(folder: Path, n: int = 120, share: float = 0.2, seed: int = 0) -> dict[str, bool]:
    """Images of light and of dark squares in a folder of classes; which files lie in the wrong one."""
    random = np.random.default_rng(seed)
    names, wrong = ("dark", "light"), flips(n, share, seed)
    found = {}
    for i in range(n):
        true = i % 2
        given = names[1 - true if wrong[i] else true]
        pixels = np.clip(random.normal(60 + 130 * true, 15, (12, 12)), 0, 255).astype(np.uint8)
        path = folder / given / f"{i:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
        found[f"{given}/{i:04d}.png"] = bool(wrong[i])
    return found


def f1(flagged: NDArray[np.bool_], wrong: NDArray[np.bool_]) -> float:
    """The harmonic mean of precision and recall."""
    return float(2 * (flagged & wrong).sum() / (flagged.sum() + wrong.sum()))
