"""The commands for your own data: audit (or train), check, show, predict, apply, retrain, export."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from rockafellian._internal.files import check_exists
from rockafellian._internal.printable import printable
from rockafellian.cli.screen import Open, open_page

Data = Annotated[Path, typer.Argument(help="CSV, TSV, Parquet, .npz, or a folder with one sub-folder per class.")]
Label = Annotated[list[str] | None, typer.Option(help="The label column; repeat it for several columns of 0 and 1.")]
Text = Annotated[str | None, typer.Option(help="Learn from the texts in this column only.")]
Image = Annotated[str | None, typer.Option(help="Learn from the images at the paths in this column only.")]
Valid = Annotated[Path | None, typer.Option(help="Validation data, never trained on.")]
Out = Annotated[Path | None, typer.Option(help="The folder of the run; by default a new one in runs/.")]
Contamination = Annotated[str, typer.Option(help="The noise rate if you know it; auto estimates it.")]
Loss = Annotated[str | None, typer.Option(help="cce (the default), mse, mae, gce, truncated_gce or elr.")]
Attack = Annotated[str | None, typer.Option(help="Adversarial training with fgsm or pgd; needs --eps.")]
Eps = Annotated[float | None, typer.Option(help="The size of the attack, in standard deviations of the inputs.")]
Epochs = Annotated[int | None, typer.Option(help="At most so many epochs; training ends when nothing changes.")]
Seed = Annotated[int, typer.Option(help="Equal seeds give equal results.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, mps, ...; by default a GPU if there is one.")]
Encoder = Annotated[str, typer.Option(help="auto, none, efficientnet-lite0, or a transformers folder for texts.")]
Id = Annotated[str | None, typer.Option("--id", help="The column that names the rows.")]
Separator = Annotated[str | None, typer.Option(help="Separator between several labels in one cell.")]
Encoding = Annotated[
    str | None, typer.Option(help="The encoding of text files, such as latin-1; recognized by default.")
]
Crisp = Annotated[
    bool | None,
    typer.Option(
        "--crisp/--ambiguous",
        help="Whether every row has one right answer; by default so of images and texts, and not of tables.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]
ForceRun = Annotated[bool, typer.Option("--force", help="Replace the run in the folder.")]
Resume = Annotated[bool, typer.Option("--resume", help="Resume the run in the folder, with the same options.")]

EXAMPLE = "Example: rockafellian audit tumors.csv --label diagnosis --crisp"
#: The exit code of `check` if there are too many wrong labels; 2 is that of errors.
TOO_MANY_ERRORS = 3

Run = Annotated[Path, typer.Argument(help="The folder of a run.")]
Reviews = Annotated[
    list[Path], typer.Argument(help="The decisions exported from the page of the run, one file for each reviewer.")
]
MovedData = Annotated[Path | None, typer.Option(help="The data of the run, if they have moved.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]


def register(app: typer.Typer) -> None:
    """Add the commands; `train` is another name of `audit`."""
    app.command("audit", epilog=EXAMPLE)(audit)
    app.command("train", epilog=EXAMPLE, help="The same as audit.")(audit)
    for command, example in (
        (check, "check tumors.csv --label diagnosis --max-noise 0.05"),
        (show, "show runs/tumors --group annotator"),
        (predict, "predict runs/tumors new.csv --out predicted.csv"),
        (apply, "apply runs/tumors decisions.csv --out corrected.csv"),
        (retrain, "retrain runs/tumors decisions.csv --out runs/tumors-again"),
        (export, "export runs/tumors --out tasks.json"),
    ):
        app.command(epilog=f"Example: rockafellian {example}")(command)


def audit(
    data: Data,
    label: Label = None,
    text: Text = None,
    image: Image = None,
    valid: Valid = None,
    out: Out = None,
    contamination: Contamination = "auto",
    loss: Loss = None,
    attack: Attack = None,
    eps: Eps = None,
    epochs: Epochs = None,
    seed: Seed = 0,
    device: Device = None,
    encoder: Encoder = "auto",
    id_column: Id = None,
    separator: Separator = None,
    encoding: Encoding = None,
    crisp: Crisp = None,
    force: ForceRun = False,
    resume: Resume = False,
    open_: Open = False,
    as_json: AsJson = False,
) -> None:
    """Train on your data, find the mislabeled rows, and write a page to review them."""
    check_exists(data, valid)
    from rockafellian.auditing.commands.run import run
    from rockafellian.auditing.commands.show import show as print_summary
    from rockafellian.auditing.data.settings import Settings

    chosen = (text, image, id_column, separator, _rate(contamination), loss, attack, eps, epochs, encoder, seed, device)
    settings = Settings(tuple(label or ()), *chosen, encoding=encoding, crisp=crisp)
    audited = run(data, settings, out=out, valid=valid, force=force, resume=resume, say=_nothing if as_json else print)
    assert audited.folder is not None
    if as_json:
        show(audited.folder, None, None, None, as_json=True)
    else:
        print_summary(audited.folder, sys.stdout, without=audited.problem.notices)
    open_page(audited.folder / "report.html", wanted=open_)


def check(
    data: Data,
    label: Label = None,
    max_noise: Annotated[float, typer.Option(help="The largest noise rate that passes, such as 0.05.")] = 0.05,
    baseline: Annotated[Path | None, typer.Option(help="A run; more errors than it surely has do not pass.")] = None,
    text: Text = None,
    image: Image = None,
    epochs: Epochs = None,
    seed: Seed = 0,
    device: Device = None,
    encoder: Encoder = "auto",
    id_column: Id = None,
    separator: Separator = None,
    encoding: Encoding = None,
    crisp: Crisp = None,
    as_json: AsJson = False,
) -> None:
    """Fail (exit code 3) if the data surely have more wrong labels than allowed; for pipelines."""
    check_exists(data, baseline)
    from rockafellian.auditing.commands.check import check as check_data
    from rockafellian.auditing.data.settings import Settings

    chosen = {"text": text, "image": image, "id": id_column, "separator": separator, "epochs": epochs, "seed": seed}
    more = {"device": device, "encoder": encoder, "encoding": encoding, "crisp": crisp}
    settings = Settings(tuple(label or ()), **chosen, **more)  # type: ignore[arg-type]
    found = check_data(data, settings, max_noise=max_noise, baseline=baseline)
    _print([found.sentence, *(f"- {each.reason}; {each.fix}" for each in found.doubts)], found, as_json)
    raise typer.Exit(0 if found.passed else TOO_MANY_ERRORS)


def show(
    run: Run,
    group: Annotated[str | None, typer.Option(help="Count by the values of this column, such as annotator.")] = None,
    decisions: Annotated[list[Path] | None, typer.Option(help="Decisions to count by group; may be repeated.")] = None,
    data: MovedData = None,
    as_json: AsJson = False,
) -> None:
    """Print what a run found."""
    from rockafellian.auditing.commands.run_folder import SUMMARY, open_run
    from rockafellian.auditing.commands.show import show as print_summary
    from rockafellian.auditing.commands.show import show_groups

    if group is not None:
        from rockafellian.auditing.commands.groups import by_group

        found = by_group(run, group, decisions or (), data)
        _print([], found, True) if as_json else show_groups(found, sys.stdout)
    elif as_json:
        print(open_run(run).path(SUMMARY).read_text())
    else:
        print_summary(run, sys.stdout)


def predict(
    run: Run,
    data: Annotated[Path, typer.Argument(help="New rows, of the kind of the training data.")],
    out: Annotated[Path | None, typer.Option(help="The file to write: .csv, .tsv or .parquet.")] = None,
    encoding: Encoding = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Predict new rows: the label, and the probability of each class."""
    from rockafellian.auditing.commands.predict import predict as write_predictions

    path = out or Path(f"{data.stem}-predicted.csv")
    rows = write_predictions(run, data, path, encoding=encoding, force=force)
    _print([f"wrote {rows:,} rows to {path}"], {"rows": rows, "out": str(path)}, as_json)


