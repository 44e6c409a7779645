"""The networks that `rockafellian train` chooses from, each made from a description that JSON can hold."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

LEAST_SIDE, LARGEST_SIDE = 8, 64
GROUPS = 8


def build(description: Mapping[str, Any]) -> nn.Module:
    """The network, with new weights, that a description names: {"network": "mlp", "inputs": 30, "classes": 3}."""
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
    """Two hidden layers on rows of `inputs` numbers; each is followed by dropout if there is any."""
    _check(inputs=inputs, classes=classes, hidden=hidden)
    layers: list[nn.Module] = []
    for before in (inputs, hidden):
        layers += [nn.Linear(before, hidden), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
    return nn.Sequential(*layers, nn.Linear(hidden, classes))


class SmallCnn(nn.Module):
    """Three convolutions of 3 by 3 with group normalisation on square images of 8 to 64 pixels, and a linear head.

    Not batch normalisation: in the first epochs on few rows its running means lag behind, so that what the network says
    of held rows tells nothing.

    A block halves the image only while more than 2 by 2 of it are left; the head sees at most 4 by 4.
    """

    def __init__(self, channels: int, side: int, classes: int, *, width: int = 32, dropout: float = 0.0) -> None:
        super().__init__()
        _check(channels=channels, classes=classes, width=width)
        if not LEAST_SIDE <= side <= LARGEST_SIDE:
            raise ValueError(f"need images of {LEAST_SIDE} to {LARGEST_SIDE} pixels a side, got {side}; resize them")
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
        """The logits (batch, classes) for images (batch, channels, side, side)."""
        logits: Tensor = self.head(self.features(images))
        return logits


#: By the name in a description.
NETWORKS: dict[str, Callable[..., nn.Module]] = {"mlp": mlp, "cnn": SmallCnn}


def _block(before: int, after: int, *, halve: bool) -> nn.Module:
    convolution = nn.Conv2d(before, after, 3, padding=1, bias=False)  # normalisation has its own
    return nn.Sequential(convolution, nn.GroupNorm(GROUPS, after), nn.ReLU(), *([nn.MaxPool2d(2)] if halve else []))


def _check(**sizes: int) -> None:
    """Every size is a whole number above 0."""
    wrong = {name: size for name, size in sizes.items() if not isinstance(size, int) or size < 1}
    if wrong:
        raise ValueError(f"need whole numbers >= 1, got {', '.join(f'{name}={size}' for name, size in wrong.items())}")
