"""StreamWeights: RRM where rows have no index and may come only once, in memory that does not grow with them.

By Theorem 3.1 the optimum over all weights is mean(min(c, c_min + gamma)): to remove a row it takes only its loss and a
threshold, no weight that is kept for it. The threshold is that of the rows seen last.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.arrays import UNKNOWN, Vector
from rockafellian._internal.comm import gathered, is_distributed, processes
from rockafellian._internal.kth_largest import max_count, min_count
from rockafellian._internal.validation import describe_divergence, is_integer, read_fraction
from rockafellian.method.noise_rate import NoiseRate, estimate_from
from rockafellian.method.out_of_sample import OutOfSample
from rockafellian.method.per_class import CLASS_LIMIT, balanced_limit
from rockafellian.method.reweight import RRM
from rockafellian.weights.host_copy import HostCopy
from rockafellian.weights.lock import LOCK
from rockafellian.weights.predictions import check_labels, read_logits
from rockafellian.weights.states import (
    ESTIMATE_SIZE,
    LOWEST,
    Entry,
    check_names,
    check_state,
    damaged,
    estimate_from_tensor,
    estimate_to_tensor,
    is_possible,
)

logger = logging.getLogger(__name__)

#: What is kept of a row: its loss and, where logits are passed, its label, the predicted one, its probability, and
#: the rank of the label among the classes; and whether the row is in the newer half of its window.
COLUMNS = LOSS, LABEL, PREDICTED, PROBABILITY, RANK = range(5)
NEWER = len(COLUMNS)
#: So many standard deviations must lie between two fractions of agreement for one to count as higher.
Z_SCORE = 2.0
#: A threshold that removes only infinite losses.
LARGEST = float(np.finfo(np.float32).max)
MAX_WINDOW = 2**31


class StreamWeights:
    """Removes the rows of a stream that lie above the threshold of the last `window` rows: `reduce` in every batch.

    Rows need no index and none is remembered longer than the window. The threshold, c_min + gamma or l_{1-C'} of the
    window, is found anew in every `every`-th call of `reduce`.

    `RRM()` estimates the noise rate too, anew after each window: the prediction for a row that is met for the first
    time is an out-of-sample one. It removes nothing until the network agrees with clearly more labels than if it always
    predicted the commonest one, and with no clearly larger part of the newer half of the window than of the older one.

    As in SampleWeights, with `spread="kept"` the kept rows share the mass of the removed ones, so that a learning rate
    carries over; `spread="argmin"` is the capped mean itself, whose removed mass would go to rows of least loss, which
    lie in the past. `mu` has no effect, as a row that comes once has no weight to go half-way from.

    A loss that is NaN or -inf, or logits with NaN, are an error, and change nothing. Where that cannot be known without
    waiting for a GPU or another process, `reduce` returns NaN, and such a row then counts in the window like one of an
    infinite loss; in several processes the next look at the window raises the error, once.

    The window lies where the losses are, and `reduce` never waits for a GPU. There the noise rate is estimated from the
    window of the look before. In several processes (torch.distributed) each keeps a window of its own rows, and the
    threshold is that of all windows together; all must call `reduce` equally often. Several threads may call `reduce`;
    `removed` is then of the batch of any of them. Memory: 20 bytes a row of the window.

    Args:
        rule: the rule; `RRM()` by default.
        class_limit: the largest fraction of a class that may be removed, where labels are passed.
        window: how many rows the threshold is found from.
        warmup: rows before the first that may be removed; by default one window, as losses of an untrained network
            say nothing of a row.
        every: calls of `reduce` between two looks at the window.
    """

    def __init__(
        self,
        rule: RRM | None = None,
        *,
        class_limit: float = CLASS_LIMIT,
        window: int = 5_000,
        warmup: int | None = None,
        every: int = 8,
    ) -> None:
        warmup = window if warmup is None else warmup
        for name, value, least in (("window", window, 2), ("warmup", warmup, 0), ("every", every, 1)):
            if not is_integer(value) or value < least:
                raise ValueError(f"need {name} to be an integer >= {least}, got {value!r}")
        self.rule = RRM() if rule is None else rule
        if not isinstance(self.rule, RRM):
            raise ValueError(f"need a rule with a threshold, such as RRM(contamination=0.2); got {rule!r}")
        self.class_limit = read_fraction("class_limit", class_limit)
        if window > MAX_WINDOW:
            raise ValueError(f"need a window of at most {MAX_WINDOW:,} rows, which are kept in memory; got {window}")
        self.window, self.warmup, self.every = int(window), int(warmup), int(every)
        #: How many rows this process has seen.
        self.seen = 0
        #: The noise rate, as `RRM()` estimates it.
        self.estimate: NoiseRate | None = None
        #: The rows of the last batch that were removed, as a mask.
        self.removed = torch.zeros(0, dtype=torch.bool)
        self._recent = torch.full((len(COLUMNS), self.window), float(UNKNOWN))
        self._calls = self._estimated_at = self._n_classes = 0
        self._thresholds = torch.tensor([math.inf])  # by label, that of unknown labels first
        self._kept = torch.tensor(1.0)
        self._host = HostCopy()

    def __repr__(self) -> str:
        removed = f"{self.removed_fraction:.1%} removed"
        return f"StreamWeights({self.seen} rows seen, {removed}, threshold {self.threshold:g}, {self.rule})"

    @property
    def threshold(self) -> float:
        """The loss above which a row is removed; +inf while none is."""
        return float(self._thresholds.select(0, 0))

    @property
    def removed_fraction(self) -> float:
        """The fraction of the window's rows that are above the threshold."""
        return 1 - float(self._kept)

    def reduce(self, losses: Tensor, *, logits: Tensor | None = None, labels: Tensor | None = None) -> Tensor:
        """The scalar to call `backward` on: the mean over the batch, in which removed rows give no gradient.

        Args:
            losses: one per row of the batch.
            logits: (batch, classes); needed by `RRM()` and by `class_limit`.
            labels: the labels of the batch, with `logits`.
        """
        columns = self._read(losses, logits, labels)
        with LOCK:
            self._n_classes = self._n_classes if logits is None else _n_classes(logits)
            self._remember(columns)
            self._calls += 1
            if self._calls % self.every == 0:
                self._look()
            self.removed = removed = columns.select(0, LOSS) > self._of_labels(columns.select(0, LABEL))
            threshold, kept = self._thresholds.select(0, 0), self._kept
        if self.rule.spread == "kept":
            return (losses.masked_fill(removed, 0).mean() / kept).to(losses.dtype)
        return losses.masked_fill(removed, threshold.to(losses.dtype)).mean()

    def state_dict(self) -> dict[str, Tensor]:
        """A copy of all that changes, as tensors only, whose sizes do not depend on how many rows were seen."""
        with LOCK:
            return {
                "recent": _without_undefined(self._recent),
                "counts": torch.tensor([self.seen, self._calls, self._estimated_at, self._n_classes]),
                "thresholds": self._thresholds.expand(self._n_classes + 1).clone(),
                "kept": self._kept.clone(),
                "estimate": estimate_to_tensor(self.estimate),
            }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a `state_dict`; what is not state (rule, warmup, every) comes from the constructor."""
        self._check_state(state)
        with LOCK:
            self._recent, self._thresholds, self._kept = (
                state[name].detach().to(torch.float32, copy=True) for name in ("recent", "thresholds", "kept")
            )
            self.seen, self._calls, self._estimated_at, self._n_classes = map(int, state["counts"])
            self.estimate = estimate_from_tensor(state["estimate"])
            self.removed, self._host = torch.zeros(0, dtype=torch.bool), HostCopy()

    def _check_state(self, state: Mapping[str, Tensor]) -> None:
        """Raise unless this is a `state_dict` of this window, whose entries go together."""
        owner, names = "StreamWeights", ("recent", "counts", "thresholds", "kept", "estimate")
        check_names(owner, state, names)
        recent = state["recent"]
        if not isinstance(recent, Tensor) or recent.shape != self._recent.shape:
            got = recent.shape[-1:].numel() if isinstance(recent, Tensor) else type(recent).__name__
            raise ValueError(f"need a state of window={self.window}, got one of {got}; use that window")
        entries = {
            "recent": Entry(tuple(recent.shape), low=LOWEST),
            "counts": Entry((4,), integer=True, low=0, high=2.0**53),
        }
        check_state(owner, {name: state[name] for name in entries}, entries)
        seen, calls, estimated_at, n_classes = map(int, state["counts"])
        entries = {
            "thresholds": Entry((n_classes + 1,), low=LOWEST),
            "kept": Entry((), low=torch.finfo(torch.float32).tiny, high=1),
            "estimate": Entry((ESTIMATE_SIZE,), low=0, high=1, may_be_nan=True),
        }
        check_state(owner, {name: state[name] for name in entries}, entries)
        estimate = estimate_from_tensor(state["estimate"])
        if not (is_possible(estimate) or (estimated_at == 0 and estimate is None)):
            raise damaged(owner, f"its estimate {state['estimate'].tolist()} is not within its intervals")
        filled = recent[1:, self.window - min(seen, self.window) :]
        if calls > seen or not _are_columns(filled, n_classes):
            raise damaged(owner, f"its window does not hold rows of {n_classes} classes, or too few were seen")

    def _read(self, losses: Tensor, logits: Tensor | None, labels: Tensor | None) -> Tensor:
        """A batch as columns, checked as far as no device must be waited for."""
        if not isinstance(losses, Tensor) or losses.ndim != 1 or len(losses) == 0 or not losses.is_floating_point():
            got = (
                f"shape {tuple(losses.shape)} of {losses.dtype}"
                if isinstance(losses, Tensor)
                else type(losses).__name__
            )
            raise ValueError(f"need one loss per row, a vector; got {got}; build the loss with reduction='none'")
        if (logits is None) != (labels is None):
            raise ValueError("need logits and labels together, got only one of them; pass both or neither")
        own = losses.detach().float()
        # Of several processes all stop at the next look: one that stopped alone would leave the others waiting.
        if own.is_cpu and not is_distributed():
            _check_finite(own)
        if logits is not None and labels is not None:
            z, given = self._read_logits(logits, labels, len(losses))
            predicted = _predict_columns(z.to(own.device, non_blocking=True), given.to(own.device, non_blocking=True))
            if own.is_cpu and not is_distributed() and math.isnan(predicted[PROBABILITY - 1].sum()):
                raise ValueError(describe_divergence("logits are NaN"))
            return torch.stack([own, *predicted])
        if self.rule.auto:
            raise ValueError(
                "need logits and labels to estimate the noise rate; "
                "call reduce(losses, logits=logits, labels=labels), or use RRM(contamination=0.2)"
            )
        return torch.cat([own.unsqueeze(0), own.new_full((len(COLUMNS) - 1, len(own)), float(UNKNOWN))])

    def _read_logits(self, logits: Tensor, labels: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """Logits of two classes or more, as many as before, and labels."""
        for name, part in (("logits", logits), ("labels", labels)):
            if not isinstance(part, Tensor) or part.is_complex():
                raise ValueError(f"need {name} as a tensor of real numbers, got {type(part).__name__}")
        z, given = read_logits(logits, labels)
        if len(given) != n:
            raise ValueError(f"need logits and a label for each of {n} losses, got {len(given)}")
        if self._n_classes not in (0, z.shape[1]):
            raise ValueError(
                f"need logits of {self._n_classes} classes as before, got {z.shape[1]}; "
                "a network must not change its number of outputs in a run"
            )
        given = given if given.is_floating_point() else given.long()
        if given.is_cpu:
            check_labels(given, z.shape[1])
        return z, given

    def _remember(self, columns: Tensor) -> None:
        """Put a batch in the place of the oldest rows."""
        both = torch.cat([self._recent.to(columns.device, non_blocking=True), columns], dim=1)
        self._recent = both.narrow(1, both.shape[1] - self.window, self.window).clone()
        self.seen += columns.shape[1]

    def _look(self) -> None:
        """Find the threshold of the rows in the window anew."""
        recent, seen = self._all_windows()
        if is_distributed() or not recent.is_cpu:  # a batch on the CPU of one process was checked before
            self._recent = _without_undefined(self._recent)
            if is_distributed():
                _check_finite(recent.select(0, LOSS) + recent.select(0, PROBABILITY))
            recent = _without_undefined(recent)
        if seen < self.warmup:
            return
        rule, limit = self.rule, self.class_limit
        if rule.auto:
            host = self._host.of(recent)
            rate = None if host is None else self._noise_rate(host.numpy(), seen)
            if rate is None:
                return
            rule, limit = rule.with_contamination(rate), balanced_limit(limit, rule, rate)
        losses, labels = recent.select(0, LOSS), recent.select(0, LABEL)
        self._thresholds = self._with_limits(_threshold(rule, losses), losses, labels, limit)
        self._kept = (losses <= self._of_labels(labels)).float().mean()

    def _all_windows(self) -> tuple[Tensor, int]:
        """The rows of all processes' windows, the oldest of each first, with a column NEWER, and how many were seen."""
        n = min(self.seen, self.window)
        newer = torch.arange(n, device=self._recent.device) >= (n + 1) // 2
        recent = torch.cat([self._recent.narrow(1, self.window - n, n), newer.float().unsqueeze(0)])
        if not is_distributed():
            return recent, self.seen
        everyones = gathered(recent.T.contiguous()).T
        return everyones, int(gathered(torch.tensor([[self.seen]])).sum())

    def _of_labels(self, labels: Tensor) -> Tensor:
        """The threshold of each row, by its label."""
        if len(self._thresholds) == 1:
            return self._thresholds.select(0, 0).to(labels.device, non_blocking=True)
        return self._thresholds.to(labels.device, non_blocking=True).index_select(0, labels.long() - UNKNOWN)

    def _with_limits(self, threshold: Tensor, losses: Tensor, labels: Tensor, limit: float) -> Tensor:
        """The threshold by label, raised where more than the limit would be removed; rows that tie there stay."""
        if self._n_classes == 0:
            return threshold.reshape(1)
        known = labels.long() - UNKNOWN
        rows_of, removed_of = (
            losses.new_zeros(self._n_classes + 1).index_add_(0, known, part.float())
            for part in (torch.ones_like(losses), losses > threshold)
        )
        most = _max_counts(limit, len(losses)).to(losses.device, non_blocking=True)
        rank = most.index_select(0, rows_of.long())
        order = losses.argsort(descending=True, stable=True)
        order = order.gather(0, known.gather(0, order).argsort(stable=True))  # by label, then by loss
        first = (rows_of.cumsum(0) - rows_of).long()
        edge = losses.gather(0, order).gather(0, (first + rank).clamp(max=len(losses) - 1))
        has_label = torch.arange(len(rank), device=rank.device) > 0
        return torch.where((removed_of > rank) & has_label, edge, threshold)

    def _noise_rate(self, recent: Vector, seen: int) -> float | None:
        """The noise rate of the window, estimated anew when it holds new rows; None as yet.

        With crisp labels, SampleWeights then removes as many rows as the network disagrees with. Here it would be too
        many: model errors are more frequent on rows that the network did not learn from.
        """
        labeled = recent[:, recent[LABEL] != UNKNOWN]
        disagree = labeled[LABEL] != labeled[PREDICTED]
        if self.estimate is None and not _has_learned(labeled[LABEL], ~disagree, labeled[NEWER] > 0):
            return None
        if self.estimate is None or seen >= self._estimated_at + self.window * processes():
            rank = labeled[RANK]
            known = labeled[LABEL], labeled[PREDICTED], labeled[PROBABILITY]
            predictions = OutOfSample(*known, rank == 1, rank, rank)
            self.estimate = estimate_from(predictions, self._n_classes)
            self._estimated_at = seen
            logger.info("noise rate, estimated after %d rows: %s", seen, self.estimate.verdict)
        return self.estimate.ceiling.rate if self.rule.crisp else self.estimate.floor.low


@lru_cache(maxsize=2)
def _max_counts(limit: float, n: int) -> Tensor:
    """How many rows of a class may be removed, exactly, by how many it has, up to n."""
    return torch.tensor([max_count(limit, rows) for rows in range(n + 1)])


def _threshold(rule: RRM, losses: Tensor) -> Tensor:
    """The threshold of the rule for these losses, found where they lie."""
    if rule.gamma is not None:
        gamma = 2 * rule.gamma if rule.penalty == "l1" else rule.gamma
        return (losses.min() + gamma).clamp(max=LARGEST)
    assert isinstance(rule.contamination, float)
    if rule.contamination == 0:  # the largest loss of the window may well lie below that of the next rows
        return torch.full((), LARGEST, device=losses.device)
    ordered = losses.sort(descending=True).values
    edge = ordered.select(0, min_count(rule.contamination, len(losses)) - 1)
    below = ordered.where(ordered < edge, -math.inf).max()
    least = ordered.select(0, len(losses) - 1)
    none_qualifies = torch.where(least < ordered.select(0, 0), least, math.inf)
    return torch.where(below > -math.inf, below, none_qualifies)


def _n_classes(logits: Tensor) -> int:
    """How many classes logits are of; a lone logit makes two."""
    return 2 if logits.ndim == 1 else max(logits.shape[1], 2)


def _without_undefined(columns: Tensor) -> Tensor:
    """A copy in which a loss that is NaN or -inf is +inf, and predictions from NaN logits are unknown."""
    losses, predictions = columns.select(0, LOSS), columns.narrow(0, LABEL, len(COLUMNS) - 1)
    losses = losses.where(losses > -math.inf, math.inf)
    predictions = predictions.where(columns.select(0, PROBABILITY) >= UNKNOWN, float(UNKNOWN))  # NaN is not
    others = columns.narrow(0, len(COLUMNS), len(columns) - len(COLUMNS))
    return torch.cat([losses.unsqueeze(0), predictions, others])


def _are_columns(columns: Tensor, n_classes: int) -> bool:
    """Whether these are labels, predictions, probabilities and ranks of this many classes."""
    integers = columns[[LABEL - 1, PREDICTED - 1, RANK - 1]]
    greatest = torch.tensor([n_classes - 1, n_classes - 1, 1 + 1e-5, n_classes - 1], device=columns.device)
    known = ((columns >= 0) & (columns <= greatest[:, None])).all(0) & (integers.floor() == integers).all(0)
    return bool((known | (columns == UNKNOWN).all(0)).all())


def _check_finite(losses: Tensor) -> None:
    bad = int((~(losses > -math.inf)).count_nonzero())
    if bad:
        raise ValueError(
            f"need finite losses, but {bad} of {len(losses)} losses are NaN or -inf: training has diverged; "
            "lower the learning rate"
        )


def _predict_columns(logits: Tensor, labels: Tensor) -> Tensor:
    """The columns of label and prediction: the predicted label, its probability, and the rank of the given one."""
    best, predicted = logits.max(1)
    probability = (best - logits.logsumexp(1)).exp()
    own = logits.gather(1, labels.long().clamp(0, logits.shape[1] - 1).unsqueeze(1))
    rank = (logits > own).sum(1).clamp(min=1) * (predicted != labels)
    return torch.stack([labels.float(), predicted.float(), probability, rank.float()])


def _has_learned(labels: Vector, agrees: NDArray[np.bool_], newer: NDArray[np.bool_]) -> bool:
    """Whether the network predicts clearly more than the commonest label, and no longer gets clearly better."""
    if not newer.any() or newer.all():
        return False
    n, commonest = len(labels), int(np.bincount(labels.astype(np.intp)).max())
    # A count among n rows deviates by at most sqrt(n / 4), and two fractions among half of them by 1 / sqrt(n).
    if int(agrees.sum()) <= commonest + Z_SCORE * math.sqrt(n / 4):
        return False
    return bool(agrees[newer].mean() - agrees[~newer].mean() < Z_SCORE / math.sqrt(n))