def apply(
    run: Run,
    decisions: Reviews,
    out: Annotated[Path, typer.Option(help="The file to write, or a new folder for a folder of images.")],
    data: MovedData = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the data of a run with your decisions: relabeled rows changed, dropped rows left out."""
    from rockafellian.auditing.commands.apply import apply as apply_decisions
    from rockafellian.auditing.review.estimate import describe_review

    made = apply_decisions(run, decisions, out, data, force=force)
    changes = f"{made.relabeled:,} relabeled, {made.dropped:,} dropped"
    lines = [f"wrote {made.rows:,} rows to {out}: {changes}", *made.notices, describe_review(made.reviewed)]
    _print(lines, {"out": str(out), **made._asdict()}, as_json)


def retrain(
    run: Run,
    decisions: Reviews,
    out: Out = None,
    data: MovedData = None,
    force: ForceRun = False,
    resume: Resume = False,
    as_json: AsJson = False,
) -> None:
    """Train again with your decisions: corrected labels are trusted; compare before and after on held-out rows."""
    from rockafellian.auditing.commands.retrain import retrain as train_again
    from rockafellian.auditing.commands.show import show as print_summary
    from rockafellian.auditing.review.estimate import describe_review

    say = _nothing if as_json else print
    made = train_again(run, decisions, data=data, out=out, force=force, resume=resume, say=say)
    assert made.audited.folder is not None
    if not as_json:
        print_summary(made.audited.folder, sys.stdout, without=made.audited.problem.notices)
    content = {"out": str(made.audited.folder), **made._asdict()}
    del content["audited"]
    _print([*made.notices, describe_review(made.reviewed), str(made.compared)], content, as_json)


def export(
    run: Run,
    out: Annotated[Path, typer.Option(help="The JSON file to write; the labeling interface goes beside it as .xml.")],
    everything: Annotated[bool, typer.Option("--all", help="All rows, not only the flagged ones.")] = False,
    data: MovedData = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the label issues of a run as tasks for Label Studio, with predictions."""
    from rockafellian.auditing.commands.export import export as write_tasks

    tasks = write_tasks(run, out, everything=everything, data=data, force=force)
    _print([f"wrote {tasks:,} tasks to {out}"], {"tasks": tasks, "out": str(out)}, as_json)


def _nothing(_: str) -> None:
    """Say nothing: only JSON is printed."""


def _print(lines: Iterable[str], content: Any, as_json: bool) -> None:
    """Print lines for people, or the content for programs."""
    if as_json:
        import msgspec

        print(msgspec.json.encode(_as_json(content)).decode())
    else:
        for line in lines:
            print(printable(line))


def _as_json(content: Any) -> Any:
    """The content with named tuples as objects."""
    if isinstance(content, dict) or hasattr(content, "_asdict"):
        named = content if isinstance(content, dict) else content._asdict()
        return {name: _as_json(value) for name, value in named.items()}
    return [_as_json(each) for each in content] if isinstance(content, list | tuple) else content


def _rate(text: str) -> Any:
    """A noise rate as a number, or the text as it is; the settings check it."""
    try:
        return float(text)
    except ValueError:
        return text
