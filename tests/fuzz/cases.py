"""One case of every kind: what is made, which command runs, and what must hold afterwards."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import calls
from inputs import FORMATS, arrays_in, file_of, images_in
from mutations import CELLS, deep_json, mutate_bytes, mutate_json
from oracle import agree
from sandbox import MAX_BYTES, Outcome, run_apart

QUICK = ["--contamination", "0.2", "--epochs", "10"]


class Judged(NamedTuple):
    """The kind of a case, how its command ended, and what broke the rule, if anything did."""

    kind: str
    outcome: Outcome
    problem: str | None


@dataclass
class Case:
    """The arguments of a command; and a check of what it wrote, by name in CHECKS and with its arguments."""

    arguments: list[str]
    check: tuple[str, ...] = ()


def audit_of(path: Path, *options: str, label: str = "label") -> Case:
    """Audit a file; `cleaned` and `relabeled` must hold the cells of the file."""
    out = path.parent / "run"
    by_name = [] if path.is_dir() or path.suffix == ".npz" else ["--label", label]
    check = () if path.is_dir() else ("copies", str(path), str(out), label)
    return Case(["audit", str(path), *by_name, "--out", str(out), *QUICK, *options], check)


def check_copies(path: str, run: str, label: str) -> str | None:
    """What is wrong with the copies that a run wrote, if anything."""
    import pyarrow.parquet

    found = pyarrow.parquet.read_table(Path(run) / "findings.parquet").to_pylist()
    kept = [not row["is_label_issue"] for row in found]
    [cleaned], [relabeled] = (list(Path(run).glob(f"{name}.*")) for name in ("cleaned", "relabeled"))
    if not agree(Path(path), cleaned, kept, None, label):
        return "cleaned rows are not those of the data"
    changed = {row["index"]: row["predicted_label"] or ";" for row in found if row["is_label_issue"]}  # none of several
    # A label that is no text, such as true or a date, is written as in another row that has it.
    example = {row["given_label"]: row["index"] for row in found}
    copied = {index: example.get(text, text) for index, text in changed.items()}
    if not any(agree(Path(path), relabeled, [True] * len(found), each, label) for each in (changed, copied)):
        return "relabeled rows are not those of the data with the predicted labels"
    return None


def changed_bytes(folder: Path, draw: random.Random) -> Case:
    """A good file with changed bytes."""
    path = file_of(draw.choice(FORMATS), folder, draw)
    path.write_bytes(mutate_bytes(path.read_bytes(), draw))
    return audit_of(path)


def hostile_cells(folder: Path, draw: random.Random) -> Case:
    """A well-formed file with odd cells, columns and types."""
    path = file_of(draw.choice(FORMATS), folder, draw, hostile=draw.choice([0.02, 0.1, 0.5]))
    options = draw.choice(
        [[], [], ["--text", "note"], ["--separator", ";"], ["--id", "id"], ["--contamination", "auto"]]
    )
    return audit_of(path, *options)


def odd_arrays(folder: Path, draw: random.Random) -> Case:
    """An .npz file of odd types, or with changed bytes."""
    path = arrays_in(folder, draw)
    if draw.random() < 0.5:
        path.write_bytes(mutate_bytes(path.read_bytes(), draw))
    return audit_of(path, label="y")


def odd_images(folder: Path, draw: random.Random) -> Case:
    """A folder of images, some of them damaged, linked, replaced or moved."""
    images = images_in(folder, draw)
    files = sorted(path for path in images.rglob("*") if path.is_file())
    for victim in draw.sample(files, draw.choice([0, 1, 1, 1, 3])):
        change = draw.randrange(8)
        if change < 4:
            victim.write_bytes(mutate_bytes(victim.read_bytes(), draw))
        elif change == 4:
            victim.unlink()
            os.mkfifo(victim)
        elif change == 5:
            victim.unlink()
            victim.symlink_to(draw.choice([files[0].name, "/dev/zero", "nowhere", "."]))
        elif change == 6:
            victim.rename(
                victim.with_name(draw.choice(["\x1b[2J.png", "a b.png", "é.png", "'.png", "x" * 200 + ".png"]))
            )
        else:
            victim.write_bytes(b"")
    return audit_of(images)


def odd_options(folder: Path, draw: random.Random) -> Case:
    """A good file with odd options."""
    path = file_of("csv", folder, draw)
    names = ["--label", "--text", "--image", "--id", "--separator", "--contamination", "--loss", "--attack", "--eps"]
    names += ["--epochs", "--seed", "--device", "--encoder", "--encoding", "--valid"]
    values = [*CELLS, "0.2", "0.999", "1", "-1", "1e300", "cce", "fgsm", "pgd", "meta", "cpu", "cuda", "mps", "utf-8"]
    values += ["utf-16", "hex", "rot13", "note", "color", "height", "12", str(2**70), str(path), "/dev/null", "."]
    values = [each for each in values if "\x00" not in each]  # an argument cannot hold one
    options = [part for _ in range(draw.choice([1, 2, 3])) for part in (draw.choice(names), draw.choice(values))]
    if "--epochs" in options:
        options += ["--epochs", "10"]
    return audit_of(path, *options)


def odd_output(folder: Path, draw: random.Random) -> Case:
    """Outputs that exist, lie inside the input or point elsewhere."""
    path = file_of("csv", folder, draw)
    out = folder / "run"
    kind = draw.randrange(7)
    if kind == 0:
        out.write_text("a file")
    elif kind == 1:
        out.symlink_to(draw.choice(["nowhere", "elsewhere"]))
        (folder / "elsewhere").mkdir()
    elif kind == 2:
        out.mkdir()
        path = path.rename(out / "data.csv")
    elif kind == 3:
        out.mkdir()
        (out / "settings.json").write_text(draw.choice(["", "{}", "[]", "x"]))
    elif kind == 4:
        out.mkdir()
        (out / draw.choice(["DONE", "model", "thesis.txt", ".lock"])).mkdir()
    elif kind == 5:
        os.mkfifo(out)
    flags = draw.choice([[], ["--force"], ["--resume"]])
    case = audit_of(path, *flags)
    case.arguments[case.arguments.index("--out") + 1] = str(out)
    return Case(case.arguments)


def damaged_run(folder: Path, draw: random.Random) -> Case:
    """A finished run in which something was changed, and a command that reads it."""
    shutil.copytree(BASES / "finished", folder, dirs_exist_ok=True)
    run = folder / "run"
    names = ["settings.json", "summary.json", "findings.parquet", "DONE", "model/model.json", "model/model.safetensors"]
    victim = run / draw.choice(names)
    damage(victim, draw)
    if draw.random() < 0.5:
        reseal(run)  # as if somebody had done it on purpose
    command = draw.choice(["show", "predict", "apply", "export"])
    more = {
        "show": [],
        "predict": [str(folder / "data.csv"), "--out", "out.csv"],
        "apply": [str(folder / "decisions.csv"), "--data", str(folder / "data.csv"), "--out", "out.csv"],
        "export": ["--data", str(folder / "data.csv"), "--out", "out.json"],
    }
    check = ("predictions", str(folder / "out.csv")) if command == "predict" else ()
    return Case([command, str(run), *more[command]], check)


def check_predictions(path: str) -> str | None:
    """What is wrong with predicted probabilities, if anything."""
    header = Path(path).read_text().splitlines()[0]
    delimiter = next(each for each in "\t;|," if f"{each}predicted_label{each}" in header)
    with Path(path).open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter=delimiter))
    for row in rows:
        probabilities = [float(value) for name, value in row.items() if name.startswith("probability_")]
        if abs(sum(probabilities) - 1) > 1e-3:
            return f"probabilities sum to {sum(probabilities)}"
    return None


def damage(victim: Path, draw: random.Random) -> None:
    """Change, delete or replace a file."""
    change = draw.randrange(10)
    if change < 4:
        victim.write_bytes(mutate_bytes(victim.read_bytes(), draw))
    elif change < 7 and victim.suffix in (".json", ""):
        victim.write_bytes(mutate_json(victim.read_bytes(), draw))
    elif change == 7:
        victim.unlink()
        draw.choice([os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path), lambda path: None])(victim)
    elif change == 8:
        victim.write_bytes(draw.choice([b"", b"{}", b"[]", b"null", deep_json(), b"\xff\xfe"]))
    else:
        victim.write_bytes(victim.read_bytes() + b"\x00" * draw.choice([1, 8, 1000]))


def reseal(run: Path) -> None:
    """Make the checksums those of the files as they are now."""
    from rockafellian._internal.files import file_checksum

    if (run / "DONE").is_symlink() or not (run / "DONE").is_file():
        return
    try:
        sealed = json.loads((run / "DONE").read_bytes())
        for name in sealed:
            if (run / name).is_file() and not (run / name).is_symlink():
                sealed[name] = file_checksum(run / name)
        (run / "DONE").write_text(json.dumps(sealed))
    except (ValueError, OSError, TypeError, RecursionError):
        return


def damaged_checkpoint(folder: Path, draw: random.Random) -> Case:
    """A stopped run in which something was changed, resumed."""
    shutil.copytree(BASES / "stopped", folder, dirs_exist_ok=True)
    run = folder / "run"
    checkpoint = run / "checkpoint" / "checkpoint.safetensors"
    kind = draw.randrange(5)
    if kind == 0:
        damage(draw.choice([run / "settings.json", checkpoint]), draw)
    elif kind == 1:
        (folder / "data.csv").write_bytes(mutate_bytes((folder / "data.csv").read_bytes(), draw))
    elif kind == 2:
        elsewhere = folder / "elsewhere"
        shutil.move(run / "checkpoint", elsewhere)
        (run / "checkpoint").symlink_to(elsewhere)
    elif kind == 3:
        tamper(checkpoint, draw)
    return Case(["audit", "data.csv", "--label", "label", "--out", "run", *QUICK, "--resume"])


def tamper(checkpoint: Path, draw: random.Random) -> None:
    """Change one value of a checkpoint, and save it as a whole one."""
    import torch

    from rockafellian.training.checkpoints import load, save

    state = load(checkpoint)
    value = state
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = draw.choice(keys) if keys else None
        if key is None or not (isinstance(value[key], dict | list) and value[key]):
            break
        value = value[key]
    if key is None:
        return
    if draw.random() < 0.3:
        del value[key]
    elif isinstance(value[key], torch.Tensor):
        old = value[key]
        value[key] = draw.choice(
            [old.double() * float("nan"), old[:0] if old.ndim else old + 1e30, old.to(torch.int16), -old.double()]
        )
    else:
        value[key] = draw.choice([None, -1, "x", 1e30, float("nan"), [], {}])
    save(checkpoint, state)


def odd_decisions(folder: Path, draw: random.Random) -> Case:
    """Decisions with changed bytes or odd cells."""
    shutil.copytree(BASES / "finished", folder, dirs_exist_ok=True)
    path = folder / "decisions.csv"
    lines = ["index,id,decision,label"]
    for row in draw.sample(range(40), draw.choice([0, 3, 30])):
        decision = draw.choice(["keep", "relabel", "drop", "skip"])
        lines.append(f"{row},row-{row},{decision},{draw.choice(['cat', 'dog']) if decision == 'relabel' else ''}")
    path.write_text("\n".join(lines) + "\n")
    changed = draw.random() < 0.7
    if changed:
        path.write_bytes(mutate_bytes(path.read_bytes(), draw))
    arguments = ["apply", "run", str(path), "--data", "data.csv", "--out", "out.csv"]
    return Case(arguments, () if changed else ("applied", str(folder), *lines[1:]))


def check_applied(place: str, *lines: str) -> str | None:
    """Whether the file that `apply` wrote is the data with these decisions."""
    decided, folder = {int(line.split(",")[0]): line.split(",")[2:] for line in lines}, Path(place)
    with (folder / "data.csv").open(newline="") as file:
        n = len(list(csv.reader(file))) - 1
    kept = [decided.get(row, ["keep"])[0] != "drop" for row in range(n)]
    changed = {row: label for row, (decision, label) in decided.items() if decision == "relabel"}
    same = agree(folder / "data.csv", folder / "out.csv", kept, changed or None, "label")
    return None if same else "the data with the decisions are others"


def new_rows(folder: Path, draw: random.Random) -> Case:
    """New rows of any kind for a trained model."""
    shutil.copytree(BASES / "finished", folder, dirs_exist_ok=True)
    (folder / "new").mkdir()
    path = file_of(draw.choice(FORMATS), folder / "new", draw, hostile=draw.choice([0.0, 0.05]))
    if draw.random() < 0.4:
        path.write_bytes(mutate_bytes(path.read_bytes(), draw))
    return Case(["predict", "run", str(path), "--out", "out.csv"], ("predictions", str(folder / "out.csv")))


def odd_call(folder: Path, draw: random.Random) -> Case:
    """A call of the library with odd arguments."""
    return Case(["call", str(draw.random())])


CHECKS = {"copies": check_copies, "predictions": check_predictions, "applied": check_applied}
#: How many of so many cases are of each kind.
KINDS = {
    changed_bytes: 5,
    hostile_cells: 4,
    odd_arrays: 1,
    odd_images: 2,
    odd_options: 2,
    odd_output: 1,
    damaged_run: 3,
    damaged_checkpoint: 3,
    odd_decisions: 2,
    new_rows: 2,
    odd_call: 5,
}
#: Where the runs lie that cases begin with; set by `make_bases`.
BASES = Path()


def make_bases(folder: Path) -> None:
    """Write a finished run and one that was stopped after its last epoch, for cases to begin with."""
    global BASES
    BASES = folder
    for name in ("finished", "stopped"):
        place = folder / name
        place.mkdir()

        def make(name: str = name, place: Path = place) -> None:
            from rockafellian.auditing.commands import run

            file_of("csv", place, random.Random(3))
            if name == "stopped":
                run.write_all = _interrupt  # type: ignore[assignment]
            call(["audit", "data.csv", "--label", "label", "--out", "run", *QUICK])

        outcome = run_apart(make, place)
        assert outcome.code == (0 if name == "finished" else 2), outcome
        (place / "decisions.csv").write_text("index,id,decision,label\n0,row-0,keep,\n")
        (place / "run" / "report.html").unlink(missing_ok=True)  # large, and read by nobody


def _interrupt(*arguments: object, **options: object) -> None:
    raise KeyboardInterrupt


def call(arguments: list[str]) -> None:
    """The command, or the call of the library, in this process."""
    from rockafellian.cli.main import main

    if arguments[0] == "call":
        calls.run(arguments[1])
        return
    sys.argv = ["rockafellian", *arguments]
    main()


def run_case(seed: int, number: int, folder: Path) -> Judged:
    """Make a case, run it and look at what it wrote, each in a process of its own."""
    draw = random.Random(f"{seed}-{number}")
    kind = draw.choices(list(KINDS), list(KINDS.values()))[0]
    folder.mkdir()
    written = folder.with_suffix(".json")
    made = run_apart(lambda: written.write_text(json.dumps(asdict(kind(folder, draw)))), folder)
    assert made.code == 0, f"case {seed}-{number} ({kind.__name__}) could not be made: {made.err}"
    case = Case(**json.loads(written.read_text()))
    before = tree(folder)
    outcome = run_apart(lambda: call(case.arguments), folder)
    problem = judge(outcome, before, folder)
    if problem is None and outcome.code == 0 and case.check:
        name, *arguments = case.check
        problem = run_apart(lambda: print(CHECKS[name](*arguments) or ""), folder)
        problem = (problem.out.strip() or None) if problem.code == 0 else f"the check failed: {problem.err}"
    shown = f"{kind.__name__}: {problem}\n  {' '.join(map(repr, case.arguments))[:400]}\n  {outcome.err[-600:]}"
    return Judged(kind.__name__, outcome, None if problem is None else shown)


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    """Every path below a folder with what it is and when it was changed."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        found[str(path.relative_to(folder))] = (status.st_mode, 0 if path.is_dir() else status.st_mtime_ns)
    return found


def judge(outcome: Outcome, before: dict[str, tuple[int, int]], folder: Path) -> str | None:
    """What breaks the rule: exit 0, or one line and exit 2, nothing left behind, no hang, no traceback."""
    if outcome.hung:
        return "hangs"
    if "Traceback" in outcome.err + outcome.out:
        return "traceback"
    if outcome.code not in (0, 2):
        return f"exit code {outcome.code}"
    if outcome.bytes > MAX_BYTES:
        return f"{outcome.bytes / 1e9:.1f} GB of memory"
    if any(ord(letter) < 32 and letter != "\n" for letter in outcome.out + outcome.err):
        return "control characters on the terminal"
    if outcome.code == 2:
        errors = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
        if len(errors) != 1 or not outcome.err.rstrip("\n").endswith(errors[0]):
            return f"{len(errors)} lines of error"
        if tree(folder) != before and "--resume" not in errors[0]:
            return f"left behind: {sorted(set(tree(folder).items()) ^ set(before.items()))[:3]}"
    return None
