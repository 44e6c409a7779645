"""The networks that the paper trains, with the numbers of parameters that it prints. All return logits."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear, pad, relu

#: By depth of a CIFAR network: width and number of blocks of each stage.
STAGES = {
    8: ((16, 1), (32, 1), (64, 1)),
    10: ((16, 1), (32, 1), (64, 1), (128, 1)),
    20: ((16, 3), (32, 3), (64, 3)),
    34: ((64, 3), (128, 4), (256, 6), (512, 3)),
}


def mnist3() -> nn.Module:
    """Return dense layers 784-320-320-200-3 for three digits of MNIST: 417,880 parameters, a count without biases."""
    sizes = (784, 320, 320, 200, 3)
    dense = (nn.Linear(before, after, bias=False) for before, after in itertools.pairwise(sizes))
    layers = [layer for each in dense for layer in (each, nn.ReLU())]
    return _like_tensorflow(nn.Sequential(nn.Flatten(), *layers[:-1]))


def mnist10() -> nn.Module:
    """Return three convolutions and two dense layers for images (batch, 1, 28, 28): 159,254 parameters.

    Pooling before ReLU is the same function, and cheaper.
    """
    convolutions = [
        layer
        for before, after in ((1, 32), (32, 64), (64, 64))
        for layer in (nn.Conv2d(before, after, 3, padding=1), nn.MaxPool2d(2, ceil_mode=True), nn.ReLU())
    ]
    model = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(1024, 100), nn.ReLU(), nn.Linear(100, 10))
    return _channels_last(_like_tensorflow(model))


def mnist10_valid() -> nn.Module:
    """Return the network of the authors' script for images (batch, 1, 28, 28): 159,254 parameters too, no padding.

    Weights start uniform by He et al., those of the last layer by Glorot; biases are zero.
    """
    model = nn.Sequential(
        *(nn.Conv2d(1, 32, 3), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(32, 64, 3), nn.ReLU()),
        *(nn.Conv2d(64, 64, 3), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(1024, 100), nn.ReLU(), nn.Linear(100, 10)),
    )
    _like_tensorflow(model)
    for part in list(model)[:-1]:
        if isinstance(part, nn.Conv2d | nn.Linear):
            nn.init.kaiming_uniform_(part.weight, nonlinearity="relu")
    return _channels_last(model)


def cifar_resnet(depth: int, classes: int = 10) -> nn.Module:
    """Return a residual network for images (batch, 3, 32, 32): depth 34 as in the paper, or 8, 10 or 20.

    Depth 34 is the ImageNet network with a 3x3 stem and no pooling after it: 21,282,122 parameters for 10 classes.
    """
    if depth not in STAGES:
        raise ValueError(f"need a depth of {', '.join(map(str, STAGES))}; got {depth}")
    width = STAGES[depth][0][0]
    layers: list[nn.Module] = [_convolution(3, width, 3), nn.BatchNorm2d(width), nn.ReLU()]
    for number, (after, blocks) in enumerate(STAGES[depth]):
        for block in range(blocks):
            layers.append(Residual(width, after, stride=2 if number > 0 and block == 0 else 1))
            width = after
    return _channels_last(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)))


class Residual(nn.Module):
    """A basic block of He et al.: two 3x3 convolutions, with a 1x1 projection beside them where the shape changes."""

    def __init__(self, before: int, after: int, stride: int = 1) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _convolution(before, after, 3, stride),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            _convolution(after, after, 3),
            nn.BatchNorm2d(after),
        )
        same = before == after and stride == 1
        project = (_convolution(before, after, 1, stride), nn.BatchNorm2d(after))
        self.shortcut = nn.Identity() if same else nn.Sequential(*project)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output, after the ReLU."""
        return relu(self.body(x) + self.shortcut(x))


class Augment(nn.Module):
    """Shifts each image by up to `padding` pixels, filled with zeros, and flips it or not; in training only.

    Random numbers come from torch's global generator, so a seed fixes them.
    """

    def __init__(self, padding: int = 4) -> None:
        super().__init__()
        if padding < 0:
            raise ValueError(f"need padding of 0 pixels or more, got {padding}")
        self.padding = padding

    def forward(self, images: Tensor) -> Tensor:
        """Return the images (batch, channels, height, width), or randomly changed copies."""
        if not self.training:
            return images
        p = self.padding
        # With the channels last a pixel is one short row of memory, and one index serves all channels.
        padded = pad(images.permute(0, 2, 3, 1), (0, 0, p, p, p, p))
        pixels = padded.reshape(-1, images.shape[1])
        index = self._pixel_index(images)
        return pixels.index_select(0, index.flatten()).view(*index.shape, -1).permute(0, 3, 1, 2)

    def _pixel_index(self, images: Tensor) -> Tensor:
        """Return for each pixel of the result its index among those of the padded images: (batch, height, width)."""
        n, _, height, width = images.shape
        image, row, column = (torch.arange(size, device=images.device) for size in (n, height, width))
        top, left = torch.randint(2 * self.padding + 1, (2, n, 1, 1), device=images.device).unbind()
        flipped = torch.rand(n, 1, 1, device=images.device) < 0.5
        y = image[:, None, None] * (height + 2 * self.padding) + top + row[:, None]
        return y * (width + 2 * self.padding) + left + torch.where(flipped, column.flip(0), column)

    def extra_repr(self) -> str:
        """Return the setting, for repr."""
        return f"padding={self.padding}"


