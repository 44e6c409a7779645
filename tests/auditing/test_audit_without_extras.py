"""Each package of the extra that is not installed is named in one line, with the command that installs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from samples import table

from rockafellian._internal.extras import install_command

#: For each package a line of a user's, after rk and the file DATA are there.
AUDIT = "rk.audit(DATA, 'label', epochs=10, contamination=0.2, progress='quiet')"
USES = {
    "pyarrow": AUDIT,
    "sklearn": AUDIT.replace("'label'", "'label', text='colour', encoder='none'"),
    "PIL": AUDIT,
    "jinja2": AUDIT,
    "safetensors": AUDIT,
    "msgspec": AUDIT,
    "pandas": f"{AUDIT}.findings",
    "rich": "import rockafellian.auditing.commands.show",
    "typer": "import rockafellian.cli.main",
}

#: One process for all, as torch takes a second to import; each package is missing in a copy of it.
CODE = """
import os, sys, torch
from importlib.machinery import PathFinder
import rockafellian as rk

find = PathFinder.find_spec
def find_others(name, *args):
    return None if name.partition(".")[0] == package else find(name, *args)

DATA, uses = sys.argv[1], eval(sys.argv[2])
torch.set_num_threads(1)
for package, use in uses.items():
    sys.stdout.flush()
    if child := os.fork():
        os.waitpid(child, 0)
        continue
    PathFinder.find_spec = find_others
    try:
        exec(use)
    except BaseException as error:
        print(f"{package}|{type(error).__name__}|{error}")
    else:
        print(f"{package}|nothing|")
    sys.stdout.flush()
    os._exit(0)
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    data = tmp_path_factory.mktemp("data") / "data.csv"
    table(40)[0].to_csv(data, index=False)
    run = [sys.executable, "-c", CODE, str(data), repr(USES)]
    found = subprocess.run(run, capture_output=True, text=True, check=True, cwd=data.parent)
    lines = [line.split("|", 2) for line in found.stdout.splitlines()]
    errors = found.stderr.splitlines()
    assert [package for package, *_ in lines] == list(USES)
    return {
        package: (kind, message if kind != "SystemExit" else errors[0].removeprefix("error: "))
        for package, kind, message in lines
    }


@pytest.mark.parametrize("package", USES)
def test_a_missing_package_is_named_in_one_line(package: str, shown: dict[str, tuple[str, str]]) -> None:
    kind, message = shown[package]
    assert kind in ("ImportError", "SystemExit")  # not ModuleNotFoundError, which says nothing of the extra
    name = {"sklearn": "scikit-learn", "PIL": "pillow"}.get(package, package)
    assert message.startswith("need ")
    assert name in message
    extra = {"typer": "cli", "safetensors": "train"}.get(package, "audit")
    assert install_command(extra) in message


@pytest.mark.parametrize("label", [3, None, ["label", 3]])
def test_a_label_that_is_no_name_is_one_line(label: object, tmp_path: Path) -> None:
    import rockafellian as rk

    with pytest.raises(ValueError, match="need label columns by name"):
        rk.audit(tmp_path / "data.csv", label)
