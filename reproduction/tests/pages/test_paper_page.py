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
        (7, "attacked with the printed eps", ["0 %, AT", "0 %, A-RRM", "5 %, AT"], "eps 0.25"),
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


def test_a_difference_beyond_the_spread_has_a_star_and_is_counted_under_its_reason() -> None:
    made = Comparison(3, "paper", [{**one, "results": {"test accuracy": 50.0}} for one in full_records(3, 1)])
    text = page.markdown(report(made))
    assert grid(text, "Test accuracy after")["CCE"] == ["50.0 (90) *", "50.0 (77) *", "50.0 (46) *"]
    found = grid(text, "Differences beyond the spread of the seeds (24)")
    assert found["unexplained"] == ["12", "CCE + RRM at 55 % -48.0", "MSE at 60 % -24.0"]
    (elr,) = [line for reason, line in found.items() if reason.startswith("Perhaps the settings of ELR")]
    assert elr == ["4", "ELR + RRM at 55 % -49.0", "ELR at 60 % -47.0"]


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
    assert "(1 of 24 cells run)" not in text
    assert "open: runs are missing" in text


def test_signs_that_do_not_agree_are_listed_with_both_differences() -> None:
    made = full_records(3, 2)
    for one in made:
        if one["cell"] == {"loss": "cce", "method": "RRM", "contamination": 0.6}:
            one["results"]["test accuracy"] = 70.0
    text = page.markdown(report(Comparison(3, "paper", made)))
    assert "Robust minus plain: 10 of 11 comparable signs agree (90.9 %); 1 equal in print." in text
    differing = grid(text, "Signs that are not the paper's (1)")
    assert differing["CCE + RRM at 60 %"] == ["+19", "-7.5", "-8.0 to -7.0", "no"]


def test_our_variant_is_beside_the_run_as_printed_and_readings_are_summed_up() -> None:
    cell = {"loss": "elr", "method": "RRM", "contamination": 0.55}
    ours = record(cell, 0, {"test accuracy": 99.5}, variant={"ours": "yes"})
    beta = [{**made, "variant": {"elr-beta": "0.9"}} for made in full_records(3, 1) if made["cell"]["loss"] == "elr"]
    text = page.markdown(report(Comparison(3, "paper", full_records(3), [ours, *beta])))
    found = grid(text, "Test accuracy after")
    assert found["ELR + RRM, ours"] == ["99.5 (99)", "", ""]
    assert list(found)[3:5] == ["ELR + RRM", "ELR + RRM, ours"]
    readings = grid(text, "<summary>Other readings")
    assert readings["as above"] == ["0.5", "0 of 24", "11 of 11"]
    assert readings["elr-beta=0.9"] == ["0.4", "0 of 24", "11 of 11"]
    assert "elr-beta=0.9, reweighted-by=cce" not in readings
    assert "| reweighted-by=own | The text: J is the loss of the training." in text
    attacked = record({"method": "A-RRM", "contamination": 0.2}, 0, {"eps 0": 97.0}, variant={"ours": "yes"})
    columns = grid(page.markdown(report(Comparison(4, "network", full_records(4), [attacked]))), "printed eps")
    assert columns["eps 0"][columns[""].index("20 %, A-RRM, ours")] == "97.0 (96) *"


def test_verdicts_come_first_one_line_a_table(whole: Report) -> None:
    text = page.markdown(whole)
    titles = re.findall("^## (.*)$", text, re.MULTILINE)
    assert titles[:2] == ["Verdict", "Table 1: CIFAR-10, C' = C, features scale"]
    assert titles[-1] == "The runs"
    found = grid(text, "## Verdict")
    assert found["3"] == ["MNIST-3", "paper", "reproduced", "24 of 24 figures", "2"]
    assert found["1"] == ["CIFAR-10, C' = C", "features", "pattern holds", "9 of 9 signs", "2"]
    assert found["tissue"][2] == "not comparable"
    assert "over all tables: 96 of 96 comparable signs agree (100.0 %); 1 equal in print." in text
    few = grid(page.markdown(report(comparison(3))), "## Verdict")
    assert few["4"] == ["MNIST-10 under attack", "network", "not yet run", "-", "0"]


