"""A run in several processes, of which each has the whole network (DDP) or parts of it (FSDP), and its state.

Loaded only where there are several: torch takes a second to load its part of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from rockafellian.weights.sample_weights import SampleWeights
from rockafellian.weights.sharding import resharded, whole_state


def replicated(model: nn.Module) -> nn.Module:
    """The network to train with: its gradients are the mean over processes. If it is so already, itself."""
    return model if isinstance(model, DistributedDataParallel | FSDPModule) else DistributedDataParallel(model)


def inner(model: nn.Module) -> nn.Module:
    """The network without DistributedDataParallel around it: to look, to attack, to save."""
    return model.module if isinstance(model, DistributedDataParallel) else model


def whole(state: Any) -> Any:
    """A state whose tensors are whole where processes hold parts of them; all must call this."""
    if isinstance(state, DTensor):
        return state.full_tensor()
    if isinstance(state, Mapping):
        return {key: whole(value) for key, value in state.items()}
    return type(state)(map(whole, state)) if isinstance(state, tuple | list) else state


def whole_parts(parts: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a run, whose states are whole ones that any number of processes can go on from."""
    return {name: _Whole(part) for name, part in parts.items() if part is not None}


@dataclass(frozen=True)
class _Whole:
    """A part of a run as a checkpoint sees it."""

    part: Any

    def state_dict(self) -> Any:
        """The whole state; all processes must ask."""
        return whole_state(self.part) if isinstance(self.part, SampleWeights) else whole(self.part.state_dict())

    def load_state_dict(self, state: Any) -> None:
        """Each process takes what it holds."""
        if isinstance(self.part, nn.Module):
            own = self.part.state_dict()
            state = {name: _apportioned(value, own[name]) if name in own else value for name, value in state.items()}
        elif isinstance(self.part, Optimizer):
            state = _apportioned_by_parameter(self.part, state)
        elif isinstance(self.part, SampleWeights) and self.part.sharded:
            state = resharded([state], self.part.rows)
        self.part.load_state_dict(state)


def _apportioned_by_parameter(optimizer: Optimizer, state: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of each parameter in parts where the parameter is."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    of = dict(zip(numbers, parameters, strict=False))  # the optimiser itself says if there are others
    parts = {
        number: {name: _apportioned(value, of[number]) for name, value in values.items()}
        for number, values in state["state"].items()
    }
    return {**state, "state": parts}


def _apportioned(value: Any, like: Tensor) -> Any:
    if not (isinstance(like, DTensor) and isinstance(value, Tensor) and value.shape == like.shape):
        return value
    return distribute_tensor(value, like.device_mesh, like.placements)
