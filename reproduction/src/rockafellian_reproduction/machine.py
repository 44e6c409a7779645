"""The machine on which figures were measured."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

import torch


def machine(*libraries: str) -> dict[str, object]:
    """Return processor, cores, threads and versions; no host name and no path."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "numpy", *libraries)},
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
