"""Processes that are killed, and processes that want the same folder: `python tests/fuzz/kills.py`.

A run that was killed and resumed ends like one that was not; two runs in one folder never mix.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
sys.path.insert(0, str(Path(__file__).parent))

import cases
import fuzz  # noqa: F401 - imports everything, once for all forks
import torch
from inputs import file_of
from sandbox import run_apart, start

#: Files of a run that must be equal, whatever happened on the way.
RESULTS = ("findings.csv", "cleaned.csv", "relabeled.csv")
AUDIT = ["audit", "data.csv", "--label", "label", "--contamination", "0.2"]


def audit(out: str, seed: int = 0, *more: str, epochs: int = 10) -> list[str]:
    """The arguments of a run."""
    return [*AUDIT, "--out", out, "--seed", str(seed), "--epochs", str(epochs), *more]


def results(run: Path) -> list[bytes]:
    """The files of a run that depend on nothing but data and seed."""
    return [(run / name).read_bytes() for name in RESULTS]


def contend(folder: Path, trials: int, draw: random.Random) -> int:
    """Two runs with one --out, started within a moment; return in how many trials their results were mixed."""
    wanted = []
    for seed in (0, 1):
        assert run_apart(partial(cases.call, audit(f"alone-{seed}", seed)), folder).code == 0
        wanted.append(results(folder / f"alone-{seed}"))
    mixed = 0
    for trial in range(trials):
        out = f"both-{trial}"
        flags = draw.choice([[], ["--force"]])
        started = []
        for seed in (0, 1):
            started.append(start(partial(cases.call, audit(out, seed, *flags)), folder))
            time.sleep(draw.choice([0, 0, 0.01, 0.1, 0.5]))
        codes = [each.wait().code for each in started]
        settings = json.loads((folder / out / "settings.json").read_text())
        winner = settings["settings"]["seed"]
        shown = run_apart(partial(cases.call, ["show", out]), folder).code
        good = codes[winner] == 0 and results(folder / out) == wanted[winner] and shown == 0
        good &= (folder / out / "DONE").exists() and sorted(codes) in ([0, 2], [0, 0])
        good &= sorted(codes) == [0, 2] or bool(flags)  # with --force the second may replace the finished first
        mixed += not good
        shutil.rmtree(folder / out)
    return mixed


def kill_audit(folder: Path, kills: int, draw: random.Random) -> tuple[int, int]:
    """Kill runs after their first checkpoint; return how many then ended with other results, and how many had ended."""
    assert run_apart(partial(cases.call, audit("whole", epochs=40)), folder).code == 0
    wanted, bad, ended = results(folder / "whole"), 0, 0
    for number in range(kills):
        out = f"killed-{number}"
        running = start(partial(cases.call, audit(out, epochs=40)), folder)
        deadline = time.monotonic() + 30
        while not (folder / out / "checkpoint" / "checkpoint.safetensors").exists() and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(draw.uniform(0, 1.5))
        with suppress(ProcessLookupError):
            running.kill()
        running.wait()
        done = (folder / out / "DONE").exists()
        ended += done
        if not done:
            again = run_apart(partial(cases.call, audit(out, 0, "--resume", epochs=40)), folder)
            bad += again.code != 0
        bad += results(folder / out) != wanted or bool(list((folder / out).rglob("*.partial")))
        shutil.rmtree(folder / out)
    return bad, ended


def kill_apply(folder: Path, kills: int, draw: random.Random) -> tuple[int, int]:
    """Kill `apply`; return how many files were incomplete or other when made again, and how many were there already."""
    decisions = "".join(f"{row},row-{row},drop,\n" for row in range(0, 40, 3))
    (folder / "decisions.csv").write_text(f"index,id,decision,label\n{decisions}")
    command = ["apply", "whole", "decisions.csv", "--out"]
    first = run_apart(partial(cases.call, [*command, "applied.csv"]), folder)
    assert first.code == 0
    wanted, bad, ended = (folder / "applied.csv").read_bytes(), 0, 0
    for number in range(kills):
        out = folder / f"applied-{number}.csv"
        running = start(partial(cases.call, [*command, out.name]), folder)
        time.sleep(draw.uniform(0, 1.2 * first.seconds))
        with suppress(ProcessLookupError):
            running.kill()
        running.wait()
        ended += out.exists()
        bad += out.exists() and out.read_bytes() != wanted
        again = run_apart(partial(cases.call, [*command, out.name, "--force"]), folder)
        bad += again.code != 0 or out.read_bytes() != wanted or bool(list(folder.glob("*.partial")))
    return bad, ended


def main() -> None:
    """Run all three; exit 1 if anything was lost or mixed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    torch.set_num_threads(1)
    folder, draw = Path(tempfile.mkdtemp(prefix="kills-")), random.Random(options.seed)
    assert run_apart(lambda: file_of("csv", folder, random.Random(3)), folder).code == 0
    mixed = contend(folder, options.trials, draw)
    audits, audits_ended = kill_audit(folder, options.kills, draw)
    applied, applied_ended = kill_apply(folder, options.kills, draw)
    shutil.rmtree(folder)
    figures = {
        "seed": options.seed,
        "two runs in one folder": {"trials": options.trials, "mixed": mixed},
        "audit killed": {"kills": options.kills, "other results": audits, "had ended": audits_ended},
        "apply killed": {"kills": options.kills, "other results": applied, "had ended": applied_ended},
    }
    print(json.dumps(figures))
    if options.json is not None:
        options.json.write_text(json.dumps(figures) + "\n")
    sys.exit(1 if mixed or audits or applied else 0)


if __name__ == "__main__":
    main()
