"""Optional packages: the error for a missing one, with the command that installs it for this installation."""

import json
import shlex
from importlib.metadata import distribution
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname


def missing(need: str, extra: str, otherwise: str = "") -> ImportError:
    """Return the error for a missing package: what needs it, the command that installs it, and another way if any."""
    return ImportError(f"need {need}; {install_command(extra)}{otherwise}")


def install_command(extra: str = "", folder: str = "") -> str:
    """Return the pip command that adds an extra, or a distribution kept in a folder of the repository.

    It installs from where this package came: a folder, repository, file or index.
    """
    origin = _origin()
    url, target, flag = str(origin.get("url", "")), "-".join(filter(None, ("rockafellian", folder))), ""
    if "dir_info" in origin:
        target = "/".join(filter(None, (url2pathname(urlsplit(url).path), folder)))
        flag = "--editable " if origin["dir_info"].get("editable") else ""
        source = ""
    elif "vcs_info" in origin:
        source = f" @ {origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
        source += f"#subdirectory={folder}" if folder else ""
    else:  # a wheel holds one distribution; the other comes from an index
        source = f" @ {url}" if url and not folder else ""
    return f"pip install {flag}{shlex.quote(target + (f'[{extra}]' if extra else '') + source)}"


def _origin() -> dict[str, Any]:
    """Return where pip installed this package from, as PEP 610 records it; nothing if from an index."""
    origin: dict[str, Any] = json.loads(distribution("rockafellian").read_text("direct_url.json") or "{}")
    return origin
