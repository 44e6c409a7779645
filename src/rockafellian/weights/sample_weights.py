"""SampleWeights: the weights and the losses of every row, kept from batch to batch with the manners of a scheduler."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field, fields
from numbers import Integral
from typing import TypeVar

import torch
from torch import Tensor

from rockafellian._internal import comm as distributed
from rockafellian._internal.kth_largest import LOCAL
from rockafellian._internal.validation import Array, Comm, mean_of, read_losses, read_prior, to_tensor
from rockafellian.method.noise_rate import Estimate
from rockafellian.method.per_class import LabelEvidence, Rule, apply_rule
from rockafellian.method.reweight import RRM
from rockafellian.weights.holdout import HoldOut
from rockafellian.weights.pending import Pending, Report, joined
from rockafellian.weights.predictions import Predictions


@dataclass(frozen=True)
class Reweighting:
    """The record of one re-weighting, made after `epoch`.

    `threshold` and `gap` are None for a rule without a threshold. `precision` and `recall` of the removed rows are
    known to `fit` where it was told which rows are mislabeled. Seconds do not count when records are compared:
    `seconds` is all of it, with a pass for fresh losses if there was one, `rule_seconds` the step alone.
    """

    epoch: int
    threshold: float | None
    c_min: float
    n_removed: int
    removed_fraction: float
    gap: float | None
    precision: float | None = None
    recall: float | None = None
    seconds: float = field(default=0.0, compare=False)
    rule_seconds: float = field(default=0.0, compare=False)


class SampleWeights:
    """One weight per row of the training set: `reduce` in every batch, `step` after every epoch.

    `rule` is any callable (losses, weights) -> weights; `RRM` is the paper's. It runs after every `every`-th epoch
    (sigma of Algorithm 2), not counting the first `warmup` ones. `prior` gives the rows unequal weights to begin with
    and is handed to the rule as `prior=`.

    `RRM()`, told no share of wrong labels, finds one: a fifth of the rows, drawn by `seed`, has no weight until the
    network agrees with no more of their labels than an epoch before; then comes the `estimate` and the first
    re-weighting. Each one removes as many rows as the network disagrees with, within the interval of the estimate.
    Where an `estimate` was made in another way, none is held out.

    Of several processes (torch.distributed) each says what it saw, and `step`, which all must call, brings it together:
    all have the same weights. Between two steps each knows what all knew at the last one. For very many rows each
    process holds only its own: `rows`, as `shard(n_samples)` gives them. It is shown only these, and `len`, `values`
    and `removed` are of these; `history` and `estimate` are of all. All processes must then make it together.

    Memory: 24 bytes a row, and 20 for `notes` where `reduce` is told what the network says.
    """

    PER_ROW = ("values", "last_removed", "_round_sum", "_round_count", "_run_sum", "_run_count")

    def __init__(
        self,
        n_samples: int,
        rule: Rule | None = None,
        *,
        per_class: bool = False,
        class_limit: float = 0.9,
        every: int = 1,
        warmup: int = 0,
        prior: Array | None = None,
        device: torch.device | str = "cpu",
        seed: int = 0,
        estimate: Estimate | None = None,
        rows: range | None = None,
    ) -> None:
        for name, value, least in (("n_samples", n_samples, 1), ("every", every, 1), ("warmup", warmup, 0)):
            if not isinstance(value, Integral) or value < least:
                raise ValueError(f"need {name} to be a whole number >= {least}, got {value!r}")
        if not 0 <= class_limit <= 1:
            raise ValueError(f"need a class_limit in [0, 1], a fraction of a class; got {class_limit}")
        rule = RRM() if rule is None else rule
        if not callable(rule):
            raise ValueError(
                f"need a rule (losses, weights) -> (weights, threshold), such as RRM(contamination=0.2); got {rule!r}"
            )
        auto = isinstance(rule, RRM) and rule.auto
        if estimate is not None and not auto:
            raise ValueError(f"need the rule RRM() to go with an estimate, got {rule!r}; leave the estimate out")
        if rows is not None and not (rows.step == 1 and 0 <= rows.start <= rows.stop <= n_samples):
            raise ValueError(f"need rows to be a part of range({n_samples}), got {rows}; use shard({n_samples})")
        #: How many rows there are, and the numbers of those that are held here.
        self.n_samples = int(n_samples)
        self.rows = range(n_samples) if rows is None else rows
        #: Whether each process holds rows of its own.
        self.sharded = rows is not None
        if (held := self._comm.total(len(self.rows))) != n_samples:
            raise ValueError(
                f"need all processes to hold {n_samples} rows together, got {held}; use shard({n_samples})"
            )
        self.rule = rule
        self.per_class = per_class
        self.class_limit = class_limit
        self.every = every
        self.warmup = warmup
        self.device = torch.device(device)
        self.epoch = 0
        self.history: list[Reweighting] = []
        self._predictions: Predictions | None = None
        #: The share of wrong labels, once `RRM()` has found it.
        self.estimate = estimate
        self.values = torch.ones(len(self.rows), device=self.device)
        self._prior = None
        if prior is not None:
            self._prior = to_tensor(read_prior(prior, self.values.cpu().numpy(), self._comm), self.values)
            self.values = self._prior.clone()
        #: For each row the re-weighting, counted from 1, in which it last stood removed; 0 if never.
        self.last_removed = torch.zeros(len(self.rows), dtype=torch.int32, device=self.device)
        self._round_sum, self._round_count, self._run_sum, self._run_count = torch.zeros(
            4, len(self.rows), device=self.device
        ).unbind()
        #: How often `reduce` or `remember` was called.
        self.reports = 0
        self._pending = Pending()
        self._reports: list[Report] = []
        self._holdout = HoldOut(n_samples, seed, self.rows) if auto and estimate is None else None
        self._start = warmup
        if self._holdout is not None:
            self.values[self._holdout.rows] = 0
            self.values /= mean_of(self.values.cpu().numpy(), self._comm)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"SampleWeights({len(self)} rows, {self.n_removed} removed, epoch {self.epoch}, {self.rule})"

    @property
    def removed(self) -> Tensor:
        """The rows above the threshold of the last re-weighting, chi of the Corollary; with mu < 1 they fade to 0."""
        return (self.last_removed == len(self.history)) & (self.last_removed > 0)

    @property
    def n_removed(self) -> int:
        """How many rows are removed."""
        return int(self.removed.count_nonzero())

    @property
    def removed_fraction(self) -> float:
        """The fraction of the rows that are removed."""
        return self.n_removed / max(len(self), 1)

    @property
    def held_out(self) -> Tensor | None:
        """The numbers of the rows that are held out while `RRM()` looks for the share of wrong labels; None after."""
        return None if self._holdout is None else self._holdout.rows + self.rows.start

    @property
    def predictions(self) -> Predictions | None:
        """What the network said of each row, or None if `reduce` was never told."""
        self._take_down()
        return self._predictions

    @property
    def average_losses(self) -> Tensor:
        """The mean of every loss seen of a row in the whole run, NaN if none was."""
        self._take_down()
        return (self._run_sum + self._round_sum) / (self._run_count + self._round_count)

    def reduce(
        self, losses: Tensor, index: Array, *, logits: Tensor | None = None, labels: Tensor | None = None
    ) -> Tensor:
        """The scalar to call `backward` on, mean(weights[index] * losses); remembers the losses for `step`.

        The mean is over the batch size and not over its weights, or a batch of removed rows would count like any other.
        `logits` (batch, classes) and `labels`, if given, go into `notes`; `RRM()` and `per_class` need them.
        """
        rows = self.remember(losses, index, logits=logits, labels=labels)
        return _weighted_mean(losses, self.values.index_select(0, rows).to(losses.device))

    def remember(
        self, losses: Tensor, index: Array, *, logits: Tensor | None = None, labels: Tensor | None = None
    ) -> Tensor:
        """Only take note of these losses, for rows that the loop leaves out; returns their places among `rows`."""
        rows = self._checked_rows(losses, torch.as_tensor(index))
        self._pending.add(rows, losses, logits, labels)
        self.reports += 1
        if self._pending.is_full:
            self._take_down()
        return rows

    def collect(self) -> None:
        """Bring what `reduce` saw so far into `predictions` and `average_losses`."""
        self._take_down()

    def synchronize(self) -> None:
        """What all processes saw, known to each; all must call this. `step` does; `due` is the same for all then."""
        self._take_down()
        if self.sharded and self._comm.greatest(self._predictions is not None):
            self._predictions = self._predictions or Predictions(len(self))  # also where nothing was shown
        elif distributed.is_distributed() and not self.sharded:
            self._add(Report(*(distributed.gathered(part) for part in joined(self._reports))))
            self._reports = []

    @property
    def _comm(self) -> Comm:
        return distributed.PROCESSES if self.sharded else LOCAL

    @property
    def due(self) -> bool:
        """Whether the next `step` re-weights."""
        counted = self.epoch + 1 - self._start
        if self._holdout is None:
            return counted > 0 and counted % self.every == 0
        return counted > 0 and self._holdout.is_over(self._known_predictions(), self._comm)

    def step(self, losses: Array | Callable[[], Array] | None = None) -> bool:
        """Call once an epoch; re-weights when it is time to, and says whether it did.

        Uses the mean of the losses `reduce` saw of each row since the last re-weighting; or a vector of N losses, or a
        function that returns one and is called only when needed. Rows that were not seen keep their weight, and those
        that were share the mass they had. An error leaves everything as it was.
        """
        self.synchronize()
        epoch, due = self.epoch + 1, self.due
        if due:
            self._reweight(epoch, losses() if callable(losses) else losses)
        elif self._holdout is not None:
            self._holdout.go_on(self._known_predictions(), self._comm)
        if due or self._holdout is not None or epoch <= self.warmup:
            self._forget_round()
        self.epoch = epoch
        return due

    def state_dict(self) -> dict[str, Tensor]:
        """A copy of all that changes, as tensors only, so that safetensors can hold it."""
        self._take_down()
        state = {name.removeprefix("_"): getattr(self, name).clone() for name in self.PER_ROW}
        state["epoch"] = torch.tensor(self.epoch)
        state["start"] = torch.tensor(self._start)
        rows = [[math.nan if value is None else value for value in astuple(made)] for made in self.history]
        state["history"] = torch.tensor(rows, dtype=torch.float64).reshape(-1, len(fields(Reweighting)))
        for name, part in (("predictions", self._predictions), ("holdout", self._holdout)):
            if part is not None:
                state |= {f"{name}.{key}": value for key, value in part.state_dict().items()}
        if self.sharded:
            state["rows"] = torch.tensor([self.rows.start, self.rows.stop])
        if self.estimate is not None:
            state["estimate"] = torch.tensor(self.estimate, dtype=torch.float64)
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a `state_dict`; what is not state (rule, every, warmup, prior) comes from the constructor."""
        own = {name.removeprefix("_"): getattr(self, name) for name in self.PER_ROW}
        if missing := {*own, "epoch", "start", "history"} - state.keys():
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
        self.history = [_reweighting(values) for values in state["history"].tolist()]
        self._start = int(state["start"])
        self._pending, self._reports = Pending(), []
        self._predictions = _loaded(state, "predictions.", lambda: Predictions(len(self)))
        self._holdout = _loaded(state, "holdout.", lambda: HoldOut(self.rows.stop, 0, self.rows))
        self.estimate = Estimate(*state["estimate"].tolist()) if "estimate" in state else None

    def _take_down(self) -> None:
        """Bring what is pending into the sums and the notes; of several processes each keeps it until `step`."""
        if self._pending:
            held = None if self._holdout is None else self._holdout.rows
            report = self._pending.report(held)
            if distributed.is_distributed() and not self.sharded:
                self._reports.append(report)
            else:
                self._add(report)
            self._pending = Pending()

    def _add(self, report: Report) -> None:
        """Bring a report into the sums and the notes."""
        words = report.words
        if words is not None:
            self._predictions = self._predictions or Predictions(len(self))
            self._predictions.add(*words)
            if self._holdout is not None:
                self._holdout.add(*report.chances)
        rows, losses = (part.to(self.device) for part in report.losses)
        self._round_sum.index_add_(0, rows, losses.to(self._round_sum))
        self._round_count.index_add_(0, rows, torch.ones_like(self._round_count[rows]))

    def _known_predictions(self) -> Predictions:
        predictions = self.predictions
        if predictions is None:
            raise ValueError(
                "need to be told what the network says, to find the share of wrong labels or to weigh each class; "
                "call reduce(losses, index, logits=logits, labels=labels), or RRM(contamination=0.2) without per_class"
            )
        return predictions

    def _checked_rows(self, losses: Tensor, index: Tensor) -> Tensor:
        if losses.ndim != 1 or losses.shape != index.shape:
            raise ValueError(
                f"need one loss per index, got losses {tuple(losses.shape)} and index {tuple(index.shape)}; "
                "build the loss with reduction='none'"
            )
        if len(index) == 0 or index.is_floating_point():
            raise ValueError(f"need the rows' numbers as whole numbers, got {len(index)} of {index.dtype}")
        low, high = (int(bound) for bound in index.aminmax())
        first = self.rows.start
        if low < first or high >= self.rows.stop:
            raise ValueError(
                f"need an index from {first} to {self.rows.stop - 1}, got {low if low < first else high}; n_samples "
                "must be the length of the dataset that Indexed wraps, and a process that holds only some rows must be "
                "shown only these"
            )
        return index.to(self.device) - first

    def _reweight(self, epoch: int, given: Array | None) -> None:
        comm = self._comm
        losses, seen = self._losses_by_row(given)
        rows = slice(None) if seen.all() else seen.nonzero()[:, 0]
        losses = losses[rows]
        _, c_min = read_losses(losses, rows=None if isinstance(rows, slice) else rows, comm=comm)

        estimate, current = self.estimate, self.values
        if self._holdout is not None:  # the held rows get back the weight that they had lent to the others
            estimate = self._holdout.estimate(self._known_predictions(), comm)
            current = torch.ones_like(self.values) if self._prior is None else self._prior
        # Rows seen share the mass they had, so that the mean over all rows stays 1 whatever the others weigh.
        all_seen = comm.total(int(seen.count_nonzero())) == comm.total(len(self))
        share = 1.0 if all_seen else mean_of(current[rows].cpu().numpy(), comm)
        before = current[rows] / share if share > 0 else torch.ones_like(losses)
        evidence = self._evidence(rows)
        rule = self.rule
        if estimate is not None and isinstance(rule, RRM) and rule.auto:
            rule = rule.with_contamination(_believed(estimate, evidence, comm))
        made = apply_rule(
            rule,
            losses,
            before,
            None if self._prior is None else self._prior[rows],
            evidence,
            comm,
            per_class=self.per_class,
            class_limit=self.class_limit,
        )

        stands_removed = self.removed
        stands_removed[rows] = made.removed
        count = int(comm.total(int(stands_removed.count_nonzero())))
        self.history.append(Reweighting(epoch, made.threshold, float(c_min), count, count / self.n_samples, made.gap))
        self.last_removed[stands_removed] = len(self.history)
        self.values[:] = current
        self.values[rows] = made.weights * share
        if self._holdout is not None:
            self.estimate, self._holdout, self._start = estimate, None, epoch
        if given is not None:
            self._run_sum += losses
            self._run_count += 1

    def _evidence(self, rows: slice | Tensor) -> LabelEvidence | None:
        """Labels of these rows and whether the network disagrees; None where the loop does not tell and need not."""
        rule = self.rule
        needed = self.per_class or (isinstance(rule, RRM) and rule.auto and self.estimate is None)
        predictions = self._known_predictions() if needed else self.predictions
        if predictions is None:
            return None
        at = rows if isinstance(rows, slice) else rows.cpu()
        return LabelEvidence(predictions.labels[at].to(self.device), predictions.disagrees[at].to(self.device))

    def _losses_by_row(self, given: Array | None) -> tuple[Tensor, Tensor]:
        """The losses to re-weight by and the rows that have one."""
        if given is None:
            seen = self._round_count > 0
            if self._comm.total(int(seen.count_nonzero())) == 0:
                raise ValueError("no loss was seen since the last re-weighting; call reduce in the loop or pass losses")
            return self._round_sum / self._round_count, seen
        losses = (given if isinstance(given, Tensor) else torch.tensor(given)).detach().to(self.values)
        if losses.shape != self.values.shape:
            raise ValueError(
                f"need {len(self)} losses, one per row in the order of the dataset; got shape {tuple(losses.shape)}"
            )
        return losses, torch.ones_like(self.values, dtype=torch.bool)

    def _forget_round(self) -> None:
        self._run_sum += self._round_sum
        self._run_count += self._round_count
        self._round_sum.zero_()
        self._round_count.zero_()


