"""Files that appear when they are complete: a kill leaves the old one, or none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def placed(path: Path) -> Iterator[Path]:
    """A place to write to beside `path`, moved there once all is written, and gone if not."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
