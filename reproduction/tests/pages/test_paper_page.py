import re
import sys
from pathlib import Path

import pytest
from tiny import comparison, full_record, full_records, record, report, write_record

from rockafellian.cli.main import main
from rockafellian_reproduction.pages import page
from rockafellian_reproduction.pages.compare import NUMBERS, Comparison, Report, load
from rockafellian_reproduction.tables import TABLES


@pytest.fixture(scope="module")
def whole() -> Report:
    return report(*map(comparison, NUMBERS))


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
        (4, "attacked with the printed eps", ["0 %, AT", "0 %, A-RRM", "5 %, AT"], "eps 0.25"),
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


def test_the_papers_deviation_is_beside_its_figure() -> None:
    found = grid(page.markdown(report(comparison(1))), "Test accuracy after")
    assert found["CCE"][0] == "90.44 ± 0.71 (89.94 ± 0.29)"


def test_a_difference_beyond_the_spread_has_a_star_and_is_listed_under_its_reason() -> None:
    made = Comparison(3, "paper", [{**one, "results": {"test accuracy": 50.0}} for one in full_records(3, 1)])
    text = page.markdown(report(made))
    assert grid(text, "Test accuracy after")["CCE"] == ["50.0 (90) *", "50.0 (77) *", "50.0 (46) *"]
    assert grid(text, "Perhaps the settings of ELR")["ELR at 55 %"] == ["50.0", "50.0 to 50.0", "1", "98", "-48.0"]
    assert grid(text, "Unexplained (12):")["CCE + RRM at 60 %"][-1] == "-46.0"


def test_a_cell_that_was_not_run_or_diverged_says_so() -> None:
    cells = TABLES[3].cells
    made = [
        full_record(3, cells[6], 0),
        record(cells[6], 1, diverged="a loss is inf"),
        record(cells[7], 0, diverged="a loss is nan"),
    ]
    text = page.markdown(report(Comparison(3, "paper", made)))
    found = grid(text, "Test accuracy after")
    assert found["CCE"] == ["90.0, 1 of 2 diverged (90)", "diverged (77)", "not run (46)"]
    assert "loss cce, method ERM, contamination 0.6, seed 0: a loss is nan" in text
    assert "open: runs are missing" in text


def test_signs_that_do_not_agree_are_listed_with_both_differences() -> None:
    made = full_records(3, 2)
    for one in made:
        if one["cell"] == {"loss": "cce", "method": "RRM", "contamination": 0.6}:
            one["results"]["test accuracy"] = 70.0
    text = page.markdown(report(Comparison(3, "paper", made)))
    assert "Sign of RRM minus ERM: 10 of 11 comparable signs agree (90.9 %); 1 equal in print." in text
    assert "Equal in print, and left out: MAE at 55 %." in text
    assert grid(text, "Pairs whose sign")["CCE + RRM at 60 %"] == ["+19", "-7.5", "-8.0 to -7.0"]


def test_signs_are_counted_over_all_tables(whole: Report) -> None:
    found = grid(page.markdown(whole), "Signs, for each pair")
    assert found["all"] == ["", "90", "90", "1", "0"]
    assert found["4"] == ["small", "25", "25", "0", "0"]
    assert "Signs: not comparable, as the table has no plain runs." in page.markdown(report(comparison(2)))


def test_results_come_first_with_each_target_reached_or_not(whole: Report) -> None:
    text = page.markdown(whole)
    titles = re.findall("^## (.*)$", text, re.MULTILINE)
    assert titles[:4] == ["Results", "Limits", "How to read the tables", "Table 1: CIFAR-10, C' = C, the small scale"]
    assert titles[-1] == "The runs"
    found = grid(text, "## Results")
    assert [line[-1] for line in list(found.values())[2:]] == ["yes"] * 4 + ["no", "yes", "yes"]
    assert "6 of 7 targets were reached." in text
    (removed,) = [line for target, line in found.items() if "at least 90 % of the mislabeled rows" in target]
    assert removed[0] == "33.3 % (small scale)"


def test_columns_of_text_are_aligned_left_and_figures_right(whole: Report) -> None:
    text = page.markdown(whole)
    assert grid(text, "## Results")["---"] == ["---", "---"]
    assert grid(text, "Signs, for each pair")["---"] == ["---", *["---:"] * 4]
    assert grid(text, "Time of one")["---"] == ["---", *["---:"] * 5]
    assert grid(text, "## The runs")["---"] == [*["---"] * 3, *["---:"] * 3]


