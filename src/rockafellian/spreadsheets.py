"""CSV files in which a spreadsheet finds nothing to run."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rockafellian.placing import placed

#: What a spreadsheet would take for a formula, or would drop and then take the rest for one.
FORMULA = re.compile(r"'*\s*[\t\r\n=+\-@＝＋－＠]")  # noqa: RUF001 - the wide ones count too
#: What begins like a formula and is none: a label may well be -1.
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


def write_csv(path: Path, head: Sequence[str], blocks: Iterable[Iterable[Iterable[Any]]]) -> None:
    """Write blocks of rows, each block as its columns; None and NaN are empty, floats have seven digits."""
    with placed(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)  # so that no other separator splits a text
        writer.writerow(head)
        for columns in blocks:
            writer.writerows(zip(*(map(_cell, column) for column in columns), strict=True))


def safe(text: str) -> str:
    """The text, with an apostrophe before it if a spreadsheet might run it."""
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, float):
        return "" if math.isnan(value) else float(f"{value:.7g}")
    return "" if value is None else value
