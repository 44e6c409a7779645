"""Every example runs, is short, finds the mislabeled rows, and is what its page shows."""

import re
import runpy
from pathlib import Path

import pytest
from ranks import output, run_ranks

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
#: The page that shows an example as a diff, and how it is run.
PAGES = {
    "plain_loop": "README.md",
    "with_sklearn": "docs/guide/sklearn.md",
    "with_lightning": "docs/guide/lightning.md",
    "with_huggingface": "docs/guide/huggingface.md",
    "with_keras": "docs/guide/keras.md",
    "with_ddp": "docs/guide/processes.md",
    "with_accelerate": "docs/guide/processes.md",
    "with_ray": "docs/guide/processes.md",
}


def run(path: Path) -> None:
    runpy.run_path(str(path), run_name="__main__")


def test_there_is_a_page_for_each_example() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*PAGES, "toy"}


@pytest.mark.parametrize("name", PAGES)
def test_an_example_is_short_and_finds_the_mislabeled_rows(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch, capsys
) -> None:
    if name == "with_ray":
        pytest.importorskip("ray")
        monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.chdir(tmp_path)
    if name == "with_ddp":
        elsewhere = tmp_path_factory.mktemp("output")
        run_ranks(run, 2, EXAMPLES / f"{name}.py", folder=elsewhere)
        shown = output(elsewhere, 0)
    else:
        run(EXAMPLES / f"{name}.py")
        shown = capsys.readouterr().out
    precision, rest = shown.strip().splitlines()[-1].split(" of the ", 1)
    assert float(precision.rstrip("%")) >= 90
    assert int(rest.split()[0]) > 0
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < 60
    assert not list(tmp_path.iterdir()), "an example leaves no files behind"


@pytest.mark.parametrize(("name", "page"), PAGES.items())
def test_a_page_shows_the_lines_of_its_example_that_change(name: str, page: str) -> None:
    """One of its diffs, with the change applied, is a part of the example, and its + lines are those marked RRM."""
    diffs = re.findall(r"```diff\n(.*?)\n```", (ROOT / page).read_text(), re.DOTALL)
    example = [line.rstrip() for line in (EXAMPLES / f"{name}.py").read_text().splitlines()]
    code = "\n".join(line.removesuffix("  # RRM") for line in example)
    marked = [line.removesuffix("  # RRM") for line in example if line.endswith("# RRM")]
    changes = [
        [line[2:].rstrip() for line in diff.splitlines() if line.startswith("+")]
        for diff in diffs
        if "\n".join(line[2:].rstrip() for line in diff.splitlines() if not line.startswith("-")) in code
    ]
    assert changes == [marked]
