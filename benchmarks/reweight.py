"""How fast is one exact re-weighting? Beside a copy of the losses, beside HiGHS, and beside the times in the paper.

make bench        measures, prints, and records benchmarks/results/reweight.json and docs/speed.md
"""

from __future__ import annotations

import argparse
import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

import highs
import rockafellian as rk
from measure import extra_bytes, seconds, table
from rockafellian_reproduction.machine import machine

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "results" / "reweight.json", HERE.parent / "docs" / "speed.md"
GAMMA, CONTAMINATION, SEED = 1.0, 0.4, 0
SIZES = [10**4, 10**5, 10**6, 10**7, 10**8]
HIGHS_SIZES = [5_000, 20_000, 50_000]
HIGHS_REPEATS = 3
PAPER = {18_623: 2.86, 50_000: 3.88}  # rows: seconds of one re-weighting by CPLEX, sections 6.1 and 6.2


def draw_losses(n: int) -> torch.Tensor:
    return torch.empty(n).exponential_(generator=torch.Generator().manual_seed(SEED))


def measure(sizes: list[int], highs_sizes: list[int], repeats: int) -> dict[str, Any]:
    results = {
        "command": "make bench",
        "date": date.today().isoformat(),
        "machine": machine("scipy"),
        "settings": {
            "losses": "exponential, float32",
            "gamma": GAMMA,
            "contamination": CONTAMINATION,
            "spread": "argmin",
            "seed": SEED,
            "repeats": repeats,
            "highs_repeats": HIGHS_REPEATS,
        },
        "speed": [_speed(n, repeats) for n in sizes],
        "highs": [_highs(n) for n in highs_sizes],
        "paper": [
            {"rows": n, "paper_s": printed, "gamma_s": _speed(n, repeats)["gamma_s"]} for n, printed in PAPER.items()
        ],
    }
    return {**results, "targets": _targets(results)}


def _speed(n: int, repeats: int) -> dict[str, Any]:
    losses = draw_losses(n)

    def gamma_mode() -> torch.Tensor:
        return rk.optimal_weights(losses, gamma=GAMMA)

    def contamination_mode() -> torch.Tensor:
        return rk.optimal_weights(losses, contamination=CONTAMINATION)

    clone_s, gamma_s, contamination_s = seconds(losses.clone, gamma_mode, contamination_mode, repeats=repeats)
    row = {"rows": n, "clone_s": clone_s, "gamma_s": gamma_s, "contamination_s": contamination_s}
    size = losses.element_size() * n
    for mode, job in (("gamma", gamma_mode), ("contamination", contamination_mode)):
        extra = extra_bytes(job) if size >= 1 << 25 else None  # less is drawn from pages that the process has already
        row[f"{mode}_extra_memory"] = None if extra is None else extra / size
    return row


def _highs(n: int) -> dict[str, Any]:
    losses = draw_losses(n).double()
    highs_s, gamma_s = seconds(
        lambda: highs.solve(losses.numpy(), GAMMA),
        lambda: rk.optimal_weights(losses, gamma=GAMMA),
        repeats=HIGHS_REPEATS,
    )
    difference = highs.solve(losses.numpy(), GAMMA)[0] - float(rk.optimal_value(losses, gamma=GAMMA))
    return {"rows": n, "highs_s": highs_s, "gamma_s": gamma_s, "highs_objective_minus_ours": difference}


