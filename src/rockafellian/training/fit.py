"""fit(): Algorithm 1 of the paper, with checkpoints and a display. Two switches make the four methods:

              weights=None    weights=SampleWeights(...)
attack=None   ERM             RRM
attack=FGSM   AT              A-RRM
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from rockafellian._internal.arrays import Array
from rockafellian._internal.comm import is_distributed, peer_failure, rank
from rockafellian.attacks import Attack
from rockafellian.training.batches import Rows
from rockafellian.training.epoch import LossesFrom, Moment, Run
from rockafellian.training.evaluation import Loss, device_of
from rockafellian.training.history import Epoch, History
from rockafellian.training.progress import Progress, show
from rockafellian.weights.sample_weights import SampleWeights

if TYPE_CHECKING:
    from rockafellian.training.checkpoints import Checkpoint


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
    the last epoch left it. `stop` is asked after each epoch. `clip` bounds the norm of the gradient. `on_epoch` sees
    each epoch before it is saved; an epoch that was interrupted and is trained again is seen again.

    All that is random follows from `seed` and the number of the epoch. `checkpoint` names a folder for the state after
    the last whole epoch; with `resume=True` the same call goes on from there, if there is such a state, and ends as if
    it had never been interrupted.
    """
    forward = model
    if is_distributed():
        from rockafellian.training.ddp import inner, replicated

        forward = replicated(model)
        model = inner(forward)
    where = device_of(model) if device is None else torch.device(device)
    for module in (model, loss):
        if isinstance(module, nn.Module):
            module.to(where)
    read = partial(Rows, workers=workers, collate=collate, device=where)
    run = Run(
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
        forward=forward,
    )
    run.check(epochs)
    kept = None if checkpoint is None else _open_checkpoint(Path(checkpoint), run, resume)
    done = run.history.epochs
    with show(progress if rank() == 0 else "quiet", epochs) as display, peer_failure(checkpoint):
        while len(done) < epochs and not (stop and done and stop(done[-1])):
            record = run.one_epoch(len(done) + 1, display)
            done.append(record)
            if on_epoch is not None:  # before the state is saved: what it records is never behind the checkpoint
                on_epoch(record)
            if kept is not None:
                kept.save()
            display.epoch(record)
    return run.history


def _open_checkpoint(folder: Path, run: Run, resume: bool) -> Checkpoint:
    from rockafellian.training.checkpoints import Checkpoint

    parts = {
        "model": run.model,
        "loss": run.loss if isinstance(run.loss, nn.Module) else None,
        "optimizer": run.optimizer,
        "scheduler": run.scheduler,
        "weights": run.weights,
        "history": run.history,
    }
    if is_distributed():
        from rockafellian.training.ddp import whole_parts

        parts = whole_parts(parts)
    named = {name: part for name, part in parts.items() if part is not None}
    kept = Checkpoint(folder, named, _settings(run), writes=rank() == 0)
    if resume:
        kept.resume()
    else:
        kept.check_free()
    return kept


def _settings(run: Run) -> dict[str, Any]:
    """What must be equal for a run to be the same run; the number of epochs may grow."""
    weights = run.weights
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
        "rule": None if weights is None else _name(weights.rule),
        "every": None if weights is None else weights.every,
        "warmup": None if weights is None else weights.warmup,
        "batch_size": run.batch_size,
        "scheduler_every": run.scheduler_every,
        "clip": run.clip,
        "losses_from": run.losses_from,
        "skip_removed": run.skip_removed,
        "attack_valid": run.attack_valid,
        "seed": run.seed,
    }


def _name(part: object) -> str:
    """What tells it from others and is the same in another process."""
    if isinstance(part, partial):
        return f"{_name(part.func)} {part.args} {part.keywords}"
    if hasattr(part, "__qualname__"):
        return str(part.__qualname__)
    return type(part).__qualname__ if " at 0x" in repr(part) else repr(part)
