"""`rockafellian train` on data as people bring them, a fifth of the labels flipped: what it finds and what it costs.

make own-data       runs everything and writes benchmarks/results/own-data*.json and docs/own-data.md
--only reviews      runs one set again and keeps what is on record of the others
--memory            runs a table of a million rows, and nothing else
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import torch
from numpy.typing import NDArray
from torch import Tensor

from own_data_page import render
from rivals.measures import of_flags
from rockafellian import contamination
from rockafellian_reproduction import datasets
from rockafellian_reproduction.machine import machine

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "results" / "own-data.json", HERE.parent / "docs" / "own-data.md"
MEMORY = RESULTS.with_name("own-data-memory.json")
COMMAND = Path(sys.executable).with_name("rockafellian")
SEEDS, CLEAN_SEED = (0, 1, 2), 0
SHARE = 0.2
REVIEWS = 2_000
MOST_SECONDS, MOST_BYTES = 120, 6e9
#: The large table: rows, numbers in each, classes, and rows that are drawn and written at a time.
ROWS, NUMBERS, CLASSES, BLOCK = 1_000_000, 30, 3, 50_000


@dataclass(frozen=True, eq=False)
class Data:
    """True labels by number of class, the names of the classes, and what writes the rows with the labels given."""

    truth: NDArray[Any]
    classes: Sequence[str]
    write: Callable[[Path, list[str]], Path]


@dataclass(frozen=True)
class Case:
    """A set, drawn by seed, the options of the command, and the F1 that it should reach."""

    load: Callable[[int], Data]
    options: Sequence[str]
    least_f1: float


def cancer(seed: int) -> Data:
    """scikit-learn's breast cancer set as a CSV."""
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer(as_frame=True)

    def write(folder: Path, given: list[str]) -> Path:
        path = folder / "cancer.csv"
        found.data.assign(diagnosis=given).to_csv(path, index=False)
        return path

    return Data(found.target.to_numpy(), found.target_names.tolist(), write)


def digits(seed: int) -> Data:
    """scikit-learn's digits, 8 by 8 pixels, as a folder of PNGs by class."""
    from PIL import Image
    from sklearn.datasets import load_digits

    found = load_digits()

    def write(folder: Path, given: list[str]) -> Path:
        for row, (image, label) in enumerate(zip(found.images, given, strict=True)):
            place = folder / "digits" / label
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray((image * (255 / 16)).round().astype(np.uint8)).save(place / f"{row:04}.png")
        return folder / "digits"

    return Data(found.target, list(map(str, range(10))), write)


def reviews(seed: int) -> Data:
    """2,000 of IMDb's 25,000 training reviews, drawn by the seed, as a CSV."""
    import pandas as pd

    texts, truth = _all_reviews()
    rows = np.random.default_rng(seed).permutation(len(texts))[:REVIEWS]

    def write(folder: Path, given: list[str]) -> Path:
        path = folder / "reviews.csv"
        pd.DataFrame({"review": [texts[row] for row in rows], "sentiment": given}).to_csv(path, index=False)
        return path

    return Data(truth[rows], ["negative", "positive"], write)


@cache
def _all_reviews() -> tuple[list[str], NDArray[Any]]:
    found = datasets.reviews()
    return found.train, found.train_y.numpy()


#: MINILM stands for the folder of the encoder, which is another on every machine.
CASES = {
    "cancer": Case(cancer, ("--label", "diagnosis"), 0.70),
    "digits": Case(digits, (), 0.80),
    "reviews, no encoder": Case(reviews, ("--label", "sentiment", "--encoder", "none"), 0.80),
    "reviews, MiniLM": Case(reviews, ("--label", "sentiment", "--encoder", "MINILM"), 0.80),
}


def measure(case: Case, seeds: Sequence[int] = SEEDS) -> dict[str, Any]:
    """The command on the set, by seed with labels flipped, and once as it is."""
    runs = [_run(case, seed, SHARE) for seed in seeds]
    clean = _run(case, CLEAN_SEED, 0.0)
    return {
        **_about(case.options, seeds=list(seeds), clean_seed=CLEAN_SEED, data=(case.load.__doc__ or "").rstrip(".")),
        "targets": {"f1": case.least_f1, "seconds": MOST_SECONDS},
        "flipped": runs,
        "clean": clean,
    }


