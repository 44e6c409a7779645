"""The summary of a run in a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TextIO

from rockafellian._internal.extras import missing
from rockafellian.auditing.commands.run import open_run

try:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text
except ImportError as error:
    raise missing("rich to show a run", "audit") from error

MOST_CLASSES = 30


def show(folder: Path, file: TextIO) -> None:
    """What was found, class by class; plain lines if the file is no terminal."""
    open_run(folder)
    found = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    console = Console(file=file, highlight=False)
    for line in lines(found):
        console.print(Text(line), soft_wrap=True)  # as text: a label may look like markup
    console.print(_table(found["classes"]))
    console.print(Text(f"review: {folder / 'report.html'}"), soft_wrap=True)


def lines(found: dict[str, Any]) -> list[str]:
    """The figures of a summary in sentences."""
    rows, flagged = found["labelled_rows"], found["flagged_rows"]
    said = [
        f"{flagged:,} of {rows:,} labels look wrong ({flagged / rows:.1%}); for {found['relabelled_rows']:,} of them "
        "the network has another label"
    ]
    if found["estimate"] is not None:
        estimate = found["estimate"]
        said.append(
            f"share of wrong labels: {estimate['rate']:.1%}, likely {estimate['low']:.1%} to {estimate['high']:.1%}"
        )
    said.append(
        f"{found['kind']}; the network saw {found['inputs']}; {found['epochs']} epochs, {found['seconds']:.0f} s"
    )
    for name in ("accuracy_on_given_labels", "validation_accuracy"):
        if found[name] is not None:
            said.append(f"{name.replace('_', ' ')}: {found[name]:.1%}, last epoch")
    return [*said, *found["notices"]]


def _table(classes: dict[str, dict[str, int]]) -> Table:
    table = Table("label", "rows", "look wrong", "share")
    most = sorted(classes.items(), key=lambda item: -item[1]["flagged"])[:MOST_CLASSES]
    for name, counts in most:
        share = f"{counts['flagged'] / counts['rows']:.1%}" if counts["rows"] else ""
        table.add_row(Text(name), f"{counts['rows']:,}", f"{counts['flagged']:,}", share)
    if len(classes) > len(most):
        table.caption = f"the {len(most)} classes with most such rows, of {len(classes)}"
    return table
