"""Imports point down the folders, as docs/architecture.md says, and the core needs torch and numpy only."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from rockafellian._internal.extras import install_command

SOURCE = Path(__file__).parents[1] / "src" / "rockafellian"
#: From the lowest to the highest; what stands together does not import each other.
LAYERS = [{"__version__", "_internal"}, {"losses", "attacks", "contamination", "method"}, {"weights"}, {"label_issues"}]
LAYERS += [{"training"}, {"integrations"}, {"auditing"}, {"cli", "public"}, {"__init__"}]
AUDITING = [{"data"}, {"features"}, {"review"}, {"model"}, {"report"}, {"commands"}]


def imports(path: Path) -> set[str]:
    """What a file imports, anywhere in it, as dotted names."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    absolute = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return absolute | {f"{n.module}.{alias.name}" for n in nodes if isinstance(n, ast.ImportFrom) for alias in n.names}


def imports_upward(folder: Path, package: str, layers: list[set[str]]) -> set[tuple[str, str]]:
    level = {name: number for number, layer in enumerate(layers) for name in layer}
    found = set()
    for path in folder.rglob("*.py"):
        own = path.relative_to(folder).parts[0].removesuffix(".py")
        others = {name.split(".")[package.count(".") + 1] for name in imports(path) if name.startswith(f"{package}.")}
        found |= {(path.name, other) for other in others - {own} if level.get(own, -1) <= level.get(other, 99)}
    return found


def test_imports_point_down_the_folders() -> None:
    assert imports_upward(SOURCE, "rockafellian", LAYERS) == set()
    assert imports_upward(SOURCE / "auditing", "rockafellian.auditing", AUDITING) == set()


def test_import_and_training_need_no_extra_and_a_checkpoint_names_its_own() -> None:
    extras = {name.split(".")[0] for path in SOURCE.rglob("*.py") for name in imports(path)}
    extras -= {"torch", "numpy", "rockafellian", *sys.stdlib_module_names}
    assert len(extras) > 10
    code = f"""
import sys
import torch, rockafellian as rk
print(*{extras} & set(sys.modules))
sys.modules.update(dict.fromkeys({extras}))  # None: cannot be imported
model = torch.nn.Linear(2, 2)
weights = rk.SampleWeights(20, rk.RRM(contamination=0.2))
settings = dict(loss=rk.losses.cce, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), epochs=2, weights=weights)
data = torch.randn(20, 2), torch.arange(20) % 2
print(len(rk.fit(model, data, **settings).epochs))
try:
    rk.fit(model, data, checkpoint="run", **settings)
except ImportError as error:
    print(error)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == f"\n2\nneed safetensors for checkpoints; {install_command('train')}\n"
    assert shown.stderr.count("epoch") == 2


def test_no_function_is_longer_than_forty_lines() -> None:
    long = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= 40:
                long.add(node.name)
    assert long <= {"fit"}  # its arguments alone take most of it


def test_a_wrong_file_name_is_answered_without_loading_torch() -> None:
    code = """
import sys
from rockafellian.cli.main import main
sys.argv = ["rockafellian", "audit", "no-such-file.csv", "--label", "y"]
try:
    main()
except SystemExit as end:
    print(end.code, *{"torch", "numpy", "pyarrow", "scipy"} & set(sys.modules))
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "2\n"
    assert shown.stderr == "error: need a file or a folder, but there is no no-such-file.csv; check the name\n"


def test_public_names_are_loaded_at_first_use() -> None:
    import rockafellian as rk
    from rockafellian import public

    assert rk.__all__ is public.__all__
    assert rk.fit is public.fit
    assert set(public.__all__) <= set(dir(rk))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = rk.nothing
