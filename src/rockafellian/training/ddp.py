"""Networks and states of a run in several processes, which hold copies (DDP) or parts (FSDP) of the network.

Imported only if there are several processes, because torch's own part of it takes a second to import.
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
    """Return the network in DDP, which averages gradients over processes; itself if it is in DDP or FSDP already."""
    return model if isinstance(model, DistributedDataParallel | FSDPModule) else DistributedDataParallel(model)


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the network without DDP around it, for evaluation, attacks and checkpoints."""
    return model.module if isinstance(model, DistributedDataParallel) else model


def whole(state: Any) -> Any:
    """Return a state with whole tensors where processes hold parts of them; all processes must call this."""
    if isinstance(state, DTensor):
        return state.full_tensor()
    if isinstance(state, Mapping):
        return {key: whole(value) for key, value in state.items()}
    return type(state)(map(whole, state)) if isinstance(state, tuple | list) else state


def whole_parts(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a run with whole states, from which any number of processes can resume."""
    return {name: _Whole(part) for name, part in parts.items() if part is not None}


@dataclass(frozen=True)
class _Whole:
    """A part of a run as a checkpoint sees it."""

    part: Any

    def state_dict(self) -> Any:
        """Return the whole state; all processes must call this."""
        return whole_state(self.part) if isinstance(self.part, SampleWeights) else whole(self.part.state_dict())

    def load_state_dict(self, state: Any) -> None:
        """Load from a whole state what this process holds."""
        if isinstance(self.part, nn.Module):
            own = self.part.state_dict()
            state = {name: _sharded_like(value, own[name]) if name in own else value for name, value in state.items()}
        elif isinstance(self.part, Optimizer):
            state = _sharded_like_parameters(self.part, state)
        elif isinstance(self.part, SampleWeights) and self.part.sharded:
            state = resharded([state], self.part.rows)
        self.part.load_state_dict(state)


def _sharded_like_parameters(optimizer: Optimizer, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of an optimizer, sharded over processes where its parameters are."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    of = dict(zip(numbers, parameters, strict=False))  # the optimizer itself complains about others
    parts = {
        number: {name: _sharded_like(value, of[number]) for name, value in values.items()}
        for number, values in state["state"].items()
    }
    return {**state, "state": parts}


def _sharded_like(value: Any, like: Tensor) -> Any:
    if not (isinstance(like, DTensor) and isinstance(value, Tensor) and value.shape == like.shape):
        return value
    return distribute_tensor(value, like.device_mesh, like.placements)
