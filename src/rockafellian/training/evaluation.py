"""Passes over data in evaluation mode, without training: the loss of every row, loss and accuracy of a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rockafellian._internal.comm import LOCAL, PROCESSES, BatchShard
from rockafellian._internal.modes import eval_mode
from rockafellian.attacks import Attack
from rockafellian.losses import for_rows, loss_by_name, needs_sizes
from rockafellian.training.data import Rows, check_labels

Loss = Callable[..., Tensor]
Score = Callable[[Tensor, Tensor], Tensor]
EVAL_BATCH_SIZE = 256  # larger batches are slower on a CPU


class Evaluation(NamedTuple):
    """The mean loss, and the fraction of labels predicted right: None where outputs are no classes."""

    loss: float
    accuracy: float | None


def evaluate(
    model: nn.Module,
    data: Any,
    *,
    loss: Loss | str,
    attack: Attack | None = None,
    num_workers: int = 0,
    collate_fn: Callable[[list[Any]], Any] | None = None,
) -> Evaluation:
    """Return loss and accuracy on rows that are not those of the training, in evaluation mode.

    Args:
        model: the network.
        data: rows (x, y), as for `fit`.
        loss: one value per row, or the name of a loss in `LOSSES`.
        attack: changes the inputs first; None leaves them as they are.
        num_workers: worker processes of the DataLoader, where data is not in memory.
        collate_fn: makes a batch (x, y) from a list of rows.
    """
    rows = Rows(data, num_workers=num_workers, collate_fn=collate_fn, device=device_of(model))
    loss = resolve_loss(loss, model, rows)
    return evaluate_rows(model, rows, loss, read_task(model, rows, loss), attack)


def evaluate_rows(
    model: nn.Module, rows: Rows, loss: Loss, task: Task, attack: Attack | None = None, own: BatchShard | None = None
) -> Evaluation:
    """Return loss and accuracy on rows that were checked by `read_task`; over all processes if each has its `own`."""
    # Sums stay on the device until the end: to read one makes it wait.
    losses: list[Tensor] = []
    hits: list[Tensor] = []
    with eval_mode(model, loss), torch.no_grad():
        for (x, y, _), weight, _ in rows.own_batches(torch.arange(len(rows)), EVAL_BATCH_SIZE, own):
            outputs = model(x if attack is None else attack(model, loss, x, y))
            if weight == 0:
                continue
            losses.append(loss(outputs, y).sum())
            if task.score is not None:
                hits.append(task.score(outputs, y).sum())
    comm = LOCAL if own is None else PROCESSES
    mean, right = (comm.total(_total(sums)) / len(rows) for sums in (losses, hits))
    return Evaluation(mean, None if task.score is None else right)


def eval_pass(
    model: nn.Module, rows: Rows, order: Tensor, loss: Loss, attack: Attack | None = None, own: BatchShard | None = None
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Yield indices, losses, outputs and labels of the rows with these indices, batch by batch in evaluation mode.

    Args:
        model: the network.
        rows: where the rows are read from.
        order: indices of the rows to read.
        loss: one value per row: J(theta; x_i, y_i), under attack J(theta; x_i^b, y_i).
        attack: changes the inputs first; None leaves them as they are.
        own: which rows of a batch are this process's; None for all.
    """
    with eval_mode(model, loss), torch.no_grad():
        for (x, y, index), weight, _ in rows.own_batches(order, EVAL_BATCH_SIZE, own):
            row_loss = for_rows(loss, index)
            outputs = model(x if attack is None else attack(model, row_loss, x, y))
            if weight > 0:
                yield index, row_loss(outputs, y), outputs, y


class Task(NamedTuple):
    """What the outputs of a network are.

    Args:
        n_classes: number of classes, if outputs are the logits of classes.
        score: (outputs, labels) -> for each row the fraction of its labels that are predicted right; None if outputs
            are no classes.
        one_label: whether outputs are the logits of one label per row, of several classes or a single logit of two.
    """

    n_classes: int | None
    score: Score | None
    one_label: bool


def read_task(model: nn.Module, rows: Rows, loss: Loss) -> Task:
    """Return what the outputs are, or raise an error unless network, loss and labels fit together.

    Tried on a first batch, and on all labels in memory; labels from a DataLoader are checked as they come.
    """
    x, y, index = _first_batch(rows)
    with eval_mode(model, loss), torch.no_grad():
        outputs = model(x)
        labels = y if rows.in_memory is None else rows.in_memory[1]
        task = _task(outputs, labels)
        check_labels(labels, task.n_classes)
        losses = _try_loss(loss, outputs, y)
    if losses.shape != (len(index),):
        raise ValueError(
            f"need one loss per row, got shape {tuple(losses.shape)} for {len(index)} rows; "
            "build the loss with reduction='none'"
        )
    rows.n_classes = task.n_classes
    return task


def _try_loss(loss: Loss, outputs: Tensor, labels: Tensor) -> Tensor:
    try:
        return loss(outputs, labels)
    except RuntimeError as error:  # of torch, such as for labels that are no integers
        reason = " ".join(str(error).split())[:200]
        shapes = f"outputs {tuple(outputs.shape)} of {outputs.dtype} and labels {tuple(labels.shape)} of {labels.dtype}"
        raise ValueError(f"need labels that fit the loss, got {shapes}: {reason}") from error


def resolve_loss(loss: Loss | str, model: nn.Module, rows: Rows) -> Loss:
    """Return the loss itself, or the one with this name, made for the rows and the outputs of the network."""
    if not isinstance(loss, str):
        return loss
    n_classes = None
    if needs_sizes(loss):
        with eval_mode(model), torch.no_grad():
            outputs = model(_first_batch(rows)[0])
        n_classes = outputs.shape[1] if outputs.ndim == 2 and outputs.shape[1] > 1 else None
    return loss_by_name(loss, len(rows), n_classes)


def device_of(model: nn.Module) -> torch.device:
    """Return the device of the network."""
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def _total(sums: list[Tensor]) -> float:
    """Return the sum in float64, one after the other, with a single copy from the device."""
    return float(sum(torch.stack(sums).tolist())) if sums else 0.0


def _first_batch(rows: Rows) -> tuple[Any, Tensor, Tensor]:
    return next(rows.batches(torch.arange(min(len(rows), 4)), EVAL_BATCH_SIZE))


def _task(outputs: Tensor, labels: Tensor) -> Task:
    if outputs.ndim == 2 and outputs.shape[1] > 1 and labels.ndim == 1:
        whole = not labels.is_floating_point()
        return Task(outputs.shape[1] if whole else None, _same_class if whole else None, whole)
    as_many = outputs[0].numel() == labels[0].numel()
    binary = as_many and bool(((labels == 0) | (labels == 1)).all())
    return Task(None, _same_side if binary else None, binary and outputs[0].numel() == 1)


def _same_class(outputs: Tensor, y: Tensor) -> Tensor:
    return outputs.argmax(1) == y


def _same_side(outputs: Tensor, y: Tensor) -> Tensor:
    """Return the fraction of each row's labels that are predicted right."""
    right = (outputs > 0) == (y.reshape(outputs.shape) > 0)
    return right.reshape(len(y), -1).float().mean(1)
