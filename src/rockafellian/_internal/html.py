"""Small tables for notebooks, with all text escaped."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def html_table(caption: str, head: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a paragraph and a table; None and NaN are empty cells, and floats have three digits."""
    lines = [_row("th", head), *(_row("td", row) for row in rows)]
    return f"<p>{escape(caption)}</p><table>{''.join(lines)}</table>"


def _row(tag: str, values: Iterable[Any]) -> str:
    return "<tr>" + "".join(_cell(tag, value) for value in values) + "</tr>"


def _cell(tag: str, value: Any) -> str:
    if isinstance(value, str):
        return f'<{tag} style="text-align: left">{escape(value)}</{tag}>'
    if isinstance(value, float):
        value = "" if math.isnan(value) else f"{value:.3g}"
    return f"<{tag}>{'' if value is None else value}</{tag}>"
