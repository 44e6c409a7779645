"""Which deliberate faults do the tests catch? One fault at a time in a copy of the project, by the tests of its line.

A fault is drawn for each module by seed; what caught it is recorded in results/faults.json and docs/faults.md. It
needs to know which tests run a line: `pip install pytest-cov`, then
`pytest --cov=rockafellian --cov=rockafellian_reproduction --cov-context=test --cov-report=` and
`python benchmarks/faults.py --coverage .coverage`. `--draw` replaces the record, as after a change of the tree.
`--root` names another checkout, to compare two versions of the tests on the same faults.
"""

import argparse
import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import date
from difflib import unified_diff
from pathlib import Path
from sqlite3 import connect

import records
from pages import page, table
from records import Record

RECORD, PAGE = records.RESULTS / "faults.json", records.DOCS / "faults.md"
#: Modules are named from their source folder on: `method/reweight.py`.
SOURCES = (Path("src/rockafellian"), Path("reproduction/src/rockafellian_reproduction"))
COPIED = ["src", "reproduction", "tests", "benchmarks", "examples", "docs", ".ci", "README.md", "CONTRIBUTING.md"]
COPIED += ["Makefile", "pyproject.toml", "constraints.txt"]
#: How many of the tests that run a line are tried, and for how many seconds.
MAX_TESTS, MAX_SECONDS = 120, 240
ABOUT = (
    "A fault is one changed operator, number, condition or statement of a function, drawn by seed. Of the tests that "
    f"run its line in their own process, at most {MAX_TESTS} are tried."
)
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True)
class Fault:
    """A statement of a function, before and after it is made wrong."""

    module: str
    function: str
    before: str
    after: str


def faulty(node: ast.AST) -> ast.AST | None:
    """Return a node that does something else, or None for a kind of node that is left alone."""
    match node:
        case ast.Compare(ops=[op, *_]) if type(op) in SWAPS:
            return ast.Compare(node.left, [SWAPS[type(op)](), *node.ops[1:]], node.comparators)
        case ast.BinOp(op=op) if type(op) in SWAPS:
            return ast.BinOp(node.left, SWAPS[type(op)](), node.right)
        case ast.BoolOp(op=op):
            return ast.BoolOp(SWAPS[type(op)](), node.values)
        case ast.UnaryOp(op=ast.Not()):
            return node.operand
        case ast.Constant(value=bool(value)):
            return ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            return ast.Constant(value + 1)
        case ast.Return(value=ast.expr()):
            return ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()):
            return ast.Pass()
        case ast.If(test=test):
            return ast.If(ast.UnaryOp(ast.Not(), test), node.body, node.orelse)
    return None


