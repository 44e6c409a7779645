import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"
README = EXAMPLES.parent / "README.md"


def run(name: str, folder: Path) -> str:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def test_the_plain_loop_is_short_and_finds_the_wrong_rows(tmp_path: Path) -> None:
    share, _ = run("plain_loop.py", tmp_path).split(" of the ", 1)
    assert float(share.rstrip("%")) > 90
    assert len((EXAMPLES / "plain_loop.py").read_text().splitlines()) < 30


def test_the_readme_shows_the_lines_of_the_plain_loop() -> None:
    """Its diff, with the change applied, is a part of the example, and its + lines are those marked RRM there."""
    _, rest = README.read_text().split("```diff\n", 1)
    diff = rest.split("```", 1)[0].splitlines()
    example = [line.rstrip() for line in (EXAMPLES / "plain_loop.py").read_text().splitlines()]
    code = [line.removesuffix("  # RRM") for line in example]
    after = [line[2:].rstrip() for line in diff if not line.startswith("-")]
    assert "\n".join(after) in "\n".join(code)
    added = [line[2:].rstrip() for line in diff if line.startswith("+")]
    assert added == [line.removesuffix("  # RRM") for line in example if line.endswith("# RRM")]
