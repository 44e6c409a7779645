"""One epoch of training: the re-weighting that is due, GradientStep (Algorithm 2) on every batch, validation."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from rockafellian._internal.comm import PROCESSES, BatchShard, gathered, is_distributed, rank
from rockafellian._internal.modes import eval_mode
from rockafellian.attacks import Attack
from rockafellian.losses import for_rows
from rockafellian.training.batches import Rows
from rockafellian.training.evaluation import Loss, Task, eval_pass, evaluate_rows, read_task
from rockafellian.training.history import Best, Epoch, History
from rockafellian.training.progress import Display
from rockafellian.training.rng import seeded
from rockafellian.weights.sample_weights import SampleWeights

LossesFrom: TypeAlias = Literal["training", "clean", "attacked"]
Moment: TypeAlias = Literal["epoch", "batch"]


@dataclass
class Run:
    """What takes part in a run, as `fit` was told, and what came of it so far."""

    model: nn.Module
    rows: Rows
    valid: Rows | None
    loss: Loss
    optimizer: Optimizer
    weights: SampleWeights | None
    attack: Attack | None
    batch_size: int
    scheduler: LRScheduler | None
    scheduler_every: Moment
    clip: float | None
    losses_from: LossesFrom
    skip_removed: bool
    attack_valid: bool
    wrong: Tensor | None
    seed: int
    forward: nn.Module  # the network, or what makes its gradients the mean over processes
    task: Task = field(init=False)
    history: History = field(init=False, default_factory=History)

    def check(self, epochs: int) -> None:
        """An error unless all fits together; nothing has changed then."""
        for name, value, least in (("epochs", epochs, 0), ("batch_size", self.batch_size, 1), ("seed", self.seed, 0)):
            if value < least:
                raise ValueError(f"need {name} >= {least}, got {value}")
        for name, choice, choices in (
            ("losses_from", self.losses_from, LossesFrom),
            ("scheduler_every", self.scheduler_every, Moment),
        ):
            if choice not in get_args(choices):
                raise ValueError(f"need {name} to be one of {', '.join(get_args(choices))}; got {choice!r}")
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"need clip > 0, the largest norm of a gradient; got {self.clip}")
        if self.attack is None and (self.losses_from == "attacked" or self.attack_valid):
            raise ValueError("need an attack for losses_from='attacked' or attack_valid=True; pass attack=FGSM(eps)")
        if self.weights is None and (self.losses_from != "training" or self.skip_removed):
            raise ValueError("need weights for losses_from or skip_removed; pass weights=SampleWeights(...)")
        if self.skip_removed and self._holds_own_rows:
            raise ValueError("need all rows known to each process for skip_removed, got rows=shard(n); leave out one")
        total = None if self.weights is None else self.weights.n_samples
        for name, found in (("weights", total), ("wrong", None if self.wrong is None else len(self.wrong))):
            if found is not None and found != len(self.rows):
                raise ValueError(f"need {name} for the {len(self.rows)} rows of train, got {found}")
        if is_distributed() and getattr(self.loss, "takes_index", False) and not self._holds_own_rows:
            raise ValueError(
                "need a loss without a memory of rows, which go from process to process; got one that takes an index; "
                "use another, or SampleWeights(..., rows=shard(n))"
            )
        with seeded(self.seed, 0):
            self.task = read_task(self.model, self.rows, self.loss)
            if self.valid is not None:
                read_task(self.model, self.valid, self.loss)

    def one_epoch(self, epoch: int, display: Display) -> Epoch:
        """The re-weighting left over from the epoch before, GradientStep (Algorithm 2) on every batch, validation."""
        start = time.perf_counter()
        with seeded(self.seed, epoch):
            if self.weights is not None and epoch > 1:
                self._reweight(self.weights)
            loss, accuracy = self._train(epoch, display)
            self._check_finite(epoch, loss)
            valid_loss, valid_accuracy = self._validate(epoch)
        learning_rate = self.optimizer.param_groups[0]["lr"]
        if self.scheduler is not None and self.scheduler_every == "epoch":
            watched = (loss if valid_loss is None else valid_loss,)
            self.scheduler.step(*watched if isinstance(self.scheduler, ReduceLROnPlateau) else ())
        return Epoch(
            epoch=epoch,
            loss=loss,
            accuracy=accuracy,
            valid_loss=valid_loss,
            valid_accuracy=valid_accuracy,
            removed_fraction=None if self.weights is None else self._total(self.weights.removed) / len(self.rows),
            learning_rate=learning_rate,
            seconds=time.perf_counter() - start,
        )

    @property
    def _holds_own_rows(self) -> bool:
        return self.weights is not None and self.weights.sharded

    @property
    def _own(self) -> BatchShard | None:
        """Which rows are this process's, if there are several."""
        return (
            BatchShard(self.weights.rows if self._holds_own_rows and self.weights else None)
            if is_distributed()
            else None
        )

    def _total(self, mask: Tensor) -> int:
        """How many of the rows held anywhere."""
        count = int(mask.count_nonzero())
        return int(PROCESSES.total(count)) if self._holds_own_rows else count

    def _train(self, epoch: int, display: Display) -> tuple[float, float | None]:
        for module in (self.forward, self.loss):
            if isinstance(module, nn.Module):
                module.train()
        taken = torch.ones(len(self.rows), dtype=torch.bool)
        taken[self._left_out()] = False
        order = torch.randperm(len(self.rows))
        order = order[taken[order]]
        if rank():  # the order is the same everywhere, but what is random in the network is not
            torch.manual_seed(torch.initial_seed() + rank())
        # The mean over the rows drawn, scaled to be one over all rows: the learning rate carries over.
        share = len(order) / len(self.rows)
        total = hits = torch.zeros((), device=self.rows.device)
        seen = 0
        batches = self.rows.own_batches(order, self.batch_size, self._own)
        for done, ((x, y, index), weight) in enumerate(batches, 1):
            if self.rows.in_memory is None:
                self.task.check(y)
            row_loss = for_rows(self.loss, index)
            if self.attack is not None:
                with eval_mode(self.loss):
                    x = self.attack(self.model, row_loss, x, y)
            outputs = self.forward(x)
            losses = row_loss(outputs, y)
            if weight == 0:
                mean = 0 * losses.sum()
            elif self.weights is None:
                mean = losses.mean()
            else:
                mean = self.weights.reduce(losses, index, **self._evidence(outputs, y))
            if share < 1:
                mean = share * mean
            self.optimizer.zero_grad()
            (mean if weight in (0, 1) else weight * mean).backward()  # type: ignore[no-untyped-call]
            if self.clip is not None:
                clip_grad_norm_(self.model.parameters(), self.clip)
            self.optimizer.step()
            if self.scheduler is not None and self.scheduler_every == "batch":
                self.scheduler.step()
            if weight > 0:
                total = total + mean.detach() * len(index)
                seen += len(index)
                if self.task.score is not None:
                    hits = hits + self.task.score(outputs, y).sum()
            display.batch(epoch - 1 + min(done * self.batch_size / len(order), 1))
        everyones, right, rows = (PROCESSES.total(float(part)) for part in (total, hits, seen))
        return everyones / rows, None if self.task.score is None else right / rows

    def _reweight(self, weights: SampleWeights) -> None:
        start = time.perf_counter()
        left_out = self._left_out()
        if len(left_out) and (weights.held_out is not None or weights.due):
            self._look_at(left_out, weights)
        weights.synchronize()
        losses = self._fresh_losses() if weights.due and self.losses_from != "training" else None
        ready = time.perf_counter()
        if not weights.step(losses):
            return
        done = time.perf_counter()
        made = weights.history[-1]
        found = None if self.wrong is None else self._total(weights.removed.cpu() & self.wrong[weights.rows])
        self.history.rounds.append(
            replace(
                made,
                epoch=len(self.history.epochs),
                precision=_ratio(found, made.n_removed),
                recall=None if self.wrong is None else _ratio(found, int(self.wrong.sum())),
                seconds=done - start,
                rule_seconds=done - ready,
            )
        )

    def _evidence(self, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
        """What `reduce` takes beside losses and index."""
        return {"logits": outputs, "labels": y} if self.task.one_label else {}

    def _left_out(self) -> Tensor:
        """The numbers of the rows that are not drawn: those held out and, with skip_removed, those of weight 0."""
        if self.weights is not None and self.skip_removed:
            return (self.weights.values == 0).nonzero()[:, 0].cpu()
        if self.weights is not None and self.weights.held_out is not None:
            held = self.weights.held_out
            return gathered(held[:, None])[:, 0] if self.weights.sharded else held
        return torch.empty(0, dtype=torch.int64)

    def _look_at(self, rows: Tensor, weights: SampleWeights) -> None:
        """Tell the weights about rows that were not drawn: their losses and what the network says."""
        for index, losses, outputs, y in eval_pass(self.model, self.rows, rows, self.loss, self.attack, self._own):
            weights.remember(losses, index, **self._evidence(outputs, y))

    def _fresh_losses(self) -> Tensor:
        attack = self.attack if self.losses_from == "attacked" else None
        order = torch.arange(len(self.rows))
        if is_distributed():  # mixed, so that everyone has a part of each batch
            order = torch.randperm(len(self.rows), generator=torch.Generator().manual_seed(self.seed))
        found = [torch.empty(0, 2, dtype=torch.float64)]
        for index, losses, _, _ in eval_pass(self.model, self.rows, order, self.loss, attack, self._own):
            found.append(torch.stack([index.double(), losses.cpu().double()], dim=1))
        seen = torch.cat(found)
        numbers, values = (seen if self._holds_own_rows else gathered(seen)).unbind(1)
        return values[numbers.argsort()].float()

    def _validate(self, epoch: int) -> tuple[float | None, float | None]:
        if self.valid is None:
            return None, None
        attack, own = self.attack if self.attack_valid else None, BatchShard() if is_distributed() else None
        found = evaluate_rows(self.model, self.valid, self.loss, self.task, attack, own)
        best = Best(epoch, *found, model={})
        if best.beats(self.history.best):
            for name, value in self.model.state_dict().items():  # of FSDP, in parts that only all together make whole
                whole = value.full_tensor() if hasattr(value, "full_tensor") else value
                best.model[name] = whole.detach().cpu().clone()
            self.history.best = best
        return found

    def _check_finite(self, epoch: int, loss: float) -> None:
        parts = [part.to_local() if hasattr(part, "to_local") else part for part in self.model.parameters()]
        if PROCESSES.least(math.isfinite(loss) and all(bool(part.isfinite().all()) for part in parts)):
            return
        cause = "the learning rate is the usual cause: lower it, or pass clip="
        if getattr(getattr(self.weights, "rule", None), "spread", None) == "argmin":
            cause += "; so is spread='argmin', where one row can weigh as much as all removed ones: use spread='kept'"
        raise FloatingPointError(
            f"need finite losses and parameters, but in epoch {epoch} the mean loss became {loss:g}: "
            f"training has diverged; {cause}. A checkpoint, if there is one, is of epoch {epoch - 1}"
        )


def _ratio(part: int | None, whole: int) -> float | None:
    return None if part is None or whole == 0 else part / whole
