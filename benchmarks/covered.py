"""How much of the library do its tests run? All tests, in every process that they start.

make coverage      runs them and writes benchmarks/results/coverage.json and docs/coverage.md
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import records
from pages import met, page, ran, table
from records import Record

RECORD, PAGE = records.RESULTS / "coverage.json", records.DOCS / "coverage.md"
ROOT = records.BENCHMARKS.parent
SOURCE = Path("src/rockafellian")
#: The fraction of lines that the tests should run.
TARGET = 0.95
#: In the record, and what coverage.py calls them.
COUNTS = {
    "lines": "num_statements",
    "lines_run": "covered_lines",
    "branches": "num_branches",
    "branches_run": "covered_branches",
}


def measure(jobs: int) -> Record:
    """Run all tests, and return the record; tests that fail end the program, and nothing is recorded."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "coverage.json"
        command = [sys.executable, "-m", "pytest", "--numprocesses", str(jobs), "--dist", "loadfile"]
        command += ["--cov", f"--cov-report=json:{report}"]
        ended = subprocess.run(command, cwd=ROOT, env={**os.environ, "COVERAGE_FILE": str(Path(folder) / "coverage")})
        if ended.returncode:
            sys.exit(ended.returncode)
        return {**records.about("make coverage", "coverage"), "folders": by_folder(json.loads(report.read_text()))}


def by_folder(report: Record) -> dict[str, dict[str, int]]:
    """Return lines and branches by folder of the library, from the report of coverage.py."""
    folders: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(COUNTS, 0))
    for name, found in sorted(report["files"].items()):
        parts = Path(name).relative_to(SOURCE).parts
        counts = folders[f"{parts[0]}/" if len(parts) > 1 else "the top folder"]
        for count, theirs in COUNTS.items():
            counts[count] += found["summary"][theirs]
    return dict(folders)


def total(record: Record) -> dict[str, int]:
    """Return the sums over all folders."""
    return {count: sum(found[count] for found in record["folders"].values()) for count in COUNTS}


def render(record: Record) -> str:
    """Return the page docs/coverage.md; without a record it says how to get one."""
    source = "benchmarks/covered.py from benchmarks/results/coverage.json"
    if not record:
        return page("Coverage of the tests", source, "There is no record yet: `make coverage` measures and writes it.")
    everything = total(record)
    share = everything["lines_run"] / everything["lines"]
    return page(
        "Coverage of the tests",
        source,
        f"The tests run {share:.1%} of the lines of the library and "
        f"{everything['branches_run'] / everything['branches']:.1%} of its branches.",
        table(["target", "figure", "reached"], [[f"{TARGET:.0%} of the lines", f"{share:.1%}", met(share >= TARGET)]]),
        "A line that was run is not a line that was checked: see [deliberate faults](faults.md).",
        "## Results",
        table(
            ["folder of `src/rockafellian`", "lines", "run", "branches", "run"],
            [_row(*item) for item in [*record["folders"].items(), ("all", everything)]],
        ),
        "## How it was measured",
        f"{ran([record], 'coverage')}; all tests and doctests, in every process that they start.",
    )


def _row(name: str, found: dict[str, int]) -> list[str]:
    cells = [name]
    for what in ("lines", "branches"):
        every, run = found[what], found[f"{what}_run"]
        cells += [f"{every:,}", f"{run / every:.1%}" if every else "-"]
    return cells


def main() -> None:
    """Measure, record, and write the page."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--jobs", type=int, default=2, help="processes that run tests")
    records.save(RECORD, measure(options.parse_args().jobs))
    PAGE.write_text(render(records.load(RECORD)), encoding="utf-8")


if __name__ == "__main__":
    main()
