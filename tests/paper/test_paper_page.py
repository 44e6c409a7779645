import io
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from rockafellian.paper import page
from rockafellian.paper.compare import NUMBERS, SCALES, Comparison, Report, load
from rockafellian.paper.plots import draw
from rockafellian.paper.reproduce import ALSO, Job
from rockafellian.paper.tables import TABLES

HOSTILE = "<script>alert(1)</script> | `x` [a](b) \x1b[31m"
NEEDED = "pip install 'rockafellian[paper]'"


def record(number: int, cell: dict[str, Any], seed: int, **more: Any) -> dict[str, Any]:
    """A record that moves the published figures by the seed, with something to plot."""
    table, robust = TABLES[number], cell["method"] == TABLES[number].pairs[1]
    results: dict[str, Any] = {f.measure: f.value + seed for f in table.published if f.cell == cell}
    if table.measures == "eps":
        results |= {f"{name} {key}": results[key] - 1 for name in ("summed", "last,") for key in list(results)}
    if table.measures == "ranking":
        results["curve"] = [[1.0, 0.5, 0.0], [0.1, 0.5, 1.0]]
    return {
        "cell": cell,
        "seed": seed,
        "results": results,
        "tested": {"1": 80.0 + seed, "2": 90.0},
        "bins": [[[0, 60 - 10 * i, 0, 0, 0, 10 * i], [1, 239, 0, 0, 0, 0]] for i in range(3)] if robust else [],
        "rounds": [{"rule_seconds": 0.002}] if robust else [],
        "rows": {"train": 300},
        "machine": {"processor": "a processor", "cores": 2},
        "date": f"2026-11-1{seed}",
        "seconds": 1800.0,
        **more,
    }


def records(number: int, seeds: int = 2) -> list[dict[str, Any]]:
    return [record(number, cell, seed) for cell in TABLES[number].cells for seed in range(seeds)]


def comparison(number: int, seeds: int = 2) -> Comparison:
    if number == 5:
        return Comparison(5, "small", [made for made in records(4, seeds) if made["cell"] == ALSO["5"][1]])
    return Comparison(number, "paper" if number == 3 else "small", records(number, seeds))


def report(*made: Comparison) -> Report:
    return Report(NUMBERS, SCALES, made)


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


def grid(text: str, title: str) -> dict[str, list[str]]:
    """The first Markdown table after a title, by the first cell of each row."""
    lines = text[text.index(title) :].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    stop = next((i for i, line in enumerate(lines) if i > start and not line.startswith("|")), len(lines))
    return {cells[0]: cells[1:] for cells in ([c.strip() for c in line.split("|")[1:-1]] for line in lines[start:stop])}


def test_the_grid_is_laid_out_as_in_the_paper_with_ours_beside_theirs() -> None:
    text = page.markdown(report(comparison(3)))
    found = grid(text, "Test accuracy after the last epoch")
    assert found[""] == ["55 %", "60 %", "65 %"]
    assert list(found)[2:] == [f"{loss}{rrm}" for loss in ("ELR", "CCE", "MAE", "MSE") for rrm in ("", " + RRM")]
    assert found["CCE + RRM"] == ["98.5 ± 0.7 (98)", "96.5 ± 0.7 (96)", "67.5 ± 0.7 (67)"]


@pytest.mark.parametrize(
    ("number", "title", "head", "side"),
    [
        (1, "Test accuracy after", ["10 %", "20 %", "30 %"], "MSE + RRM"),
        (2, "Test accuracy after", ["10 %", "20 %", "30 %"], "MSE + RRM, C' = C + 5 %"),
        (4, "attacked by the eps", ["0 %, AT", "0 %, A-RRM", "5 %, AT"], "eps 0.25"),
        (7, "each eps added", ["0 %, AT", "0 %, A-RRM", "5 %, AT"], "eps 0.25"),
        (8, "Area under", ["1 %", "5 %", "7 %"], "RRM, test"),
        (9, "Test accuracy, in", ["25 %", "30 %", "40 %"], "ERM, at best validation"),
        (10, "Test accuracy, in", ["75 %"], "RRM, best on test"),
    ],
)
def test_every_table_has_its_rows_and_columns(number: int, title: str, head: list[str], side: str) -> None:
    found = grid(page.markdown(report(comparison(number))), title)
    assert found[""][:3] == head
    assert side in found


def test_the_papers_deviation_stands_beside_its_figure() -> None:
    found = grid(page.markdown(report(comparison(1))), "Test accuracy after")
    assert found["CCE"][0] == "90.44 ± 0.71 (89.94 ± 0.29)"