def test_a_reader_sees_the_verdict_on_one_screen(whole: Report) -> None:
    before = page.markdown(whole).partition("<details>")[0]
    assert len(before.splitlines()) <= 25
    assert before.index("## Verdict") < 300


def test_targets_are_folded_with_their_results(whole: Report) -> None:
    found = grid(page.markdown(whole), "Targets: 11 of 14 were reached")
    lines = list(found.values())[2:]
    assert [line[-1] for line in lines] == ["yes"] * 5 + ["open: runs are missing"] * 2 + ["yes"] * 4 + [
        "no",
        "yes",
        "yes",
    ]
    (removed,) = [line for target, line in found.items() if "at least 90 % of the mislabeled rows" in target]
    assert removed[0] == "33.3 % (network scale)"


def test_another_scale_of_a_table_is_folded_below_the_one_that_answers() -> None:
    network = Comparison(1, "network", full_records(1, 1))
    text = page.markdown(report(comparison(1), network))
    assert text.count("## Table 1") == 1
    assert "<details><summary>The network scale: a network trained from scratch" in text


def test_columns_of_text_are_aligned_left_and_figures_right(whole: Report) -> None:
    text = page.markdown(whole)
    assert grid(text, "## Verdict")["---"] == [*["---"] * 4, "---:"]
    assert grid(text, "Time of one")["---"] == ["---", *["---:"] * 5]
    assert grid(text, "Dates, seeds")["---"] == [*["---"] * 3, *["---:"] * 3]


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
    assert grid(text, "Dates, seeds")["3"] == ["paper", "2026-11-10 to 2026-11-11", "0, 1", "24 of 24", "0", "24.0"]
    assert "- processor a processor, cores 2\n" in text
    changes = TABLES[1].paper.changes(TABLES[1].scales["features"])
    assert f"Paper -> features scale: {'; '.join(changes)}.\n" in text
    assert all(f"- {said}\n" in text for said in TABLES[3].readings)
    assert "\nrockafellian compare --markdown docs/reproduce.md\n" in text


@pytest.mark.parametrize(("number", "scale", "named"), [(8, "paper", True), (9, "paper", False), (9, "features", True)])
def test_substitutes_are_named_where_they_are_used(number: int, scale: str, named: bool) -> None:
    text = page.markdown(report(Comparison(number, scale, full_records(number, 1))))
    assert [f"- {said}\n" in text for said in TABLES[number].substitutes] == [named] * len(TABLES[number].substitutes)


@pytest.mark.parametrize("date", ["2026-11-16", "a | b"])
def test_every_markdown_table_has_lines_of_one_length(whole: Report, date: str) -> None:
    bad = Comparison(9, "features", [full_record(9, TABLES[9].cells[0], 0, date=date)])
    for block in page.markdown(report(*whole.comparisons, bad)).split("\n\n"):
        if block.startswith("|"):
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def test_cells_that_the_paper_does_not_print_are_listed_separately() -> None:
    made = full_records(1, 1)
    for one in made:
        one["results"].setdefault("test accuracy", 91.0)
    text = page.markdown(report(Comparison(1, "features", made)))
    assert "not printed in the paper: GCE + RRM at 10 % 91.00; " in text


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
    results = root / "reproduction" / "results"
    made = load(results=results)
    assert (root / "docs" / "reproduce.md").read_text() == page.markdown(made)
    recorded = {int(file.stem.split("-")[1]) for file in results.glob("*.json")}
    assert {one.number for one in made.comparisons} == recorded | ({5} if 4 in recorded else set())
    for one in made.comparisons:
        assert one.number == 5 or one.records
