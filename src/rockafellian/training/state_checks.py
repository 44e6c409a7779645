"""Whether a saved state fits the part of a run that it is for: checked before anything is loaded."""

from __future__ import annotations

import copy
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from rockafellian.training.history import History
from rockafellian.weights.reweighting import Reweighting, from_tensor

#: Numbers that may become fractions during training although they began as integers, and one that may become negative.
LEARNING_RATES, BEST = ("lr", "_last_lr"), "best"
#: Tensors in the state of an optimizer that are counts or sums of squares.
NOT_NEGATIVE = ("lr", "step", "exp_avg_sq", "max_exp_avg_sq", "square_avg", "sum", "exp_inf", "acc_delta")


def check_state(saved: Any, part: Any, own: Any, name: str) -> None:
    """Raise an error unless a saved state fits the part. SampleWeights check theirs when they load it.

    Args:
        saved: the state.
        part: what it is for; in several processes, wrapped by `whole_parts`.
        own: the state that the part has now.
        name: of the part.
    """
    part = _unwrapped(part)
    if isinstance(part, nn.Module):
        _check_module(saved, own, part, name)
    elif isinstance(part, Optimizer):
        _check_optimizer(saved, part, own, name)
    elif isinstance(part, LRScheduler | torch.amp.GradScaler):
        _check_form(saved, own, name)
    elif isinstance(part, History):
        History.from_state(saved)


