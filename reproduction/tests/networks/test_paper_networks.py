import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, max_pool2d, pad, relu

from rockafellian_reproduction import networks
from rockafellian_reproduction.networks import Augment, Residual, parameters

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
        (networks.mnist10_valid, random(2, 1, 28, 28), 10, 159_254),
        (lambda: networks.head(1280, 10), random(2, 1280), 10, 661_002),
        (lambda: networks.cifar_resnet(8), random(2, 3, 32, 32), 10, 78_042),
        (lambda: networks.cifar_resnet(10), random(2, 3, 32, 32), 10, 308_826),
        (lambda: networks.cifar_resnet(20), random(2, 3, 32, 32), 10, 272_474),
        (lambda: networks.cifar_resnet(34), random(2, 3, 32, 32), 10, 21_282_122),
        (lambda: networks.cifar_resnet(8, classes=7), random(2, 3, 32, 32), 7, 77_847),
        (comments, words(2, 9), 6, 23_190),
        (networks.tissue_head, random(2, 2048), 2, 1_050_114),
        (lambda: networks.linear_head(384), random(2, 384), 2, 148_610),
    ],
    ids=[
        "mnist3",
        "mnist10",
        "of the script",
        "head",
        "resnet8",
        "resnet10",
        "resnet20",
        "resnet34",
        "seven classes",
        "comments",
        "tissue",
        "embeddings",
    ],
)
def test_networks_have_the_size_and_the_logits_they_should(
    build: Callable[[], nn.Module], x: Tensor, classes: int, count: int
) -> None:
    network = build()
    assert parameters(network) == parameters(network, trainable=True) == count
    assert network(x).shape == (2, classes)


def test_parameters_that_do_not_train_can_be_left_out() -> None:
    network = networks.head(10, 2)
    network[0].requires_grad_(False)
    assert parameters(network) - parameters(network, trainable=True) == 10 * 512 + 512


def test_the_network_of_the_script_starts_as_by_he_and_ends_as_by_glorot() -> None:
    *inner, last = [part for part in networks.mnist10_valid() if isinstance(part, nn.Conv2d | nn.Linear)]
    for part in inner:
        bound = math.sqrt(6 / (part.weight[0].numel()))
        assert 0.97 * bound < part.weight.abs().max() <= bound
    assert last.weight.abs().max() <= math.sqrt(6 / 110)
    assert all((part.bias == 0).all() for part in (*inner, last))


@pytest.mark.parametrize("build", [networks.mnist3, networks.mnist10, comments, networks.tissue_head])
def test_networks_are_initialized_as_in_tensorflow(build: Callable[[], nn.Module]) -> None:
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


def test_a_block_adds_its_input() -> None:
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
    with pytest.raises(ValueError, match="need a depth of 8, 10, 20, 34; got 50"):
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


def test_padding_does_not_change_the_logits_of_a_comment() -> None:
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


def test_a_table_of_integers_is_refused() -> None:
    with pytest.raises(ValueError, match=r"need a table of one vector per word, got shape \(50, 300\) of torch.int64"):
        networks.comments(TABLE.long())