def test_what_lies_beyond_is_starred_and_listed_under_its_reason() -> None:
    made = Comparison(3, "paper", [{**one, "results": {"test accuracy": 50.0}} for one in records(3, 1)])
    text = page.markdown(report(made))
    assert grid(text, "Test accuracy after")["CCE"] == ["50.0 (90) *", "50.0 (77) *", "50.0 (46) *"]
    assert grid(text, "Perhaps the settings of ELR")["ELR at 55 %"] == ["50.0", "50.0 to 50.0", "1", "98", "-48.0"]
    assert grid(text, "Unexplained (18):")["CCE + RRM at 60 %"][-1] == "-46.0"


def test_a_cell_that_was_not_run_or_diverged_says_so() -> None:
    cells = TABLES[3].cells
    made = [
        record(3, cells[6], 0),
        record(3, cells[6], 1, results={}, diverged="a loss is inf"),
        record(3, cells[7], 0, results={}, diverged="a loss is nan"),
    ]
    text = page.markdown(report(Comparison(3, "paper", made)))
    found = grid(text, "Test accuracy after")
    assert found["CCE"] == ["90.0, 1 of 2 diverged (90)", "diverged (77)", "not run (46)"]
    assert "loss cce, method ERM, contamination 0.6, seed 0: a loss is nan" in text
    assert "open: runs are missing" in text


def test_signs_that_do_not_agree_are_listed_with_both_differences() -> None:
    made = records(3, 2)
    for one in made:
        if one["cell"] == {"loss": "cce", "method": "RRM", "contamination": 0.6}:
            one["results"]["test accuracy"] = 70.0
    text = page.markdown(report(Comparison(3, "paper", made)))
    assert "Sign of RRM minus ERM: 10 of 11 comparable signs agree (90.9 %); 1 equal in print." in text
    assert "Equal in print, and left out: MAE at 55 %." in text
    assert grid(text, "Not agreeing")["Table 3: CCE + RRM at 60 %"] == ["+19", "-7.5", "-8.0 to -7.0"]


def test_signs_are_summed_over_the_tables(whole: Report) -> None:
    found = grid(page.markdown(whole), "## Signs")
    assert found["all"] == ["", "90", "90", "1", "0"]
    assert found["4"] == ["small", "25", "25", "0", "0"]
    assert "Signs: not comparable, as the table has no plain runs." in page.markdown(report(comparison(2)))


def test_checks_stand_at_the_top_met_or_not(whole: Report) -> None:
    found = grid(page.markdown(whole), "## Checks")
    outcomes = [line[-1] for line in list(found.values())[2:]]
    assert outcomes == ["met"] * 4 + ["not met", "met", "met"]
    assert found["Table 5, 20 % noise: after the last re-weighting at least 90 % of the wrong rows nearly removed"][
        0
    ] == ("33.3 % (small scale)")


def test_table_5_gives_shares_beside_the_papers(whole: Report) -> None:
    found = grid(page.markdown(whole), "## Table 5")
    assert found["u N"][4] == "wrong, after 3 (paper: 49)"
    assert found["[-1, -3/4]"] == ["0.0 (0.0)", "0.0 (0.0)", "16.7 (73.7)", "0.0 (1.6)", "33.3 (96.7)", "0.0 (3.0)"]


def test_times_stand_beside_those_of_cplex(whole: Report) -> None:
    found = grid(page.markdown(whole), "## Time of one")
    assert found["3"] == ["paper", "300", "24", "2", "2", "2,860 at 18,623 rows"]
    assert found["4"][-1] == "-"


def test_the_introduction_says_what_was_run_and_how_to_run_it_again(whole: Report) -> None:
    text = page.markdown(whole)
    assert "\nrockafellian reproduce 3 --scale paper --seeds 2\n" in text
    assert grid(text, "## The runs")["3"] == ["paper", "24 of 24", "0, 1", "0", "2026-11-10 to 2026-11-11", "24.0"]
    assert "- processor a processor, cores 2\n" in text
    assert all(f"- {change}\n" in text for change in TABLES[1].paper.changes(TABLES[1].small))
    assert all(f"- {said}\n" in text for said in (*TABLES[3].readings, *TABLES[8].substitutes))
    assert "Without records" not in text
    assert "Without records: table 1, 2, 4, 5, 7, 8, 9, 10." in page.markdown(report(comparison(3)))


@pytest.mark.parametrize("date", ["2026-11-16", "a | b"])
def test_every_markdown_table_has_lines_of_one_length(whole: Report, date: str) -> None:
    bad = Comparison(3, "small", [record(3, TABLES[3].cells[0], 0, date=date)])
    for block in page.markdown(report(*whole.comparisons, bad)).split("\n\n"):
        if block.startswith("|"):
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def test_what_the_paper_does_not_print_is_given_apart() -> None:
    made = records(1, 1)
    for one in made:
        one["results"].setdefault("test accuracy", 91.0)
    assert "- GCE + RRM at 10 %: 91.00\n" in page.markdown(report(Comparison(1, "small", made)))


