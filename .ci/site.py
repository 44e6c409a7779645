"""A hook of mkdocs: links to files outside of docs/ lead to the repository."""

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
LINK = re.compile(r"\]\(((?:\.\./)+[^)\s]+)\)")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return the page with such links changed."""
    folder = (DOCS / page.file.src_uri).parent

    def lead(match: re.Match[str]) -> str:
        target = (folder / match[1]).resolve()
        if target.is_relative_to(DOCS):
            return match[0]
        return f"]({config['repo_url']}/blob/main/{target.relative_to(DOCS.parent).as_posix()})"

    return LINK.sub(lead, markdown)
