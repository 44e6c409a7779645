"""Hostile files, options, run folders and checkpoints for every command: `python tests/fuzz/fuzz.py --cases 2000`.

The rule: exit 0, or one line and exit 2 with nothing left behind; no hang, no traceback, bounded memory, and what was
written has the cells of what was read. A case is made from its seed and number alone: `--only 17` runs it again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1"}
sys.path.insert(0, str(Path(__file__).parent))

import cases
import torch

import rockafellian.auditing.commands.apply
import rockafellian.auditing.commands.export
import rockafellian.auditing.commands.predict
import rockafellian.auditing.commands.run
import rockafellian.auditing.commands.show
import rockafellian.cli.main  # noqa: F401 - imported once, for all forks


def main() -> None:
    """Run the cases; exit 1 if one broke the rule."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", type=int, help="run this case alone, and keep its folder")
    parser.add_argument("--jobs", type=int, default=1, help="run so many cases at a time")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    torch.set_num_threads(1)
    work = Path(tempfile.mkdtemp(prefix="fuzz-"))
    cases.make_bases(_made(work / "bases"))
    numbers = range(options.cases) if options.only is None else [options.only]
    start, kinds, codes, problems, most, longest = time.monotonic(), Counter(), Counter(), [], 0, 0.0
    with ProcessPoolExecutor(options.jobs, get_context("fork")) as pool:
        found = list(
            zip(numbers, pool.map(partial(_run, options.seed, work, options.only is None), numbers), strict=True)
        )
    for number, judged in found:
        kinds[judged.kind] += 1
        codes[judged.outcome.code] += 1
        most, longest = max(most, judged.outcome.bytes), max(longest, judged.outcome.seconds)
        if judged.problem is not None:
            problems.append(number)
        if options.only is not None:
            print(judged, work / str(number))
    if options.only is None:
        shutil.rmtree(work)
    figures = {
        "seed": options.seed,
        "cases": len(numbers),
        "problems": problems,
        "exit codes": dict(codes),
        "kinds": dict(kinds),
        "peak memory in GB": round(most / 1e9, 3),
        "longest in seconds": round(longest, 1),
        "seconds": round(time.monotonic() - start, 1),
    }
    print(json.dumps(figures))
    if options.json is not None:
        options.json.write_text(json.dumps(figures) + "\n")
    sys.exit(1 if problems else 0)


def _run(seed: int, work: Path, forget: bool, number: int) -> cases.Judged:
    folder = work / str(number)
    judged = cases.run_case(seed, number, folder)
    if judged.problem is not None:
        print(f"case {number} of seed {seed}: {judged.problem}", flush=True)
    if forget:
        shutil.rmtree(folder)
    return judged


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    main()