def _targets(results: dict[str, Any]) -> list[dict[str, Any]]:
    speed = {row["rows"]: row for row in results["speed"]}
    grown = [row for row in results["speed"] if row["rows"] >= 10**5]
    found = []

    def target(what: str, measured: float, limit: float, *, at_least: bool = False) -> None:
        met = measured >= limit if at_least else measured <= limit
        found.append(
            {"what": what, "limit": f"{'>=' if at_least else '<='} {limit:,g}", "measured": measured, "met": met}
        )

    for mode, limit in (("gamma", 6), ("contamination", 10)):
        if row := speed.get(10**7):
            target(f"{mode} mode / clone at 1e7 rows", row[f"{mode}_s"] / row["clone_s"], limit)
        if len(grown) > 1:
            rows, times = np.log([[row["rows"], row[f"{mode}_s"]] for row in grown]).T
            target(f"{mode} mode, exponent of growth from 1e5 rows", float(np.polyfit(rows, times, 1)[0]), 1.1)
        large = results["speed"][-1]
        if (extra := large[f"{mode}_extra_memory"]) is not None:
            target(f"{mode} mode, extra memory / input at {large['rows']:.0e} rows", extra, 3)
    for row in results["highs"]:
        if row["rows"] == 20_000:
            target("HiGHS / gamma mode at 20,000 rows", row["highs_s"] / row["gamma_s"], 1000, at_least=True)
    return found


def render(results: dict[str, Any]) -> str:
    """The page docs/speed.md: all of it comes from the record."""
    about, where = results["settings"], results["machine"]
    lines = [
        "# Speed of one re-weighting",
        "",
        "<!-- Written by benchmarks/reweight.py from benchmarks/results/reweight.json. Change those. -->",
        "",
        f"`{results['command']}`, {results['date']}: {where['processor']}, {where['cores']} cores, "
        f"torch {where['torch']}, numpy {where['numpy']}, scipy {where['scipy']}. Losses: {about['losses']}, "
        f"seed {about['seed']}; gamma {about['gamma']}, contamination {about['contamination']}, "
        f'spread="{about["spread"]}". Medians of {about["repeats"]} turns, in milliseconds; "memory" is the peak above '
        "the losses themselves, in units of their size, and the result is 1 of it.",
        "",
        *table(
            ["rows", "clone", "gamma", "/ clone", "memory", "contamination", "/ clone", "memory"],
            [
                [
                    f"{row['rows']:.0e}",
                    _ms(row["clone_s"]),
                    _ms(row["gamma_s"]),
                    f"{row['gamma_s'] / row['clone_s']:.1f}",
                    _ratio(row["gamma_extra_memory"]),
                    _ms(row["contamination_s"]),
                    f"{row['contamination_s'] / row['clone_s']:.1f}",
                    _ratio(row["contamination_extra_memory"]),
                ]
                for row in results["speed"]
            ],
        ),
        "",
        f"The same linear program, float64, by scipy's HiGHS, medians of {about['highs_repeats']} turns; the last "
        "column says how much worse its objective is:",
        "",
        *table(
            ["rows", "HiGHS", "closed form", "times faster", "HiGHS's gap"],
            [
                [
                    f"{row['rows']:,}",
                    _ms(row["highs_s"]),
                    _ms(row["gamma_s"]),
                    f"{row['highs_s'] / row['gamma_s']:,.0f}",
                    f"{row['highs_objective_minus_ours']:.1e}",
                ]
                for row in results["highs"]
            ],
        ),
        "",
        "The times printed in the paper (sections 6.1 and 6.2, CPLEX 12.8 on another machine):",
        "",
        *table(
            ["rows", "paper", "closed form here"],
            [[f"{row['rows']:,}", _ms(row["paper_s"]), _ms(row["gamma_s"])] for row in results["paper"]],
        ),
        "",
        "Targets:",
        "",
        *table(
            ["what", "target", "measured", "met"],
            [
                [row["what"], row["limit"], f"{row['measured']:,.2f}", "yes" if row["met"] else "no"]
                for row in results["targets"]
            ],
        ),
    ]
    return "\n".join(lines) + "\n"


def _ms(value: float) -> str:
    return f"{1000 * value:,.3g}" if value < 1 else f"{1000 * value:,.0f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    results = measure(SIZES, HIGHS_SIZES, parser.parse_args().repeats)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    PAGE.write_text(render(results))
    print(render(results))


if __name__ == "__main__":
    main()
