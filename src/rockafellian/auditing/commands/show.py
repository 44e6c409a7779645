"""`rockafellian show`: the summary of a run in a terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TextIO

from rockafellian._internal.extras import missing
from rockafellian._internal.printable import printable
from rockafellian.auditing.commands.groups import Group
from rockafellian.auditing.commands.run_folder import SUMMARY, open_run, read_json
from rockafellian.auditing.commands.summary import ClassCounts, Summary
from rockafellian.auditing.report.contents import describe_crisp, doubt_sentence, expected_sentence, trust_sentence

try:
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text
except ImportError as error:
    raise missing("rich to show a run", "audit") from error

MAX_CLASSES = 30


def show(folder: Path, file: TextIO, *, without: Collection[str] = ()) -> None:
    """Print what was found, class by class, without notices the user has seen; plain lines if it is no terminal."""
    found = read_json(open_run(folder).path(SUMMARY), Summary)
    console = Console(file=file, highlight=False)
    for line in lines(found, without):
        console.print(Text(printable(line)), soft_wrap=True)  # Text, as a label may look like markup
    console.print(_table(found.classes))
    console.print(Text(printable(f"review: {folder / 'report.html'}")), soft_wrap=True)


def lines(found: Summary, without: Collection[str] = ()) -> list[str]:
    """Return the figures of a summary in sentences, the conclusions first."""
    rows, flagged, noise_rate = found.labeled_rows, found.flagged_rows, found.noise_rate
    sentences = [trust_sentence(len(found.doubts)), *(f"- {doubt.reason}; {doubt.fix}" for doubt in found.doubts)]
    suggested = "; each has a suggested label" if flagged else ""
    sentences.append(f"{flagged:,} of {rows:,} rows look mislabeled ({flagged / rows:.1%}){suggested}")
    if noise_rate is not None:
        floor, ceiling = noise_rate.floor.low, noise_rate.ceiling.rate
        sentences.append(f"noise rate: {noise_rate.verdict}")
        sentences.append(describe_crisp(noise_rate.crisp, noise_rate.limit, noise_rate.reviewed, floor, ceiling))
        sentences += [doubt_sentence(found.doubtful_rows)] if found.doubtful_rows else []
        bands = found.review.bands
        sentences.append(expected_sentence([band.rows for band in bands], [(band.low, band.high) for band in bands]))
    accuracies = {
        "accuracy on given labels": found.accuracy_on_given_labels,
        "validation accuracy": found.validation_accuracy,
    }
    sentences += [f"{name}: {value:.1%}, last epoch" for name, value in accuracies.items() if value is not None]
    sentences += [notice for notice in found.notices if notice not in without]
    sentences.append(f"{found.kind}; inputs: {found.inputs}; {found.epochs} epochs, {found.seconds:.0f} s")
    return sentences


def show_groups(groups: Sequence[Group], file: TextIO) -> None:
    """Print how many rows of each group are flagged, and of those that people checked how many are wrong."""
    heads = ("rows", "flagged", "fraction", "checked", "wrong")
    table = Table("group", *(Column(name, justify="right") for name in heads))
    for group in groups:
        fraction = f"{group.flagged / group.rows:.1%}" if group.rows else ""
        counts = (f"{group.rows:,}", f"{group.flagged:,}", fraction, f"{group.checked:,}", f"{group.wrong:,}")
        table.add_row(Text(printable(group.name)), *counts)
    Console(file=file, highlight=False).print(table)


def _table(classes: dict[str, ClassCounts]) -> Table:
    table = Table("label", *(Column(name, justify="right") for name in ("rows", "flagged", "fraction")))
    most = sorted(classes.items(), key=lambda item: -item[1].flagged)[:MAX_CLASSES]
    for name, counts in most:
        fraction = f"{counts.flagged / counts.rows:.1%}" if counts.rows else ""
        table.add_row(Text(printable(name)), f"{counts.rows:,}", f"{counts.flagged:,}", fraction)
    if len(classes) > len(most):
        table.caption = f"the {len(most)} classes with most flagged rows, of {len(classes)}"
    return table
