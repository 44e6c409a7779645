"""StreamWeights: RRM where rows have no number and may come only once, in memory that does not grow with them.

By Theorem 3.1 the optimum over all weights is mean(min(c, c_min + gamma)): to remove a row it takes only its loss and a
threshold, no weight that is kept for it. The threshold is that of the rows seen last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal import comm as distributed
from rockafellian._internal.kth_largest import LOCAL, max_count
from rockafellian._internal.validation import UNKNOWN, Comm, Vector, read_losses
from rockafellian.method.noise_rate import Answers, Estimate, estimate_from
from rockafellian.method.reweight import RRM
from rockafellian.weights.predictions import as_classes

#: What is kept of a row: its loss and, where the network's answer is told, the label and what the answer was.
COLUMNS = LOSS, LABEL, SAID, SURE, SECOND = range(5)
#: So many standard deviations of chance must lie between two shares of agreement for one to count as higher.
CLEARLY = 2.0
#: A threshold that removes only infinite losses.
LARGEST = float(np.finfo(np.float32).max)


class StreamWeights:
    """Removes the rows of a stream that lie above the threshold of the last `window` rows: `reduce` in every batch.

    Rows need no index and none is remembered longer than that. Nothing is removed in the first `warmup` rows, by
    default one window: losses say nothing of a row before the network has learned something. After that the threshold,
    c_min + gamma or l_{1-C'} of the window, is found anew in every `every`-th call of `reduce`.

    `RRM()` finds the share of wrong labels too. What the network says of a row that it meets for the first time is said
    of a row it did not learn from; so the answers of a window tell the share, anew after each window. It removes
    nothing until the network agrees with clearly more labels than if it always said the commonest one, and with no
    clearly larger part of the newer half of the window than of the older one.

    As in SampleWeights, with `spread="kept"` the rows that are kept share the mass of the removed ones, so that a
    learning rate carries over; `spread="argmin"` is the capped mean itself, whose removed mass would go to rows of
    least loss, which lie in the past. `mu` has no say, as a row that comes once has no weight to go half-way from.
    No class whose labels are told loses more than the share `class_limit` of its rows.

    Of several processes (torch.distributed) each keeps a window of its own rows, and the threshold is that of all
    windows together; all must call `reduce` equally often. Memory: 20 bytes a row of the window.
    """

    def __init__(
        self,
        rule: RRM | None = None,
        *,
        class_limit: float = 0.9,
        window: int = 5_000,
        warmup: int | None = None,
        every: int = 8,
    ) -> None:
        warmup = window if warmup is None else warmup
        for name, value, least in (("window", window, 2), ("warmup", warmup, 0), ("every", every, 1)):
            if not isinstance(value, Integral) or value < least:
                raise ValueError(f"need {name} to be a whole number >= {least}, got {value!r}")
        rule = RRM() if rule is None else rule
        if not isinstance(rule, RRM):
            raise ValueError(f"need a rule with a threshold, such as RRM(contamination=0.2); got {rule!r}")
        if not 0 <= class_limit <= 1:
            raise ValueError(f"need a class_limit in [0, 1], a fraction of a class; got {class_limit}")
        self.rule = rule
        self.class_limit = class_limit
        self.window = int(window)
        self.warmup = int(warmup)
        self.every = int(every)
        #: How many rows this process has seen.
        self.seen = 0
        #: The loss above which a row is removed; +inf while nothing is.
        self.threshold = math.inf
        #: The share of the window's rows that are not above it.
        self.kept = 1.0
        #: The share of wrong labels, as `RRM()` finds it.
        self.estimate: Estimate | None = None
        #: The rows of the last batch that were removed, as a mask.
        self.removed = torch.zeros(0, dtype=torch.bool)
        self._recent = np.full((len(COLUMNS), self.window), UNKNOWN, np.float32)
        self._calls = self._estimated_at = self._n_classes = 0
        #: For labels of which the threshold would remove more than `class_limit`, the one that does not.
        self._of_class: dict[int, float] = {}

    def __repr__(self) -> str:
        return f"StreamWeights({self.seen} rows seen, {self.kept:.1%} kept, threshold {self.threshold:g}, {self.rule})"

    def reduce(self, losses: Tensor, *, logits: Tensor | None = None, labels: Tensor | None = None) -> Tensor:
        """The scalar to call `backward` on: the mean over the batch, in which removed rows give no gradient.

        `logits` (batch, classes) and `labels` are needed by `RRM()`, and by `class_limit`; others may leave them out.
        """
        columns = self._read(losses, logits, labels)
        self._remember(columns)
        self._calls += 1
        if self._calls % self.every == 0:
            self._look(distributed.PROCESSES if distributed.is_distributed() else LOCAL)
        removed = columns[LOSS] > self._thresholds(columns[LABEL])
        self.removed = torch.from_numpy(removed).to(losses.device)
        if self.rule.spread == "kept":
            return losses.masked_fill(self.removed, 0).mean() / self.kept
        return losses.masked_fill(self.removed, self.threshold).mean()

    def state_dict(self) -> dict[str, Tensor]:
        """A copy of all that changes, as tensors only, whose sizes do not depend on how many rows were seen."""
        estimate = (math.nan,) * 3 if self.estimate is None else self.estimate
        of_class = [[label, threshold] for label, threshold in self._of_class.items()]
        counts = [self.seen, self._calls, self._estimated_at, self._n_classes]
        return {
            "recent": torch.from_numpy(self._recent.copy()),
            "counts": torch.tensor(counts),
            "threshold": torch.tensor([self.threshold, self.kept], dtype=torch.float64),
            "estimate": torch.tensor(estimate, dtype=torch.float64),
            "of_class": torch.tensor(of_class, dtype=torch.float64).reshape(-1, 2),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a `state_dict`; what is not state (rule, warmup, every) comes from the constructor."""
        if missing := self.state_dict().keys() - state.keys():
            raise ValueError(f"need a state_dict of StreamWeights, but it lacks {', '.join(sorted(missing))}")
        if state["recent"].shape != self._recent.shape:
            raise ValueError(
                f"need a state of window={self.window}, got one of {state['recent'].shape[-1]}; use that window"
            )
        self._recent[:] = state["recent"].cpu().numpy()
        self.seen, self._calls, self._estimated_at, self._n_classes = (int(count) for count in state["counts"])
        self.threshold, self.kept = state["threshold"].tolist()
        found = Estimate(*state["estimate"].tolist())
        self.estimate = None if math.isnan(found.rate) else found
        self._of_class = {int(label): threshold for label, threshold in state["of_class"].tolist()}
        self.removed = torch.zeros(0, dtype=torch.bool)

    def _read(self, losses: Tensor, logits: Tensor | None, labels: Tensor | None) -> Vector:
        """A batch as columns, checked."""
        if losses.ndim != 1 or len(losses) == 0:
            raise ValueError(
                f"need one loss per row, a vector; got shape {tuple(losses.shape)}; "
                "build the loss with reduction='none'"
            )
        if (logits is None) != (labels is None):
            raise ValueError("need logits and labels together, got only one of them; pass both or neither")
        columns = np.full((len(COLUMNS), len(losses)), UNKNOWN, np.float32)
        columns[LOSS] = losses.detach().cpu().float().numpy()
        # Of several processes all stop at the next look: one that stopped alone would leave the others waiting.
        if not distributed.is_distributed() and not columns[LOSS].min() > -np.inf:
            bad = int(np.count_nonzero(~(columns[LOSS] > -np.inf)))
            raise ValueError(
                f"need finite losses, but {bad} of {len(losses)} losses are NaN or -inf: training has diverged; "
                "lower the learning rate"
            )
        if logits is not None and labels is not None:
            z, given = as_classes(logits, labels)
            if given.shape != losses.shape:
                raise ValueError(f"need logits and a label for each of {len(losses)} losses, got {len(given)}")
            self._n_classes = z.shape[1]
            columns[LABEL:] = _answers(z, given)
        elif self.rule.auto:
            raise ValueError(
                "need to be told what the network says, to find the share of wrong labels; "
                "call reduce(losses, logits=logits, labels=labels), or use RRM(contamination=0.2)"
            )
        return columns

    def _remember(self, columns: Vector) -> None:
        """Put a batch in the place of the oldest rows."""
        at = np.arange(self.seen, self.seen + columns.shape[1])[-self.window :] % self.window
        self._recent[:, at] = columns[:, -self.window :]
        self.seen += columns.shape[1]

    def _look(self, comm: Comm) -> None:
        """Find the threshold of the rows in the window anew."""
        recent = self._in_order()
        losses, _ = read_losses(recent[LOSS], comm=comm)
        if comm.total(self.seen) < self.warmup:
            return
        share = self._share(recent, comm) if self.rule.auto else None
        if self.rule.auto and share is None:
            return
        rule = self.rule if share is None else self.rule.with_contamination(share)
        # Of a share of 0 the threshold is the largest loss, above which the next rows may well lie.
        self.threshold = LARGEST if rule.contamination == 0 else float(rule.threshold(losses, comm))
        self._of_class = self._limits(losses, recent[LABEL], comm)
        kept = int(np.count_nonzero(losses <= self._thresholds(recent[LABEL])))
        self.kept = comm.total(kept) / comm.total(len(losses))

    def _in_order(self) -> Vector:
        """The rows of the window, the oldest first."""
        if self.seen <= self.window:
            return self._recent[:, : self.seen]
        return np.roll(self._recent, -(self.seen % self.window), axis=1)

    def _thresholds(self, labels: Vector) -> Vector | float:
        """The threshold of each row."""
        if not self._of_class:
            return self.threshold
        found = np.full(len(labels), self.threshold)
        for label, threshold in self._of_class.items():
            found[labels == label] = threshold
        return found

    def _limits(self, losses: Vector, labels: Vector, comm: Comm) -> dict[int, float]:
        """Thresholds of the classes that would lose more than `class_limit`; rows that tie there all stay."""
        known = labels.astype(np.intp) + 1  # UNKNOWN is -1
        n_labels = int(comm.greatest(float(known.max(initial=0)))) + 1
        removed_of, rows_of = (
            comm.totals(np.bincount(part, minlength=n_labels)) for part in (known[losses > self.threshold], known)
        )
        limits = {}
        for label in np.flatnonzero(removed_of > self.class_limit * rows_of):
            if label > 0:
                rank = max_count(self.class_limit, int(rows_of[label])) + 1
                limits[int(label) - 1] = float(comm.kth_largest(losses[known == label], rank)[0])
        return limits

    def _share(self, recent: Vector, comm: Comm) -> float | None:
        """The share of wrong labels among the rows of the window, found anew when it holds new ones; None as yet.

        SampleWeights then removes as many rows as the network disagrees with. Here it would be too many: honest
        mistakes are more frequent on rows that the network did not learn from.
        """
        told = recent[:, recent[LABEL] != UNKNOWN]
        seen, disagree = comm.total(self.seen), told[LABEL] != told[SAID]
        if self.estimate is None and not _has_learned(told[LABEL], disagree, comm):
            return None
        if self.estimate is None or seen >= self._estimated_at + comm.total(self.window):
            answers = np.stack(Answers(told[SAID], told[SURE], disagree, told[SECOND]))
            n_classes = int(comm.greatest(self._n_classes))
            self.estimate = estimate_from(Answers(*comm.gathered(answers)), n_classes)
            self._estimated_at = int(seen)
        return self.estimate.rate


def _answers(logits: Tensor, labels: Tensor) -> Vector:
    """The columns of labels and answers; of a row that agrees the label does not come second."""
    (best, _), (said, second) = (part.unbind(1) for part in logits.topk(2, dim=1))
    sure = (best - logits.logsumexp(1)).exp()
    return torch.stack([labels.float(), said.float(), sure, (second == labels).float()]).numpy()


def _has_learned(labels: Vector, disagree: NDArray[np.bool_], comm: Comm) -> bool:
    """Whether the network says clearly more than which label is the commonest, and no longer gets clearly better."""
    n_labels = int(comm.greatest(float(labels.max(initial=0)))) + 1
    commonest = int(comm.totals(np.bincount(labels.astype(np.intp), minlength=n_labels)).max())
    (older, n_older), (newer, n_newer) = (
        (comm.total(int(half.sum())), comm.total(len(half))) for half in np.array_split(~disagree, 2)
    )
    n = n_older + n_newer
    # A count among n rows deviates by sqrt(n / 4) at the most, and two shares among half of them by 1 / sqrt(n).
    if n_newer == 0 or older + newer <= commonest + CLEARLY * math.sqrt(n / 4):
        return False
    return newer / n_newer - older / n_older < CLEARLY / math.sqrt(n)
