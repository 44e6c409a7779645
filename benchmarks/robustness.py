"""Hostile input, killed and competing runs, large images, many columns: what holds, and what it costs.

make robustness     runs everything and writes benchmarks/results/robustness.json and docs/robustness.md
--only images       runs one part again and keeps the records of the others
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import pages
import records
from records import Record

RESULTS, PAGE = records.RESULTS / "robustness.json", records.DOCS / "robustness.md"
COMMAND = Path(sys.executable).with_name("rockafellian")
FUZZ = records.BENCHMARKS.parent / "tests" / "fuzz"
CASES, MAX_BYTES = 2_000, 2e9
IMAGES, IMAGE_SIDE, IMAGE_BYTES = 1_000, 2_600, 1e9
ROWS, COLUMNS, COLUMNS_SECONDS = 200, 20_000, 30


def hostile_input() -> Record:
    """Run fresh cases of the fuzzer."""
    return _figures(FUZZ / "fuzz.py", "--cases", str(CASES), "--jobs", "2")


def killed_runs() -> Record:
    """Run audits and `apply` that are killed, and audits that compete for a folder."""
    return _figures(FUZZ / "kills.py", "--trials", "50", "--kills", "30")


def large_images() -> Record:
    """Audit images of 20 MB each."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        draw, size = np.random.default_rng(0), 0
        for number in range(IMAGES):
            path = Path(folder) / "images" / ("dark", "light")[number % 2] / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            noise = draw.integers(0, 250, (IMAGE_SIDE, IMAGE_SIDE, 3), np.uint8) + np.uint8(number % 2 * 5)
            Image.fromarray(noise).save(path, compress_level=0)
            size = max(size, path.stat().st_size)
        return {"images": IMAGES, "megabytes each": round(size / 1e6, 1)} | _audit(folder, "images")


def many_columns() -> Record:
    """Audit a table of many columns."""
    with tempfile.TemporaryDirectory() as folder:
        draw = random.Random(0)
        with (Path(folder) / "wide.csv").open("w") as file:
            file.write(",".join([*(f"c{number}" for number in range(COLUMNS)), "label"]) + "\n")
            for row in range(ROWS):
                cells = [f"{draw.gauss(row % 2 * (column < 50), 1):.3f}" for column in range(COLUMNS)]
                file.write(",".join([*cells, "ab"[row % 2]]) + "\n")
        return {"rows": ROWS, "columns": COLUMNS} | _audit(folder, "wide.csv", "--label", "label")


PARTS: dict[str, Callable[[], Record]] = {
    "fuzz": hostile_input,
    "kills": killed_runs,
    "images": large_images,
    "columns": many_columns,
}


def _figures(script: Path, *arguments: str) -> Record:
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "figures.json"
        subprocess.run([sys.executable, str(script), *arguments, "--json", str(found)], cwd=folder)
        figures: Record = json.loads(found.read_text())
        return figures


def _audit(folder: str, *arguments: str) -> Record:
    """Seconds, peak memory and exit code of an audit in a process of its own."""
    start = time.perf_counter()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([COMMAND, "audit", *arguments, "--out", "run"], cwd=folder, **quiet)
    _, status, used = os.wait4(process.pid, 0)
    return {
        "exit code": os.waitstatus_to_exitcode(status),
        "seconds": round(time.perf_counter() - start, 1),
        "peak memory in GB": round(used.ru_maxrss * 1024 / 1e9, 3),
    }


def targets(record: Record) -> list[tuple[str, str, str, bool]]:
    """Return each target: what it is about, the target, the figure, and whether it is met."""
    fuzz, kills, images, columns = (record[name] for name in PARTS)
    contest, audits, applied = (kills[name] for name in ("two runs in one folder", "audit killed", "apply killed"))
    return [
        (
            f"{fuzz['cases']:,} fresh hostile inputs: tracebacks, hangs, changed cells, left-over files",
            "0",
            str(len(fuzz["problems"])),
            not fuzz["problems"],
        ),
        ("peak memory of these, GB", "2", f"{fuzz['peak memory in GB']:.2f}", fuzz["peak memory in GB"] <= 2),
        (
            f"two runs in one folder, {contest['trials']} trials: mixed",
            "0",
            str(contest["mixed"]),
            not contest["mixed"],
        ),
        (
            f"audits killed after their first checkpoint, {audits['kills']} times, and resumed: other results",
            "0",
            str(audits["other results"]),
            not audits["other results"],
        ),
        (
            f"`apply` killed {applied['kills']} times and run again: other results",
            "0",
            str(applied["other results"]),
            not applied["other results"],
        ),
        (
            f"{images['images']:,} images of {images['megabytes each']:.0f} MB: peak memory, GB",
            "1",
            f"{images['peak memory in GB']:.2f}",
            images["exit code"] == 0 and images["peak memory in GB"] <= 1,
        ),
        (
            f"a table of {columns['columns']:,} columns: seconds",
            str(COLUMNS_SECONDS),
            f"{columns['seconds']:.0f}",
            columns["exit code"] == 0 and columns["seconds"] <= COLUMNS_SECONDS,
        ),
    ]


def render(record: Record) -> str:
    """Return the page."""
    head = ("what", "target", "figure", "met")
    rows = [(what, target, figure, pages.met(reached)) for what, target, figure, reached in targets(record)]
    fuzz = record["fuzz"]
    kinds = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in sorted(fuzz["kinds"].items()))
    return pages.page(
        "Hostile input and interrupted runs",
        "benchmarks/robustness.py from benchmarks/results/robustness.json",
        "A tool that judges other people's data must not lose, mix or misread them. The rule: a command ends with "
        "exit code 0, or with one line of error and exit code 2 and nothing left behind; what it writes has the cells "
        "of what it read.",
        pages.table(head, rows),
        "## How this was measured",
        f"{pages.ran([record])}. Each case of the fuzzer runs in a process of its own with limits on memory and time; "
        "a case is made from its seed and number, and `python tests/fuzz/fuzz.py --seed SEED --only NUMBER` runs it "
        "again. What was written is compared cell by cell with what was read, by other readers than ours (csv, "
        "openpyxl, json, pyarrow).",
        f"Seed {fuzz['seed']}; cases by kind: {kinds}; {fuzz['exit codes'].get('0', 0):,} ended with exit code 0; the "
        f"longest took {fuzz['longest in seconds']:.0f} seconds. A fixed part of 150 cases is in the tests; "
        "`make fuzz` runs fresh ones.",
    )


def main() -> None:
    """Run the parts, record them and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    record: Record = {}
    for name in options.only or PARTS:
        found = PARTS[name]()
        record = records.load(RESULTS) | records.about("make robustness") | {name: found}  # others may run beside it
        records.save(RESULTS, record)
        print(name, record[name], flush=True)
    if PARTS.keys() <= record.keys():
        PAGE.write_text(render(record), encoding="utf-8")


if __name__ == "__main__":
    main()
