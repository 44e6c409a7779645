"""The networks of an audit, each built from a description that JSON can hold."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

MIN_SIDE, MAX_SIDE = 8, 64
GROUPS = 8


def build(description: Mapping[str, Any]) -> nn.Module:
    """Return a new network by its description, such as {"network": "mlp", "inputs": 30, "classes": 3}."""
    settings = dict(description)
    name = settings.pop("network", None)
    if name not in NETWORKS:
        raise ValueError(f"need a network that is {' or '.join(NETWORKS)}, got {name!r}")
    try:
        inspect.signature(NETWORKS[name]).bind(**settings)
    except TypeError as error:
        raise ValueError(f"need the settings of {name}, got {', '.join(settings) or 'none'}: {error}") from error
    return NETWORKS[name](**settings)


def mlp(inputs: int, classes: int, *, hidden: int = 256, dropout: float = 0.0) -> nn.Module:
    """Return an MLP with two hidden layers, each followed by dropout if there is any."""
    _check(inputs=inputs, classes=classes, hidden=hidden)
    layers: list[nn.Module] = []
    for before in (inputs, hidden):
        layers += [nn.Linear(before, hidden), nn.ReLU(), *([Dropout(dropout)] if dropout else [])]
    return nn.Sequential(*layers, nn.Linear(hidden, classes))


class Dropout(nn.Module):
    """Dropout by random bytes: on a CPU, one random number for each element takes as long as the layers do.

    The rate is rounded to 256ths.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.dropped = min(round(256 * rate), 255)

    def forward(self, x: Tensor) -> Tensor:
        """Return x, in training with a part of its elements at 0 and the others scaled up."""
        if not self.training:
            return x
        words = torch.empty(-(-x.numel() // 8), dtype=torch.int64, device=x.device).random_(-(2**63), None)
        kept = words.view(torch.uint8)[: x.numel()].view_as(x) >= self.dropped
        return x * (kept.to(x.dtype) * (256 / (256 - self.dropped)))


class SmallCnn(nn.Module):
    """Three 3 x 3 convolutions with group normalization and a linear head, for square images of 8 to 64 pixels.

    Batch normalization would not do: on few rows its running means lag behind in the first epochs, and predictions for
    held-out rows are useless.

    A block halves the image while more than 2 x 2 pixels are left; the head gets at most 4 x 4.
    """

    def __init__(self, channels: int, side: int, classes: int, *, width: int = 16, dropout: float = 0.0) -> None:
        super().__init__()
        _check(channels=channels, classes=classes, width=width)
        if not MIN_SIDE <= side <= MAX_SIDE:
            raise ValueError(f"need images of {MIN_SIDE} to {MAX_SIDE} pixels a side, got {side}; resize them")
        if width % GROUPS:
            raise ValueError(f"need a width that is a multiple of {GROUPS}, got {width}")
        blocks, before, left = [], channels, side
        for number in range(3):
            after = width * 2**number
            blocks.append(_block(before, after, halve=left > 2))
            before, left = after, left // 2 if left > 2 else left
        seen = min(left, 4)
        self.features = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(seen))
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(dropout), nn.Linear(before * seen * seen, classes))

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits (batch, classes) of images (batch, channels, side, side)."""
        logits: Tensor = self.head(self.features(images.contiguous(memory_format=torch.channels_last)))
        return logits


#: By the name in a description.
NETWORKS: dict[str, Callable[..., nn.Module]] = {"mlp": mlp, "cnn": SmallCnn}


def _block(before: int, after: int, *, halve: bool) -> nn.Module:
    convolution = nn.Conv2d(before, after, 3, padding=1, bias=False)  # group normalization has a bias of its own
    # The image is halved first, so that the rest costs a quarter.
    return nn.Sequential(convolution, *([nn.MaxPool2d(2)] if halve else []), nn.GroupNorm(GROUPS, after), nn.ReLU())


def _check(**sizes: int) -> None:
    """Raise an error unless every size is an integer above 0."""
    wrong = {name: size for name, size in sizes.items() if not isinstance(size, int) or size < 1}
    if wrong:
        raise ValueError(f"need integers >= 1, got {', '.join(f'{name}={size}' for name, size in wrong.items())}")
