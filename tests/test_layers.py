"""Imports point down only, and siblings do not import each other: the table in docs/architecture.md, held."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "rockafellian"
LEVELS = {
    "vectors": 0,
    "selection": 1,
    "reweight": 2,
    "data": 3,
    "weights": 3,
    "__init__": 9,
}
CORE = {"torch", "numpy", *sys.stdlib_module_names}


def imports(path: Path) -> set[str]:
    """What a file imports, anywhere in it, as dotted names."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively; write the full name"
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def module(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").as_posix().replace("/", ".")


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=module)
def test_imports_point_down(path: Path) -> None:
    own = {name.removeprefix("rockafellian.") for name in imports(path) if name.startswith("rockafellian")}
    too_high = {name for name in own if LEVELS[name] >= LEVELS[module(path)]}
    assert not too_high


@pytest.mark.parametrize("path", sorted(SOURCE.glob("*.py")), ids=module)
def test_the_core_needs_torch_and_numpy_only(path: Path) -> None:
    assert {name.split(".")[0] for name in imports(path)} <= CORE | {"rockafellian"}


def test_importing_the_package_loads_no_extra() -> None:
    extras = {"scipy", "matplotlib", "sklearn", "pandas", "rich", "typer", "transformers", "lightning"}
    code = f"import sys, rockafellian; print(*{extras} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
