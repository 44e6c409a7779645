"""Pages of benchmark results as Markdown: what all renderers share."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

#: A cell of figures: a number, perhaps with a unit, a deviation, a range, a total or a remark in parentheses.
FIGURES = re.compile(
    r"\**[-+]?\d[\d,.]*(e[-+]?\d+)?( ?(%|[a-zA-Z]{1,2}))?( ± [\d.]+)?( to [\d.]+| of \d+)?( \(.*\))?\**"
)


def page(title: str, source: str, *parts: str) -> str:
    """Return a page: its title, a note of what writes it, and the parts that are not empty."""
    return "\n\n".join(part for part in (f"# {title}", _note(source), *parts) if part) + "\n"


def section(title: str, source: str, *parts: str) -> str:
    """Return a section of a page that has others: a note of what writes it, title and parts, and where it ends."""
    end = f"<!-- End of what {source.split()[0]} writes. -->"
    return "\n\n".join(part for part in (_note(source), f"## {title}", *parts, end) if part) + "\n"


def write_section(path: Path, text: str) -> None:
    """Write a section into its page, in place of the one that the same file wrote before."""
    first, *_, last = text.splitlines(keepends=True)
    before, rest = path.read_text(encoding="utf-8").split(first)
    _, after = rest.split(last)
    path.write_text(before + text + after, encoding="utf-8")


def _note(source: str) -> str:
    return f"<!-- Written by {source}. Change those. -->"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; columns of figures are aligned right, all others left."""
    columns = zip(*rows, strict=True)
    aligned = ["---:" if _has_figures_only(column) else "---" for column in columns] or ["---"] * len(head)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, aligned, *rows))


def bullets(items: Iterable[str], otherwise: str) -> str:
    """Return a list, or a sentence where it is empty."""
    return "\n".join(f"- {item}" for item in items) or otherwise


def met(reached: bool | None) -> str:
    """Return the word for a target: yes, no, or a dash where there is none."""
    return "-" if reached is None else "yes" if reached else "**no**"


def spread(values: Iterable[float | None]) -> str:
    """Return mean and standard deviation in per cent, without values that are None; a dash if none is left."""
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    deviation = f" ± {100 * statistics.stdev(known):.1f}" if len(known) > 1 else ""
    return f"{100 * statistics.mean(known):.1f}{deviation}"


def ran(records: Sequence[Mapping[str, Any]], *packages: str) -> str:
    """Return command, dates, machine and versions of some records, as the beginning of a sentence."""
    first, dates = records[0], sorted({record["date"] for record in records})
    where = first["machine"]
    days = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    versions = ", ".join(f"{name} {where[name]}" for name in ("torch", *packages))
    return f"`{first['command']}`, {days}, {where['processor']} with {where['cores']} cores, {versions}"


def _has_figures_only(cells: Iterable[str]) -> bool:
    filled = [cell for cell in cells if cell not in ("", "-")]
    return bool(filled) and all(FIGURES.fullmatch(cell) for cell in filled)
