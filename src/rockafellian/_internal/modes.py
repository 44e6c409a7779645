"""Evaluation mode for a while, and every part of the network back in the mode it was in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def eval_mode(*modules: object) -> Iterator[None]:
    """Put modules in evaluation mode within the block; parts may differ in mode, and what is no module is passed over.

    >>> from torch import nn
    >>> model = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2).eval())
    >>> with eval_mode(model):
    ...     print(model[0].training)
    False
    >>> model[0].training, model[1].training
    (True, False)
    """
    parts = [part for module in modules if isinstance(module, nn.Module) for part in module.modules()]
    training = [part for part in parts if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True
