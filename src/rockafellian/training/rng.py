"""Random numbers that follow from a seed and an epoch alone, so that a run can be resumed after any epoch."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def seeded(seed: int, epoch: int) -> Iterator[None]:
    """Seed torch, numpy and random within the block, and restore their states after it.

    Args:
        seed: of the run.
        epoch: number of the epoch; each has random numbers of its own.

    >>> import torch
    >>> with seeded(0, 7):
    ...     first = torch.rand(3)
    >>> with seeded(0, 7):
    ...     print(torch.equal(first, torch.rand(3)))
    True
    """
    start = int(np.random.SeedSequence([seed, epoch]).generate_state(1)[0])
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002 - what a user's dataset may use
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(start)
        np.random.seed(start)  # noqa: NPY002
        random.seed(start)
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)  # noqa: NPY002