def _weighted_mean(losses: Tensor, weights: Tensor) -> Tensor:
    """mean(weights * losses); a row of weight 0 counts for nothing, even at +inf."""
    if losses.is_cpu:  # fewer nodes to go back through, which small networks feel; asking a GPU would make it wait
        dtype = torch.promote_types(losses.dtype, weights.dtype)
        mean = torch.dot(weights.to(dtype), losses.to(dtype)) / len(losses)
        if mean.isfinite():
            return mean
    return (weights * losses.masked_fill(weights == 0, 0)).mean()


def _reweighting(values: list[float]) -> Reweighting:
    """A record read back from numbers, of which NaN stands for None."""
    epoch, threshold, c_min, n_removed, *others = (None if math.isnan(value) else value for value in values)
    assert epoch is not None
    assert n_removed is not None
    return Reweighting(int(epoch), threshold, c_min, int(n_removed), *others)  # type: ignore[arg-type]


_Part = TypeVar("_Part", Predictions, HoldOut)


def _loaded(state: Mapping[str, Tensor], prefix: str, make: Callable[[], _Part]) -> _Part | None:
    """The part of a state whose names have this prefix, if there is one."""
    own = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
    if not own:
        return None
    part = make()
    part.load_state_dict(own)
    return part


def _believed(estimate: Estimate, evidence: LabelEvidence | None, comm: Comm) -> float:
    """The share to remove: that of the rows whose label the network disagrees with, within the estimate's interval."""
    if estimate.rate == 0 or evidence is None:
        return estimate.rate
    disagrees = comm.total(int(evidence.disagrees.count_nonzero())) / comm.total(len(evidence.disagrees))
    return min(max(disagrees, estimate.low), estimate.high)