def test_limits_name_the_small_scale_single_seeds_substitutes_and_what_was_not_run(whole: Report) -> None:
    limits = page.markdown(whole).partition("## Limits")[2].partition("##")[0]
    assert "- Tables 1, 2, 4, 7, 8, 9, 10 were run at the small scale" in limits
    assert all(f"- Table {number}: {used}\n" in limits for number in (8, 9, 10) for used in TABLES[number].substitutes)
    assert "one seed" not in limits
    assert "Not run" not in limits
    few = page.markdown(report(comparison(3, seeds=1))).partition("## Limits")[2].partition("##")[0]
    assert "- Tables 3 were run with one seed" in few
    assert "- Not run: tables 1, 2, 4, 5, 7, 8, 9, 10.\n" in few
    assert "small scale" not in few


def test_table_5_has_fractions_beside_the_papers(whole: Report) -> None:
    found = grid(page.markdown(whole), "## Table 5")
    assert found["u N"][4] == "mislabeled, after 3 (paper: 49)"
    assert found["[-1, -3/4]"] == ["0.0 (0.0)", "0.0 (0.0)", "16.7 (73.7)", "0.0 (1.6)", "33.3 (96.7)", "0.0 (3.0)"]


def test_times_are_beside_those_of_cplex(whole: Report) -> None:
    found = grid(page.markdown(whole), "Time of one")
    assert found["3"] == ["paper", "300", "24", "2", "2", "2,860 at 18,623 rows"]
    assert found["4"][-1] == "-"


def test_the_page_says_what_was_run_and_how_to_run_it_again(whole: Report) -> None:
    text = page.markdown(whole)
    assert "\nrockafellian reproduce 3 --scale paper --seeds 2\n" in text
    assert grid(text, "## The runs")["3"] == ["paper", "2026-11-10 to 2026-11-11", "0, 1", "24 of 24", "0", "24.0"]
    assert "- processor a processor, cores 2\n" in text
    assert all(f"- {change}\n" in text for change in TABLES[1].paper.changes(TABLES[1].small))
    assert all(f"- {said}\n" in text for said in TABLES[3].readings)
    assert "\nrockafellian compare --markdown docs/reproduce.md\n" in text


@pytest.mark.parametrize(
    ("number", "scale", "named"), [(8, "paper", True), (8, "small", True), (9, "paper", False), (9, "small", True)]
)
def test_substitutes_are_named_where_they_are_used(number: int, scale: str, named: bool) -> None:
    text = page.markdown(report(Comparison(number, scale, full_records(number, 1))))
    assert [f"- {said}\n" in text for said in TABLES[number].substitutes] == [named] * len(TABLES[number].substitutes)


@pytest.mark.parametrize("date", ["2026-11-16", "a | b"])
def test_every_markdown_table_has_lines_of_one_length(whole: Report, date: str) -> None:
    bad = Comparison(3, "small", [full_record(3, TABLES[3].cells[0], 0, date=date)])
    for block in page.markdown(report(*whole.comparisons, bad)).split("\n\n"):
        if block.startswith("|"):
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def test_cells_that_the_paper_does_not_print_are_listed_separately() -> None:
    made = full_records(1, 1)
    for one in made:
        one["results"].setdefault("test accuracy", 91.0)
    assert "- GCE + RRM at 10 %: 91.00\n" in page.markdown(report(Comparison(1, "small", made)))


def compare(monkeypatch, *arguments: str) -> object:
    """The exit code of the command, in this process."""
    monkeypatch.setattr(sys, "argv", ["rockafellian", "compare", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_the_command_prints_and_writes_what_the_records_say(tmp_path: Path, monkeypatch, capsys) -> None:
    for made in full_records(3):
        write_record(tmp_path / "results", 3, "paper", made)
    monkeypatch.chdir(tmp_path)
    assert compare(monkeypatch, "3", "--markdown", "page.md", "--html", "page.html") == 0
    found = load("3", results=tmp_path / "results")
    assert capsys.readouterr().out == page.text(found) + "wrote page.md\nwrote page.html\n"
    assert (tmp_path / "page.md").read_text() == page.markdown(found)
    assert (tmp_path / "page.html").read_text() == page.html(found)


def test_the_command_without_records_names_the_one_that_makes_them(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert compare(monkeypatch, "3") == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert "rockafellian reproduce 3 --scale paper" in shown.err


def test_the_page_in_the_docs_is_written_from_the_records_in_the_repository() -> None:
    root = Path(__file__).parents[3]
    made = load(results=root / "reproduction" / "results")
    assert (root / "docs" / "reproduce.md").read_text() == page.markdown(made)
    assert [one.number for one in made.comparisons] == [1, 2, 3, 4, 5, 7, 8, 9, 10]
    for one in made.comparisons:
        assert one.number == 5 or one.cells_run == len(one.table.cells)
