"""The commands that this distribution adds to `rockafellian`: reproduce, compare and data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

DEFAULT = "Default: reproduction/results if the present folder has it (the root of a checkout), else results."

Cache = Annotated[Path | None, typer.Option(help="The cache. Default: $ROCKAFELLIAN_CACHE, else the user's caches.")]
Results = Annotated[Path | None, typer.Option(help=f"The folder of the records. {DEFAULT}", metavar="DIR")]


def register(app: typer.Typer) -> None:
    """Add the commands; `rockafellian` calls this through an entry point."""
    app.command(epilog="Example: rockafellian reproduce 3 --scale paper")(reproduce)
    app.command(epilog="Example: rockafellian compare 3")(compare)
    example = "Example: rockafellian data"
    data = typer.Typer(
        no_args_is_help=True, help="The data sets of the paper: list, fetch and check them.", epilog=f"{example} list"
    )
    data.command("list", epilog=f"{example} list")(data_list)
    data.command("get", epilog=f"{example} get mnist-10")(data_get)
    data.command("where", epilog=f"{example} where mnist-10")(data_where)
    app.add_typer(data, name="data")


def reproduce(
    table: Annotated[str, typer.Argument(help="1 to 5, 7, 8, 9, tissue, or digits for a quick try.")],
    scale: Annotated[str | None, typer.Option(help="paper, features or network. Default: see --list.")] = None,
    cell: Annotated[list[str] | None, typer.Option(help="Only cells with KEY=VALUE; may be repeated.")] = None,
    reading: Annotated[list[str] | None, typer.Option(help="Read a point otherwise: NAME=VALUE; see --list.")] = None,
    ours: Annotated[bool, typer.Option("--ours", help="Re-weight as this library does by default.")] = False,
    seeds: Annotated[int, typer.Option(help="How often to train each cell: seeds 0, 1, ...")] = 1,
    jobs: Annotated[int, typer.Option(help="How many cells to train at a time, with one thread each.")] = 1,
    show: Annotated[bool, typer.Option("--list", help="Only list the cells and their expected time.")] = False,
    results: Results = None,
    data_folder: Annotated[Path | None, typer.Option("--data", help="A folder with the data, if not fetched.")] = None,
) -> None:
    """Train the cells of one of the paper's tables. Recorded cells are skipped; run it again to resume after a kill."""
    from rockafellian_reproduction.training.jobs import describe_jobs, find_jobs, read_pair
    from rockafellian_reproduction.training.records import default_folder

    variant = dict(map(read_pair, reading or ())) | ({"ours": "yes"} if ours else {})
    found, folder = find_jobs(table, scale, cell or (), seeds, variant), results or default_folder()
    if show:
        print(describe_jobs(found, folder))
    else:
        from rockafellian_reproduction.training.reproduce import reproduce as train

        train(found, at_once=jobs, results=folder, folder=data_folder)


def compare(
    table: Annotated[str | None, typer.Argument(help="1 to 5, 7, 8, 9 or tissue; all without one.")] = None,
    scale: Annotated[str | None, typer.Option(help="paper, features or network; all without one.")] = None,
    results: Results = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with plots to this file.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write a page to this file.")] = None,
) -> None:
    """Print our recorded results beside the figures of the paper."""
    from rockafellian_reproduction.pages import page
    from rockafellian_reproduction.pages.compare import load

    report = load(table, scale, results)
    page.show(report, sys.stdout)
    for file, write in ((markdown, page.markdown), (html, page.html)):
        if file is not None:
            file.write_text(write(report))
            print(f"wrote {file}")


def data_list(cache: Cache = None) -> None:
    """List the data sets, their licenses, and which are in the cache."""
    from rockafellian_reproduction.data.fetch import overview

    print(overview(cache))


def data_get(
    names: Annotated[list[str], typer.Argument(help="Names from the list.", metavar="NAME...")],
    folder: Annotated[Path | None, typer.Option(help="A folder of your own, to check and to copy from.")] = None,
    cache: Cache = None,
) -> None:
    """Fetch and check data sets, and print their folders."""
    from rockafellian_reproduction.data.fetch import get, keep

    for name in names:
        print(keep(name, folder, cache) if folder else get(name, cache=cache))


def data_where(name: Annotated[str, typer.Argument(help="A name from the list.")], cache: Cache = None) -> None:
    """Print the folder of a data set, if it is in the cache; fetch nothing."""
    from rockafellian_reproduction.data.fetch import cache_folder, where

    folder = where(name, cache)
    if folder is None:
        raise FileNotFoundError(f"{name} is not in {cache_folder(cache)}; get it with `rockafellian data get {name}`")
    print(folder)
