"""docs/tutorial.md, followed word by word."""

import re
import shlex
from pathlib import Path

import pandas as pd
import pytest

from rockafellian.cli.main import main

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"
README = PAGE.parents[1] / "README.md"


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and content of each fenced block, in order."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def run(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", shlex.split(line, comments=True))
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code, line


def test_the_tutorial_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    shown, names = "", {}
    for language, content in blocks(PAGE):
        if language == "python":
            exec(content, names)
        elif language == "console" and content.startswith("rockafellian"):
            run(content, monkeypatch)
            shown = capsys.readouterr().out
        elif language == "text":  # what the command before it prints
            assert not [line for line in content.splitlines() if line not in shown.splitlines()]
    corrected, truth = (pd.read_csv(name)["diagnosis"] for name in ("corrected.csv", "truth.csv"))
    left = int((corrected != truth).sum())
    assert f"{57 - left} of the 57 wrong labels are corrected" in PAGE.read_text()
    assert "before" in shown  # the accuracy before and after, from training again


def test_the_readme_shows_the_output_of_the_tutorial() -> None:
    (output,) = [content for language, content in blocks(README) if language == "text"]
    assert output in [content for language, content in blocks(PAGE) if language == "text"]
