"""HostCopy: a tensor of a GPU on the CPU, without waiting for it."""

from __future__ import annotations

import torch
from torch import Tensor


class HostCopy:
    """Gives of each tensor a copy on the CPU: of one that is there, itself; else that of the call before.

    A copy from a GPU is started and read at the next call, when it has long arrived.
    """

    def __init__(self) -> None:
        self._started: tuple[Tensor, torch.cuda.Event | None] | None = None

    def of(self, tensor: Tensor) -> Tensor | None:
        """The tensor, or the one of the call before; None if there was none."""
        if tensor.is_cpu:
            return tensor
        before, self._started = self._started, _start_copy(tensor)
        if before is None:
            return None
        copy, arrived = before
        if arrived is not None:
            arrived.synchronize()
        return copy


def _start_copy(tensor: Tensor) -> tuple[Tensor, torch.cuda.Event | None]:
    if not torch.cuda.is_available():
        return tensor.to("cpu", non_blocking=True), None
    copy = torch.empty_like(tensor, device="cpu", pin_memory=True)
    copy.copy_(tensor, non_blocking=True)
    arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrived.record()
    return copy, arrived
