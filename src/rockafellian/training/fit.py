"""fit(): Algorithm 1 of the paper, with checkpoints and a progress display. Two switches make the four methods:

              weights=None    weights=SampleWeights(...)
attack=None   ERM             RRM
attack=FGSM   AT              A-RRM
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from rockafellian._internal.arrays import Array
from rockafellian._internal.comm import is_distributed, peer_failure, rank
from rockafellian._internal.validation import is_integer, usable_device
from rockafellian.attacks import Attack
from rockafellian.training.data import Rows
from rockafellian.training.epoch import Run
from rockafellian.training.evaluation import Loss, device_of, resolve_loss
from rockafellian.training.history import Epoch, History
from rockafellian.training.options import LossesFrom, Moment, Options, check_at_least
from rockafellian.training.progress import Display, Progress, show
from rockafellian.training.rng import seeded
from rockafellian.training.step import Amp
from rockafellian.training.stopping import has_settled
from rockafellian.weights.sample_weights import SampleWeights

if TYPE_CHECKING:
    from rockafellian.training.checkpoints import Checkpoint

TOO_SHORT = (
    "the run ended before the noise rate could be estimated, and nothing was removed; "
    "train for more epochs, or use RRM(contamination=0.2)"
)
Stop: TypeAlias = Callable[[Epoch], bool] | Literal["settled"]


def fit(
    model: nn.Module,
    train: Any,
    *,
    loss: Loss | str,
    optimizer: Optimizer,
    epochs: int,
    weights: SampleWeights | None = None,
    attack: Attack | None = None,
    transform: Callable[[Tensor], Tensor] | None = None,
    sampler: Iterable[int] | None = None,
    valid: Any = None,
    batch_size: int = 100,
    accumulate: int = 1,
    amp: Amp | None = None,
    scheduler: LRScheduler | None = None,
    scheduler_every: Moment = "epoch",
    grad_clip: float | None = None,
    losses_from: LossesFrom = "training",
    skip_removed: bool = False,
    attack_valid: bool = False,
    stop: Stop | None = None,
    wrong: Array | None = None,
    device: torch.device | str | None = None,
    num_workers: int = 0,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: Progress = "auto",
    on_epoch: Callable[[Epoch], object] | None = None,
) -> History:
    """Train the network in place and return the history of the run.

    Rows are re-weighted if there are `weights`, between two epochs when it is due, so never after the last; their
    inputs are attacked if there is an `attack`. All random numbers follow from `seed` and the number of the epoch.

    Args:
        model: the network; it ends as the last epoch left it, `History.best` keeps the best one.
        train: a pair of arrays (x, y), a TensorDataset, or any dataset of rows (x, y) with a length, which goes through
            a DataLoader.
        loss: one value per row, or the name of a loss in `LOSSES`.
        optimizer: of the parameters of `model`.
        epochs: number of epochs of the whole run, with those before it was resumed.
        weights: one weight per row of `train`; None for ordinary training.
        attack: changes the inputs of each batch, for adversarial training; None for none.
        transform: changes the inputs x of each batch of data in memory, in training only, for augmentation. What it
            draws from torch, numpy or random follows from `seed`.
        sampler: the rows of an epoch in their order, read anew for each, as torch's samplers give them; by default all
            rows in random order.
        valid: validation data, never trained on; its labels may be noisy too.
        batch_size: rows of a batch, over all processes.
        accumulate: number of batches whose gradients make one optimizer step.
        amp: "bfloat16" or "float16" runs the forward pass of the training and the loss in mixed precision; attacks,
            validation and fresh losses stay in full precision.
        scheduler: of the learning rate.
        scheduler_every: steps the scheduler after each "epoch", or after each optimizer step ("batch").
        grad_clip: largest norm of the gradient of an optimizer step.
        losses_from: the losses of the re-weighting: those seen in "training" (under attack, if there is one), or from a
            fresh pass over the rows in evaluation mode, "clean" or "attacked".
        skip_removed: trains on no row of weight 0, so that epochs get shorter; the losses of these rows come from a
            pass just before the next re-weighting.
        attack_valid: validates under attack.
        stop: called after each epoch; ends the run if it returns True. "settled" ends it when neither the removed rows
            nor accuracy and loss have changed for some epochs.
        wrong: mask of rows known to be mislabeled; the history then has precision and recall of the removed rows.
        device: where to train; None is where the network is.
        num_workers: worker processes of the DataLoader.
        collate_fn: makes a batch (x, y) from a list of rows.
        seed: of all random numbers.
        checkpoint: folder for the state after each epoch; if writing one takes long, fewer are written, and the last.
        resume: continues from the checkpoint, if there is one, and ends with the result of an uninterrupted run.
        progress: "bar", "lines", "quiet", or "auto" for a bar on a terminal and lines elsewhere.
        on_epoch: called with each epoch before it is saved; an interrupted epoch that is trained again is seen again.
    """
    _check_kinds(model, optimizer, weights, epochs, batch_size, accumulate, seed)
    _check_functions(loss=loss, attack=attack, transform=transform, stop=stop, on_epoch=on_epoch)
    options = Options(
        batch_size=batch_size,
        accumulate=accumulate,
        amp=amp,
        grad_clip=grad_clip,
        scheduler_every=scheduler_every,
        losses_from=losses_from,
        skip_removed=skip_removed,
        attack_valid=attack_valid,
        seed=seed,
    )
    check_at_least(epochs=(epochs, 0))
    model, forward, where = _place(model, device)
    read = partial(Rows, num_workers=num_workers, collate_fn=collate_fn, device=where)
    rows = read(train)
    run = Run(
        model=model,
        forward=forward,
        rows=rows,
        loss=_place_loss(loss, model, rows, seed),
        optimizer=optimizer,
        options=options,
        valid=None if valid is None else read(valid),
        weights=weights,
        attack=attack,
        transform=transform,
        sampler=sampler,
        scheduler=scheduler,
        wrong=None if wrong is None else torch.as_tensor(wrong).cpu().bool(),
    )
    run.check()
    saved = None if checkpoint is None else _open_checkpoint(Path(checkpoint), run, resume)
    with show(progress if rank() == 0 else "quiet", epochs) as display, peer_failure(checkpoint):
        for record in _train(run, epochs, stop, display):
            if on_epoch is not None:  # before the state is saved, so that what it records is never behind it
                on_epoch(record)
            if saved is not None:
                saved.save_in_time()
            display.epoch(record)
        if saved is not None:
            saved.save_rest()
    if weights is not None and weights.held_out is not None and run.history.epochs:
        warnings.warn(TOO_SHORT, stacklevel=2)
    return run.history


def _check_kinds(model: object, optimizer: object, weights: object, *integers: object) -> None:
    """Raise unless each argument is of the kind that `fit` needs."""
    if not isinstance(model, nn.Module) or not hasattr(optimizer, "zero_grad"):
        raise ValueError(f"need a torch network and an optimizer, got {type(model).__name__} and {optimizer!r}")
    if weights is not None and not isinstance(weights, SampleWeights):
        raise ValueError(f"need weights to be SampleWeights or None, got {weights!r}; pass SampleWeights(n, rule)")
    for name, value in zip(("epochs", "batch_size", "accumulate", "seed"), integers, strict=True):
        if not is_integer(value):
            raise ValueError(f"need {name} to be an integer, got {value!r}")


def _check_functions(**functions: object) -> None:
    """Raise unless each is a function; the loss may be a name, `stop` may be "settled", and others may be None."""
    for name, value in functions.items():
        as_well = {"loss": " or the name of a loss", "stop": ' or "settled"'}.get(name, "")
        others = isinstance(value, str) if name == "loss" else value is None or (name, value) == ("stop", "settled")
        if not (others or callable(value)):
            raise ValueError(f"need {name} to be a function{as_well}, got {value!r}")


def _train(run: Run, epochs: int, stop: Stop | None, display: Display) -> Iterator[Epoch]:
    """Train epoch by epoch, from the last one in the history, and yield the record of each."""
    done = run.history.epochs
    while len(done) < epochs and not (done and _ends(run, stop)):
        done.append(run.one_epoch(len(done) + 1, display))
        yield done[-1]


def _ends(run: Run, stop: Stop | None) -> bool:
    """Return whether the run ends after its last epoch."""
    if stop is None or isinstance(stop, str):
        return stop is not None and has_settled(run.history, len(run.rows), reweights=run.weights is not None)
    return bool(stop(run.history.epochs[-1]))


def _place(model: nn.Module, device: torch.device | str | None) -> tuple[nn.Module, nn.Module, torch.device]:
    """Return the network, what to call in training (with several processes, DDP around the network), and the device."""
    if not is_distributed():
        where = device_of(model) if device is None else usable_device(device)
        return model.to(where), model, where
    from rockafellian.training.ddp import replicated, unwrapped

    plain = unwrapped(model)
    where = device_of(plain) if device is None else usable_device(device)
    plain.to(where)
    return plain, replicated(model), where


def _place_loss(loss: Loss | str, model: nn.Module, rows: Rows, seed: int) -> Loss:
    """Return the loss, or the one with this name, on the device of the rows."""
    with seeded(seed, 0):
        loss = resolve_loss(loss, model, rows)
    return loss.to(rows.device) if isinstance(loss, nn.Module) else loss


def _open_checkpoint(folder: Path, run: Run, resume: bool) -> Checkpoint:
    """Return the checkpoint of a run in this folder, and give the run its state if it is resumed."""
    from rockafellian.training.checkpoints import Checkpoint

    parts = {
        "model": run.model,
        "loss": run.loss if isinstance(run.loss, nn.Module) else None,
        "optimizer": run.optimizer,
        "scheduler": run.scheduler,
        "scaler": run.scaler,
        "weights": run.weights,
        "history": run.history,
    }
    if is_distributed():
        from rockafellian.training.ddp import whole_parts

        parts = whole_parts(parts)
    named = {name: part for name, part in parts.items() if part is not None}
    saved = Checkpoint(folder, named, _settings(run), writes=rank() == 0)
    if resume:
        saved.resume()
    else:
        saved.check_free()
    return saved


def _settings(run: Run) -> dict[str, Any]:
    """Return what must be equal for a resumed run to be the same run; the number of epochs may grow."""
    tensors = ", ".join(f"{name} {tuple(part.shape)}" for name, part in run.model.state_dict().items())
    labels = None if run.rows.in_memory is None else run.rows.in_memory[1].cpu().numpy().tobytes()
    return {
        "rows": len(run.rows),
        "labels": None if labels is None else zlib.crc32(labels),
        "validation rows": None if run.valid is None else len(run.valid),
        "model": f"{type(run.model).__name__} {zlib.crc32(tensors.encode()):08x}",
        "loss": _name(run.loss),
        "attack": _name(run.attack),
        "transform": _name(run.transform),
        "sampler": _name(run.sampler),
        "optimizer": type(run.optimizer).__name__,
        "scheduler": type(run.scheduler).__name__,
        **_settings_of_weights(run.weights),
        **asdict(run.options),
    }


def _settings_of_weights(weights: SampleWeights | None) -> dict[str, Any]:
    names = ("every", "warmup", "per_class", "class_limit")
    rule = None if weights is None else _name(weights.rule)
    return {"rule": rule, **{name: getattr(weights, name, None) for name in names}}


def _name(part: object) -> str:
    """Return what tells a part from others and is the same in another process."""
    if isinstance(part, partial):
        return f"{_name(part.func)} {part.args} {part.keywords}"
    if hasattr(part, "__qualname__"):
        return str(part.__qualname__)
    return type(part).__qualname__ if " at 0x" in repr(part) else repr(part)