def comments(table: Tensor, filters: int = 36) -> nn.Module:
    """Return the paper's network for Toxic Comments: word ids (batch, length), 0 for padding, to six logits."""
    head = nn.Sequential(nn.Linear(filters, 36), nn.ReLU(), nn.Linear(36, 6))
    return _like_tensorflow(nn.Sequential(WordPairs(table, filters), head))


class WordPairs(nn.Module):
    """The largest response of each filter to two adjacent words: embedding, convolution, ReLU, maximum over the text.

    `table` (words, dimensions) is neither trained nor saved with the network; its row 0 counts as zeros.
    """

    table: Tensor

    def __init__(self, table: Tensor, filters: int) -> None:
        super().__init__()
        if table.ndim != 2 or not table.is_floating_point():
            raise ValueError(
                f"need a table of one vector per word, got shape {tuple(table.shape)} of {table.dtype}; "
                "pass floats (words, dimensions)"
            )
        vectors = table.detach().clone()
        vectors[0] = 0
        self.register_buffer("table", vectors, persistent=False)
        self.convolution = nn.Conv1d(table.shape[1], filters, 2)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the responses (batch, filters)."""
        # Two positions of padding after every text, so that a text that fills its row is treated like a padded one.
        words, position = torch.unique(pad(ids, (0, 2)), return_inverse=True)
        # Texts repeat words: filtering each word once takes half the time of a plain convolution.
        filters = self.convolution.weight.permute(2, 0, 1).flatten(0, 1)
        first, second = embedding(position, linear(self.table[words], filters)).chunk(2, 2)
        pairs = (first[:, :-1] + second[:, 1:]).amax(1)
        return relu(pairs + self.convolution.get_parameter("bias"))


def head(features: int, classes: int) -> nn.Module:
    """Return a hidden layer of 512 units and the output, for the features of a frozen encoder of images."""
    return _like_tensorflow(nn.Sequential(nn.Linear(features, 512), nn.ReLU(), nn.Linear(512, classes)))


def tissue_head() -> nn.Module:
    """Return the trained part of the network for Tissue Necrosis: 1,050,114 parameters on the features of a ResNet-50.

    Paper: the text says one output unit, the printed count fits two.
    """
    return head(2048, 2)


def linear_head(features: int, classes: int = 2) -> nn.Module:
    """Return the head of a DistilBERT classifier, for the vectors of a frozen encoder."""
    hidden = (nn.Linear(features, features), nn.ReLU(), nn.Dropout(0.2))
    return _like_tensorflow(nn.Sequential(*hidden, nn.Linear(features, classes)))


def parameters(model: nn.Module, trainable: bool = False) -> int:
    """Return the number of parameters, or that of the trainable ones.

    >>> parameters(mnist10())
    159254
    """
    return sum(each.numel() for each in model.parameters() if each.requires_grad or not trainable)


def _convolution(before: int, after: int, size: int, stride: int = 1) -> nn.Module:
    """Return a convolution without bias, as a BatchNorm follows, initialized for ReLU as in He et al. (2015)."""
    layer = nn.Conv2d(before, after, size, stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


def _like_tensorflow(model: nn.Module) -> nn.Module:
    """Initialize as TensorFlow does, which the paper used: uniform Glorot weights, biases of zero."""
    for name, parameter in model.named_parameters():
        nn.init.zeros_(parameter) if name.endswith("bias") else nn.init.xavier_uniform_(parameter)
    return model


def like_torch(model: nn.Module) -> nn.Module:
    """Initialize as torch does by default."""
    for part in model.modules():
        if isinstance(part, nn.Linear | nn.Conv2d):
            part.reset_parameters()
    return model


def _channels_last(model: nn.Module) -> nn.Module:
    """Return the network with its convolutions in the memory order that is fastest on a CPU."""
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
