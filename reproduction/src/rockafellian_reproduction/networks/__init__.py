"""The networks of the paper: those that are trained (here) and the encoders that give them features."""

from rockafellian_reproduction.networks.models import (
    Augment,
    Residual,
    WordPairs,
    cifar_resnet,
    comments,
    head,
    like_torch,
    linear_head,
    mnist3,
    mnist10,
    mnist10_valid,
    parameters,
    tissue_head,
)

__all__ = [
    "Augment",
    "Residual",
    "WordPairs",
    "cifar_resnet",
    "comments",
    "head",
    "like_torch",
    "linear_head",
    "mnist3",
    "mnist10",
    "mnist10_valid",
    "parameters",
    "tissue_head",
]
