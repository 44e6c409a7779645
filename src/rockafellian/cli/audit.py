"""The commands for your own data: audit (or train), show, predict, apply, export."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rockafellian._internal.printable import printable

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
ForceRun = Annotated[bool, typer.Option("--force", help="Replace the run in the folder.")]
Resume = Annotated[bool, typer.Option("--resume", help="Resume the run in the folder, with the same options.")]

Run = Annotated[Path, typer.Argument(help="The folder of a run.")]
MovedData = Annotated[Path | None, typer.Option(help="The data of the run, if they have moved.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]


def register(app: typer.Typer) -> None:
    """Add the commands; `train` is another name of `audit`."""
    app.command("audit")(audit)
    app.command("train", help="The same as audit.")(audit)
    app.command()(show)
    app.command()(predict)
    app.command()(apply)
    app.command()(export)


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
) -> None:
    """Train on your data, find the mislabeled rows, and write a page to review them."""
    from rockafellian.auditing.commands.run import run
    from rockafellian.auditing.commands.show import show as print_summary
    from rockafellian.auditing.data.settings import Settings

    rate = _number_or_text(contamination)
    chosen = (text, image, id_column, separator, rate, loss, attack, eps, epochs, encoder, seed, device)
    settings = Settings(tuple(label or ()), *chosen, encoding=encoding, crisp=crisp)
    audited = run(data, settings, out=out, valid=valid, force=force, resume=resume)
    assert audited.folder is not None
    print_summary(audited.folder, sys.stdout, without=audited.problem.notices)


def show(run: Run) -> None:
    """Print what a run found."""
    from rockafellian.auditing.commands.show import show as print_summary

    print_summary(run, sys.stdout)


def predict(
    run: Run,
    data: Annotated[Path, typer.Argument(help="New rows, of the kind of the training data.")],
    out: Annotated[Path | None, typer.Option(help="The file to write: .csv, .tsv or .parquet.")] = None,
    encoding: Encoding = None,
    force: Force = False,
) -> None:
    """Predict new rows: the label, and the probability of each class."""
    from rockafellian.auditing.commands.predict import predict as write_predictions

    path = out or Path(f"{data.stem}-predicted.csv")
    rows = write_predictions(run, data, path, encoding=encoding, force=force)
    print(printable(f"wrote {rows:,} rows to {path}"))


def apply(
    run: Run,
    decisions: Annotated[Path, typer.Argument(help="The decisions exported from the page of the run.")],
    out: Annotated[Path, typer.Option(help="The file to write: .csv, .tsv, .parquet or .npz.")],
    data: MovedData = None,
    force: Force = False,
) -> None:
    """Write the data of a run with your decisions: relabeled rows changed, dropped rows left out."""
    from rockafellian.auditing.commands.apply import apply as apply_decisions

    made = apply_decisions(run, decisions, out, data, force=force)
    changes = f"{made.relabeled:,} relabeled, {made.dropped:,} dropped"
    print(printable(f"wrote {made.rows:,} rows to {out}: {changes}"))


def export(
    run: Run,
    out: Annotated[Path, typer.Option(help="The JSON file to write; the labeling interface goes beside it as .xml.")],
    everything: Annotated[bool, typer.Option("--all", help="All rows, not only the flagged ones.")] = False,
    data: MovedData = None,
    force: Force = False,
) -> None:
    """Write the label issues of a run as tasks for Label Studio, with predictions."""
    from rockafellian.auditing.commands.export import export as write_tasks

    tasks = write_tasks(run, out, everything=everything, data=data, force=force)
    print(printable(f"wrote {tasks:,} tasks to {out}"))


def _number_or_text(text: str) -> Any:
    """A number, or the text as it is; the settings check it."""
    try:
        return float(text)
    except ValueError:
        return text
