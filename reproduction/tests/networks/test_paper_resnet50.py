"""ResNet-50 in Keras's layout: the same numbers as Keras, and damaged folders refused."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, conv2d, max_pool2d, pad, relu

from rockafellian_reproduction.networks import parameters, resnet50

# A network in Keras's layout, with two stages of two blocks and a few channels: the same code reads ResNet-50.
BLOCKS = {"2a": (4, 3, 8), "2b": (8, 3, 8), "3a": (8, 5, 12), "3b": (12, 5, 12)}


def keras_weights() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    found = {}

    def convolution(name: str, norm: str, *shape: int) -> None:
        found[f"{name}/kernel"] = torch.randn(shape, generator=generator) / math.sqrt(math.prod(shape[:3]))
        values = torch.rand(5, shape[-1], generator=generator) + 0.5
        own = [f"{name}/bias", *(f"{norm}/{each}" for each in ("gamma", "beta", "moving_mean", "moving_variance"))]
        found.update(zip(own, values, strict=True))

    convolution("conv1", "bn_conv1", 7, 7, 3, 4)
    for block, (before, inner, after) in BLOCKS.items():
        convolution(f"res{block}_branch2a", f"bn{block}_branch2a", 1, 1, before, inner)
        convolution(f"res{block}_branch2b", f"bn{block}_branch2b", 3, 3, inner, inner)
        convolution(f"res{block}_branch2c", f"bn{block}_branch2c", 1, 1, inner, after)
        if block.endswith("a"):
            convolution(f"res{block}_branch1", f"bn{block}_branch1", 1, 1, before, after)
    found["fc1000/kernel"] = torch.randn(12, 10, generator=generator)
    found["fc1000/bias"] = torch.randn(10, generator=generator)
    return found


def keras_folder(folder: Path, weights: dict[str, Tensor]) -> Path:
    content = b"".join(each.numpy().tobytes() for each in weights.values())
    shards = [content[start : start + resnet50.SHARD] for start in range(0, len(content), resnet50.SHARD)]
    paths = [f"group1-shard{number}of{len(shards)}.bin" for number in range(1, len(shards) + 1)]
    for path, shard in zip(paths, shards, strict=True):
        (folder / path).write_bytes(shard)
    entries = [{"name": name, "shape": list(each.shape), "dtype": "float32"} for name, each in weights.items()]
    (folder / "model.json").write_text(json.dumps({"weightsManifest": [{"paths": paths, "weights": entries}]}))
    return folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(resnet50, "SHARD", 1999)  # so that there are several, and values span two of them
    return keras_folder(tmp_path, keras_weights())


def keras(weights: dict[str, Tensor], images: Tensor) -> Tensor:
    """Return what Keras computes, step by step as in its description of ResNet-50."""

    def step(x: Tensor, name: str, norm: str, stride: int = 1, padding: int = 0) -> Tensor:
        x = conv2d(x, weights[f"{name}/kernel"].permute(3, 2, 0, 1), weights[f"{name}/bias"], stride, padding)
        mean, variance = weights[f"{norm}/moving_mean"], weights[f"{norm}/moving_variance"]
        return batch_norm(x, mean, variance, weights[f"{norm}/gamma"], weights[f"{norm}/beta"], eps=0.001)

    bgr = images.flip(3).float() - torch.tensor([103.939, 116.779, 123.68])
    x = relu(step(pad(bgr.permute(0, 3, 1, 2), (3, 3, 3, 3)), "conv1", "bn_conv1", 2))
    x = max_pool2d(pad(x, (1, 1, 1, 1)), 3, 2)
    for block in BLOCKS:
        stride = 2 if block == "3a" else 1
        names = {which: (f"res{block}_branch{which}", f"bn{block}_branch{which}") for which in ("2a", "2b", "2c", "1")}
        inner = relu(step(x, *names["2a"], stride))
        inner = step(relu(step(inner, *names["2b"], padding=1)), *names["2c"])
        x = relu(inner + (step(x, *names["1"], stride) if block.endswith("a") else x))
    return x.mean((2, 3))


IMAGES = torch.randint(0, 256, (5, 37, 37, 3), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)


def test_a_network_in_keras_layout_gives_what_keras_gives(folder: Path) -> None:
    torch.testing.assert_close(resnet50.load(folder)(IMAGES), keras(keras_weights(), IMAGES))


def test_classes_are_given_on_demand(folder: Path) -> None:
    weights = keras_weights()
    expected = keras(weights, IMAGES) @ weights["fc1000/kernel"] + weights["fc1000/bias"]
    torch.testing.assert_close(resnet50.load(folder, classes=True)(IMAGES), expected, rtol=1e-4, atol=1e-3)


def test_the_network_is_frozen(folder: Path) -> None:
    network = resnet50.load(folder, classes=True)
    assert parameters(network, trainable=True) == 0 < parameters(network)
    assert not network.training


def test_features_come_in_batches_from_arrays_that_cannot_be_written(folder: Path) -> None:
    network, images = resnet50.load(folder), IMAGES.numpy().copy()
    images.flags.writeable = False
    found = resnet50.features(network, images, batch=2)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, network(IMAGES))


def stretched(image: np.ndarray, size: int) -> np.ndarray:
    """An image, enlarged bilinearly: along one axis, then along the other."""
    for axis in (0, 1):
        old = image.shape[axis]
        places = (np.arange(size) + 0.5) * old / size - 0.5  # the middle of each new pixel
        image = np.apply_along_axis(lambda line, n=old, at=places: np.interp(at, np.arange(n), line), axis, image)
    return image


def test_features_are_those_of_images_resized_bilinearly() -> None:
    found = resnet50.features(nn.Flatten(), IMAGES, size=64, batch=2).view(5, 64, 64, 3)
    expected = torch.from_numpy(np.stack([stretched(image, 64) for image in IMAGES.numpy()]))
    torch.testing.assert_close(found, expected.float(), rtol=0, atol=0.01)


def test_images_that_shrink_lose_no_pixel() -> None:
    stripes = torch.tensor([255, 0, 0, 255], dtype=torch.uint8).repeat(16)[None, :, None, None].expand(1, 64, 64, 3)
    found = resnet50.features(nn.Flatten(), stripes, size=16).view(16, 16, 3)
    assert (found[1:-1] - 127.5).abs().max() < 20


def test_images_of_another_shape_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"need RGB images \(n, height, width, 3\), got shape \(5, 3, 8, 8\)"):
        resnet50.features(resnet50.load(folder), torch.zeros(5, 3, 8, 8))


@pytest.mark.parametrize("which", [1, 3, -1])
def test_a_shard_of_another_length_is_named(folder: Path, which: int) -> None:
    number = len(list(folder.glob("*.bin"))) if which == -1 else which
    (shard,) = folder.glob(f"group1-shard{number}of*.bin")
    size = shard.stat().st_size
    shard.write_bytes(shard.read_bytes()[:-4])
    with pytest.raises(ValueError, match=f"need .*{shard.name} of {size} bytes, got {size - 4}; unpack the package"):
        resnet50.load(folder)


def test_a_shard_that_is_missing_is_named(folder: Path) -> None:
    (shard,) = folder.glob("group1-shard2of*.bin")
    shard.unlink()
    with pytest.raises(ValueError, match=f"need .*{shard.name} of 1999 bytes, got 0"):
        resnet50.load(folder)


@pytest.mark.parametrize("content", [None, "{", "{}"])
def test_a_folder_without_a_model_is_named(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "model.json").write_text(content)
    with pytest.raises(ValueError, match=f"cannot read {tmp_path / 'model.json'}"):
        resnet50.load(tmp_path)


def test_another_network_is_refused_by_the_name_that_is_missing(tmp_path: Path) -> None:
    weights = {name: each for name, each in keras_weights().items() if name != "bn3b_branch2c/gamma"}
    with pytest.raises(ValueError, match=r"model.json has no weights named 'bn3b_branch2c/gamma'"):
        resnet50.load(keras_folder(tmp_path, weights))
