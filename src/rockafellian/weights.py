"""SampleWeights: the weights and the losses of every row, kept from batch to batch with the manners of a scheduler."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from rockafellian.reweight import optimality_gap
from rockafellian.vectors import Array, read_losses, read_prior, to_tensor

Rule: TypeAlias = Callable[..., Tensor]


class Reweighting(NamedTuple):
    """The record of one re-weighting. A rule without a `threshold` method leaves threshold and gap NaN."""

    epoch: int
    threshold: float
    c_min: float
    removed: int
    gap: float


class SampleWeights:
    """One weight per row of the training set: `reduce` in every batch, `step` after every epoch.

    `rule` is any callable (losses, weights) -> weights; `RRM` is the paper's. It runs after every `every`-th epoch
    (sigma of Algorithm 2), not counting the first `warmup` ones. `prior` gives the rows unequal weights to begin with
    and is handed to the rule as `prior=`. Memory: 24 bytes a row.
    """

    _PER_ROW = ("values", "last_removed", "_round_sum", "_round_count", "_run_sum", "_run_count")

    def __init__(
        self,
        n_samples: int,
        rule: Rule,
        *,
        every: int = 1,
        warmup: int = 0,
        prior: Array | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        for name, value, least in (("n_samples", n_samples, 1), ("every", every, 1), ("warmup", warmup, 0)):
            if not isinstance(value, Integral) or value < least:
                raise ValueError(f"need {name} to be a whole number >= {least}, got {value!r}")
        if not callable(rule):
            raise ValueError(f"need a rule (losses, weights) -> weights, such as RRM(contamination=0.2); got {rule!r}")
        self.rule = rule
        self.every = every
        self.warmup = warmup
        self.device = torch.device(device)
        self.epoch = 0
        self.history: list[Reweighting] = []
        self.values = torch.ones(n_samples, device=self.device)
        self._prior = None
        if prior is not None:
            self._prior = to_tensor(read_prior(prior, self.values.cpu().numpy()), self.values)
            self.values = self._prior.clone()
        #: For each row the re-weighting, counted from 1, in which it last stood removed; 0 if never.
        self.last_removed = torch.zeros(n_samples, dtype=torch.int32, device=self.device)
        self._round_sum, self._round_count, self._run_sum, self._run_count = torch.zeros(
            4, n_samples, device=self.device
        ).unbind()

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        removed = int(self.removed.count_nonzero())
        return f"SampleWeights({len(self)} rows, {removed} removed, epoch {self.epoch}, {self.rule})"

    @property
    def removed(self) -> Tensor:
        """The rows above the threshold of the last re-weighting, chi of the Corollary; with mu < 1 they fade to 0."""
        return (self.last_removed == len(self.history)) & (self.last_removed > 0)

    @property
    def average_losses(self) -> Tensor:
        """The mean of every loss seen of a row in the whole run, NaN if none was: what to rank suspects by."""
        return (self._run_sum + self._round_sum) / (self._run_count + self._round_count)

    def reduce(self, losses: Tensor, index: Array) -> Tensor:
        """The scalar to call `backward` on, mean(weights[index] * losses); remembers the losses for `step`.

        The mean is over the batch size and not over its weights, or a batch of removed rows would count like any other.
        """
        rows = self.remember(losses, index)
        weights = self.values[rows].to(losses.device)
        return (weights * losses.masked_fill(weights == 0, 0)).mean()  # a removed row may cost +inf

    def remember(self, losses: Tensor, index: Array) -> Tensor:
        """Only take note of these losses, for rows that the loop leaves out; returns the index, checked."""
        rows = self._checked_rows(losses, torch.as_tensor(index))
        self._round_sum.index_add_(0, rows, losses.detach().to(self._round_sum))
        self._round_count.index_add_(0, rows, torch.ones(len(rows), device=self.device))
        return rows

    @property
    def due(self) -> bool:
        """Whether the next `step` re-weights."""
        counted = self.epoch + 1 - self.warmup
        return counted > 0 and counted % self.every == 0

    def step(self, losses: Array | Callable[[], Array] | None = None) -> bool:
        """Call once an epoch; re-weights when it is time to, and says whether it did.

        Uses the mean of the losses `reduce` saw of each row since the last re-weighting; or a vector of N losses, or a
        function that returns one and is called only when needed. Rows that were not seen keep their weight, and those
        that were share the mass they had. An error leaves everything as it was.
        """
        epoch, due = self.epoch + 1, self.due
        if due:
            self._reweight(epoch, losses() if callable(losses) else losses)
        if due or epoch <= self.warmup:
            self._forget_round()
        self.epoch = epoch
        return due

    def state_dict(self) -> dict[str, Tensor]:
        """A copy of all that changes, as tensors only, so that safetensors can hold it."""
        state = {name.removeprefix("_"): getattr(self, name).clone() for name in self._PER_ROW}
        state["epoch"] = torch.tensor(self.epoch)
        state["history"] = torch.tensor(self.history, dtype=torch.float64).reshape(-1, len(Reweighting._fields))
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a `state_dict`; what is not state (rule, every, warmup, prior) comes from the constructor."""
        own = {name.removeprefix("_"): getattr(self, name) for name in self._PER_ROW}
        if missing := {*own, "epoch", "history"} - state.keys():
            raise ValueError(f"need a state_dict of SampleWeights, but it lacks {', '.join(sorted(missing))}")
        for name, tensor in own.items():
            if state[name].shape != tensor.shape:
                raise ValueError(
                    f"need a state of {len(self)} rows, got {name} of shape {tuple(state[name].shape)}; "
                    "it was saved for another data set"
                )
        for name, tensor in own.items():
            tensor.copy_(state[name])
        self.epoch = int(state["epoch"])
        self.history = [
            Reweighting(int(epoch), threshold, c_min, int(removed), gap)
            for epoch, threshold, c_min, removed, gap in state["history"].tolist()
        ]

    def _checked_rows(self, losses: Tensor, index: Tensor) -> Tensor:
        if losses.ndim != 1 or losses.shape != index.shape:
            raise ValueError(
                f"need one loss per index, got losses {tuple(losses.shape)} and index {tuple(index.shape)}; "
                "build the loss with reduction='none'"
            )
        if len(index) == 0 or index.is_floating_point():
            raise ValueError(f"need the rows' numbers as whole numbers, got {len(index)} of {index.dtype}")
        low, high = (int(bound) for bound in index.aminmax())
        if low < 0 or high >= len(self):
            raise ValueError(
                f"need an index from 0 to {len(self) - 1}, got {low if low < 0 else high}; "
                "n_samples must be the length of the dataset that Indexed wraps"
            )
        return index.to(self.device)

    def _reweight(self, epoch: int, given: Array | None) -> None:
        losses, seen = self._losses_by_row(given)
        rows = slice(None) if seen.all() else seen.nonzero()[:, 0]
        losses = losses[rows]
        _, c_min = read_losses(losses, rows=None if isinstance(rows, slice) else rows)

        # Rows seen share the mass they had, so that the mean over all rows stays 1 whatever the others weigh.
        share = torch.ones(()) if isinstance(rows, slice) else self.values[rows].mean()
        prior: dict[str, Any] = {} if self._prior is None else {"prior": self._prior[rows]}
        before = self.values[rows] / share if share > 0 else torch.ones_like(losses)
        weights = self._checked_weights(self.rule(losses, before, **prior), losses)

        threshold, gap, removed = math.nan, math.nan, weights == 0
        if hasattr(self.rule, "threshold"):
            threshold = float(self.rule.threshold(losses))
            gap = float(optimality_gap(losses, weights, threshold=threshold, **prior))
            removed = losses > threshold

        stands_removed = self.removed
        stands_removed[rows] = removed
        count = int(stands_removed.count_nonzero())
        self.history.append(Reweighting(epoch, threshold, float(c_min), count, gap))
        self.last_removed[stands_removed] = len(self.history)
        self.values[rows] = weights * share
        if given is not None:
            self._run_sum += losses
            self._run_count += 1

    def _losses_by_row(self, given: Array | None) -> tuple[Tensor, Tensor]:
        """The losses to re-weight by and the rows that have one."""
        if given is None:
            seen = self._round_count > 0
            if not seen.any():
                raise ValueError("no loss was seen since the last re-weighting; call reduce in the loop or pass losses")
            return self._round_sum / self._round_count, seen
        losses = (given if isinstance(given, Tensor) else torch.tensor(given)).detach().to(self.values)
        if losses.shape != self.values.shape:
            raise ValueError(
                f"need {len(self)} losses, one per row in the order of the dataset; got shape {tuple(losses.shape)}"
            )
        return losses, torch.ones_like(self.values, dtype=torch.bool)

    def _checked_weights(self, weights: Tensor, losses: Tensor) -> Tensor:
        weights = torch.as_tensor(weights).to(self.values)
        low, high = weights.aminmax()  # NaN wins both
        if weights.shape != losses.shape or not (low >= 0 and high < math.inf):
            raise ValueError(
                f"need the rule to return {len(losses)} finite weights >= 0, got shape {tuple(weights.shape)} "
                f"from {low} to {high}"
            )
        return weights

    def _forget_round(self) -> None:
        self._run_sum += self._round_sum
        self._run_count += self._round_count
        self._round_sum.zero_()
        self._round_count.zero_()
