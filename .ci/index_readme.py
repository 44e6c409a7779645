"""A hook of hatchling: the README of the package index, whose links lead to this version in the repository."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = "https://github.com/rockafellian/rockafellian"
LINK = re.compile(r"(?P<image>!?)\[[^\]]*\]\((?!\w+:|#)")


def absolute(text: str, version: str) -> str:
    """Return a page of the root of the repository with links that work everywhere."""

    def lead(match: re.Match[str]) -> str:
        return f"{match[0]}{REPOSITORY}/{'raw' if match['image'] else 'blob'}/v{version}/"

    return LINK.sub(lead, text)


class IndexReadme(MetadataHookInterface):
    """Adds the README."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add it to what the index is told."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"text": absolute(text, metadata["version"]), "content-type": "text/markdown"}
