import os
import re
from pathlib import Path

import pytest
import torch
from browser import browser, tab
from hypothesis import settings

__all__ = ["browser", "tab"]

os.environ.setdefault("KERAS_BACKEND", "torch")  # before anything imports keras, whose default is tensorflow
torch.set_num_threads(1)  # two threads on a busy machine can be many times slower than one
settings.register_profile("same every time", derandomize=True, deadline=None)
settings.load_profile("same every time")


def pytest_configure(config: pytest.Config) -> None:
    """Make warnings of tests, benchmarks and examples errors too, by the names they are imported under."""
    root = Path(__file__).parents[1]
    files = [
        path.relative_to(root)
        for folder in ("tests", "reproduction/tests", "benchmarks", "examples")
        for path in root.glob(f"{folder}/**/*.py")
    ]
    own = {path.stem if "tests" in path.parts else ".".join(path.with_suffix("").parts[1:]) for path in files}
    config.addinivalue_line("filterwarnings", f"error:::({'|'.join(map(re.escape, sorted(own)))}|__main__)$")


collect_ignore = ["conftest.py"]  # two of one name cannot be searched for doctests
