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


def install_command(extra: str) -> str:
    """Return the pip command that adds an extra from where this was installed: a folder, repository, file or index."""
    origin = _origin()
    url, target, flag = str(origin.get("url", "")), f"rockafellian[{extra}]", ""
    if "dir_info" in origin:
        target = f"{url2pathname(urlsplit(url).path)}[{extra}]"
        flag = "--editable " if origin["dir_info"].get("editable") else ""
    elif "vcs_info" in origin:
        target += f" @ {origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
    elif url:
        target += f" @ {url}"
    return f"pip install {flag}{shlex.quote(target)}"


def _origin() -> dict[str, Any]:
    """Return where pip installed this package from, as PEP 610 records it; nothing if from an index."""
    origin: dict[str, Any] = json.loads(distribution("rockafellian").read_text("direct_url.json") or "{}")
    return origin
