"""One epoch of training: the re-weighting that is due, GradientStep (Algorithm 2) on every batch, validation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from rockafellian._internal.comm import PROCESSES, BatchShard, gathered, is_distributed, rank
from rockafellian._internal.modes import eval_mode
from rockafellian.attacks import Attack
from rockafellian.losses import for_rows
from rockafellian.training.data import Batch, Rows, draw_rows
from rockafellian.training.evaluation import Loss, Task, eval_pass, evaluate_rows, read_task
from rockafellian.training.history import Best, Epoch, History
from rockafellian.training.options import Options
from rockafellian.training.progress import Display
from rockafellian.training.rng import seeded
from rockafellian.training.step import GradientStep, autocast, full_precision
from rockafellian.weights.sample_weights import SampleWeights


@dataclass
class Run:
    """The parts and options of a run of `fit`, and its record so far."""

    model: nn.Module
    forward: nn.Module  # the network, or DDP around it, which averages its gradients over processes
    rows: Rows
    loss: Loss
    optimizer: Optimizer
    options: Options
    valid: Rows | None = None
    weights: SampleWeights | None = None
    attack: Attack | None = None
    transform: Callable[[Tensor], Tensor] | None = None
    sampler: Iterable[int] | None = None
    scheduler: LRScheduler | None = None
    wrong: Tensor | None = None
    task: Task = field(init=False)
    history: History = field(init=False, default_factory=History)
    scaler: torch.amp.GradScaler | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.options.amp == "float16":
            self.scaler = torch.amp.GradScaler(self.rows.device.type)

    def check(self) -> None:
        """Raise an error unless all parts fit together; nothing has changed then."""
        self._check_parts()
        self._check_lengths()
        self._check_processes()
        with seeded(self.options.seed, 0):
            self.task = read_task(self.model, self.rows, self.loss)
            if self.valid is not None:
                read_task(self.model, self.valid, self.loss)

    def one_epoch(self, epoch: int, display: Display) -> Epoch:
        """Re-weight if it is due after the epoch before, train on every batch, validate; return the record."""
        start = time.perf_counter()
        with seeded(self.options.seed, epoch):
            if self.weights is not None and epoch > 1:
                self._reweight(self.weights)
            loss, accuracy = self._train(epoch, display)
            self._check_finite(epoch, loss)
            valid_loss, valid_accuracy = self._validate(epoch)
        learning_rate = float(self.optimizer.param_groups[0]["lr"])  # torch takes a tensor too
        if self.scheduler is not None and self.options.scheduler_every == "epoch":
            watched = (loss if valid_loss is None else valid_loss,)
            self.scheduler.step(*watched if isinstance(self.scheduler, ReduceLROnPlateau) else ())
        return Epoch(
            epoch=epoch,
            loss=loss,
            accuracy=accuracy,
            valid_loss=valid_loss,
            valid_accuracy=valid_accuracy,
            removed_fraction=None if self.weights is None else self._count(self.weights.removed) / len(self.rows),
            learning_rate=learning_rate,
            seconds=time.perf_counter() - start,
        )

    def batch_loss(self, batch: Batch, *, is_own: bool = True) -> tuple[Tensor, Tensor]:
        """Return the weighted mean loss of a batch and the outputs.

        Reads no value of a tensor on a GPU, which would have to finish all work before it.

        Args:
            batch: inputs, labels and indices.
            is_own: whether rows are this process's; otherwise their loss is 0, and has a gradient of 0.
        """
        x, y, index = batch
        row_loss = for_rows(self.loss, index)
        if self.transform is not None:
            x = self.transform(x)
        if self.attack is not None:
            with eval_mode(self.loss):
                x = self.attack(self.model, row_loss, x, y)
        with autocast(self.options.amp, self.rows.device):
            outputs = self.forward(x)
            if self.options.amp is not None:  # losses and predicted probabilities need more digits
                outputs = full_precision(outputs)
            losses = row_loss(outputs, y)
        if self.options.amp is not None:
            losses = full_precision(losses)
        if not is_own:
            return 0 * losses.sum(), outputs
        if self.weights is None:
            return losses.mean(), outputs
        return self.weights.reduce(losses, index, **self._predictions(outputs, y)), outputs

    def _train(self, epoch: int, display: Display) -> tuple[float, float | None]:
        """Train on every batch; return the mean loss and the accuracy seen meanwhile."""
        options, (order, part) = self.options, self._begin_training()
        total = hits = torch.zeros((), device=self.rows.device)  # on the device: to read them makes it wait
        seen, step = 0, self._gradient_step()
        batches = self.rows.own_batches(order, options.batch_size, self._shard, options.accumulate)
        for done, (batch, weight, ends_step) in enumerate(batches, 1):
            with self._without_sync(ends_step):
                mean, outputs = self.batch_loss(batch, is_own=weight > 0)
                # Scaled to a mean over the rows left out too, so that the learning rate need not change.
                mean = part * mean if part < 1 else mean
                step.add(mean if weight in (0, 1) else weight * mean)
            if ends_step:
                step.finish()
            if weight > 0:
                _, y, index = batch
                total = total + mean.detach() * len(index)
                seen += len(index)
                if self.task.score is not None:
                    hits = hits + self.task.score(outputs, y).sum()
            display.batch(epoch - 1 + min(done * options.batch_size / len(order), 1))
        all_loss, all_hits, all_seen = (PROCESSES.total(float(part)) for part in (total, hits, seen))
        return all_loss / all_seen, None if self.task.score is None else all_hits / all_seen

    def _begin_training(self) -> tuple[Tensor, float]:
        """Put all parts in training mode; return the rows to train on in their order, and which part of all drawn."""
        for module in (self.forward, self.loss):
            if isinstance(module, nn.Module):
                module.train()
        taken = torch.ones(len(self.rows), dtype=torch.bool)
        taken[self._left_out()] = False
        order = draw_rows(self.sampler, len(self.rows))
        if rank():  # the order is the same for all processes, other random numbers differ
            torch.manual_seed(torch.initial_seed() + rank())
        kept = order[taken[order]]
        if not len(kept):
            raise ValueError("need rows to train on, but those of this epoch are all held out or removed")
        return kept, len(kept) / len(order)

    def _gradient_step(self) -> GradientStep:
        by_batch = self.options.scheduler_every == "batch"
        return GradientStep(
            self.model,
            self.optimizer,
            scheduler=self.scheduler if by_batch else None,
            grad_clip=self.options.grad_clip,
            scaler=self.scaler,
        )

    def _without_sync(self, ends_step: bool) -> AbstractContextManager[object]:
        """Return a context in which DDP averages no gradients, but for the last batch of an optimizer step."""
        no_sync: Any = getattr(self.forward, "no_sync", None) if is_distributed() else None
        context: AbstractContextManager[object] = nullcontext() if ends_step or no_sync is None else no_sync()
        return context

    def _reweight(self, weights: SampleWeights) -> None:
        """Step the weights, with the losses of rows that were left out, or fresh losses, where they are needed."""
        start = time.perf_counter()
        left_out = self._left_out()
        if len(left_out) and (weights.held_out is not None or weights.due):
            for index, losses, outputs, y in eval_pass(
                self.model, self.rows, left_out, self.loss, self.attack, self._shard
            ):
                weights.remember(losses, index, **self._predictions(outputs, y))
        weights.synchronize()
        fresh = self._fresh_losses() if weights.due and self.options.losses_from != "training" else None
        ready = time.perf_counter()
        if weights.step(fresh):
            done = time.perf_counter()
            self._record(weights, seconds=done - start, rule_seconds=done - ready)

    def _record(self, weights: SampleWeights, *, seconds: float, rule_seconds: float) -> None:
        """Add the last re-weighting to the history, with precision and recall where mislabeled rows are known."""
        made = weights.history[-1]
        precision = recall = None
        if self.wrong is not None:
            found = self._count(weights.removed.cpu() & self.wrong[weights.rows])
            precision, recall = _ratio(found, made.n_removed), _ratio(found, int(self.wrong.sum()))
        self.history.rounds.append(
            replace(
                made,
                epoch=len(self.history.epochs),
                precision=precision,
                recall=recall,
                seconds=seconds,
                rule_seconds=rule_seconds,
            )
        )

    def _fresh_losses(self) -> Tensor:
        """Return the loss of every row, in the order of the data, from a pass in evaluation mode."""
        attack = self.attack if self.options.losses_from == "attacked" else None
        order = torch.arange(len(self.rows))
        if is_distributed():  # shuffled, so that every process has rows in each batch
            order = torch.randperm(len(self.rows), generator=torch.Generator().manual_seed(self.options.seed))
        indices, values = [torch.empty(0, dtype=torch.int64)], [torch.empty(0, device=self.rows.device)]
        for index, losses, _, _ in eval_pass(self.model, self.rows, order, self.loss, attack, self._shard):
            indices.append(index)
            values.append(losses)
        found = torch.stack([torch.cat(indices).double(), torch.cat(values).cpu().double()], dim=1)
        index, losses = (found if self._sharded else gathered(found)).unbind(1)
        return losses[index.argsort()].float()

    def _validate(self, epoch: int) -> tuple[float | None, float | None]:
        """Return loss and accuracy on the validation set, and keep the network if it is the best so far."""
        if self.valid is None:
            return None, None
        attack = self.attack if self.options.attack_valid else None
        own = BatchShard() if is_distributed() else None
        found = evaluate_rows(self.model, self.valid, self.loss, self.task, attack, own)
        best = Best(epoch, *found, model={})
        if best.beats(self.history.best):
            for name, value in self.model.state_dict().items():
                whole = value.full_tensor() if hasattr(value, "full_tensor") else value  # FSDP keeps parts of it
                best.model[name] = whole.detach().cpu().clone()
            self.history.best = best
        return found

    def _check_finite(self, epoch: int, loss: float) -> None:
        parts = [part.to_local() if hasattr(part, "to_local") else part for part in self.model.parameters()]
        if PROCESSES.least(math.isfinite(loss) and all(bool(part.isfinite().all()) for part in parts)):
            return
        cause = "the learning rate is the usual cause: lower it, or pass grad_clip="
        if getattr(getattr(self.weights, "rule", None), "spread", None) == "argmin":
            cause += "; so is spread='argmin', where one row can weigh as much as all removed ones: use spread='kept'"
        raise FloatingPointError(
            f"need finite losses and parameters, but in epoch {epoch} the mean loss became {loss:g}: "
            f"training has diverged; {cause}. A checkpoint, if there is one, is of epoch {epoch - 1}; a "
            "run resumed from it diverges again, so start another one in another folder"
        )

    @property
    def _sharded(self) -> bool:
        """Whether each process holds the weights of some rows only."""
        return self.weights is not None and self.weights.sharded

    @property
    def _shard(self) -> BatchShard | None:
        """Which rows of a batch are this process's; None if there is one process."""
        if not is_distributed():
            return None
        return BatchShard(self.weights.rows if self.weights is not None and self.weights.sharded else None)

    def _count(self, mask: Tensor) -> int:
        """Return the number of rows in the mask, over all processes."""
        count = int(mask.count_nonzero())
        return int(PROCESSES.total(count)) if self._sharded else count

    def _predictions(self, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Return the arguments of `reduce` beside losses and index."""
        return {"logits": outputs, "labels": y} if self.task.one_label else {}

    def _left_out(self) -> Tensor:
        """Return the indices of rows not trained on: held-out rows and, with skip_removed, rows of weight 0."""
        if self.weights is not None and self.options.skip_removed:
            return (self.weights.values == 0).nonzero()[:, 0].cpu()
        if self.weights is not None and self.weights.held_out is not None:
            held = self.weights.held_out
            return gathered(held[:, None])[:, 0] if self.weights.sharded else held
        return torch.empty(0, dtype=torch.int64)

    def _check_parts(self) -> None:
        losses_from, skip_removed = self.options.losses_from, self.options.skip_removed
        if self.attack is None and (losses_from == "attacked" or self.options.attack_valid):
            raise ValueError("need an attack for losses_from='attacked' or attack_valid=True; pass attack=FGSM(eps)")
        if self.weights is None and (losses_from != "training" or skip_removed):
            raise ValueError("need weights for losses_from or skip_removed; pass weights=SampleWeights(...)")
        if self.transform is not None and self.rows.in_memory is None:
            raise ValueError(
                "need data in memory for transform, got data that goes through a DataLoader; transform the rows in "
                "the dataset or in collate_fn"
            )

    def _check_lengths(self) -> None:
        n_weights = None if self.weights is None else self.weights.n_samples
        for name, length in (("weights", n_weights), ("wrong", None if self.wrong is None else len(self.wrong))):
            if length is not None and length != len(self.rows):
                raise ValueError(f"need {name} for the {len(self.rows)} rows of train, got {length}")

    def _check_processes(self) -> None:
        if self.options.skip_removed and self._sharded:
            raise ValueError("need weights of all rows in each process for skip_removed, got rows=shard(n); drop one")
        if is_distributed() and getattr(self.loss, "takes_index", False) and not self._sharded:
            raise ValueError(
                "need a loss without a memory of rows, as a row can go to any process; got one that takes an index; "
                "use another loss, or SampleWeights(..., rows=shard(n))"
            )


def _ratio(part: int, whole: int) -> float | None:
    return None if whole == 0 else part / whole
