"""Run the Python files in examples/notebooks, and write the notebooks beside them and their pages in docs/tutorials."""

import base64
import tempfile
from pathlib import Path

import jupytext
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "examples" / "notebooks").glob("*.py"))
PAGES = ROOT / "docs" / "tutorials"
TIMEOUT = 120  # seconds of a cell


def read(path: Path) -> NotebookNode:
    """Return a notebook, or a Python file as a notebook without outputs, and without what differs from run to run."""
    notebook = jupytext.read(path)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = NotebookNode(kernelspec=NotebookNode(kernel), language_info=NotebookNode(name="python"))
    for position, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{position}", NotebookNode()
    return notebook


def run(path: Path) -> NotebookNode:
    """Return the notebook of a Python file with its outputs, without what goes to stderr."""
    notebook = read(path)
    with tempfile.TemporaryDirectory() as folder:
        where = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=TIMEOUT, record_timing=False, resources=where).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata = read(path).metadata
    return notebook


def page(path: Path) -> Path:
    """Return the path of the page of a notebook."""
    return PAGES / f"{path.stem.replace('_', '-')}.md"


def render(notebook: NotebookNode, path: Path) -> str:
    """Return the page of a notebook. Links that lead from its folder lead from docs/tutorials."""
    name = path.with_suffix(".ipynb").name
    note = f"<!-- Written by .ci/notebooks.py from examples/notebooks/{path.name}: `make notebooks`. -->"
    link = f"This page as a notebook: [examples/notebooks/{name}](../../examples/notebooks/{name})."
    parts = [part for cell in notebook.cells for part in _parts(cell, path)]
    text = "\n\n".join([parts[0].replace("\n", f"\n\n{note}\n", 1), *parts[1:], link])
    return text.replace("](../../docs/", "](../") + "\n"


def _parts(cell: NotebookNode, path: Path) -> list[str]:
    if cell.cell_type == "markdown":
        return [cell.source]
    shown = [text(output) for output in cell.outputs]
    pictures = [f"![Output of the lines above]({page(path).with_suffix('.png').name})" for _ in images(cell)]
    return [f"```python\n{cell.source}\n```", *(f"```text\n{each}\n```" for each in shown if each), *pictures]


def text(output: NotebookNode) -> str:
    """Return what an output shows as text; nothing for a picture."""
    if "image/png" in output.get("data", {}):
        return ""
    return str(output.get("text") or output["data"]["text/plain"]).rstrip()


def images(cell: NotebookNode) -> list[bytes]:
    """Return the pictures among the outputs of a cell."""
    outputs = cell.get("outputs", [])
    return [
        base64.b64decode(output["data"]["image/png"]) for output in outputs if "image/png" in output.get("data", {})
    ]


def main() -> None:
    """Run all, and write notebooks, pages and pictures."""
    PAGES.mkdir(exist_ok=True)
    for path in SOURCES:
        notebook = run(path)
        jupytext.write(notebook, path.with_suffix(".ipynb"))
        page(path).write_text(render(notebook, path), encoding="utf-8")
        for picture in (picture for cell in notebook.cells for picture in images(cell)):
            page(path).with_suffix(".png").write_bytes(picture)


if __name__ == "__main__":
    main()
