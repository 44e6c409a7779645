"""How fast is one exact re-weighting, compared with a copy of the losses, with HiGHS and with the paper?

make bench        measures, prints, and writes benchmarks/results/reweight.json and docs/cost.md
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

import highs
import records
import rockafellian as rk
from measure import extra_bytes, seconds
from pages import met, ran, section, table, write_section
from records import Record

RESULTS, PAGE = records.RESULTS / "reweight.json", records.DOCS / "cost.md"
GAMMA, CONTAMINATION, SEED = 1.0, 0.4, 0
SIZES = [10**4, 10**5, 10**6, 10**7, 10**8]
HIGHS_SIZES = [5_000, 20_000, 50_000]
HIGHS_REPEATS = 3
#: Rows, and seconds of one re-weighting by CPLEX, from sections 6.1 and 6.2 of the paper.
PAPER = {18_623: 2.86, 50_000: 3.88}
#: Memory of smaller inputs cannot be measured: the process takes it from pages that it has already.
MIN_BYTES = 1 << 25


def draw_losses(n: int) -> torch.Tensor:
    return torch.empty(n).exponential_(generator=torch.Generator().manual_seed(SEED))


def measure(sizes: list[int], highs_sizes: list[int], repeats: int) -> Record:
    """Return the record: seconds and memory by number of rows, and targets."""
    results = {
        **records.about("make bench", "scipy"),
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


def _speed(n: int, repeats: int) -> Record:
    losses = draw_losses(n)

    def gamma_mode() -> torch.Tensor:
        return rk.optimal_weights(losses, gamma=GAMMA)

    def contamination_mode() -> torch.Tensor:
        return rk.optimal_weights(losses, contamination=CONTAMINATION)

    clone_s, gamma_s, contamination_s = seconds(losses.clone, gamma_mode, contamination_mode, repeats=repeats)
    row = {"rows": n, "clone_s": clone_s, "gamma_s": gamma_s, "contamination_s": contamination_s}
    size = losses.element_size() * n
    for mode, job in (("gamma", gamma_mode), ("contamination", contamination_mode)):
        extra = extra_bytes(job) if size >= MIN_BYTES else None
        row[f"{mode}_extra_memory"] = None if extra is None else extra / size
    return row


def _highs(n: int) -> Record:
    losses = draw_losses(n).double()
    highs_s, gamma_s = seconds(
        lambda: highs.solve(losses.numpy(), GAMMA),
        lambda: rk.optimal_weights(losses, gamma=GAMMA),
        repeats=HIGHS_REPEATS,
    )
    difference = highs.solve(losses.numpy(), GAMMA)[0] - float(rk.optimal_value(losses, gamma=GAMMA))
    return {"rows": n, "highs_s": highs_s, "gamma_s": gamma_s, "highs_objective_minus_ours": difference}


def _targets(results: Record) -> list[Record]:
    speed = {row["rows"]: row for row in results["speed"]}
    grown = [row for row in results["speed"] if row["rows"] >= 10**5]
    found = []
    for mode, limit in (("gamma", 6), ("contamination", 10)):
        if row := speed.get(10**7):
            found.append(_at_most(f"{mode} mode / clone at 1e7 rows", row[f"{mode}_s"] / row["clone_s"], limit))
        if len(grown) > 1:
            rows, times = np.log([[row["rows"], row[f"{mode}_s"]] for row in grown]).T
            exponent = float(np.polyfit(rows, times, 1)[0])
            found.append(_at_most(f"{mode} mode, exponent of growth from 1e5 rows", exponent, 1.1))
        large = results["speed"][-1]
        if (extra := large[f"{mode}_extra_memory"]) is not None:
            found.append(_at_most(f"{mode} mode, extra memory / input at {large['rows']:.0e} rows", extra, 3))
    for row in results["highs"]:
        if row["rows"] == 20_000:
            ratio = row["highs_s"] / row["gamma_s"]
            what = "HiGHS / gamma mode at 20,000 rows"
            found.append({"what": what, "limit": ">= 1,000", "measured": ratio, "met": ratio >= 1000})
    return found


def _at_most(what: str, measured: float, limit: float) -> Record:
    return {"what": what, "limit": f"<= {limit:,g}", "measured": measured, "met": measured <= limit}


def render(results: Record) -> str:
    """Return the section of docs/cost.md on one re-weighting."""
    about = results["settings"]
    return section(
        "One re-weighting",
        "benchmarks/reweight.py from benchmarks/results/reweight.json",
        _summary(results),
        "### Results",
        "All times are in milliseconds. Memory is the peak above the losses themselves, in units of their size; the "
        "result takes 1.00 of it.",
        _by_rows(results["speed"]),
        f"The same linear program by scipy's HiGHS, in float64, medians of {about['highs_repeats']} runs. The gap says "
        "by how much the objective of HiGHS is worse:",
        _by_solver(results["highs"]),
        "The times printed in the paper (sections 6.1 and 6.2, CPLEX 12.8 on another machine):",
        table(
            ["rows", "paper", "closed form here"],
            [[f"{row['rows']:,}", _ms(row["paper_s"]), _ms(row["gamma_s"])] for row in results["paper"]],
        ),
        "### Targets",
        table(
            ["what", "target", "measured", "met"],
            [[row["what"], row["limit"], f"{row['measured']:,.2f}", met(row["met"])] for row in results["targets"]],
        ),
        "### How it was measured",
        f"{ran([results], 'numpy', 'scipy')}. Losses: {about['losses']}, seed {about['seed']}; gamma "
        f'{about["gamma"]}, contamination {about["contamination"]}, spread="{about["spread"]}". Medians of '
        f"{about['repeats']} runs, in which the jobs take turns.",
    )


def _summary(results: Record) -> str:
    row, solver = results["speed"][-1], results["highs"][-1]
    return (
        f"The exact weights of {row['rows']:,} rows take {_ms(row['gamma_s'])} ms for a given `gamma` and "
        f"{_ms(row['contamination_s'])} ms for a given `contamination`: {row['gamma_s'] / row['clone_s']:.1f} and "
        f"{row['contamination_s'] / row['clone_s']:.1f} times as long as a copy of the losses. A general solver "
        f"(HiGHS) takes {solver['highs_s'] / solver['gamma_s']:,.0f} times as long on {solver['rows']:,} rows."
    )


def _by_rows(rows: list[Record]) -> str:
    cells = [
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
        for row in rows
    ]
    return table(["rows", "clone", "gamma", "/ clone", "memory", "contamination", "/ clone", "memory"], cells)


def _by_solver(rows: list[Record]) -> str:
    cells = [
        [
            f"{row['rows']:,}",
            _ms(row["highs_s"]),
            _ms(row["gamma_s"]),
            f"{row['highs_s'] / row['gamma_s']:,.0f}",
            f"{row['highs_objective_minus_ours']:.1e}",
        ]
        for row in rows
    ]
    return table(["rows", "HiGHS", "closed form", "times faster", "gap of HiGHS"], cells)


def _ms(value: float) -> str:
    return f"{1000 * value:,.3g}" if value < 1 else f"{1000 * value:,.0f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    results = measure(SIZES, HIGHS_SIZES, parser.parse_args().repeats)
    records.save(RESULTS, results)
    write_section(PAGE, render(results))
    print(render(results))


if __name__ == "__main__":
    main()
