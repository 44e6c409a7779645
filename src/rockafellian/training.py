"""fit(): Algorithms 1 and 2 of the paper in one loop. Two switches make the four methods:

              weights=None    weights=SampleWeights(...)
attack=None   ERM             RRM
attack=FGSM   AT              A-RRM
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from rockafellian.attacks import Attack
from rockafellian.batches import Rows
from rockafellian.evaluation import Loss, Task, device_of, evaluate_rows, losses_of, read_task
from rockafellian.history import Best, Epoch, History, Round
from rockafellian.losses import for_rows
from rockafellian.modes import evaluating
from rockafellian.progress import Display, Progress, show
from rockafellian.seeding import seeded
from rockafellian.vectors import Array
from rockafellian.weights import SampleWeights

if TYPE_CHECKING:
    from rockafellian.checkpoints import Checkpoint

LossesFrom: TypeAlias = Literal["training", "clean", "attacked"]
Moment: TypeAlias = Literal["epoch", "batch"]


def fit(
    model: nn.Module,
    train: Any,
    *,
    loss: Loss,
    optimizer: Optimizer,
    epochs: int,
    weights: SampleWeights | None = None,
    attack: Attack | None = None,
    valid: Any = None,
    batch_size: int = 100,
    scheduler: LRScheduler | None = None,
    scheduler_every: Moment = "epoch",
    clip: float | None = None,
    losses_from: LossesFrom = "training",
    skip_removed: bool = False,
    attack_valid: bool = False,
    stop: Callable[[Epoch], bool] | None = None,
    wrong: Array | None = None,
    device: torch.device | str | None = None,
    workers: int = 0,
    collate: Callable[[list[Any]], Any] | None = None,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: Progress = "auto",
    on_epoch: Callable[[Epoch], object] | None = None,
) -> History:
    """Train the network, re-weighting its rows if there are `weights` and attacking them if there is an `attack`.

    `train` and `valid` are pairs of arrays (x, y), TensorDatasets, or any dataset of rows (x, y) with a length, which
    goes through a DataLoader with `workers` and `collate`. `loss` gives one value per row.

    Re-weighting happens between two epochs when `weights` says it is due, so never after the last. It uses the losses
    seen in training (under attack, if there is one), or a fresh pass over the rows, "clean" or "attacked".
    `skip_removed` draws no row of weight 0, so that epochs get shorter; the losses of those rows come from a pass just
    before the next re-weighting. `wrong` marks rows known to be wrong: History then tells how well they were found.

    `valid` may have wrong labels too; the network of its best epoch is kept as `History.best`, while `model` ends as
    the last epoch left it. `stop` is asked after each epoch. `clip` bounds the norm of the gradient.

    All that is random follows from `seed` and the number of the epoch. `checkpoint` names a folder for the state after
    the last whole epoch; with `resume=True` the same call goes on from there, if there is such a state, and ends as if
    it had never been interrupted.
    """
    where = device_of(model) if device is None else torch.device(device)
    for module in (model, loss):
        if isinstance(module, nn.Module):
            module.to(where)
    read = partial(Rows, workers=workers, collate=collate, device=where)
    run = _Run(
        model=model,
        rows=read(train),
        valid=None if valid is None else read(valid),
        loss=loss,
        optimizer=optimizer,
        weights=weights,
        attack=attack,
        batch_size=batch_size,
        scheduler=scheduler,
        scheduler_every=scheduler_every,
        clip=clip,
        losses_from=losses_from,
        skip_removed=skip_removed,
        attack_valid=attack_valid,
        wrong=None if wrong is None else torch.as_tensor(wrong).cpu().bool(),
        seed=seed,
    )
    run.check(epochs)
    kept = None if checkpoint is None else _open_checkpoint(Path(checkpoint), run, resume)
    done = run.history.epochs
    with show(progress, epochs) as display:
        while len(done) < epochs and not (stop and done and stop(done[-1])):
            record = run.one_epoch(len(done) + 1, display)
            done.append(record)
            if kept is not None:
                kept.save()
            display.epoch(record)
            if on_epoch is not None:
                on_epoch(record)
    return run.history


@dataclass
class _Run:
    """What takes part in a run, and one epoch of it."""

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
        for name, found in (("weights", self.weights), ("wrong", self.wrong)):
            if found is not None and len(found) != len(self.rows):
                raise ValueError(f"need {name} for the {len(self.rows)} rows of train, got {len(found)}")
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
            removed=None if self.weights is None else float(self.weights.removed.float().mean()),
            learning_rate=learning_rate,
            seconds=time.perf_counter() - start,
        )

    def _train(self, epoch: int, display: Display) -> tuple[float, float | None]:
        for module in (self.model, self.loss):
            if isinstance(module, nn.Module):
                module.train()
        order = torch.randperm(len(self.rows))
        if self.skip_removed and self.weights is not None:
            order = order[self.weights.values.cpu()[order] > 0]
        # The mean over the rows drawn, scaled to be one over all rows: the learning rate carries over.
        share = len(order) / len(self.rows)
        total = hits = torch.zeros((), device=self.rows.device)
        drawn = 0
        for x, y, index in self.rows.batches(order, self.batch_size):
            if self.rows.in_memory is None:
                self.task.check(y)
            row_loss = for_rows(self.loss, index)
            if self.attack is not None:
                with evaluating(self.loss):
                    x = self.attack(self.model, row_loss, x, y)
            outputs = self.model(x)
            losses = row_loss(outputs, y)
            mean = losses.mean() if self.weights is None else share * self.weights.reduce(losses, index)
            self.optimizer.zero_grad()
            mean.backward()  # type: ignore[no-untyped-call]
            if self.clip is not None:
                clip_grad_norm_(self.model.parameters(), self.clip)
            self.optimizer.step()
            if self.scheduler is not None and self.scheduler_every == "batch":
                self.scheduler.step()
            total = total + mean.detach() * len(index)
            if self.task.score is not None:
                hits = hits + self.task.score(outputs, y).sum()
            drawn += len(index)
            display.batch(epoch - 1 + drawn / len(order))
        return float(total) / drawn, None if self.task.score is None else float(hits) / drawn

    def _reweight(self, weights: SampleWeights) -> None:
        start = time.perf_counter()
        if self.skip_removed and weights.due and self.losses_from == "training":
            skipped = (weights.values == 0).nonzero()[:, 0].cpu()
            if len(skipped):
                weights.remember(losses_of(self.model, self.rows, skipped, self.loss, self.attack), skipped)
        if not weights.step(None if self.losses_from == "training" else self._fresh_losses):
            return
        made, removed = weights.history[-1], weights.removed.cpu()
        found = None if self.wrong is None else int((removed & self.wrong).sum())
        self.history.rounds.append(
            Round(
                epoch=len(self.history.epochs),
                removed=made.removed / len(weights),
                threshold=_known(made.threshold),
                gap=_known(made.gap),
                precision=_ratio(found, made.removed),
                recall=None if self.wrong is None else _ratio(found, int(self.wrong.sum())),
                seconds=time.perf_counter() - start,
            )
        )

    def _fresh_losses(self) -> Tensor:
        attack = self.attack if self.losses_from == "attacked" else None
        return losses_of(self.model, self.rows, torch.arange(len(self.rows)), self.loss, attack)

    def _validate(self, epoch: int) -> tuple[float | None, float | None]:
        if self.valid is None:
            return None, None
        found = evaluate_rows(self.model, self.valid, self.loss, self.task, self.attack if self.attack_valid else None)
        best = Best(epoch, *found, model={})
        if best.beats(self.history.best):
            best.model.update({name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()})
            self.history.best = best
        return found

    def _check_finite(self, epoch: int, loss: float) -> None:
        if math.isfinite(loss) and all(bool(part.isfinite().all()) for part in self.model.parameters()):
            return
        cause = "the learning rate is the usual cause: lower it, or pass clip="
        if getattr(getattr(self.weights, "rule", None), "spread", None) == "argmin":
            cause += "; so is spread='argmin', where one row can weigh as much as all removed ones: use spread='kept'"
        raise FloatingPointError(
            f"need finite losses and parameters, but in epoch {epoch} the mean loss became {loss:g}: "
            f"training has diverged; {cause}. A checkpoint, if there is one, is of epoch {epoch - 1}"
        )


def _open_checkpoint(folder: Path, run: _Run, resume: bool) -> Checkpoint:
    from rockafellian.checkpoints import Checkpoint

    parts = {
        "model": run.model,
        "loss": run.loss if isinstance(run.loss, nn.Module) else None,
        "optimizer": run.optimizer,
        "scheduler": run.scheduler,
        "weights": run.weights,
        "history": run.history,
    }
    kept = Checkpoint(folder, {name: part for name, part in parts.items() if part is not None}, _settings(run))
    if resume:
        kept.resume()
    else:
        kept.check_free()
    return kept


def _settings(run: _Run) -> dict[str, Any]:
    """What must be equal for a run to be the same run; the number of epochs may grow."""
    tensors = ", ".join(f"{name} {tuple(part.shape)}" for name, part in run.model.state_dict().items())
    labels = None if run.rows.in_memory is None else run.rows.in_memory[1].cpu().numpy().tobytes()
    return {
        "rows": len(run.rows),
        "labels": None if labels is None else zlib.crc32(labels),
        "validation rows": None if run.valid is None else len(run.valid),
        "model": f"{type(run.model).__name__} {zlib.crc32(tensors.encode()):08x}",
        "loss": _name(run.loss),
        "attack": _name(run.attack),
        "optimizer": type(run.optimizer).__name__,
        "scheduler": type(run.scheduler).__name__,
        "rule": None
        if run.weights is None
        else f"{_name(run.weights.rule)}, {run.weights.every}, {run.weights.warmup}",
        **{
            name: getattr(run, name)
            for name in (
                "batch_size",
                "scheduler_every",
                "clip",
                "losses_from",
                "skip_removed",
                "attack_valid",
                "seed",
            )
        },
    }


def _name(part: object) -> str:
    """What tells it from others and is the same in another process."""
    if isinstance(part, partial):
        return f"{_name(part.func)} {part.args} {part.keywords}"
    named = getattr(part, "__qualname__", None)
    return named if named is not None else type(part).__qualname__ if " at 0x" in repr(part) else repr(part)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _ratio(part: int | None, whole: int) -> float | None:
    return None if part is None or whole == 0 else part / whole