def check_epochs(saved: Mapping[str, Any], parts: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Raise an error unless the history, the scheduler and the weights of a run are of the same epoch.

    Args:
        saved: the states of the parts by name, and the settings.
        parts: what they are for.
        own: the states that the parts have now.
    """
    if "history" not in own:
        return
    history = History.from_state(saved["history"])
    if history.best is not None and "model" in own:
        _check_module(history.best.model, own["model"], _unwrapped(parts["model"]), "history/best/model")
    done = len(history.epochs)
    if "scheduler" in own and saved["settings"].get("scheduler_every") == "epoch":
        _check_count(saved["scheduler"], own["scheduler"], "last_epoch", done, "scheduler")
    if "weights" in own:  # they step before each epoch but the first
        _check_count(saved["weights"], own["weights"], "epoch", max(done - 1, 0), "weights")
        made = from_tensor(saved["weights"]["history"])
        before = len(made) - len(history.rounds) if len(own["weights"]["history"]) else 0  # those before this run
        if list(map(_numbers, history.rounds)) != list(map(_numbers, made[before:])):
            raise ValueError("the re-weightings in the history are not those of the weights")


def _check_count(saved: Any, own: Any, key: str, expected: int, name: str) -> None:
    """Raise an error unless a count of epochs is as expected; one that began elsewhere than at 0 may be another."""
    if int(own.get(key, -1)) in (0, expected) and int(saved[key]) != expected:
        raise ValueError(f"the {name} is of epoch {int(saved[key])}, the history of epoch {expected}")


def _numbers(made: Reweighting) -> tuple[float | None, ...]:
    return made.threshold, made.c_min, made.n_removed, made.removed_fraction, made.gap, made.n_changed


def _unwrapped(part: Any) -> Any:
    """Return what `whole_parts` wrapped, or the part itself; a network may well have a layer named `part`."""
    return part if isinstance(part, nn.Module) else getattr(part, "part", part)


def _check_module(saved: Any, own: Mapping[str, Any], module: nn.Module, where: str) -> None:
    _check_form(saved, own, where)
    for name, _ in module.named_parameters(remove_duplicate=False):
        if name in saved and not saved[name].isfinite().all():
            raise ValueError(f"{where}/{name} holds infinity")


def _check_optimizer(saved: Any, optimizer: Optimizer, own: Mapping[str, Any], where: str) -> None:
    """Raise an error unless groups and hyperparameters are of the same form, and the state is one of these parameters.

    A parameter without a state is accepted: it may have got no gradient.
    """
    rest = {key: value for key, value in own.items() if key != "state"}
    _check_form({key: value for key, value in saved.items() if key != "state"}, rest, where)
    numbers = [group["params"] for group in own["param_groups"]]
    if [group["params"] for group in saved["param_groups"]] != numbers:
        raise ValueError(f"{where} has other parameters")
    example, states = _example_state(optimizer), saved["state"]
    if not isinstance(states, dict) or not states.keys() <= set(chain.from_iterable(numbers)):
        raise ValueError(f"{where}/state is not of the parameters")
    if example and not states:
        raise ValueError(f"{where}/state is empty")
    for number, values in states.items():
        _check_form(values, values if example is None else example.get(number, {}), f"{where}/state/{number}")


def _example_state(optimizer: Optimizer) -> Mapping[int, Any] | None:
    """Return the state of such an optimizer after a step, to compare names, shapes and types with.

    The step is made on tensors without storage, or on copies where it asks for values; None if that fails too, as for
    an optimizer that needs a closure or a GPU.
    """
    for device in ("meta", "cpu"):
        try:
            twin = _twin(optimizer, device)
            twin.step()
            found: Mapping[int, Any] = twin.state_dict()["state"]
            return found
        except Exception:  # whatever an optimizer raises where it cannot step
            continue
    return None


def _twin(optimizer: Optimizer, device: str) -> Optimizer:
    """Return a copy of an optimizer with parameters and gradients of the same shapes on this device."""
    copies: dict[int, Any] = {}  # by the id of what they stand for
    state: defaultdict[Tensor, Any] = defaultdict(dict)
    for parameter in (each for group in optimizer.param_groups for each in group["params"]):
        zeros = torch.zeros(parameter.shape, dtype=parameter.dtype, device=device)
        copies[id(parameter)] = twin = nn.Parameter(zeros, requires_grad=parameter.requires_grad)
        twin.grad = torch.zeros_like(twin)
        for name, value in optimizer.state.get(parameter, {}).items():
            on_device = isinstance(value, Tensor) and name != "step"
            state[twin][name] = torch.zeros_like(value, device=device) if on_device else copy.deepcopy(value)
    copies[id(optimizer.state)] = state
    return copy.deepcopy(optimizer, copies)


def _check_form(saved: Any, own: Any, where: str) -> None:
    """Raise an error unless a state has the keys, types and shapes of another, and numbers that training can reach."""
    if isinstance(own, Tensor):
        _check_tensor(saved, own, where)
    elif isinstance(own, Mapping):
        if not isinstance(saved, dict) or isinstance(saved, Counter) != isinstance(own, Counter):
            raise ValueError(f"{where} is {type(saved).__name__}, not dict")
        if differ := [*(saved.keys() ^ own.keys())]:
            raise ValueError(f"{where} has other keys: {', '.join(map(str, differ))}")
        for key, part in own.items():
            _check_form(saved[key], part, f"{where}/{key}")
    elif isinstance(own, list | tuple):
        if not isinstance(saved, type(own)) or len(saved) != len(own):
            raise ValueError(f"{where} is not {len(own)} values")
        for part, like in zip(saved, own, strict=True):
            _check_form(part, like, where)
    elif isinstance(own, int | float) and not isinstance(own, bool):
        _check_number(saved, own, where)
    elif type(saved) is not type(own) or (isinstance(own, str) and saved != own):
        raise ValueError(f"{where} is {saved!r}, not {own!r}")


def _check_tensor(saved: Any, own: Tensor, where: str) -> None:
    if not isinstance(saved, Tensor) or saved.shape != own.shape or saved.dtype != own.dtype:
        got = f"{saved.dtype} {tuple(saved.shape)}" if isinstance(saved, Tensor) else type(saved).__name__
        raise ValueError(f"{where} is {got}, not {own.dtype} {tuple(own.shape)}")
    if saved.isnan().any() and (own.is_meta or saved is own or not own.isnan().any()):
        raise ValueError(f"{where} holds NaN")
    if where.split("/")[-1] in NOT_NEGATIVE and (saved < 0).any():
        raise ValueError(f"{where} holds negative numbers")


def _check_number(saved: Any, own: float, where: str) -> None:
    name = where.split("/")[-1]
    kinds = int if isinstance(own, int) and name not in LEARNING_RATES else int | float
    if isinstance(saved, bool) or not isinstance(saved, kinds):
        raise ValueError(f"{where} is {saved!r}, not a number like {own!r}")
    too_large = abs(saved) > (sys.maxsize if isinstance(saved, int) else sys.float_info.max) and abs(own) != math.inf
    if saved != saved or too_large or (saved < 0 <= own and name != BEST):
        raise ValueError(f"{where} is {saved!r:.50}")
