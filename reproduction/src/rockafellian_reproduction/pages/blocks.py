"""A page as blocks, and blocks as Markdown, as HTML, as plain text, and on a terminal.

Text in a block is one line and may hold anything printable: each form shows it unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TextIO, TypeAlias

from jinja2 import Environment
from rich.console import Console
from rich.table import Table


class Heading(NamedTuple):
    """A title; level 1 is the page's."""

    level: int
    text: str


class Text(NamedTuple):
    """A paragraph."""

    text: str


class Points(NamedTuple):
    """A list."""

    items: list[str]


class Commands(NamedTuple):
    """Lines for a shell."""

    lines: list[str]


class Grid(NamedTuple):
    """A table; the first `left` columns hold text and are aligned left, the others hold figures."""

    head: list[str]
    rows: list[list[str]]
    left: int = 1


class Picture(NamedTuple):
    """An SVG element and its caption, which replaces it where only text is shown."""

    svg: str
    caption: str


class Fold(NamedTuple):
    """Blocks that a reader opens by their title; left out where only text is shown."""

    title: str
    blocks: list[Block]


Block: TypeAlias = "Heading | Text | Points | Commands | Grid | Picture | Fold"


def markdown(blocks: Iterable[Block], note: str) -> str:
    """Return a Markdown page whose source has a note under its first block, the title."""
    title, *rest = map(_to_markdown, blocks)
    return "\n\n".join([title, f"<!-- {note} -->", *rest]) + "\n"


def html(blocks: Iterable[Block], title: str) -> str:
    """Return an HTML page in one file that needs no other."""
    template = Environment(autoescape=True, trim_blocks=True).from_string(HTML)
    return template.render(title=title, blocks=list(_flatten(blocks)))


def _flatten(blocks: Iterable[Block]) -> Iterator[tuple[str, Block | None]]:
    """Yield the kind of each block and the block; those in a fold between it and `End`."""
    for block in blocks:
        yield type(block).__name__, block
        if isinstance(block, Fold):
            yield from _flatten(block.blocks)
            yield "End", None


def plain(blocks: Iterable[Block]) -> str:
    """Return plain text in aligned columns."""
    return "\n\n".join(_align(block) for block in blocks if not isinstance(block, Fold)) + "\n"


def show(blocks: Iterable[Block], file: TextIO) -> None:
    """Print blocks: by rich on a terminal, as plain text elsewhere."""
    if file.isatty():
        _show_rich(blocks, file)
    else:
        file.write(plain(blocks))


def _to_markdown(block: Block) -> str:
    match block:
        case Fold(title, inner):
            parts = [f"<details><summary>{_escape(title)}</summary>", *map(_to_markdown, inner), "</details>"]
            return "\n\n".join(parts)
        case Heading(level, line):
            return f"{'#' * level} {_escape(line)}"
        case Text(line) | Picture(_, line):
            return _escape(line)
        case Points(items):
            return "\n".join(f"- {_escape(item)}" for item in items)
        case Commands(lines):
            return "\n".join(["```console", *lines, "```"])
        case Grid(head, rows, left):
            ruler = ["---" if i < left else "---:" for i in range(len(head))]
            escaped = [[_escape(cell).replace("|", "\\|") for cell in row] for row in (head, *rows)]
            return "\n".join("| " + " | ".join(row) + " |" for row in (escaped[0], ruler, *escaped[1:]))


def _escape(line: str) -> str:
    """Return text that Markdown shows unchanged: no tags, no links, no code."""
    for mark, shown in (("&", "&amp;"), ("<", "&lt;"), ("`", "\\`"), ("](", "]\\(")):
        line = line.replace(mark, shown)
    return line


def _align(block: Block) -> str:
    match block:
        case Fold(title, _):
            return title
        case Heading(_, line):
            return f"{line}\n{'-' * len(line)}"
        case Text(line) | Picture(_, line):
            return line
        case Points(items):
            return "\n".join(f"- {item}" for item in items)
        case Commands(lines):
            return "\n".join(lines)
        case Grid(head, rows, left):
            widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
            forms = [f"{'<' if i < left else '>'}{width}" for i, width in enumerate(widths)]
            return "\n".join("  ".join(map(format, row, forms)).rstrip() for row in (head, *rows))


def _show_rich(blocks: Iterable[Block], file: TextIO) -> None:
    console = Console(file=file, markup=False, highlight=False, emoji=False)
    for block in blocks:
        if isinstance(block, Fold):
            continue
        if isinstance(block, Grid):
            shown = Table(box=None)
            for i, head in enumerate(block.head):
                shown.add_column(head, justify="left" if i < block.left else "right")
            for row in block.rows:
                shown.add_row(*row)
            console.print(shown)
        else:
            console.print(_align(block), style="bold" if isinstance(block, Heading) else "")
        console.print()


HTML = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-size: .9rem }
th, td { padding: .2rem .7rem; text-align: right; vertical-align: top; border-bottom: 1px solid #8884 }
.text { text-align: left }
svg { min-width: 30rem; max-width: 100%; height: auto }
summary { cursor: pointer } details { margin: .5rem 0 }
figure { margin: 1rem 0 } figcaption { font-size: .9rem }
pre { overflow-x: auto; padding: .6rem; background: #8882 }
</style>
</head>
<body>
{% for kind, block in blocks %}
{% if kind == "Heading" %}
<h{{ block.level }}>{{ block.text }}</h{{ block.level }}>
{% elif kind == "Text" %}
<p>{{ block.text }}</p>
{% elif kind == "Points" %}
<ul>{% for item in block.items %}<li>{{ item }}</li>{% endfor %}</ul>
{% elif kind == "Commands" %}
<pre>{{ block.lines | join("\n") }}</pre>
{% elif kind == "Grid" %}
<div class="wide"><table>
{% for row in [block.head] + block.rows %}{% set tag = "th" if loop.first else "td" %}
<tr>
{% for cell in row %}
<{{ tag }}{% if loop.index <= block.left %} class="text"{% endif %}>{{ cell }}</{{ tag }}>
{% endfor %}
</tr>
{% endfor %}
</table></div>
{% elif kind == "Fold" %}
<details><summary>{{ block.title }}</summary>
{% elif kind == "End" %}
</details>
{% else %}
<figure><div class="wide" role="img" aria-label="{{ block.caption }}">{{ block.svg | safe }}</div>
<figcaption>{{ block.caption }}</figcaption></figure>
{% endif %}
{% endfor %}
</body>
</html>
"""
