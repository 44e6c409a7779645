"""Features of frozen encoders, kept in the cache: they take minutes to compute and are the same in every run."""

from __future__ import annotations

from collections.abc import Callable

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
