"""Every block of Python in the pages is run, and every command in them exists with its options."""

import io
import re
import runpy
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.main import get_command

import rockafellian as rk
from rockafellian.cli.main import build_app
from toy import make_toy

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: Pages of which other tests run all blocks.
TUTORIALS = {"docs/tutorial.md": "test_tutorial.py", "docs/tutorials": "test_notebooks.py"}
#: Blocks that no test runs, by a line of theirs, and why.
NOT_RUN = {
    "ray.train.get_context()": "within a worker of a cluster; the tests need no Ray",
    "ray.train.get_checkpoint()": "within a worker of a cluster; the tests need no Ray",
}
Names = dict[str, Any]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^ *```{language}\n(.*?)^ *```$", page.read_text(), re.MULTILINE | re.DOTALL)


def after_example(example: str) -> Names:
    return runpy.run_path(str(ROOT / "examples" / f"{example}.py"))


def huggingface() -> Names:
    names = after_example("with_huggingface")
    trainer = names["trainer"]
    return names | {"model": trainer.model, "arguments": trainer.args, "train_dataset": trainer.train_dataset}


def lightning() -> Names:
    names = after_example("with_lightning")
    names["trainer"].save_checkpoint("last.ckpt")
    weights = names["rk"].SampleWeights(1500, names["rk"].RRM(crisp=True))
    trainer = names["Trainer"](max_epochs=11, callbacks=[names["Reweight"](weights)], **names["quiet"])
    return names | {"weights": weights, "trainer": trainer}


def streams(without: str = "-") -> Names:
    """The loop of the guide, run with its change, or as it was."""
    (diff,) = blocks(ROOT / "docs" / "guide" / "streams.md", "diff")
    model = torch.nn.Linear(2, 3)
    names = {
        "torch": torch,
        "rk": rk,
        "model": model,
        "before": model.weight.detach().clone(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "logs": [make_toy(seed, n=60) for seed in range(100)],
        "rows_of": lambda logs: ((toy.x, toy.y) for toy in logs),
        "urls": [f"row-{row}" for row in range(60)],
        "log": io.StringIO(),
    }
    exec("\n".join(line[2:] for line in diff.splitlines() if not line.startswith(without)), names)
    return names


#: What runs before the blocks of a page, and what holds after them.
AFTER: dict[str, tuple[Callable[[], Names], Callable[[Names], bool]]] = {
    "docs/guide/huggingface.md": (
        huggingface,
        lambda names: Path("label-issues.csv").exists() and names["trainer"].weights is names["weights"],
    ),
    "docs/guide/keras.md": (lambda: after_example("with_keras"), lambda names: names["weights"].epoch == 20),
    "docs/guide/lightning.md": (lightning, lambda names: names["weights"].epoch == 11),
    "docs/guide/streams.md": (
        streams,
        lambda names: names["log"].getvalue().count("row-") == names["stream"].removed.sum(),
    ),
}


def is_run_elsewhere(page: Path, block: str) -> bool:
    """Whether doctest or the test of a tutorial runs a block, or it is on the list of those that are not run."""
    return ">>> " in block or name(page).startswith(tuple(TUTORIALS)) or any(line in block for line in NOT_RUN)


def to_run() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for block in blocks(page, "python"):
            if not is_run_elsewhere(page, block):
                yield page, block


def test_every_block_of_python_is_run_by_a_test() -> None:
    assert {name(page) for page, _ in to_run()} == set(AFTER)
    everything = [block for page in PAGES for block in blocks(page, "python")]
    assert all(sum(line in block for block in everything) == 1 for line in NOT_RUN)
    assert all((ROOT / "tests" / test).exists() for test in TUTORIALS.values())


@pytest.mark.parametrize("page", AFTER)
def test_the_blocks_of_a_guide_run_after_its_example(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before, holds = AFTER[page]
    names = before()
    for block in [block for each, block in to_run() if name(each) == page]:
        exec(block, names)
    assert holds(names)


@pytest.mark.parametrize("without", ["-", "+"])
def test_the_loop_of_the_guide_on_streams_runs_with_its_change_and_without(without: str) -> None:
    names = streams(without)
    assert not torch.equal(names["model"].weight, names["before"])
    assert without == "+" or names["stream"].seen == 6_000


def commands() -> list[str]:
    """Every line of a page that calls the command, and those of pipelines."""
    text = "\n".join(block for page in PAGES for language in ("console", "yaml") for block in blocks(page, language))
    return [found[1] for found in re.finditer(r"(?:^|run: |entry: )(rockafellian [^\n]*)", text, re.MULTILINE)]


def test_every_command_in_the_pages_exists_with_its_options() -> None:
    known: Any = get_command(build_app())
    assert len(commands()) > 15
    for line in commands():
        _, command, *rest = shlex.split(line, comments=True)
        options = {
            option
            for parameter in known.commands[command].params
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
        assert {word for word in rest if word.startswith("--")} <= options, line
