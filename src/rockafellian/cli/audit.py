"""The commands for your own data: audit (or train), show, predict, apply, export."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer


def register(app: typer.Typer) -> None:
    """Add the commands; `train` is another name of `audit`."""
    app.command("audit")(audit)
    app.command("train", help="The same as audit.")(audit)
    app.command()(show)
    app.command()(predict)
    app.command()(apply)
    app.command()(export)


def audit(
    data: Annotated[Path, typer.Argument(help="CSV, TSV, Parquet, .npz, or a folder with one sub-folder per class.")],
    label: Annotated[
        list[str] | None, typer.Option(help="The column with the labels; again for more columns of 0 and 1.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="Learn from the texts in this column.")] = None,
    image: Annotated[str | None, typer.Option(help="Learn from the images at the paths in this column.")] = None,
    valid: Annotated[
        Path | None, typer.Option(help="Other data to measure accuracy on; its labels teach nothing.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder of the run; a new one in runs/ without it.")] = None,
    contamination: Annotated[str, typer.Option(help="The share of wrong labels, or auto to find it.")] = "auto",
    loss: Annotated[str | None, typer.Option(help="cce, mse, mae, gce, truncated_gce or elr.")] = None,
    attack: Annotated[str | None, typer.Option(help="fgsm or pgd: train against it, with --eps.")] = None,
    eps: Annotated[float | None, typer.Option(help="How far the attack may go, in standard deviations.")] = None,
    epochs: Annotated[int | None, typer.Option(help="How long to train.")] = None,
    seed: Annotated[int, typer.Option(help="Equal seeds, equal results.")] = 0,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps, ...: a GPU if there is one.")] = None,
    encoder: Annotated[
        str, typer.Option(help="auto, none, efficientnet-lite0, or a folder of a transformers model for texts.")
    ] = "auto",
    id_column: Annotated[str | None, typer.Option("--id", help="The column that names the rows.")] = None,
    separator: Annotated[
        str | None, typer.Option(help="What stands between the labels of a cell with several.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the run in the folder.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in the folder, with equal options.")
    ] = False,
) -> None:
    """Your own data: train a robust model, list the labels that look wrong, and write a page to review them."""
    from rockafellian.auditing.commands.run import train as run
    from rockafellian.auditing.commands.show import show as show_run
    from rockafellian.auditing.data.settings import Settings

    settings = Settings(
        label=tuple(label or ()),
        text=text,
        image=image,
        id=id_column,
        separator=separator,
        contamination=_share(contamination),
        loss=loss,
        attack=attack,
        eps=eps,
        epochs=epochs,
        encoder=encoder,
        seed=seed,
        device=device,
    )
    folder, _ = run(data, settings, out=out, valid=valid, force=force, resume=resume)
    show_run(folder, sys.stdout)


def show(run: Annotated[Path, typer.Argument(help="The folder of a run.")]) -> None:
    """What a run found, in the terminal."""
    from rockafellian.auditing.commands.show import show as show_run

    show_run(run, sys.stdout)


def predict(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    data: Annotated[Path, typer.Argument(help="New rows of the kind that it was trained on.")],
    out: Annotated[Path | None, typer.Option(help="The file to write, .csv, .tsv or .parquet.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """New rows with what the trained model says of them: a label, and the probability of each class."""
    from rockafellian.auditing.commands.predict import predict as say

    path = out or Path(f"{data.stem}-predicted.csv")
    print(f"wrote {say(run, data, path, force=force):,} rows to {path}")


def apply(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    decisions: Annotated[Path, typer.Argument(help="What its page exported.")],
    out: Annotated[Path, typer.Option(help="The file to write: .csv, .tsv, .parquet or .npz.")],
    data: Annotated[Path | None, typer.Option(help="The data of the run, if they have moved.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """The data of a run as you decided: relabelled and removed rows, everything else as it was."""
    from rockafellian.auditing.commands.apply import apply as carry_out

    made = carry_out(run, decisions, out, data, force=force)
    print(f"wrote {made.rows:,} rows to {out}: {made.relabelled:,} relabelled, {made.removed:,} removed")


def export(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    out: Annotated[Path, typer.Option(help="The JSON file to write; the labelling page goes beside it as .xml.")],
    everything: Annotated[bool, typer.Option("--all", help="All rows, not only those that look wrong.")] = False,
    data: Annotated[Path | None, typer.Option(help="The data of the run, if they have moved.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """The suspects of a run as tasks for Label Studio, each with the suggested label."""
    from rockafellian.auditing.commands.export import export as write_tasks

    print(f"wrote {write_tasks(run, out, everything=everything, data=data, force=force):,} tasks to {out}")


def _share(text: str) -> Any:
    """A number, or the word as it is, for the settings to judge."""
    try:
        return float(text)
    except ValueError:
        return text
