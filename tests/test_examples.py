"""Every example runs, is short, finds the wrong rows, and is what its page shows."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
#: The page that shows an example as a diff, and how it is run.
PAGES = {
    "plain_loop": "README.md",
    "with_sklearn": "docs/guide/sklearn.md",
    "with_lightning": "docs/guide/lightning.md",
    "with_huggingface": "docs/guide/huggingface.md",
    "with_keras": "docs/guide/keras.md",
    "with_ddp": "docs/guide/ddp.md",
    "with_accelerate": "docs/guide/accelerate.md",
    "with_ray": "docs/guide/ray.md",
}


#: Examples of several processes, and what starts them.
STARTED_BY = {"with_ddp": ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"], "with_ray": []}


def run_apart(name: str) -> str:
    command = [sys.executable, *STARTED_BY[name], str(EXAMPLES / f"{name}.py")]
    quiet = {"OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    shown = subprocess.run(command, env=os.environ | quiet, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def test_there_is_a_page_for_each_example() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*PAGES, "toy"}


@pytest.mark.parametrize("name", PAGES)
def test_an_example_is_short_and_finds_the_wrong_rows(name: str, tmp_path: Path, monkeypatch, capsys) -> None:
    if name == "with_ray":
        pytest.importorskip("ray")
    monkeypatch.chdir(tmp_path)
    if name in STARTED_BY:
        shown = run_apart(name)
    else:
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        shown = capsys.readouterr().out
    share, rest = shown.strip().splitlines()[-1].split(" of the ", 1)
    assert float(share.rstrip("%")) >= 90
    assert int(rest.split()[0]) > 0
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < 60
    assert not list(tmp_path.iterdir()), "an example leaves no files behind"


@pytest.mark.parametrize(("name", "page"), PAGES.items())
def test_a_page_begins_with_the_lines_of_its_example_that_change(name: str, page: str) -> None:
    """Its diff, with the change applied, is a part of the example, and its + lines are those marked RRM there."""
    _, rest = (ROOT / page).read_text().split("```diff\n", 1)
    diff = rest.split("```", 1)[0].splitlines()
    example = [line.rstrip() for line in (EXAMPLES / f"{name}.py").read_text().splitlines()]
    code = [line.removesuffix("  # RRM") for line in example]
    after = [line[2:].rstrip() for line in diff if not line.startswith("-")]
    assert "\n".join(after) in "\n".join(code)
    added = [line[2:].rstrip() for line in diff if line.startswith("+")]
    assert added == [line.removesuffix("  # RRM") for line in example if line.endswith("# RRM")]
