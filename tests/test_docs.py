"""The pages lead somewhere: links, the list of pages, and the tree in docs/architecture.md."""

import doctest
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rockafellian as rk

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / ".ci"))
prose = importlib.import_module("prose")
SOURCE = ROOT / "src" / "rockafellian"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def tree() -> set[Path]:
    """The paths that docs/architecture.md prints, each under the line above it that is indented less."""
    block = (ROOT / "docs" / "architecture.md").read_text().split("## The tree\n\n```\n", 1)[1].split("```", 1)[0]
    found, parents = set(), {-1: ROOT}
    for line in block.splitlines():
        depth = len(line) - len(line.lstrip())
        parent = parents[max(level for level in parents if level < depth)]
        names = re.match(r"\s*((?:\S+/? )*?\S+)(?:\s{2,}|$)", line)
        assert names, line
        paths = [parent / name for name in names[1].split()]
        parents = {level: path for level, path in parents.items() if level < depth} | {depth: paths[0]}
        found |= set(paths)
    return found


def test_the_tree_in_the_architecture_names_what_there_is_and_every_folder() -> None:
    named = tree()
    assert not [path for path in named if not path.exists()]
    folders = {path.parent for path in SOURCE.rglob("__init__.py")}
    assert folders <= named
    assert set(SOURCE.glob("*.py")) <= named


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_of_a_page_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" not in target:
            name, _, heading = target.partition("#")
            file = (page.parent / name).resolve() if name else page
            assert file.exists(), target
            assert not heading or heading in headings(file), target


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    lines = [line.lstrip("#").strip().lower() for line in page.read_text().splitlines() if line.startswith("#")]
    return {re.sub(r"[^\w -]", "", line).replace(" ", "-") for line in lines}


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n", 1)[1]
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert not [page for page in pages if f": {page}\n" not in navigation]


def test_the_reference_of_commands_is_what_the_commands_print() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", "import cli_reference; print(cli_reference.render(), end='')"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert (ROOT / "docs" / "cli.md").read_text() == shown


def test_the_reference_has_every_public_name() -> None:
    listed = set(re.findall(r"^::: \S+?\.(\w+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE))
    assert set(rk.__all__) - {"ATTACKS", "LOSSES"} <= listed


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_result_in_the_first_lines_is_the_recorded_one(page: str) -> None:
    recorded = next(
        line for line in (ROOT / "docs" / "results.md").read_text().splitlines() if line.startswith("With 40%")
    )
    assert recorded.split(". ")[0] in (ROOT / page).read_text()


def test_the_readme_is_short_and_begins_with_what_users_need() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) < 120
    first = "\n".join(lines[:40])
    assert all(part in first for part in ("review.png", "pip install", "rockafellian audit", "make demo", "make test"))


def test_pages_and_docstrings_use_the_words_of_the_field() -> None:
    assert prose.main() == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("It learns labels by heart, in one colour.", ["by heart", "colour"]),
        ("The Optimiser and its behaviour", ["Optimiser", "behaviour"]),
        ("`normalise` is a name of another library", []),
        ("An optimizer for labeled rows", []),
    ],
)
def test_unusual_words_are_found_in_prose_only(line: str, words: list[str]) -> None:
    assert [word for _, word, _ in prose.unusual(line)] == words


def test_the_code_in_contributing_runs() -> None:
    assert doctest.testfile(str(ROOT / "CONTRIBUTING.md"), module_relative=False).failed == 0
