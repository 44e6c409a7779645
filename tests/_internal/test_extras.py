import ast
import importlib
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from rockafellian._internal import extras

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


class Installed:
    """What importlib.metadata knows of an installation whose origin pip recorded, or did not."""

    def __init__(self, origin: dict[str, object] | None) -> None:
        self.record = None if origin is None else json.dumps(origin)

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self.record


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'rockafellian[train]'"),
        ({"url": "file:///a%20b/rk", "dir_info": {}}, "pip install '/a b/rk[train]'"),
        ({"url": "file:///a/rk", "dir_info": {"editable": True}}, "pip install --editable '/a/rk[train]'"),
        ({"url": "file:///a/rk.whl", "archive_info": {}}, "pip install 'rockafellian[train] @ file:///a/rk.whl'"),
        (
            {"url": "https://example.org/rk.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}},
            "pip install 'rockafellian[train] @ git+https://example.org/rk.git@c0ffee'",
        ),
    ],
    ids=["index", "folder", "editable", "wheel", "repository"],
)
def test_an_extra_is_installed_from_where_the_package_came_from(origin, command: str, monkeypatch) -> None:
    monkeypatch.setattr(extras, "distribution", lambda name: Installed(origin))
    assert extras.install_command("train") == command


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install rockafellian-reproduction"),
        ({"url": "file:///a/rk", "dir_info": {"editable": True}}, "pip install --editable /a/rk/reproduction"),
        ({"url": "file:///a/rk.whl", "archive_info": {}}, "pip install rockafellian-reproduction"),
        (
            {"url": "https://example.org/rk.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}},
            "pip install 'rockafellian-reproduction @ git+https://example.org/rk.git@c0ffee#subdirectory=reproduction'",
        ),
    ],
    ids=["index", "editable", "wheel", "repository"],
)
def test_another_distribution_is_installed_from_its_folder(origin, command: str, monkeypatch) -> None:
    monkeypatch.setattr(extras, "distribution", lambda name: Installed(origin))
    assert extras.install_command(folder="reproduction") == command


def test_the_error_says_what_is_missing_for_what_and_what_to_do(monkeypatch) -> None:
    monkeypatch.setattr(extras, "distribution", lambda name: Installed(None))
    error = extras.missing("rich for a bar", "train", ", or use progress='lines'")
    assert str(error) == "need rich for a bar; pip install 'rockafellian[train]', or use progress='lines'"


@pytest.mark.parametrize(
    ("module", "package", "need"),
    [
        ("sklearn", "sklearn", "scikit-learn"),
        ("skorch", "skorch", "skorch"),
        ("lightning", "lightning", "lightning"),
        ("huggingface", "transformers", "transformers"),
        ("keras", "keras", "keras"),
    ],
)
def test_an_integration_names_the_extra_it_needs(module: str, package: str, need: str, monkeypatch) -> None:
    name = f"rockafellian.integrations.{module}"
    monkeypatch.setitem(sys.modules, package, None)  # cannot be imported
    monkeypatch.delitem(sys.modules, name, raising=False)
    wanted = f"need {need} for {name}; {extras.install_command(module)}"
    with pytest.raises(ImportError, match=f"^{re.escape(wanted)}$"):
        importlib.import_module(name)


def test_pages_name_no_package_that_an_index_lacks() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    assert not [page for page in pages if "rockafellian[" in page.read_text()]


def test_every_extra_that_the_code_names_is_declared() -> None:
    named = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "missing":
                named.add(ast.literal_eval(node.args[1]))
        assert "rockafellian[" not in path.read_text() or path.name == "extras.py", path
    assert len(named) > 10
    assert named <= set(PROJECT["optional-dependencies"])
