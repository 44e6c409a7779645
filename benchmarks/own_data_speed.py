"""How long `rockafellian audit` takes: images, texts, a file that is not there; and the way of the tutorial.

make own-data       runs it after own_data.py and writes benchmarks/results/own-data-speed.json, then docs/results.md
--only NAME         runs one case again and keeps the records of the others
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

import own_data
import records
from records import Record
from rockafellian_reproduction import datasets

TUTORIAL, TUTORIAL_CASE = records.DOCS / "tutorial.md", "tutorial"
SMALL = 600


class Speed(NamedTuple):
    """What is audited, with which options; the target, and what it took before, in seconds of processors."""

    write: Callable[[Path], Path]
    options: Sequence[str]
    target: float
    before: float | None
    repeats: int = 1


def nothing(folder: Path) -> Path:
    """the name of a file that is not there"""
    return folder / "nothing.csv"


def small_images(folder: Path) -> Path:
    """the first 600 of CIFAR-10's test images, 32 by 32 pixels, as a folder of PNGs by class"""
    found = datasets.images("cifar-10")
    return write_images(folder / "images", found.test_x[:SMALL].numpy(), found.test_y[:SMALL].numpy())


def mnist(folder: Path) -> Path:
    """MNIST's 10,000 test images as a folder of PNGs by class"""
    found = datasets.images("mnist-10")
    return write_images(folder / "images", found.test_x.numpy(), found.test_y.numpy())


def reviews(folder: Path) -> Path:
    """IMDb's 25,000 test reviews as a CSV"""
    import pandas as pd

    found, path = datasets.reviews(), folder / "reviews.csv"
    pd.DataFrame({"review": found.test, "sentiment": found.test_y.numpy()}).to_csv(path, index=False)
    return path


CASES = {
    "a wrong file name": Speed(nothing, ("--label", "label"), 0.3, None, repeats=5),
    "600 small images": Speed(small_images, (), 10, 64),
    "MNIST": Speed(mnist, (), 60, 457),
    "25,000 reviews": Speed(reviews, ("--label", "sentiment", "--encoder", "none"), 30, 53),
}


def write_images(folder: Path, images: NDArray[Any], labels: NDArray[Any]) -> Path:
    """Write images, each below its label, and return the folder."""
    from PIL import Image

    for row, (image, label) in enumerate(zip(images, labels, strict=True)):
        place = folder / str(label)
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{row:05}.png")
    return folder


def measure(case: Speed) -> Record:
    """Return seconds by the clock and of processors, with one thread; the least of several runs."""
    with tempfile.TemporaryDirectory() as name:
        data, run = case.write(Path(name)), Path(name) / "run"
        more = {"threads": 1, "expected": 0 if data.exists() else 2}
        runs = [own_data.timed_audit(data, run, case.options, **more) for _ in range(case.repeats)]
    return {
        **records.about("make own-data", "rockafellian", "scikit-learn", "pyarrow"),
        "data": case.write.__doc__,
        "options": list(case.options),
        "target": case.target,
        "before": case.before,
        **{name: min(each[name] for each in runs) for name in runs[0]},
    }


def follow_tutorial() -> Record:
    """Return the seconds of each command of the tutorial, run as it stands there, and its number of decisions."""
    blocks = re.findall(
        r"^```(python|console)\n(.*?)^```", TUTORIAL.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    steps = []
    with tempfile.TemporaryDirectory() as name:
        for kind, text in blocks:
            if kind == "python":
                own_data.timed([sys.executable, "-c", text], Path(name))
            elif text.startswith("rockafellian"):
                words = text.split()
                steps.append(
                    {"step": words[1], **own_data.timed([own_data.COMMAND, *words[1:]], Path(name), threads=1)}
                )
        decisions = len((Path(name) / "decisions.csv").read_text().splitlines()) - 1
    return {**records.about("make own-data", "rockafellian", "scikit-learn"), "steps": steps, "decisions": decisions}


def main() -> None:
    """Run all cases, or one, and record them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[*CASES, TUTORIAL_CASE])
    only = parser.parse_args().only
    for name in [*CASES, TUTORIAL_CASE]:
        if only in (None, name):
            made = measure(CASES[name]) if name in CASES else follow_tutorial()
            found = {**records.load(own_data.SPEED), name: made}
            own_data.write(own_data.SPEED, {each: found[each] for each in [*CASES, TUTORIAL_CASE] if each in found})


if __name__ == "__main__":
    main()
