"""Features of frozen encoders, kept in the cache: they take minutes to compute and are the same in every run."""

from __future__ import annotations

from collections.abc import Callable

import torch
from filelock import FileLock
from torch import Tensor

from rockafellian.training.checkpoints import load, save
from rockafellian_reproduction.data.fetch import cache_folder


def cached(name: str, compute: Callable[[], Tensor]) -> Tensor:
    """Return the vectors of this name, computed if they are not in the cache; a second process waits for the first."""
    folder = cache_folder() / "features"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.safetensors"
    with FileLock(folder / f"{name}.lock"):
        try:
            vectors: Tensor = load(path)["vectors"]
        except (FileNotFoundError, ValueError):  # a damaged file is computed again
            vectors = compute()
            save(path, {"vectors": vectors})
    return vectors


def principal_components(vectors: Tensor, k: int, fitted: int) -> Tensor:
    """Return the k coordinates of most variance, the largest first; axes and mean are those of the first rows.

    Args:
        vectors: one row each
        k: how many coordinates
        fitted: how many rows, from the first, decide mean and axes
    """
    mean = vectors[:fitted].double().mean(0)
    centered = vectors[:fitted].double() - mean
    axes = torch.linalg.eigh(centered.T @ centered / fitted).eigenvectors.flip(1)[:, :k]
    # An axis has no direction of its own: its largest entry is made positive, so that all machines have the same.
    largest = axes.gather(0, axes.abs().argmax(0, keepdim=True))
    coordinates: Tensor = (vectors.double() - mean) @ (axes * largest.sign())
    return coordinates.float()
