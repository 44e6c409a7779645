"""Fake CUDA tensors: they have a shape and a device but no values, so that reading one is an error."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

CUDA = torch.device("cuda:0")


class Copies(TorchDispatchMode):
    """Counts copies that make the host wait: all from the GPU and blocking ones to it; and float64 there."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        name = function.overloadpacket.__name__
        made = result if isinstance(result, torch.Tensor) else None
        if made is not None and made.device.type == "cuda" and made.dtype == torch.float64:
            self.found["float64, which mps has not"] += 1
        if name in ("_to_copy", "copy_"):
            source, target = (args[1], args[0]) if name == "copy_" else (args[0], result)
            blocking = not (kwargs.get("non_blocking") or (name == "copy_" and len(args) > 2 and args[2]))
            if source.device.type == "cuda" and target.device.type == "cpu":
                self.found["to the host"] += 1
            elif source.device.type == "cpu" and target.device.type == "cuda" and blocking:
                self.found["blocking, to the GPU"] += 1
        return result


@contextmanager
def fake_cuda() -> Iterator[Counter[str]]:
    """Within the block tensors can be made on CUDA; yields the copies that would make the host wait."""
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad(), Copies() as copies:
        yield copies.found


def on_cuda(module: nn.Module) -> nn.Module:
    """Give the module fake tensors on CUDA; `module.to` copies, which a build for the CPU cannot do."""
    for part in module.modules():
        for name, parameter in part.named_parameters(recurse=False):
            part._parameters[name] = nn.Parameter(torch.empty(parameter.shape, device=CUDA))
        for name, buffer in part.named_buffers(recurse=False):
            part._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype, device=CUDA)
    return module
