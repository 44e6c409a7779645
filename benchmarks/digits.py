"""RRM beside plain training on scikit-learn's digits with 40 % wrong labels: the demo, over five seeds, on record.

make digits        trains for some seconds and writes benchmarks/results/digits.json and docs/digits.md
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from measure import table
from rockafellian import demo

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "results" / "digits.json", HERE.parent / "docs" / "digits.md"
SEEDS = 5


def render(summary: dict[str, Any]) -> str:
    """The page docs/digits.md: all of it comes from the record."""
    about, versions = summary["settings"], summary["versions"]
    rows = [
        [
            str(row["seed"]),
            *(f"{100 * row[name]:.1f}" for name in demo.COLUMNS),
            f"{100 * (row['rrm'] - row['plain']):+.1f}",
        ]
        for row in summary["seeds"]
    ]
    mean, deviation = summary["mean"], summary["deviation"]
    rows.append(
        [
            "mean",
            *(f"{100 * mean[name]:.1f} ± {100 * deviation[name]:.1f}" for name in demo.COLUMNS),
            f"{100 * (mean['rrm'] - mean['plain']):+.1f}",
        ]
    )
    lines = [
        "# Digits with wrong labels",
        "",
        "<!-- Written by benchmarks/digits.py from benchmarks/results/digits.json. Change those. -->",
        "",
        f"`{summary['command']}`, {summary['date']}, torch {versions['torch']}, scikit-learn "
        f"{versions['scikit-learn']}: {about['train_rows']:,} training rows of which {about['contamination']:.0%} have "
        f"a uniformly wrong label, the rest of the 1,797 as a clean test; an MLP "
        f"64-{about['hidden']}-{about['hidden']}-10, SGD with rate {about['learning_rate']} and momentum "
        f"{about['momentum']}, batches of {about['batch_size']}, "
        f"{about['epochs']} epochs. RRM re-weights every {about['every']} epochs and is told the share of wrong "
        "labels. No clean label is used before the test.",
        "",
        "Per cent after the last epoch; for each seed other labels are wrong and the network starts elsewhere:",
        "",
        *table(["seed", *demo.COLUMNS.values(), "RRM - plain"], rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        summary = json.loads((demo.run(Path(folder), seeds=SEEDS) / "summary.json").read_text())
    RESULTS.write_text(json.dumps(summary, indent=2) + "\n")
    PAGE.write_text(render(summary))


if __name__ == "__main__":
    main()
