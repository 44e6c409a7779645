"""The pages lead somewhere: links, the list of pages, and the tree in docs/architecture.md."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "rockafellian"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


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


def test_every_page_is_listed_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")} - {"index.md"}
    assert not [page for page in pages if f"({page})" not in index]


def test_the_code_in_contributing_runs() -> None:
    assert doctest.testfile(str(ROOT / "CONTRIBUTING.md"), module_relative=False).failed == 0