def measure_memory(rows: int = ROWS, seed: int = 0) -> dict[str, Any]:
    """The command on a large table: the most memory it held, its time and what it wrote."""
    with tempfile.TemporaryDirectory() as name:
        path, run = Path(name) / "large.csv", Path(name) / "run"
        wrong = write_large(path, rows, seed)
        options = ("--label", "label")
        found = {"seed": seed, **_timed(path, run, options), **judge(run, wrong)}
        # Of the largest of all child processes: here there was one.
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return {
            **_about(options, seeds=[seed], rows=rows, numbers=NUMBERS, classes=CLASSES),
            "targets": {"bytes": MOST_BYTES},
            "peak_bytes": peak,
            "float32_bytes": 4 * rows * NUMBERS,
            "csv_bytes": path.stat().st_size,
            "output_bytes": {each.name: _size(each) for each in sorted(run.iterdir())},
            "flipped": [found],
        }


def write_large(path: Path, rows: int, seed: int) -> Tensor:
    """Normal numbers whose class is the largest of some weighted sums, a share of them flipped; marks those rows.

    Block by block: the peak of a process is at least what its parent held when it started it.
    """
    random = np.random.default_rng(seed)
    slopes = random.standard_normal((NUMBERS, CLASSES), np.float32)
    names = pa.array([f"class {label}" for label in range(CLASSES)])
    schema = pa.schema([*((f"x{number}", pa.float32()) for number in range(NUMBERS)), ("label", pa.string())])
    wrong = []
    with pyarrow.csv.CSVWriter(path, schema) as writer:
        for start in range(0, rows, BLOCK):
            x = random.standard_normal((min(BLOCK, rows - start), NUMBERS), np.float32)
            noisy = contamination.uniform((x @ slopes).argmax(1), SHARE, n_classes=CLASSES, seed=seed + start)
            given = names.take(pa.array(noisy.labels.numpy()))
            writer.write(pa.table([*map(pa.array, x.T.copy()), given], schema=schema))
            wrong.append(noisy.mask)
    return torch.cat(wrong)


def judge(run: Path, wrong: Tensor) -> dict[str, Any]:
    """What a run found against the rows that are wrong, and its estimate of how many are."""
    findings = pyarrow.parquet.read_table(run / "findings.parquet", columns=["id", "is_label_issue"])
    # Rows are called by their number, or by a file that is; those of a folder come in another order.
    rows = [int(Path(name).stem) for name in findings.column("id").to_pylist()]
    flags = torch.zeros(len(wrong), dtype=torch.bool)
    flags[rows] = torch.from_numpy(findings.column("is_label_issue").to_numpy())
    summary = json.loads((run / "summary.json").read_text())
    return {
        "rows": len(wrong),
        "wrong": int(wrong.sum()),
        **of_flags(flags, wrong),
        "estimate": summary["estimate"],
        "training_seconds": summary["seconds"],
    }


def _run(case: Case, seed: int, share: float) -> dict[str, Any]:
    data = case.load(seed)
    noisy = contamination.uniform(data.truth, share, n_classes=len(data.classes), seed=seed)
    options = [str(datasets.encoder_folder("minilm")) if word == "MINILM" else word for word in case.options]
    with tempfile.TemporaryDirectory() as name:
        path = data.write(Path(name), [data.classes[label] for label in noisy.labels])
        run = Path(name) / "run"
        return {"seed": seed, **_timed(path, run, options), **judge(run, noisy.mask)}


def _timed(data: Path, run: Path, options: Sequence[str]) -> dict[str, float]:
    """Seconds of the command, by the clock and of processors: the first are longer where others are at work."""
    start, used = time.perf_counter(), _processor_seconds()
    done = subprocess.run([COMMAND, "train", data, *options, "--out", run], capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"need a run that ends well, got code {done.returncode}: {done.stderr[-500:].strip()}")
    return {"seconds": time.perf_counter() - start, "processor_seconds": _processor_seconds() - used}


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _about(options: Sequence[str], **settings: Any) -> dict[str, Any]:
    return {
        "command": "make own-data",
        "date": date.today().isoformat(),
        "machine": machine("rockafellian", "scikit-learn", "pyarrow"),
        "settings": {"train": " ".join(["rockafellian train DATA", *options, "--out RUN"]), "share": SHARE, **settings},
    }


def _size(path: Path) -> int:
    return sum(each.stat().st_size for each in (path.rglob("*") if path.is_dir() else [path]) if each.is_file())


def _load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}


def _write(path: Path, record: dict[str, Any]) -> None:
    """A record, and the page anew if any set is on record."""
    path.write_text(json.dumps(record, indent=2) + "\n")
    if sets := _load(RESULTS):
        PAGE.write_text(render(sets, _load(MEMORY)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(dict.fromkeys(name.split(",")[0] for name in CASES)))
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    if options.memory:
        return _write(MEMORY, measure_memory())
    for name, case in CASES.items():
        if options.only in (None, name.split(",")[0]):
            record = {**_load(RESULTS), name: measure(case)}
            _write(RESULTS, {each: record[each] for each in CASES if each in record})


if __name__ == "__main__":
    main()
