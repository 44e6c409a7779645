"""States that come from elsewhere, checked before anything is loaded: a file can be of another run, or edited."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from rockafellian.method.noise_rate import NoiseRate
from rockafellian.method.out_of_sample import Estimate

#: A float32 that is finite or +inf is at least this; and counts in float32 end here.
LOWEST, MAX_COUNT = torch.finfo(torch.float32).min, 2.0**24
#: The numbers of a saved noise rate: three of the floor, three of the ceiling, and the skill.
ESTIMATE_SIZE = 7
#: The largest epoch that a state may name.
MAX_EPOCH = 2.0**31


class Entry(NamedTuple):
    """What an entry of a state must be: its shape, whether it holds integers, and the range of its numbers.

    Integers may come as floats, as from JSON, but not the other way round.
    """

    shape: tuple[int, ...]
    integer: bool = False
    low: float = -math.inf
    high: float = math.inf
    may_be_nan: bool = False


def check_state(owner: str, state: Mapping[str, Tensor], entries: Mapping[str, Entry]) -> None:
    """Raise unless the state has these entries, and no others."""
    check_names(owner, state, entries.keys())
    for name, entry in entries.items():
        _check_entry(owner, name, state[name], entry)


def check_names(
    owner: str,
    state: Mapping[str, Tensor],
    needed: Iterable[str],
    optional: Iterable[str] = (),
    parts: tuple[str, ...] = (),
) -> None:
    """Raise unless the state has the entries that are needed, and no others except optional ones.

    Args:
        owner: what the state is of, for errors.
        state: the state.
        needed: names that must be there.
        optional: names that may be there.
        parts: prefixes of names that are checked elsewhere.
    """
    if not isinstance(state, Mapping):
        raise ValueError(f"need a state_dict of {owner}, got {type(state).__name__}")
    if missing := {*needed} - state.keys():
        raise ValueError(f"need a state_dict of {owner}, but it lacks {', '.join(sorted(missing))}")
    unknown = [str(name) for name in state.keys() - {*needed, *optional} if not str(name).startswith(parts)]
    if unknown:
        raise ValueError(f"need a state_dict of {owner}, but it also has {', '.join(sorted(unknown))}")


def damaged(owner: str, why: str) -> ValueError:
    """The error for a state whose entries contradict each other."""
    return ValueError(f"need a state_dict of {owner} as it was saved, but {why}; load another one")


def part_of(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The entries whose names have this prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def _check_entry(owner: str, name: str, value: Tensor, entry: Entry) -> None:
    if not isinstance(value, Tensor) or value.is_complex() or value.dtype == torch.bool:
        kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise damaged(owner, f"{name} is {kind} and not a tensor of real numbers")
    if value.shape != entry.shape:
        wanted = f"a state of {entry.shape[0]} rows" if entry.shape else "one number"
        raise ValueError(
            f"need {wanted}, got {name} of shape {tuple(value.shape)} in a state_dict of {owner}; "
            "it was saved for another data set"
        )
    if not entry.integer and not value.is_floating_point():
        raise damaged(owner, f"{name} is {value.dtype} and not of a floating type")
    if value.numel() == 0:
        return
    values = value.detach()
    if values.dtype in (torch.uint16, torch.uint32, torch.uint64):  # which torch cannot compare
        values = values.double()
    numbers = values[~values.isnan()] if entry.may_be_nan else values
    if numbers.numel() == 0:
        return
    low, high = (float(bound) for bound in numbers.aminmax())
    if not (low >= entry.low and high <= entry.high):  # NaN is neither
        raise damaged(owner, f"{name} ranges from {low:g} to {high:g}, not within {entry.low:g} to {entry.high:g}")
    if entry.integer and values.is_floating_point() and not bool((numbers.floor() == numbers).all()):
        raise damaged(owner, f"{name} has numbers that are not integers")


def estimate_to_tensor(estimate: NoiseRate | None) -> Tensor:
    """Return floor, ceiling and skill as a vector, NaN where there is no estimate."""
    numbers = [torch.nan] * ESTIMATE_SIZE if estimate is None else [*estimate.floor, *estimate.ceiling, estimate.skill]
    return torch.tensor(numbers, dtype=torch.float64)


def estimate_from_tensor(saved: Tensor) -> NoiseRate | None:
    """Return the estimate that was saved, None where it is NaN."""
    if bool(saved.isnan().all()):
        return None
    numbers = saved.tolist()
    return NoiseRate(Estimate(*numbers[:3]), Estimate(*numbers[3:6]), numbers[6])


def is_possible(estimate: NoiseRate | None) -> bool:
    """Return whether each rate is within its interval and in [0, 1], and the ceiling at least the floor."""
    if estimate is None:
        return False
    floor, ceiling, skill = estimate
    ordered = all(0 <= low <= rate <= high <= 1 for rate, low, high in (floor, ceiling))
    return ordered and floor.rate <= ceiling.rate and 0 <= skill <= 1
