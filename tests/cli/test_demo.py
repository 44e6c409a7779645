import csv
import importlib
import json
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

import rockafellian as rk
from rockafellian._internal.extras import install_command
from rockafellian.cli.digits import Settings, run

ROOT = Path(__file__).parents[2]


def test_make_demo_runs_the_demo() -> None:
    recipe = (ROOT / "Makefile").read_text().split("\ndemo:", 1)[1].split("\n\n", 1)[0]
    assert "rockafellian demo" in recipe


def test_the_demo_shows_what_the_method_is_for_on_every_seed_and_marks_itself_done(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    start = time.process_time()
    code, shown, errors = answer(monkeypatch, capsys, "demo", "--seeds", "2")
    assert code == 0, errors
    assert time.process_time() - start < 60  # not wall time: others may be busy
    folder = tmp_path / "runs" / "demo-1"
    assert "wrote runs/demo-1/report.html" in shown
    assert shown.count("by plain training") == 2
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["settings"]["contamination"] == 0.4
    assert len(summary["seeds"]) == 2
    assert all(row["rrm"] > max(row["plain"] + 0.2, 0.93) and row["precision"] > 0.9 for row in summary["seeds"])
    for name in ("weights.png", "label_issues.png", "history.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    issues = list(csv.DictReader((folder / "label_issues.csv").read_text().splitlines()))
    assert len(issues) == 20
    assert sum(row["given_label"] != row["true_label"] for row in issues) >= 19
    assert sum(row["predicted_label"] == row["true_label"] for row in issues) >= 15
    assert (folder / "DONE").exists()


class Images(HTMLParser):
    sources: list[str]

    def handle_starttag(self, tag: str, attributes) -> None:
        if tag == "img":
            self.sources.append(dict(attributes)["src"])


def test_the_report_is_one_file_and_a_second_run_leaves_the_first_alone(tmp_path: Path, capsys) -> None:
    few = Settings(epochs=10)
    first, second = run(tmp_path, seeds=1, settings=few), run(tmp_path, seeds=1, settings=few)
    assert (first.name, second.name) == ("demo-1", "demo-2")
    parser = Images()
    parser.sources = []
    parser.feed((first / "report.html").read_text())
    assert len(parser.sources) == 3
    assert all(source.startswith("data:image/png;base64,") for source in parser.sources)
    one, two = (json.loads((folder / "summary.json").read_text()) for folder in (first, second))
    assert one == two  # the seed decides


def answer(monkeypatch, capsys, *arguments: str) -> tuple[object, str, str]:
    """Exit code, output and errors of the command, in this process."""
    from rockafellian.cli.main import main

    monkeypatch.setattr(sys, "argv", ["rockafellian", *arguments])
    with pytest.raises(SystemExit) as exit_:
        main()
    return exit_.value.code, *capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("demo", "--epochs", "5"), "error: need at least 10 epochs"),
        (("demo", "--seeds", "0"), "error: need at least one seed, got 0"),
        (("demo", "--out", "file"), "error: "),
        (("demo", "--wat"), "No such option"),
    ],
)
def test_bad_options_get_one_line_and_exit_2(arguments, message: str, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("mine")
    code, _, errors = answer(monkeypatch, capsys, *arguments)
    assert code == 2
    assert message in errors
    if message.startswith("error"):
        assert errors.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert Path("file").read_text() == "mine"


def test_the_version_is_printed(monkeypatch, capsys) -> None:
    assert answer(monkeypatch, capsys, "--version")[:2] == (0, f"{rk.__version__}\n")


@pytest.mark.parametrize(
    ("missing", "needs_it", "extra"),
    [("sklearn.datasets", "cli.digits", "demo"), ("matplotlib.figure", "training.charts", "charts")],
)
def test_a_missing_extra_is_named_in_one_line(missing, needs_it, extra, monkeypatch, capsys, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, missing, None)
    for name in ("cli.digits", needs_it):
        monkeypatch.delitem(sys.modules, f"rockafellian.{name}", raising=False)
    code, _, errors = answer(monkeypatch, capsys, "demo")
    assert code == 2
    assert install_command(extra) in errors
    assert errors.count("\n") == 1


def test_without_typer_the_command_says_what_to_install(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "rockafellian.cli.main", raising=False)
    with pytest.raises(SystemExit) as exit_:
        importlib.import_module("rockafellian.cli.main")
    assert exit_.value.code == 2
    assert capsys.readouterr().err == f"error: need typer for the command line; {install_command('cli')}\n"
