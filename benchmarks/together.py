"""Is the result the same in 1, 2 and 4 processes? MNIST-3 with wrong labels, trained by torchrun, round by round.

make together      trains for some minutes and writes benchmarks/results/together.json and docs/together.md
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import rockafellian as rk
from measure import table
from rockafellian._internal.comm import rank, shard
from rockafellian.weights.sharding import whole_state
from rockafellian_reproduction.machine import machine
from rockafellian_reproduction.tables import TABLES
from rockafellian_reproduction.training.problems import make

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "results" / "together.json", HERE.parent / "docs" / "together.md"
COLUMNS = ["network", "rule", "weights held", "processes", "rounds", "weights differ by", "same rows"]
PROCESSES, SHARE, EPOCHS, SEED = (1, 2, 4), 0.4, 6, 0
RULES = {"told the share": rk.RRM(contamination=SHARE), "told nothing": rk.RRM()}
PRECISIONS = {"double": torch.float64, "single": torch.float32}
HELD = {"by each process": False, "by one process each": True}


def train(rule: rk.RRM, apart: bool, precision: torch.dtype) -> dict[str, Tensor]:
    """The weights and the fate of each row after every epoch, and the accuracy on clean test rows."""
    recipe = TABLES[3].small
    problem = make(recipe, SHARE, SEED)
    torch.manual_seed(SEED)
    model = problem.network().to(precision)
    (x, y), (test_x, test_y) = problem.train, problem.test
    n = len(problem.wrong)
    weights = rk.SampleWeights(n, rule, rows=shard(n) if apart else None)
    states: list[dict[str, Tensor]] = []
    rk.fit(
        model,
        (x.to(precision), y),
        loss=rk.losses.cce,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        epochs=EPOCHS,
        weights=weights,
        batch_size=recipe.batch_size,
        seed=SEED,
        progress="quiet",
        on_epoch=lambda _: states.append(whole_state(weights)),
    )
    accuracy = rk.evaluate(model, (test_x.to(precision), test_y), loss=rk.losses.cce).accuracy
    last = states[-1]["last_removed"]
    removed = (last == last.max()) & (last > 0)
    return {
        "values": torch.stack([state["values"] for state in states]),
        "last_removed": torch.stack([state["last_removed"] for state in states]),
        "accuracy": torch.tensor(accuracy),
        "precision": problem.wrong[removed].double().mean(),
        "recall": removed[problem.wrong].double().mean(),
    }


def work(out: str) -> None:
    """What each process does."""
    torch.set_num_threads(1)
    if int(os.environ["WORLD_SIZE"]) > 1:
        dist.init_process_group("gloo")
    found = {
        f"{precision} {rule} {held}": train(RULES[rule], apart, PRECISIONS[precision])
        for precision in PRECISIONS
        for rule in RULES
        for held, apart in HELD.items()
    }
    if rank() == 0:
        torch.save(found, out)
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def compare() -> dict[str, Any]:
    """Run them all and compare."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for n in PROCESSES:
            out = f"{folder}/{n}.pt"
            launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n)]
            subprocess.run([*launch, __file__, out], check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
            found[n] = torch.load(out, weights_only=True)
    rows = []
    for precision, rule in product(PRECISIONS, RULES):
        expected = found[1][f"{precision} {rule} by each process"]
        for held in HELD:
            for n in PROCESSES:
                run = found[n][f"{precision} {rule} {held}"]
                rows.append(
                    {
                        "precision of the network": precision,
                        "rule": rule,
                        "held": held,
                        "processes": n,
                        "rounds": int(expected["last_removed"].max()),
                        "weights differ by": float((run["values"] - expected["values"]).abs().max()),
                        "same rows removed": bool(torch.equal(run["last_removed"], expected["last_removed"])),
                        **{name: float(run[name]) for name in ("accuracy", "precision", "recall")},
                    }
                )
    settings = {"share": SHARE, "epochs": EPOCHS, "seed": SEED, "rows": len(expected["values"][0])}
    return {
        "command": "make together",
        "date": str(date.today()),
        "machine": machine(),
        "settings": settings,
        "rows": rows,
    }


def render(record: dict[str, Any]) -> str:
    """The page docs/together.md: all of it comes from the record."""
    about, rows = record["settings"], record["rows"]
    double = [row for row in rows if row["precision of the network"] == "double"]
    differ = max(row["weights differ by"] for row in double)
    same = all(row["same rows removed"] for row in double)
    others = sum(not row["same rows removed"] for row in rows if row not in double)
    lines = [
        "# One process and several",
        "",
        "<!-- Written by benchmarks/together.py from benchmarks/results/together.json. Change those. -->",
        "",
        f"`{record['command']}`, {record['date']}, torch {record['machine']['torch']}, "
        f"{record['machine']['processor']}: MNIST-3, {about['rows']:,} rows of which {about['share']:.0%} have a wrong "
        f"label, {about['epochs']} epochs, seed {about['seed']}. torchrun starts 1, 2 or 4 processes with gloo, and "
        "`fit` trains in them. Weights are compared "
        "after every epoch with those of one process; all processes hold all weights, or each those of its own rows.",
        "",
        f"In double precision weights differ by {differ:.1e} at the most, and the rows removed in each round are "
        f"{'the same in all runs' if same else 'NOT the same in all runs'}. In single precision "
        f"{others} of {len(rows) - len(double)} runs removed other rows: processes add up gradients in another order, "
        "which moves the last digit, and now and then a row across the border.",
        "",
        *table(
            [*COLUMNS, "accuracy", "precision", "recall"],
            [
                [
                    row["precision of the network"],
                    row["rule"],
                    row["held"],
                    str(row["processes"]),
                    str(row["rounds"]),
                    f"{row['weights differ by']:.1e}",
                    "yes" if row["same rows removed"] else "no",
                    *(f"{100 * row[name]:.2f} %" for name in ("accuracy", "precision", "recall")),
                ]
                for row in rows
            ],
        ),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(sys.argv[1])
    else:
        RESULTS.write_text(json.dumps(compare(), indent=1) + "\n")
        PAGE.write_text(render(json.loads(RESULTS.read_text())))
