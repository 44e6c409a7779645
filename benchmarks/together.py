"""Is the result the same in 1, 2 and 4 processes? MNIST-3 with label noise, trained by torchrun, epoch by epoch.

make together      trains for some minutes and writes benchmarks/results/together.json and docs/cost.md
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from itertools import product
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import records
import rockafellian as rk
from pages import met, ran, section, table, write_section
from records import Record
from rockafellian._internal.comm import rank
from rockafellian.weights.sharding import whole_state
from rockafellian_reproduction.tables import TABLES
from rockafellian_reproduction.training.problems import make

RESULTS, PAGE = records.RESULTS / "together.json", records.DOCS / "cost.md"
PROCESSES, SHARE, EPOCHS, SEED = (1, 2, 4), 0.4, 6, 0
#: By the names of the record.
RULES = {"told the share": rk.RRM(contamination=SHARE), "told nothing": rk.RRM(crisp=True)}
PRECISIONS = {"double": torch.float64, "single": torch.float32}
HELD = {"by each process": False, "by one process each": True}
#: The same on the page.
RULE_NAMES = {"told the share": f"`RRM(contamination={SHARE})`", "told nothing": "`RRM(crisp=True)`"}
HELD_NAMES = {"by each process": "replicated", "by one process each": "sharded"}


def train(rule: rk.RRM, sharded: bool, precision: torch.dtype) -> dict[str, Tensor]:
    """Return weights and removals of each row after every epoch, and what came of the training."""
    recipe = TABLES[3].small
    problem = make(recipe, SHARE, SEED)
    torch.manual_seed(SEED)
    model = problem.network().to(precision)
    (x, y), (test_x, test_y) = problem.train, problem.test
    n = len(problem.wrong)
    weights = rk.SampleWeights(n, rule, rows=rk.shard(n) if sharded else None)
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
    """Train every combination in one process of several; the first writes the outcomes."""
    torch.set_num_threads(1)
    if int(os.environ["WORLD_SIZE"]) > 1:
        dist.init_process_group("gloo")
    found = {
        f"{precision} {rule} {held}": train(RULES[rule], sharded, PRECISIONS[precision])
        for precision in PRECISIONS
        for rule in RULES
        for held, sharded in HELD.items()
    }
    if rank() == 0:
        torch.save(found, out)
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def compare() -> Record:
    """Return the record: every run beside that of one process with replicated weights."""
    found = {n: _run(n) for n in PROCESSES}
    rows = []
    for precision, rule in product(PRECISIONS, RULES):
        expected = found[1][f"{precision} {rule} by each process"]
        for held, n in product(HELD, PROCESSES):
            about = {"precision of the network": precision, "rule": rule, "held": held, "processes": n}
            rows.append({**about, **_difference(found[n][f"{precision} {rule} {held}"], expected)})
    settings = {"share": SHARE, "epochs": EPOCHS, "seed": SEED, "rows": len(expected["values"][0])}
    return {**records.about("make together"), "settings": settings, "rows": rows}


def _run(n: int) -> dict[str, dict[str, Tensor]]:
    """Return the outcomes of `work` in n processes."""
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/found.pt"
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n)]
        subprocess.run([*launch, __file__, out], check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        return torch.load(out, weights_only=True)


def _difference(run: dict[str, Tensor], expected: dict[str, Tensor]) -> dict[str, Any]:
    return {
        "rounds": int(expected["last_removed"].max()),
        "weights differ by": float((run["values"] - expected["values"]).abs().max()),
        "same rows removed": bool(torch.equal(run["last_removed"], expected["last_removed"])),
        **{name: float(run[name]) for name in ("accuracy", "precision", "recall")},
    }


def render(record: Record) -> str:
    """Return the section of docs/cost.md on equal results."""
    about, rows = record["settings"], record["rows"]
    double = [row for row in rows if row["precision of the network"] == "double"]
    differ = max(row["weights differ by"] for row in double)
    same = all(row["same rows removed"] for row in double)
    single = [row for row in rows if row not in double]
    others = sum(not row["same rows removed"] for row in single)
    return section(
        "One process or several",
        "benchmarks/together.py from benchmarks/results/together.json",
        f"In double precision yes: the weights of 1, 2 and 4 processes differ by {differ:.1e} at most, and each "
        f"re-weighting removes {'the same rows' if same else '**other rows** in some runs'}, with replicated and with "
        "sharded weights.",
        "### Limits",
        f"In single precision {others} of {len(single)} runs removed other rows: processes sum gradients in another "
        "order, which changes the last digit and sometimes moves a row across the threshold.",
        "### Results",
        "Each run is compared after every epoch with that of one process. Accuracy is that on clean test rows; "
        "precision and recall are those of the removed rows.",
        _runs(rows),
        "### How it was measured",
        f"{ran([record])}. MNIST-3, {about['rows']:,} rows with {about['share']:.0%} label noise, {about['epochs']} "
        f"epochs of `fit`, seed {about['seed']}; torchrun starts the processes, with gloo.",
    )


def _runs(rows: list[Record]) -> str:
    head = ["network", "rule", "weights", "processes", "re-weightings", "weights differ by", "same rows"]
    cells = [
        [
            row["precision of the network"],
            RULE_NAMES[row["rule"]],
            HELD_NAMES[row["held"]],
            str(row["processes"]),
            str(row["rounds"]),
            f"{row['weights differ by']:.1e}",
            met(row["same rows removed"]),
            *(f"{100 * row[name]:.2f} %" for name in ("accuracy", "precision", "recall")),
        ]
        for row in rows
    ]
    return table([*head, "accuracy", "precision", "recall"], cells)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(sys.argv[1])
    else:
        records.save(RESULTS, compare())
        write_section(PAGE, render(records.load(RESULTS)))
