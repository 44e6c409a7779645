"""Every notebook runs, shows what it showed when it was stored, and is its Python file and its page."""

import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / ".ci"))
notebooks = importlib.import_module("notebooks")
#: Lines that must come out again, by how they begin; their numbers may differ by four points on another machine.
RESULTS = {
    "attacks": ("ERM", "RRM", "AT", "A-RRM"),
    "data_frame": ("Audited", "about", "what speaks against", "wrong labels"),
    "fine_tuning": ("Trainer", "RRMTrainer", "about"),
    "own_loop": ("plain training", "RRM", "about", "removed", "found"),
}
POINTS = 4


def stored(path: Path):
    return notebooks.read(path.with_suffix(".ipynb"))


def lines(notebook) -> list[str]:
    """What the cells of a notebook show as text."""
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", []))
    return [line for output in outputs for line in notebooks.text(output).splitlines()]


def results(notebook, path: Path) -> tuple[list[str], list[float]]:
    """The words and the numbers of the lines that must come out again."""
    shown = [line for line in lines(notebook) if line.startswith(RESULTS[path.stem])]
    number = r"\d+(?:\.\d+)?"
    return [re.sub(number, "#", line) for line in shown], [float(each) for each in re.findall(number, "\n".join(shown))]


def test_there_are_results_to_compare_in_every_notebook() -> None:
    assert [path.stem for path in notebooks.SOURCES] == list(RESULTS)


@pytest.mark.parametrize("path", notebooks.SOURCES, ids=lambda path: path.stem)
def test_a_notebook_shows_what_it_showed_when_it_was_stored(path: Path) -> None:
    words, numbers = results(notebooks.run(path), path)
    expected_words, expected_numbers = results(stored(path), path)
    assert words == expected_words
    assert len(words) >= len(RESULTS[path.stem])
    assert numbers == pytest.approx(expected_numbers, abs=POINTS, rel=0.1)


@pytest.mark.parametrize("path", notebooks.SOURCES, ids=lambda path: path.stem)
def test_a_notebook_has_the_cells_of_its_python_file_and_its_page_those_of_the_notebook(path: Path) -> None:
    notebook, source = stored(path), notebooks.read(path)
    assert [(cell.cell_type, cell.source) for cell in notebook.cells] == [
        (cell.cell_type, cell.source) for cell in source.cells
    ]
    assert notebooks.page(path).read_text() == notebooks.render(notebook, path)
    pictures = [picture for cell in notebook.cells for picture in notebooks.images(cell)]
    assert len(pictures) <= 1
    assert all(picture == notebooks.page(path).with_suffix(".png").read_bytes() for picture in pictures)


@pytest.mark.parametrize("path", notebooks.SOURCES, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_was_run_from_top_to_bottom(path: Path) -> None:
    assert path.with_suffix(".ipynb").stat().st_size < 150_000
    counts = [cell.execution_count for cell in stored(path).cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))


def test_the_list_of_notebooks_has_each_with_its_page() -> None:
    listed = (ROOT / "docs" / "notebooks.md").read_text()
    for path in notebooks.SOURCES:
        assert f"(tutorials/{notebooks.page(path).name})" in listed
        assert f"(../examples/notebooks/{path.stem}.ipynb)" in listed
        assert f"(../examples/notebooks/{path.name})" in listed
