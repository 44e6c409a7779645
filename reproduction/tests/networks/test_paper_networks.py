import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, conv2d, max_pool2d, pad, relu

from rockafellian_reproduction import networks
from rockafellian_reproduction.networks import Augment, Residual, parameters, resnet50

TABLE = torch.randn(50, 300, generator=torch.Generator().manual_seed(0))


def comments() -> nn.Module:
    return networks.comments(TABLE)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def words(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(1, len(TABLE), shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("build", "x", "classes", "count"),
    [
        (networks.mnist3, random(2, 1, 28, 28), 3, 417_880),
        (networks.mnist10, random(2, 1, 28, 28), 10, 159_254),
        (lambda: networks.cifar_resnet(8), random(2, 3, 32, 32), 10, 78_042),
        (lambda: networks.cifar_resnet(20), random(2, 3, 32, 32), 10, 272_474),
        (lambda: networks.cifar_resnet(34), random(2, 3, 32, 32), 10, 21_282_122),
        (lambda: networks.cifar_resnet(8, classes=7), random(2, 3, 32, 32), 7, 77_847),
        (comments, words(2, 9), 6, 23_190),
        (networks.tissue_head, random(2, 2048), 2, 1_050_114),
        (lambda: networks.linear_head(384), random(2, 384), 2, 148_610),
    ],
    ids=["mnist3", "mnist10", "resnet8", "resnet20", "resnet34", "seven classes", "comments", "tissue", "embeddings"],
)
def test_networks_have_the_size_and_the_logits_they_should(
    build: Callable[[], nn.Module], x: Tensor, classes: int, count: int
) -> None:
    network = build()
    assert parameters(network) == parameters(network, trainable=True) == count
    assert network(x).shape == (2, classes)


def test_parameters_that_do_not_train_can_be_left_out() -> None:
    network = networks.tissue_head(10)
    network[0].requires_grad_(False)
    assert parameters(network) - parameters(network, trainable=True) == 10 * 512 + 512


@pytest.mark.parametrize("build", [networks.mnist3, networks.mnist10, comments, networks.tissue_head])
def test_networks_start_as_in_tensorflow(build: Callable[[], nn.Module]) -> None:
    for name, parameter in build().named_parameters():
        if name.endswith("bias"):
            assert (parameter == 0).all()
        else:
            fans = sum(parameter.shape[:2]) * math.prod(parameter.shape[2:])
            largest = float(parameter.detach().abs().max())
            assert 0.9 * math.sqrt(6 / fans) < largest <= math.sqrt(6 / fans)


def test_pooling_first_is_the_same_function() -> None:
    network = networks.mnist10()
    x = images = random(3, 1, 28, 28)
    for layer in network:
        if isinstance(layer, nn.Conv2d):
            x = max_pool2d(relu(conv2d(x, layer.weight, layer.bias, padding=1)), 2, ceil_mode=True)
        elif not isinstance(layer, nn.MaxPool2d):
            x = layer(x)
    torch.testing.assert_close(network(images), x)


@pytest.mark.parametrize(("depth", "layers", "side"), [(8, 8, 8), (20, 20, 8), (34, 34, 4)])
def test_a_residual_network_is_as_deep_as_it_says(depth: int, layers: int, side: int) -> None:
    network = networks.cifar_resnet(depth).eval()
    trained = [each for each in network.modules() if isinstance(each, nn.Conv2d | nn.Linear)]
    projections = [each for each in trained if isinstance(each, nn.Conv2d) and each.kernel_size == (1, 1)]
    assert len(trained) - len(projections) == layers
    maps = network[:-3](random(1, 3, 32, 32))
    assert maps.shape[2:] == (side, side)
    assert maps.is_contiguous(memory_format=torch.channels_last)


def test_the_input_goes_around_a_block() -> None:
    block = Residual(4, 4)
    nn.init.zeros_(block.body[-1].weight)
    x = random(2, 4, 8, 8)
    assert torch.equal(block(x), relu(x))


def test_a_block_that_changes_the_shape_projects() -> None:
    block = Residual(4, 6, stride=2).eval()
    nn.init.zeros_(block.body[-1].weight)
    x = random(2, 4, 8, 8)
    assert torch.equal(block(x), relu(block.shortcut(x)))
    assert block(x).shape == (2, 6, 4, 4)


def test_other_depths_are_refused() -> None:
    with pytest.raises(ValueError, match="need a depth of 8, 20, 34; got 50"):
        networks.cifar_resnet(50)


def crops(image: Tensor, padding: int) -> list[Tensor]:
    """Everything that may come of an image: each crop of the padded image, flipped or not."""
    height, width = image.shape[1:]
    padded = pad(image, (padding,) * 4)
    shifts = range(2 * padding + 1)
    found = [padded[:, top : top + height, left : left + width] for top in shifts for left in shifts]
    return found + [crop.flip(2) for crop in found]


def test_augmented_images_are_shifted_and_flipped_copies_each_in_its_own_way() -> None:
    images = random(300, 3, 5, 6)
    torch.manual_seed(0)
    changed = Augment(2)(images)
    found = [
        [which for which, crop in enumerate(crops(image, 2)) if torch.equal(crop, new)]
        for image, new in zip(images, changed, strict=True)
    ]
    assert all(len(each) == 1 for each in found)
    assert {each[0] for each in found} == set(range(50))


def test_augmentation_follows_the_seed() -> None:
    images, augment = random(8, 3, 32, 32), Augment()
    torch.manual_seed(0)
    first, second = augment(images), augment(images)
    torch.manual_seed(0)
    assert torch.equal(augment(images), first)
    assert not torch.equal(first, second)


def test_nothing_is_augmented_in_evaluation() -> None:
    images = random(8, 3, 32, 32)
    assert Augment().eval()(images) is images


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_augmented_images_keep_memory_format_and_type(dtype: torch.dtype) -> None:
    images = random(8, 3, 32, 32).to(dtype).contiguous(memory_format=torch.channels_last)
    changed = Augment()(images)
    assert changed.is_contiguous(memory_format=torch.channels_last)
    assert changed.dtype == dtype


def test_padding_for_the_augmentation_is_not_negative() -> None:
    with pytest.raises(ValueError, match="need padding of 0 pixels or more, got -1"):
        Augment(-1)


def test_comments_are_read_by_a_convolution_over_pairs_of_words() -> None:
    network = networks.comments(TABLE, filters=5)
    pairs, head = network
    nn.init.normal_(pairs.convolution.bias)
    ids = words(4, 7)
    ids[0, 3:] = 0
    table = TABLE.clone()
    table[0] = 0
    maps = relu(pairs.convolution(table[pad(ids, (0, 2))].transpose(1, 2)))
    expected = head(maps.max(2).values)
    torch.testing.assert_close(network(ids), expected)
    weights = list(network.parameters())
    slopes = (torch.autograd.grad(outputs.square().sum(), weights) for outputs in (network(ids), expected))
    torch.testing.assert_close(next(slopes), next(slopes))


def test_padding_does_not_change_what_is_said_of_a_comment() -> None:
    network = comments()
    nn.init.constant_(network[0].convolution.bias, 0.1)
    ids = words(4, 7)
    said = network(ids)
    for more in (1, 2, 50):
        torch.testing.assert_close(network(pad(ids, (0, more))), said)


@pytest.mark.parametrize("length", [0, 1])
def test_comments_of_one_word_or_none_work(length: int) -> None:
    assert comments()(words(3, length)).isfinite().all()


def test_the_embedding_is_neither_trained_nor_saved_nor_shared() -> None:
    table = torch.ones(5, 300)
    network = networks.comments(table)
    assert not any("table" in name for name in [*network.state_dict(), *dict(network.named_parameters())])
    assert (table == 1).all()


def test_a_table_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"need a table of one vector per word, got shape \(50, 300\) of torch.int64"):
        networks.comments(TABLE.long())


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
    monkeypatch.setattr(resnet50, "SHARD", 1999)  # so that there are several, and numbers lie across their borders
    return keras_folder(tmp_path, keras_weights())


def keras(weights: dict[str, Tensor], images: Tensor) -> Tensor:
    """What Keras computes, step by step as its description of ResNet-50 has them."""

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
        resnet50.features(resnet50.load(folder), random(5, 3, 8, 8))


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