def replacements(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Yield each node that can be made wrong as its parent, field, position in the field, and the wrong node."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "args"):
            continue
        for position, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                if wrong := faulty(child):
                    yield tree, name, position, wrong
                yield from replacements(child)


def put(parent: ast.AST, name: str, position: int | None, child: ast.AST) -> ast.AST:
    """Put a node into its place; return the one that was there."""
    if position is None:
        old = getattr(parent, name)
        setattr(parent, name, child)
    else:
        old, getattr(parent, name)[position] = getattr(parent, name)[position], child
    return old


def functions(tree: ast.AST, within: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield every function with its name, methods by their class."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield within + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{within}{node.name}.")


def faults(path: Path, module: str) -> Iterator[tuple[Fault, ast.Module, int]]:
    """Yield each possible fault of a file, the tree, which contains it until the next one, and the line."""
    tree = ast.parse(path.read_text())
    for function, definition in functions(tree):
        for statement in definition.body:
            for parent, name, position, wrong in replacements(ast.Module([statement], [])):
                original = ast.unparse(statement)
                if parent.__class__ is ast.Module:
                    parent, position = definition, definition.body.index(statement)
                    name = "body"
                old = put(parent, name, position, wrong)
                new = wrong if parent is definition else statement
                line = getattr(old, "lineno", statement.lineno)
                yield Fault(module, function, original, ast.unparse(new)), tree, line
                put(parent, name, position, old)


def draw(root: Path, seed: int) -> list[Fault]:
    """Return a fault for each module, for every second one of the reproduction, drawn by seed: kind, then place."""
    drawn = []
    for source, step in zip(SOURCES, (1, 2), strict=True):
        paths = sorted(path for path in (root / source).rglob("*.py") if path.name != "__init__.py")
        for path in paths[::step]:
            module = path.relative_to(root / source).as_posix()
            kinds = defaultdict(list)
            for fault, _, _ in faults(path, module):
                kinds[kind(fault)].append(fault)
            if len(kinds) > 1:
                kinds.pop("return", None)  # every test notices a function that returns nothing
            choose = random.Random(f"{seed} {module}")
            drawn += [choose.choice(kinds[choose.choice(sorted(kinds))])] if kinds else []
    return drawn


def kind(fault: Fault) -> str:
    """Return the kind of a fault: a missing statement, an operator, a number, a negated condition."""
    if fault.after in ("return None", "pass"):
        return fault.after.split()[0]
    gone, come = fault.before.split(), fault.after.split()
    return re.sub(r"[\w.]+", "x", " ".join(sorted(set(come) - set(gone))))[:8]


def tests_of(coverage: Path, path: Path, line: int) -> list[str]:
    """Return the tests that ran a line in their own process, by the contexts of a coverage file."""
    with closing(connect(coverage)) as base:
        rows = base.execute(
            "select context.context, line_bits.numbits from line_bits join file on file.id = file_id "
            "join context on context.id = context_id where file.path like ?",
            [f"%/{path.as_posix()}"],
        ).fetchall()
    return sorted({name.split("|")[0] for name, bits in rows if name and _has(bits, line)})


def _has(bits: bytes, line: int) -> bool:
    return line // 8 < len(bits) and bool(bits[line // 8] & 1 << line % 8)


def run(tests: list[str], copy: Path) -> str:
    """Return the first test that fails, "" if none does. No answer in MAX_SECONDS is a failure, too."""
    (copy / "tests.txt").write_text("\n".join(tests))
    path = os.pathsep.join(str((copy / source).parent) for source in SOURCES)
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-xq", "--no-header", "-p", "no:cacheprovider", "-p", "no:cov"]
    process = subprocess.Popen(
        [*command, "@tests.txt"],
        cwd=copy,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        shown, _ = process.communicate(timeout=MAX_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"no answer in {MAX_SECONDS} s"
    if process.returncode in (0, 5):
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - |$)", shown, re.MULTILINE)
    return failed[1] if failed else "ends without a summary"


def ordered(fault: Fault, tests: list[str]) -> list[str]:
    """Return tests in the order of trial: files named after the module first, each function in turn."""
    words, seen = set(re.split(r"[_./]", fault.module)), Counter[str]()

    def rank(test: str) -> tuple[bool, int]:
        function = test.partition("[")[0]
        seen[function] += 1
        near = words & set(re.split(r"[_./]", test.partition("::")[0])) - {"py", "tests", "auditing", "paper"}
        return not near, seen[function]

    return sorted(tests, key=rank)


def caught_by(fault: Fault, root: Path, coverage: Path, skipped: set[str], known: set[str]) -> str | None:
    """Return the test that catches a fault, "" if none does, None if there is no such statement (any more)."""
    place = next((source / fault.module for source in SOURCES if (root / source / fault.module).exists()), None)
    made = () if place is None else faults(root / place, fault.module)
    found = next(((ast.unparse(tree), line) for other, tree, line in made if other == fault), None)
    if place is None or found is None:
        return None
    text, line = found
    tests = ordered(fault, [test for test in tests_of(coverage, place, line) if test not in skipped])
    if not tests:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            here = root / name
            (shutil.copytree if here.is_dir() else shutil.copy)(here, copy / name)
        (copy / place).write_text(text)
        first = [test for test in tests if test in known]
        return (run(first, copy) if first else "") or run(tests[:MAX_TESTS], copy)


def render(record: Record) -> str:
    """Return the page docs/faults.md: how many faults each version of the tests caught, then a row per fault."""
    entries = record["faults"]
    versions = sorted({version for entry in entries for version in entry["caught"]}, reverse=True)
    counts = [f"{sum(bool(entry['caught'].get(version)) for entry in entries)} {version}" for version in versions]
    return page(
        "Deliberate faults",
        "benchmarks/faults.py from benchmarks/results/faults.json",
        f"Of {len(entries)} deliberate faults the tests caught {', '.join(counts)}.",
        "## Limits",
        "Some changes have no effect (a limit that is never reached, the size of a picture), so not every fault that "
        "no test caught is a gap. Names of modules and tests are those of the day of the record.",
        "## Results",
        table(["module, function", "change", *versions], [_cells(entry, versions) for entry in entries]),
        "## How it was measured",
        f"{record['date']}, seed {record['seed']}. {ABOUT}",
        *record.get("remarks", []),
    )


def _cells(entry: Record, versions: list[str]) -> list[str]:
    old, new = (entry[name].splitlines() for name in ("before", "after"))
    changed = [line for line in unified_diff(old, new, lineterm="", n=0) if not line.startswith(("---", "+++", "@@"))]
    gone, come = (next((line[1:].strip() for line in changed if line[0] == sign), "") for sign in "-+")
    same = next((i for i, (a, b) in enumerate(zip(gone, come, strict=False)) if a != b), 0)
    start = max(same - 20, 0)
    cells = [f"{entry['module']} {entry['function']}", f"`{gone[start:][:60]}` -> `{come[start:][:60]}`"]
    cells += [entry["caught"].get(version) or "-" for version in versions]
    return [cell.replace("|", "\\|").replace("\n", " ") for cell in cells]


def read_options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--root", type=Path, default=records.BENCHMARKS.parent, help="checkout whose tests are tried")
    options.add_argument("--coverage", type=Path, required=True, help="file of `pytest --cov --cov-context=test`")
    options.add_argument("--as", dest="name", default="after", help="name of this version of the tests in the record")
    options.add_argument("--skip", type=Path, help="file of tests that fail without a fault, one per line")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--draw", action="store_true", help="draw new faults and replace the record")
    return options.parse_args()


def main() -> None:
    """Try the faults that this version of the tests has no record of."""
    chosen = read_options()
    skipped = set(chosen.skip.read_text().split("\n")) - {""} if chosen.skip else set()
    record = {} if chosen.draw else records.load(RECORD)
    if not record:
        record = {"seed": chosen.seed, "faults": [asdict(fault) for fault in draw(chosen.root, chosen.seed)]}
    record["date"] = date.today().isoformat()
    for entry in record["faults"]:
        fault = Fault(**{name: entry[name] for name in Fault.__dataclass_fields__})
        caught = entry.setdefault("caught", {})
        if chosen.name not in caught:
            known = {test for test in caught.values() if test}
            caught[chosen.name] = caught_by(fault, chosen.root, chosen.coverage, skipped, known)
            print(fault.module, caught[chosen.name], flush=True)
            records.save(RECORD, record)
    PAGE.write_text(render(record))


if __name__ == "__main__":
    main()
