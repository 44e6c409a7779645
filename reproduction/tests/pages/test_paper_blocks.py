"""Blocks, and pages made of them, in every form: Markdown, HTML, plain text and a terminal."""

import io
import re
from html.parser import HTMLParser

import pytest
from tiny import comparison, full_record, report

from rockafellian_reproduction.pages import blocks, page
from rockafellian_reproduction.pages.blocks import Commands, Fold, Grid, Heading, Picture, Points, Text
from rockafellian_reproduction.pages.compare import NUMBERS, Comparison, Report
from rockafellian_reproduction.tables import TABLES

HOSTILE = "<script>alert(1)</script> | `x` [a](b) \x1b[31m"


@pytest.fixture(scope="module")
def whole() -> Report:
    return report(*map(comparison, NUMBERS))


@pytest.fixture(scope="module")
def web(whole: Report) -> str:
    return page.html(whole)


class Content(HTMLParser):
    """Tags and text of a page."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.cells: list[str] = []
        self.text = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs) -> None:
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.cells and data.strip():
            self.cells[-1] += data


ODD = "<b> & `x` [a](b) | {{ 1 + 1 }}"
GRID = Grid(["n", ODD], [["1", "2"], ["long", ODD]])
FOLD = Fold(ODD, [Text("inside"), GRID])
BLOCKS = [Heading(1, ODD), Text(ODD), Points([ODD]), Commands(["a", "b"]), Picture("<svg></svg>", ODD), GRID]


def test_markdown_shows_any_text_as_it_is() -> None:
    shown = r"&lt;b> &amp; \`x\` [a]\(b) | {{ 1 + 1 }}"
    cell = shown.replace("|", r"\|")
    parts = [f"# {shown}", "<!-- a note -->", shown, f"- {shown}", "```console\na\nb\n```", shown]
    table = f"| n | {cell} |\n| --- | ---: |\n| 1 | 2 |\n| long | {cell} |\n"
    assert blocks.markdown(BLOCKS, "a note") == "\n\n".join([*parts, table])


def test_plain_text_aligns_figures_right_and_text_left() -> None:
    assert blocks.plain(BLOCKS).count(ODD) == 6
    assert blocks.plain([GRID]).splitlines()[1] == "1     " + "2".rjust(len(ODD))
    assert blocks.plain([GRID._replace(left=2)]).splitlines()[1] == "1     2"


def test_a_fold_opens_in_pages_and_is_left_out_of_text() -> None:
    shown = blocks.markdown([Heading(1, "a"), FOLD], "note")
    assert r"<details><summary>&lt;b> &amp; \`x\` [a]\(b) | {{ 1 + 1 }}</summary>" in shown
    assert shown.index("<details>") < shown.index("\n\ninside\n\n") < shown.index("| n |") < shown.index("</details>")
    web = Content(blocks.html([FOLD, Text("after")], ""))
    assert web.tags.count("details") == web.tags.count("summary") == web.tags.count("table") == 1
    assert ODD in web.text
    assert blocks.plain([Text("before"), FOLD]) == "before\n"


def test_html_marks_the_cells_of_text_columns() -> None:
    assert re.findall(r'<t[hd] class="text">(.*)</t', blocks.html([GRID._replace(head=["n", "m"])], "")) == [
        "n",
        "1",
        "long",
    ]


def test_html_escapes_any_text_and_keeps_the_pictures() -> None:
    content = Content(blocks.html(BLOCKS, ODD))
    assert content.text.count(ODD) == 7
    assert "svg" in content.tags
    assert "b" not in content.tags


def test_both_pages_are_the_same_when_written_again() -> None:
    first, second = (report(comparison(2), comparison(5)) for _ in range(2))
    assert page.markdown(first) == page.markdown(second)
    assert page.html(first) == page.html(second)


def test_the_web_page_has_the_tables_of_the_other(whole: Report, web: str) -> None:
    lines = [line for line in page.markdown(whole).splitlines() if line.startswith("|") and "---" not in line]
    assert Content(web).cells[0] == "table"
    assert web.count("<tr>") == len(lines)
    shown = {cell.strip() for cell in Content(web).cells}
    assert {"98.5 ± 0.7 (98)", "33.3 (96.7)", "2,860 at 18,623 rows"} <= shown


def test_the_web_page_is_one_file_without_script_that_follows_the_readers_colors(web: str) -> None:
    content = Content(web)
    assert "script" not in content.tags
    assert not [link for link in content.links if not link.startswith("#")]
    assert "http" not in re.sub(r'xmlns(:xlink)?="[^"]*"', "", web)
    assert "color-scheme: light dark" in web
    assert "overflow-x: auto" in web
    assert 'name="viewport"' in web
    assert "#010203" not in web


def test_the_web_page_has_a_plot_of_each_table_and_no_id_twice(web: str) -> None:
    ids = re.findall(r'\bid="([^"]+)"', web)
    assert web.count("<svg") == len(NUMBERS)
    assert len(ids) == len(set(ids))
    used = re.findall(r'(?:href="|url\()#([^")]+)', web)
    assert used
    assert set(used) <= set(ids)


@pytest.mark.parametrize("where", ["cell", "seed", "machine", "date", "diverged"])
def test_hostile_text_in_a_record_is_shown_as_text(where: str) -> None:
    bad = full_record(3, TABLES[3].cells[0], 0, diverged="inf")  # the cell of such a run is shown as recorded
    bad[where] = {"loss": HOSTILE} if where == "cell" else {"processor": HOSTILE} if where == "machine" else HOSTILE
    found = report(Comparison(3, "paper", [bad, full_record(3, TABLES[3].cells[1], 0)]))
    web, text = page.html(found), page.markdown(found)
    assert "script" not in Content(web).tags
    assert "<script>alert(1)</script>" in Content(web).text
    assert "<script" not in text
    assert "&lt;script>alert(1)&lt;/script>" in text
    assert "[a](b)" not in text
    assert "\x1b" not in web + text + page.text(found)


def test_plain_text_is_aligned_and_a_terminal_shows_the_same_cells(whole: Report) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    plain, shown = io.StringIO(), Terminal()
    page.show(whole, plain)
    page.show(whole, shown)
    assert plain.getvalue() == page.text(whole)
    lines = plain.getvalue().splitlines()
    start = lines.index("Table 3: MNIST-3, paper scale")
    assert len({len(line) for line in lines[start + 5 : start + 13]}) == 1
    assert "Algorithm 3" not in plain.getvalue()
    assert "98.5" in shown.getvalue()
    assert "(96)" in shown.getvalue()
