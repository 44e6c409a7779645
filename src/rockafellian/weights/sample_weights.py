"""SampleWeights: the weight of every row, kept from batch to batch; call `step()` once per epoch, like a scheduler."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.arrays import Array, Vector, blocks
from rockafellian._internal.comm import LOCAL, PROCESSES, Comm, is_distributed
from rockafellian._internal.validation import (
    describe_divergence,
    mean_of,
    read_fraction,
    read_losses,
    read_prior,
)
from rockafellian.method.noise_rate import NoiseRate
from rockafellian.method.per_class import (
    CLASS_LIMIT,
    LabelEvidence,
    Reweighted,
    Rows,
    Rule,
    apply_rule,
    balanced_limit,
    fraction,
)
from rockafellian.method.reweight import RRM
from rockafellian.weights import reweighting
from rockafellian.weights.batches import as_tensor, check_arguments, read_batch, read_mask, weighted_mean
from rockafellian.weights.buffer import BatchBuffer, Observed, check_index, exchange
from rockafellian.weights.holdout import HoldOut
from rockafellian.weights.lock import LOCK
from rockafellian.weights.loss_sums import LARGEST_SUMMED, LossSums
from rockafellian.weights.predictions import Predictions
from rockafellian.weights.reweighting import Reweighting
from rockafellian.weights.states import (
    ESTIMATE_SIZE,
    MAX_EPOCH,
    Entry,
    check_names,
    check_state,
    damaged,
    estimate_from_tensor,
    estimate_to_tensor,
    is_possible,
    part_of,
)

logger = logging.getLogger(__name__)

NEEDS_LOGITS = (
    "need logits and labels to estimate the noise rate or to weight each class; "
    "call reduce(losses, index, logits=logits, labels=labels), or use RRM(contamination=0.2) without per_class"
)

#: The weight of an epoch's margins relative to the epoch before; and the least, which float32 can add.
MARGIN_DECAY, MIN_MARGIN_WEIGHT = 0.9, 1e-6
LARGEST = float(np.finfo(np.float32).max)
NO_LOSS = "no loss was seen since the last re-weighting; call reduce in the loop or pass losses"


class SampleWeights:
    """One weight per row of the training set: `reduce` in every batch, `step` after every epoch.

    `RRM()`, the default rule, estimates the noise rate. A fifth of the rows (of few rows up to two fifths), drawn by
    `seed`, is held out: it has no weight until the network agrees with no more of its labels than an epoch before. Then
    the noise rate is estimated from predictions for these rows, and re-weighting begins. Each re-weighting removes the
    rows of largest loss: as many as the lower end of the floor says, no class out of proportion; or with
    `RRM(crisp=True)` as many as the network disagrees with, within the 90 % interval of the ceiling.

    In several processes (torch.distributed) `step`, which all must call, exchanges what each saw, and all have the same
    weights; between two steps each knows what all knew at the last one. For very many rows, shard them: pass
    `rows=shard(n_samples)` in every process. Then a process is shown only its own rows, `len`, `values` and `removed`
    are of these, and `history` and `estimate` are of all.

    A loss that is NaN or -inf, or comes with NaN logits, is left out of all averages and predictions. The `step` that
    would have used it raises an error, once; training can continue after it.

    All methods may be called from several threads. `reduce` never waits for a GPU: what it needs of a batch is kept
    there until `step`, where the index is checked too. Memory: 24 bytes a row, and 20 more if `reduce` gets logits; on
    a GPU 24 bytes for each row seen in an epoch.

    Args:
        n_samples: how many rows the data set has.
        rule: (losses, weights) -> (weights, threshold); `RRM` is the paper's.
        per_class: apply the rule to each class, so that each keeps its mass. Needs logits and labels.
        class_limit: the largest fraction of a class that may be removed, where labels are known. It comes before the
            rule: with 0.9, RRM(contamination=0.999) removes nine tenths of each class, as `history` says.
        every: re-weight after every so many epochs (sigma of Algorithm 2).
        warmup: epochs before the first that counts.
        prior: unequal weights to begin with; passed to the rule as `prior=`.
        trusted: a mask of rows that are never removed, such as those that a person has checked.
        device: where `values` are; they follow the index to a GPU.
        seed: draws the held-out rows.
        estimate: a noise rate from elsewhere; then no row is held out.
        rows: the rows of this process, if rows are sharded.
    """

    def __init__(
        self,
        n_samples: int,
        rule: Rule | None = None,
        *,
        per_class: bool = False,
        class_limit: float = CLASS_LIMIT,
        every: int = 1,
        warmup: int = 0,
        prior: Array | None = None,
        trusted: Array | None = None,
        device: torch.device | str = "cpu",
        seed: int = 0,
        estimate: NoiseRate | None = None,
        rows: range | None = None,
    ) -> None:
        self.rule: Rule = RRM() if rule is None else rule
        check_arguments(n_samples, self.rule, per_class, every, warmup, seed, estimate, rows)
        self.per_class, self.every, self.warmup = per_class, every, warmup
        self.class_limit = read_fraction("class_limit", class_limit)
        #: How many rows there are, the indices of those that are here, and whether they are sharded over processes.
        self.n_samples, self.rows = int(n_samples), range(n_samples) if rows is None else rows
        self.sharded = rows is not None
        if (held := self._comm.total(len(self.rows))) != n_samples:
            raise ValueError(f"need {n_samples} rows over all processes, got {held:g}; use shard({n_samples})")
        self.epoch, self._start, self.history, self.estimate = 0, warmup, list[Reweighting](), estimate
        self.reports = 0  # how often `reduce` or `remember` was called
        auto = isinstance(self.rule, RRM) and self.rule.auto
        self._holdout = HoldOut(n_samples, seed, self.rows) if auto and estimate is None else None
        self._prior = None if prior is None else self._read_prior(prior)
        self._trusted = None if trusted is None else read_mask("trusted", trusted, len(self.rows))
        #: The weights, with mean 1, on the host; and where `values` are.
        self._mirror = self._first_weights()
        self.values = torch.from_numpy(self._mirror).to(device)
        #: By row the re-weighting, counted from 1, in which it was last removed; 0 if never.
        self.last_removed = torch.zeros(len(self.rows), dtype=torch.int32)
        self._losses, self._buffer, self._unsent = LossSums(len(self)), BatchBuffer(self.rows), list[Observed]()
        self._predictions: Predictions | None = None
        self._n_outputs = 0  # of the network, once `reduce` got logits
        self._undefined_elsewhere = False  # whether losses in another process are NaN

    def __len__(self) -> int:
        return len(self.rows)

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
        """The indices of the rows that are held out until the noise rate is estimated; None after."""
        return None if self._holdout is None else self._holdout.rows + self.rows.start

    @property
    def predictions(self) -> Predictions | None:
        """The predictions for each row at the last `step` or `collect`; None if `reduce` got no logits."""
        return self._predictions

    @property
    def average_losses(self) -> Tensor:
        """The mean of every loss seen of a row until the last `step` or `collect`, NaN if none was."""
        return self._losses.average

    @property
    def due(self) -> bool:
        """Whether the next `step` re-weights; while rows are held out, by what the last `synchronize` brought."""
        counted = self.epoch + 1 - self._start
        if self._holdout is None:
            return counted > 0 and counted % self.every == 0
        return counted > 0 and self._holdout.is_over(self._known_predictions(), self._comm)

    def reduce(
        self, losses: Tensor, index: Array, *, logits: Tensor | None = None, labels: Tensor | None = None
    ) -> Tensor:
        """The scalar to call `backward` on, mean(weights[index] * losses); remembers the losses for `step`.

        The mean is over the batch size and not over its weights, or a batch of removed rows would count like any other.

        Args:
            losses: one per row of the batch.
            index: the indices of the rows.
            logits: (batch, classes); needed by `RRM()` and `per_class`, and for `findings`.
            labels: the labels that the batch was trained on, with `logits`.
        """
        rows, labels = self._read_batch(losses, index, logits, labels)
        with LOCK:
            weights = self._weights_of(rows)
            self._keep(rows, losses, logits, labels)
        return weighted_mean(losses, weights if losses.is_cpu else weights.to(losses.device, non_blocking=True))

    def remember(
        self, losses: Tensor, index: Array, *, logits: Tensor | None = None, labels: Tensor | None = None
    ) -> None:
        """Only remember the losses and predictions, for rows that the loop leaves out; arguments as for `reduce`."""
        rows, labels = self._read_batch(losses, index, logits, labels)
        if rows.is_cpu:
            check_index(rows.numpy() + self.rows.start, self.rows)
        with LOCK:
            self._keep(rows, losses, logits, labels)

    def collect(self) -> None:
        """Bring what `reduce` saw until now into `predictions` and `average_losses`, in this process.

        Batches that turn out to be wrong, as by a label out of range, are an error once, and forgotten.
        """
        with LOCK:
            try:
                observed = self._buffer.read(self._holdout)
            finally:
                self._buffer.clear()
            if is_distributed() and not self.sharded:
                self._unsent += observed  # until `synchronize`
            else:
                self._add(observed)

    def synchronize(self) -> None:
        """`collect` over all processes, which all must call this; `step` does."""
        if not is_distributed():
            self.collect()
            return
        failure = None
        try:
            self.collect()
        except ValueError as error:  # all processes must stop, or the others would wait for this one
            failure = error
        has_predictions = self._agree(failure)
        if self.sharded:
            if has_predictions and self._predictions is None:  # also where nothing was shown
                self._predictions = Predictions(len(self))
            return
        with LOCK:
            unsent, self._unsent = self._unsent, []
        for seen in exchange(unsent):
            self._add([seen])

    def step(self, losses: Array | Callable[[], Array] | None = None) -> bool:
        """Call once per epoch; re-weights when it is time to, and returns whether it did.

        An error changes nothing, except that undefined losses and batches that were refused are forgotten. Rows that
        were not seen keep their weight, and those that were share the mass they had.

        Args:
            losses: N losses, or a function that returns them and is called only when needed; by default the mean of
                the losses that `reduce` saw of each row since the last re-weighting.
        """
        self.synchronize()
        if self._holdout is not None:
            self._check_defined()
        epoch, due = self.epoch + 1, self.due
        given = losses() if due and callable(losses) else losses  # without the lock: other threads may help
        with LOCK:
            if due:
                self._reweight(epoch, given)  # type: ignore[arg-type]
            elif self._holdout is not None:
                self._holdout.start_epoch(self._known_predictions(), self._comm)
            if due or self._holdout is not None or epoch <= self.warmup:
                self._losses.start_round()
            self.epoch = epoch
        return due

    def state_dict(self) -> dict[str, Tensor]:
        """A copy of all that changes, as tensors only, so that safetensors can hold it."""
        with LOCK:
            self.collect()
            state = {"values": self.values.clone(), "last_removed": self.last_removed.clone()}
            state |= self._losses.state_dict()
            state["epoch"], state["start"] = torch.tensor(self.epoch), torch.tensor(self._start)
            state["history"] = reweighting.to_tensor(self.history)
            for name, part in (("predictions", self._predictions), ("holdout", self._holdout)):
                if part is not None:
                    state |= {f"{name}.{key}": value for key, value in part.state_dict().items()}
            if self.sharded:
                state["rows"] = torch.tensor([self.rows.start, self.rows.stop])
            if self.estimate is not None:
                state["estimate"] = estimate_to_tensor(self.estimate)
            return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a `state_dict`; what is not state (rule, every, warmup, prior) comes from the constructor.

        A state that is incomplete, damaged or of other rows is an error, and changes nothing.
        """
        predictions, holdout = self._read_parts(state)
        with LOCK:
            self._mirror = self._host
            self._mirror[:] = state["values"].cpu().numpy()
            self.values.copy_(torch.from_numpy(self._mirror))
            self.last_removed.copy_(state["last_removed"])
            self._losses.load_state_dict({name: state[name] for name in LossSums.PER_ROW})
            self.epoch, self._start = int(state["epoch"]), int(state["start"])
            self.history = reweighting.from_tensor(state["history"])
            self._buffer, self._unsent, self._n_outputs = BatchBuffer(self.rows), [], 0
            self._predictions, self._holdout = predictions, holdout
            self.estimate = estimate_from_tensor(state["estimate"]) if "estimate" in state else None

    def _read_parts(self, state: Mapping[str, Tensor]) -> tuple[Predictions | None, HoldOut | None]:
        """Predictions and held-out rows of a state, once all of it is checked."""
        owner, shape, scalar = "SampleWeights", (len(self),), Entry((), integer=True, low=0, high=MAX_EPOCH)
        entries = {"epoch": scalar, "start": scalar, "values": Entry(shape, low=0, high=LARGEST)}
        extras = {"rows": Entry((2,), integer=True), "estimate": Entry((ESTIMATE_SIZE,), low=0, high=1)}
        needed = [*entries, "last_removed", "history", *LossSums.PER_ROW]
        check_names(owner, state, needed, extras, parts=("predictions.", "holdout."))
        entries |= {name: entry for name, entry in extras.items() if name in state}
        check_state(owner, {name: state[name] for name in entries}, entries)
        self._losses.check_state_dict({name: state[name] for name in LossSums.PER_ROW})
        reweighting.check_history(state["history"], int(state["epoch"]), self.n_samples)
        removed = {"last_removed": Entry(shape, integer=True, low=0, high=len(state["history"]))}
        check_state(owner, {"last_removed": state["last_removed"]}, removed)
        predictions = holdout = None
        if own := part_of(state, "predictions."):
            predictions = Predictions(len(self))
            predictions.load_state_dict(own)
        if own := part_of(state, "holdout."):
            holdout = HoldOut(max(self.rows.stop, 2), 0, self.rows)
            holdout.load_state_dict(own)
        self._check_agreement(state)
        return predictions, holdout

    def _check_agreement(self, state: Mapping[str, Tensor]) -> None:
        """Raise if entries of a state, each of which is possible, contradict each other or this object."""
        owner, whole = "SampleWeights", len(self) == self.n_samples
        mean = float(state["values"].mean(dtype=torch.float64)) if whole and isinstance(self.rule, RRM) else 1.0
        if abs(mean - 1) > 1e-3:
            raise damaged(owner, f"the mean of its weights is {mean:g} and not 1")
        history, last = reweighting.from_tensor(state["history"]), state["last_removed"]
        if whole and history and int((last == len(history)).sum()) != history[-1].n_removed:
            raise damaged(owner, "last_removed and history differ in how many rows are removed")
        if "rows" in state and state["rows"].tolist() != [self.rows.start, self.rows.stop]:
            raise ValueError(f"need a state of rows {self.rows}, got one of {state['rows'].tolist()}; use resharded")
        if "estimate" in state and not is_possible(estimate_from_tensor(state["estimate"])):
            raise damaged(owner, f"its estimate {state['estimate'].tolist()} is not within its intervals")
        held = "holdout.rows" in state
        if held and (history or "estimate" in state):
            raise damaged(owner, "rows are held out after the noise rate was estimated")
        if isinstance(self.rule, RRM) and self.rule.auto and not held and "estimate" not in state:
            raise ValueError(
                "need a state of RRM(), with held-out rows or an estimate of the noise rate; got one of another rule"
            )

    @property
    def _comm(self) -> Comm:
        return PROCESSES if self.sharded else LOCAL

    @property
    def _host(self) -> Vector:
        """The weights on the host; on the CPU they are `values` themselves."""
        return self.values.numpy() if self.values.is_cpu else self._mirror

    def _nominal(self) -> Vector:
        """The weights of rows of which nothing is known."""
        return np.ones(len(self.rows), np.float32) if self._prior is None else self._prior

    def _first_weights(self) -> Vector:
        """The weights before the first re-weighting: held-out rows have none."""
        first = self._nominal().copy()
        if self._holdout is not None:
            first[self._holdout.rows] = 0
            first /= first.dtype.type(mean_of(first, self._comm))
        return first

    def _read_prior(self, prior: Array) -> Vector:
        return read_prior(prior, np.empty(len(self.rows), np.float32), self._comm)

    def _read_batch(
        self, losses: Tensor, index: Array, logits: Tensor | None, labels: Array | None
    ) -> tuple[Tensor, Tensor | None]:
        """Where the rows of a batch lie here, and their labels."""
        rows, given = read_batch(losses, index, logits, labels, self._n_outputs)
        return rows - self.rows.start if self.rows.start else rows, given

    def _weights_of(self, rows: Tensor) -> Tensor:
        """The weights of these rows; an index on the CPU is checked now, one on a GPU when it is collected."""
        if not rows.is_cpu:  # values follow the index there, or each batch would wait for it
            self.values = self.values.to(rows.device, non_blocking=True)
            return self.values.index_select(0, rows.clamp(0, len(self) - 1))
        try:
            if self.values.is_cpu:
                return self.values.index_select(0, rows)
        except (IndexError, RuntimeError):
            pass
        check_index(rows.numpy() + self.rows.start, self.rows)
        return self.values.index_select(0, rows.to(self.values.device, non_blocking=True))

    def _keep(self, rows: Tensor, losses: Tensor, logits: Tensor | None, labels: Tensor | None) -> None:
        """Put a checked batch into the buffer, under the lock."""
        if logits is not None:
            logits = logits.unsqueeze(1) if logits.ndim == 1 else logits
            self._n_outputs = logits.shape[1]
        self._buffer.add(rows, losses, logits, labels, self._holdout)
        self.reports += 1
        if self._buffer.is_full:
            self.collect()

    def _add(self, observed: list[Observed]) -> None:
        """Bring what was observed into the sums and the predictions; all labels are checked before any is added."""
        with LOCK:
            split = [seen.split_undefined() for seen in observed]
            if self._holdout is not None:
                for seen, _ in split:
                    self._holdout.check_width(seen.held_out.sums)
            parts = [part for seen, _ in split if (part := seen.with_predictions()) is not None]
            if parts:
                known = self._predictions or Predictions(len(self))
                everything = parts[0] if len(parts) == 1 else tuple(map(np.hstack, zip(*parts, strict=True)))
                rows, predicted = everything
                known.check_labels(rows, predicted, self.rows.start)
                known.add(rows, predicted, self._margin_weight)
                self._predictions = known
            for seen, undefined in split:
                self._losses.add(seen.rows, seen.losses)
                self._losses.leave_out(undefined)
                if self._holdout is not None:
                    self._holdout.add(*seen.held_out)

    @property
    def _margin_weight(self) -> float:
        """The weight of an epoch's margins in their average.

        The network soon memorizes wrong labels that are not removed, so epochs after the noise rate was estimated count
        less and less. If the noise rate is given, what is wrong is removed, and all epochs count the same.
        """
        if not (self.history and isinstance(self.rule, RRM) and self.rule.auto):
            return 1.0
        return max(MARGIN_DECAY ** (self.epoch - self.history[0].epoch + 1), MIN_MARGIN_WEIGHT)

    def _agree(self, failure: ValueError | None) -> bool:
        """Whether any process has predictions; raises in all of them if one has failed, or if they contradict."""
        own = [failure is not None, self._predictions is not None, self._n_outputs, self._losses.n_undefined]
        failed, predictions, outputs, undefined = PROCESSES.exchange(own).T
        self._undefined_elsewhere = bool(undefined.any())
        if failure is not None:
            raise failure
        if failed.any():
            raise ValueError(
                f"need batches that fit their rows in every process, but process {int(failed.argmax())} got others; "
                "see its output"
            )
        if len({*outputs.tolist()} - {0.0}) > 1:
            raise ValueError(f"need logits of as many outputs in all processes, got {outputs.astype(int).tolist()}")
        return bool(predictions.any())

    def _check_defined(self) -> None:
        """Raise once if losses or logits of the round are undefined, here or in another process."""
        elsewhere, self._undefined_elsewhere = self._undefined_elsewhere, False
        found = self._losses.take_undefined(self.rows.start)
        if found is not None or elsewhere:
            raise ValueError(describe_divergence(found or "losses in another process are NaN or -inf"))

    def _known_predictions(self) -> Predictions:
        if self._predictions is None:
            self._check_defined()
            raise ValueError(NEEDS_LOGITS)
        return self._predictions

    def _reweight(self, epoch: int, given: Array | None) -> None:
        if given is None:
            self._check_defined()
        losses, rows = self._losses.means() if given is None else (self._read_given(given), None)
        at = slice(None) if rows is None else rows
        try:
            c = read_losses(self._without_trusted(losses, at), rows=rows, comm=self._comm, if_empty=NO_LOSS)
        except ValueError:
            self._losses.forget_infinite()  # all losses are +inf, and would be until the next re-weighting
            raise
        if c.c_min < -LARGEST_SUMMED:
            raise ValueError(describe_divergence(f"the smallest is {c.c_min:g}"))
        evidence, estimate, current = self._evidence(at), self.estimate, self._host
        if self._holdout is not None:  # held-out rows get back the weight that they had lent to the others
            estimate = self._holdout.estimate(self._known_predictions(), self._comm)
            logger.info("noise rate, estimated after epoch %d: %s", epoch, estimate.verdict)
            current = self._nominal()
        # Rows seen share the mass they had, so that the mean over all rows stays 1 whatever the others weigh.
        mass = 1.0 if c.n == self.n_samples else mean_of(current[at], self._comm)
        before = current[at] if mass == 1 else current[at] / current.dtype.type(mass or 1)
        before = before if mass > 0 else np.ones_like(c.values)
        rule, limit = self.rule, self.class_limit
        if estimate is not None and isinstance(rule, RRM) and rule.auto:
            disagree = estimate.ceiling.rate if evidence is None else fraction(evidence.disagrees, self._comm)
            rule = rule.with_contamination(to_remove := estimate.fraction_to_remove(disagree, crisp=rule.crisp))
            limit = balanced_limit(limit, rule, to_remove)
        problem = Rows(c, before, None if self._prior is None else self._prior[at])
        made = apply_rule(rule, problem, evidence, per_class=self.per_class, class_limit=limit)

        self._record(epoch, float(c.c_min), made, rows)
        if rows is not None:
            self._host[:] = current
        self._host[at] = made.weights if mass == 1 else made.weights * made.weights.dtype.type(mass)
        self._mirror = self._host
        if not self.values.is_cpu:
            self.values.copy_(torch.from_numpy(self._mirror), non_blocking=True)
        if self._holdout is not None:
            self.estimate, self._holdout, self._start = estimate, None, epoch
        if given is not None:
            self._losses.add_to_run(losses)

    def _without_trusted(self, losses: Vector, at: slice | NDArray[np.int64]) -> Vector:
        """The losses, those of trusted rows not above any other, so that nothing removes them."""
        if self._trusted is None or not len(losses):
            return losses
        return np.where(self._trusted[at], np.fmin.reduce(losses), losses)

    def _read_given(self, given: Array) -> Vector:
        """Losses of all rows, as the caller passed them."""
        losses = as_tensor("losses", given).detach()
        if losses.is_complex():
            raise ValueError(f"need real numbers as losses, got {losses.dtype}")
        if losses.shape != (len(self),):
            raise ValueError(
                f"need {len(self)} losses, one per row in the order of the dataset; got shape {tuple(losses.shape)}"
            )
        values: Vector = losses.float().cpu().numpy()
        return values

    def _evidence(self, at: slice | NDArray[np.int64]) -> LabelEvidence | None:
        """Labels and disagreements of these rows; None where the loop passes no logits and needs none."""
        auto = isinstance(self.rule, RRM) and self.rule.auto
        if self._predictions is None and not (self.per_class or (auto and self.estimate is None)):
            return None
        known = self._known_predictions()
        labels, predicted = known.labels.numpy()[at], known.predicted.numpy()[at]
        return LabelEvidence(labels, predicted != labels)

    def _record(self, epoch: int, c_min: float, made: Reweighted, rows: NDArray[np.int64] | None) -> None:
        """Write down which rows are removed now; rows that were not seen stay as they were."""
        removed = made.removed
        if rows is not None:
            removed = self.removed.numpy()
            removed[rows] = made.removed
        last, previous = self.last_removed.numpy(), len(self.history) or -1
        counts = np.zeros(2, np.int64)
        for part in blocks(len(last)):
            counts += np.count_nonzero(removed[part]), np.count_nonzero(removed[part] != (last[part] == previous))
            # Many times faster than a masked assignment, as no round was later than this.
            np.maximum(last[part], removed[part].astype(np.int32) * np.int32(len(self.history) + 1), out=last[part])
        count, changed = map(int, self._comm.totals(counts))
        self.history.append(Reweighting(epoch, made.threshold, c_min, count, count / self.n_samples, made.gap, changed))
        logger.info(
            "re-weighted after epoch %d: %d of %d rows removed, %d changed", epoch, count, self.n_samples, changed
        )
