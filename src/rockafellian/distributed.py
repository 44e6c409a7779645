"""What processes tell each other: the only file that touches torch.distributed."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def is_shared() -> bool:
    """Whether this process is one of several that train together."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def gathered(matrix: Tensor) -> Tensor:
    """The rows of every process's matrix, one process after the other; all must call this, and all get the same.

    Heights may differ, and a matrix without rows may have any width.
    """
    if not is_shared():
        return matrix
    device = torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else torch.device("cpu")
    shapes = _from_all(torch.tensor(matrix.shape, device=device)).tolist()
    height = max(rows for rows, _ in shapes)
    width = max((columns for rows, columns in shapes if rows), default=matrix.shape[1])
    padded = torch.zeros(height, width, dtype=matrix.dtype, device=device)
    if len(matrix):
        padded[: len(matrix)] = matrix
    parts = _from_all(padded).to(matrix.device)
    return torch.cat([part[:rows] for part, (rows, _) in zip(parts, shapes, strict=True)])


def _from_all(tensor: Tensor) -> Tensor:
    """The tensors of all processes, which have one shape, stacked."""
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)
    return torch.stack(parts)
