"""States of rows sharded over processes: joined, and cut for another number of processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from rockafellian._internal.comm import gathered
from rockafellian.weights.loss_sums import LossSums
from rockafellian.weights.predictions import Predictions
from rockafellian.weights.sample_weights import SampleWeights

BY_ROW = {"values", "last_removed", *LossSums.PER_ROW}
BY_ROW |= {f"predictions.{name.removeprefix('_')}" for name in Predictions.PER_ROW}
OF_HELD = ("holdout.rows", "holdout.sums", "holdout.counts")


def resharded(states: Sequence[Mapping[str, Tensor]], rows: range) -> dict[str, Tensor]:
    """The state of these rows, from the states of any number of processes that held them, in any order.

    A state of all rows, as one process has it that holds them all, will do too.
    """
    if not isinstance(rows, range) or not all(isinstance(state, Mapping) and "values" in state for state in states):
        raise ValueError(f"need states of SampleWeights and a range of rows, got rows {rows!r}; pass shard(n_samples)")
    parts = sorted(((_rows_of(state), state) for state in states), key=lambda part: part[0].start)
    overlaps = [(held, range(max(held.start, rows.start), min(held.stop, rows.stop)), state) for held, state in parts]
    found = sum(len(wanted) for _, wanted, _ in overlaps)
    if found != len(rows) or not parts:
        raise ValueError(
            f"need the states of rows {rows.start} to {rows.stop}, got {found} of these {len(rows)} rows; "
            "pass what every process had saved"
        )
    made = {name: value for name, value in parts[0][1].items() if name not in BY_ROW and name not in OF_HELD}
    for name in BY_ROW & parts[0][1].keys():
        pieces = [
            state[name][wanted.start - held.start : wanted.stop - held.start]
            for held, wanted, state in overlaps
            if wanted
        ]
        made[name] = torch.cat(pieces) if pieces else parts[0][1][name][:0]
    if OF_HELD[0] in parts[0][1]:
        made |= _held(parts, rows)
    return made | {"rows": torch.tensor([rows.start, rows.stop])}


def whole_state(weights: SampleWeights) -> dict[str, Tensor]:
    """The state of all rows, in every process; all must call this. Only for as many rows as one process can hold."""
    weights.synchronize()
    state = weights.state_dict()
    if not weights.sharded:
        return state
    if OF_HELD[0] in state:
        state[OF_HELD[0]] += weights.rows.start
    apart = {*BY_ROW, *OF_HELD} & state.keys()
    for name in sorted(apart):
        part = state[name]
        state[name] = gathered(part[:, None])[:, 0] if part.ndim == 1 else gathered(part)
    return state | {"rows": torch.tensor([0, weights.n_samples])}


def _rows_of(state: Mapping[str, Tensor]) -> range:
    return range(*state["rows"].tolist()) if "rows" in state else range(len(state["values"]))


def _held(parts: Sequence[tuple[range, Mapping[str, Tensor]]], rows: range) -> dict[str, Tensor]:
    """Predictions for held-out rows, which each state counts from its own first row."""
    classes = max(state["holdout.sums"].shape[1] for _, state in parts)
    numbers = torch.cat([state["holdout.rows"] + held.start for held, state in parts])
    sums = torch.cat([_widened(state["holdout.sums"], classes) for _, state in parts])
    counts = torch.cat([state["holdout.counts"] for _, state in parts])
    mine = (numbers >= rows.start) & (numbers < rows.stop)
    return dict(zip(OF_HELD, (numbers[mine] - rows.start, sums[mine], counts[mine]), strict=True))


def _widened(sums: Tensor, classes: int) -> Tensor:
    """The sums with this many classes: a process that saw no batch does not know how many there are."""
    return sums if sums.shape[1] == classes else torch.zeros(len(sums), classes)