def test_both_pages_come_out_the_same_again() -> None:
    first, second = (report(comparison(2), comparison(5)) for _ in range(2))
    assert page.markdown(first) == page.markdown(second)
    assert page.html(first) == page.html(second)


def test_the_web_page_has_the_tables_of_the_other(whole: Report, web: str) -> None:
    lines = [line for line in page.markdown(whole).splitlines() if line.startswith("|") and "---" not in line]
    assert Content(web).cells[0] == "table"
    assert web.count("<tr>") == len(lines)
    shown = {cell.strip() for cell in Content(web).cells}
    assert {"98.5 ± 0.7 (98)", "33.3 (96.7)", "2,860 at 18,623 rows"} <= shown


def test_the_web_page_is_one_file_without_script_that_follows_the_readers_colours(web: str) -> None:
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


@pytest.mark.parametrize(
    ("number", "panels"),
    [
        (1, ["GCE", "CCE", "MAE", "MSE"]),
        (2, ["MSE"]),
        (4, ["contamination 0 %", "contamination 30 %"]),
        (5, ["rows with wrong labels", "clean rows", "u N: about 0"]),
        (8, ["contamination 1 %", "recall", "precision", "ERM", "RRM"]),
        (10, ["contamination 75 %", "epoch", "ERM", "RRM"]),
    ],
)
def test_a_plot_is_well_formed_and_its_text_is_text(number: int, panels: list[str]) -> None:
    plot = draw(comparison(number))
    assert plot is not None
    words = [part.text for part in ElementTree.fromstring(plot.svg).iter() if part.tag.endswith("text")]
    assert set(panels) <= set(words)


def test_a_plot_shows_only_what_is_recorded() -> None:
    some = [made for made in records(3) if made["cell"]["loss"] == "cce"]
    plot = draw(Comparison(3, "paper", some))
    assert plot is not None
    assert "CCE + RRM, paper" in plot.svg
    assert "MSE" not in plot.svg


@pytest.mark.parametrize("number", NUMBERS)
def test_a_plot_without_a_figure_is_left_out(number: int) -> None:
    lost = [
        {**made, "results": {}, "tested": {}, "bins": [], "rounds": [], "diverged": "inf"}
        for made in comparison(number, 1).records
    ]
    empty = Comparison(number, "small", lost)
    assert draw(empty) is None
    assert "<svg" not in page.html(report(empty))


@pytest.mark.parametrize("where", ["cell", "machine", "date", "diverged"])
def test_hostile_text_in_a_record_is_shown_as_text(where: str) -> None:
    bad = record(3, TABLES[3].cells[0], 0)
    bad[where] = {"loss": HOSTILE} if where == "cell" else {"processor": HOSTILE} if where == "machine" else HOSTILE
    found = report(Comparison(3, "paper", [bad, record(3, TABLES[3].cells[1], 0)]))
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
    start = lines.index("Table 3: MNIST-3, the paper's scale")
    assert len({len(line) for line in lines[start + 5 : start + 13]}) == 1
    assert "How the text was read" not in plain.getvalue()
    assert "98.5" in shown.getvalue()
    assert "(96)" in shown.getvalue()


def test_the_page_names_the_extra_that_it_lacks(monkeypatch: pytest.MonkeyPatch, whole: Report) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=re.escape(NEEDED)):
        page.html(whole)
    monkeypatch.undo()
    monkeypatch.delitem(sys.modules, "rockafellian.paper.plots")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=re.escape(NEEDED)):
        page.html(whole)


def call(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-W", "error", "-c", "from rockafellian.cli import main; main()", "compare", *arguments]
    return subprocess.run(line, cwd=cwd, capture_output=True, text=True)


def test_the_command_prints_and_writes_what_the_records_say(tmp_path: Path) -> None:
    for made in records(3):
        path = Job(3, "paper", made["cell"], made["seed"]).path(tmp_path / "results")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(made))
    shown = call("3", "--markdown", "page.md", "--html", "page.html", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    found = load("3", results=tmp_path / "results")
    assert shown.stdout == page.text(found) + "wrote page.md\nwrote page.html\n"
    assert (tmp_path / "page.md").read_text() == page.markdown(found)
    assert (tmp_path / "page.html").read_text() == page.html(found)


def test_the_command_without_records_names_the_one_that_makes_them(tmp_path: Path) -> None:
    shown = call("3", cwd=tmp_path)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr.count("\n") == 1
    assert "rockafellian reproduce 3 --scale paper" in shown.stderr
