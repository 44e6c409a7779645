"""What a method gives, and the time that its training takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor, nn

Given = TypeVar("Given")


@dataclass(frozen=True)
class Outcome:
    """A trained network and what was found of the labels: low quality is suspect; None where a method does not say."""

    model: nn.Module
    cpu_seconds: float
    quality: Tensor | None = None
    flags: Tensor | None = None
    rate: float | None = None
    #: The interval of the rate.
    low: float | None = None
    high: float | None = None


def timed(job: Callable[[], Given]) -> tuple[Given, float]:
    """What the job gives, and its seconds of processor time."""
    start = time.process_time()
    given = job()
    return given, time.process_time() - start
