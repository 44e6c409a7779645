"""What a method returns, and the time its training takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor, nn

Given = TypeVar("Given")


@dataclass(frozen=True)
class Outcome:
    """A trained network, and quality (low is suspect), flags and noise rate; None where a method does not give one."""

    model: nn.Module
    cpu_seconds: float
    quality: Tensor | None = None
    flags: Tensor | None = None
    rate: float | None = None
    #: The interval of the rate.
    low: float | None = None
    high: float | None = None
    #: Errors that nothing else explains.
    floor: float | None = None


def timed(job: Callable[[], Given]) -> tuple[Given, float]:
    """Return what the job returns, and its processor seconds."""
    start = time.process_time()
    given = job()
    return given, time.process_time() - start
