"""The command: run what has no record yet, then write the page.

python -m rivals --jobs 2        from the folder benchmarks
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from rivals import cells, memory, page
from rivals.data import DATA, SEEDS
from rivals.methods import METHODS


def read_options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="number of processes, with one thread each")
    parser.add_argument("--only", type=_names(DATA), help="data sets, separated by commas")
    parser.add_argument("--noises", type=lambda text: text.split(","), help="kinds of noise, separated by commas")
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=SEEDS)
    parser.add_argument("--methods", type=_names(METHODS), help="methods, separated by commas")
    parser.add_argument("--forget", type=_names(METHODS), help="methods to run again, separated by commas")
    parser.add_argument("--results", type=Path, default=cells.RESULTS, help="folder of the records")
    parser.add_argument("--render", action="store_true", help="only write the page")
    return parser.parse_args(arguments)


def run_missing(options: argparse.Namespace) -> None:
    """Run every cell that lacks a method, several at a time, and print the seconds of each."""
    wanted = [
        cell
        for cell in cells.all_cells(options.only)
        if cell.seed in options.seeds and (options.noises is None or cell.noise in options.noises)
    ]
    for cell in wanted:
        cells.forget(cell, options.results, options.forget or ())
    left = [cell for cell in wanted if cells.missing(cell, options.results, options.methods)]
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        jobs = {pool.submit(cells.run, cell, options.results, options.methods): cell for cell in left}
        for number, job in enumerate(as_completed(jobs), 1):
            seconds = job.result()
            took = ", ".join(f"{name} {value:.1f}" for name, value in seconds.items())
            print(
                f"{number}/{len(left)} {jobs[job].path(options.results).stem}: {sum(seconds.values()):.0f} s ({took})",
                flush=True,
            )


def main(arguments: list[str] | None = None) -> None:
    options = read_options(arguments)
    if not options.render:
        run_missing(options)
    if options.results == cells.RESULTS:
        if not memory.load() and not options.render:
            memory.measure()
        page.write(cells.load())
    elif options.render:
        print(page.render(cells.load(options.results)))


def _names(known: Mapping[str, object]) -> Callable[[str], list[str]]:
    """Return a function that reads names separated by commas and refuses unknown ones."""

    def read(text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"expected some of {', '.join(known)}; got {', '.join(unknown)}")
        return names

    return read


if __name__ == "__main__":
    main()
