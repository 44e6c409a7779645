"""The command `rockafellian`. It reads options and prints errors in one line; the work is done elsewhere."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from rockafellian.extras import missing

try:
    import typer
except ImportError:
    print(f"error: {missing('typer for the command line', 'cli')}", file=sys.stderr)
    sys.exit(2)

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)
data = typer.Typer(no_args_is_help=True, help="The data sets of the paper: find, fetch and check them.")
app.add_typer(data, name="data")

Cache = Annotated[Path | None, typer.Option(help="The cache, if not $ROCKAFELLIAN_CACHE or the usual place.")]


@app.callback(invoke_without_command=True)
def rockafellian(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Train classifiers on data with wrong labels, and learn which rows are wrong."""
    if show_version:
        print(version("rockafellian"))
        raise typer.Exit


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder that gets a new folder for this run.")] = Path("runs"),
    seeds: Annotated[int, typer.Option(help="How many times to train, each with other wrong labels.")] = 3,
    epochs: Annotated[int, typer.Option(help="How long to train.")] = 40,
) -> None:
    """Plain training beside RRM on scikit-learn's digits with 40 % wrong labels, and a report."""
    from rockafellian.demo import Settings, run

    run(out, seeds=seeds, settings=Settings(epochs=epochs))


@app.command()
def train(
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
    from rockafellian.audit.run import train as run
    from rockafellian.audit.settings import Settings
    from rockafellian.audit.showing import show as show_run

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


@app.command()
def show(run: Annotated[Path, typer.Argument(help="The folder of a run.")]) -> None:
    """What a run found, in the terminal."""
    from rockafellian.audit.showing import show as show_run

    show_run(run, sys.stdout)


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    data: Annotated[Path, typer.Argument(help="New rows of the kind that it was trained on.")],
    out: Annotated[Path | None, typer.Option(help="The file to write, .csv, .tsv or .parquet.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """New rows with what the trained model says of them: a label, and the probability of each class."""
    from rockafellian.audit.predicting import predict as say

    path = out or Path(f"{data.stem}-predicted.csv")
    print(f"wrote {say(run, data, path, force=force):,} rows to {path}")


@app.command()
def apply(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    decisions: Annotated[Path, typer.Argument(help="What its page exported.")],
    out: Annotated[Path, typer.Option(help="The file to write: .csv, .tsv, .parquet or .npz.")],
    data: Annotated[Path | None, typer.Option(help="The data of the run, if they have moved.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """The data of a run as you decided: relabelled and removed rows, everything else as it was."""
    from rockafellian.audit.decisions import apply as carry_out

    made = carry_out(run, decisions, out, data, force=force)
    print(f"wrote {made.rows:,} rows to {out}: {made.relabelled:,} relabelled, {made.removed:,} removed")


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    out: Annotated[Path, typer.Option(help="The JSON file to write; the labelling page goes beside it as .xml.")],
    everything: Annotated[bool, typer.Option("--all", help="All rows, not only those that look wrong.")] = False,
    data: Annotated[Path | None, typer.Option(help="The data of the run, if they have moved.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """The suspects of a run as tasks for Label Studio, each with the suggested label."""
    from rockafellian.audit.labelstudio import export as write_tasks

    print(f"wrote {write_tasks(run, out, everything=everything, data=data, force=force):,} tasks to {out}")


@app.command()
def reproduce(
    table: Annotated[str, typer.Argument(help="1 to 5, 7, 8, 9 or tissue.")],
    scale: Annotated[str, typer.Option(help="paper: as published; small: for two cores.")] = "small",
    cell: Annotated[list[str] | None, typer.Option(help="Only cells with KEY=VALUE; may be given again.")] = None,
    seeds: Annotated[int, typer.Option(help="How often to train each cell: seeds 0, 1, ...")] = 1,
    jobs: Annotated[int, typer.Option(help="How many cells to train at a time, with one thread each.")] = 1,
    show: Annotated[bool, typer.Option("--list", help="Only show the cells, and how long each should take.")] = False,
    results: Annotated[Path, typer.Option(help="Where records are kept.")] = Path("results"),
    data_folder: Annotated[Path | None, typer.Option("--data", help="A folder with the data, if not fetched.")] = None,
) -> None:
    """Train the cells of one of the paper's tables; finished ones are not trained again, killed ones go on."""
    from rockafellian.paper.reproduce import describe_jobs, find_jobs
    from rockafellian.paper.reproduce import reproduce as train

    found = find_jobs(table, scale, cell or (), seeds)
    if show:
        print(describe_jobs(found, results))
    else:
        train(found, at_once=jobs, results=results, folder=data_folder)


@app.command()
def compare(
    table: Annotated[str | None, typer.Argument(help="1 to 10 but 6, or tissue; all without one.")] = None,
    scale: Annotated[str | None, typer.Option(help="paper or small; both without one.")] = None,
    results: Annotated[Path, typer.Option(help="Where the records are.")] = Path("results"),
    html: Annotated[Path | None, typer.Option(help="Write a page with plots to this file.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write a page to this file.")] = None,
) -> None:
    """Our recorded results beside the figures that the paper prints."""
    from rockafellian.paper import page
    from rockafellian.paper.compare import load

    report = load(table, scale, results)
    page.show(report, sys.stdout)
    for file, write in ((markdown, page.markdown), (html, page.html)):
        if file is not None:
            file.write_text(write(report))
            print(f"wrote {file}")


@data.command("list")
def data_list(cache: Cache = None) -> None:
    """What there is, on what terms, and what of it is in the cache."""
    from rockafellian.paper.fetch import overview

    print(overview(cache))


@data.command("get")
def data_get(
    names: Annotated[list[str], typer.Argument(help="As in the list.", metavar="NAME...")],
    folder: Annotated[Path | None, typer.Option(help="A folder of your own, to check and to copy from.")] = None,
    cache: Cache = None,
) -> None:
    """Fetch and check data sets, and print where they are."""
    from rockafellian.paper.fetch import get, keep

    for name in names:
        print(keep(name, folder, cache) if folder else get(name, cache=cache))


@data.command("where")
def data_where(name: Annotated[str, typer.Argument(help="As in the list.")], cache: Cache = None) -> None:
    """Print where a data set is, if it is in the cache; nothing is fetched."""
    from rockafellian.paper.fetch import cache_folder, where

    folder = where(name, cache)
    if folder is None:
        raise FileNotFoundError(f"{name} is not in {cache_folder(cache)}; get it with `rockafellian data get {name}`")
    print(folder)


def _share(text: str) -> Any:
    """A number, or the word as it is, for the settings to judge."""
    try:
        return float(text)
    except ValueError:
        return text


def main() -> None:
    """What the command calls."""
    try:
        app()
    except (ValueError, OSError, ImportError, FloatingPointError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
