"""`rockafellian show`: the summary of a run in a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TextIO

from rockafellian._internal.extras import missing
from rockafellian.auditing.commands.run import open_run

try:
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text
except ImportError as error:
    raise missing("rich to show a run", "audit") from error

MAX_CLASSES = 30


def show(folder: Path, file: TextIO) -> None:
    """Print what was found, class by class; plain lines if the file is no terminal."""
    open_run(folder)
    found = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    console = Console(file=file, highlight=False)
    for line in lines(found):
        console.print(Text(line), soft_wrap=True)  # Text, as a label may look like markup
    console.print(_table(found["classes"]))
    console.print(Text(f"review: {folder / 'report.html'}"), soft_wrap=True)


def lines(found: dict[str, Any]) -> list[str]:
    """Return the figures of a summary in sentences, the conclusions first."""
    rows, flagged = found["labeled_rows"], found["flagged_rows"]
    sentences = [f"{flagged:,} of {rows:,} rows look mislabeled ({flagged / rows:.1%}); each has a suggested label"]
    if found["estimate"] is not None:
        rate, low, high = (found["estimate"][name] for name in ("rate", "low", "high"))
        sentences.append(f"estimated noise rate: {rate:.1%} (90 % interval {low:.1%} to {high:.1%})")
    for name in ("accuracy_on_given_labels", "validation_accuracy"):
        if found[name] is not None:
            sentences.append(f"{name.replace('_', ' ')}: {found[name]:.1%}, last epoch")
    sentences += found["notices"]
    sentences.append(f"{found['kind']}; inputs: {found['inputs']}; {found['epochs']} epochs, {found['seconds']:.0f} s")
    return sentences


def _table(classes: dict[str, dict[str, int]]) -> Table:
    table = Table("label", *(Column(name, justify="right") for name in ("rows", "flagged", "fraction")))
    most = sorted(classes.items(), key=lambda item: -item[1]["flagged"])[:MAX_CLASSES]
    for name, counts in most:
        fraction = f"{counts['flagged'] / counts['rows']:.1%}" if counts["rows"] else ""
        table.add_row(Text(name), f"{counts['rows']:,}", f"{counts['flagged']:,}", fraction)
    if len(classes) > len(most):
        table.caption = f"the {len(most)} classes with most flagged rows, of {len(classes)}"
    return table
