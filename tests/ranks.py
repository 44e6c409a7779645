"""Processes for tests: children of a server that has torch loaded but never ran it, so they start in no time."""

import os
import socket
import sys
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

processes = get_context("forkserver")
processes.set_forkserver_preload(["torch._dynamo", "rockafellian.training.fit", "rockafellian.training.checkpoints"])


def start_ranks(target: Callable[..., object], n: int, *arguments: object, folder: Path) -> list[BaseProcess]:
    """Start n processes that find each other as torchrun's do; what they print goes to `output-RANK.txt`."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    shared = {"WORLD_SIZE": n, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranks: list[BaseProcess] = []
    for rank in range(n):
        own = {"RANK": rank, "LOCAL_RANK": rank, **shared}
        environment = {name: str(value) for name, value in own.items()}
        ranks.append(processes.Process(target=_run, args=(environment, folder, target, arguments)))
        ranks[-1].start()
    return ranks


def run_ranks(target: Callable[..., object], n: int, *arguments: object, folder: Path) -> None:
    """Run n processes to their end; none of them may fail."""
    for rank, process in enumerate(start_ranks(target, n, *arguments, folder=folder)):
        process.join(300)
        assert process.exitcode == 0, output(folder, rank)


def output(folder: Path, rank: int) -> str:
    """Return what a process printed, errors included."""
    return (folder / f"output-{rank}.txt").read_text()


def _run(environment: dict[str, str], folder: Path, target: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    import torch

    os.environ |= environment
    printed = os.open(folder / f"output-{environment['RANK']}.txt", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(printed, stream.fileno())
    torch.set_num_threads(1)
    target(*arguments)
