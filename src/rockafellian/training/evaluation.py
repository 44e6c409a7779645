"""Passes over data that teach the network nothing: the loss of every row, and loss and accuracy on a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rockafellian._internal.comm import LOCAL, PROCESSES, BatchShard
from rockafellian._internal.modes import eval_mode
from rockafellian.attacks import Attack
from rockafellian.losses import for_rows
from rockafellian.training.batches import Rows

Loss = Callable[..., Tensor]
Score = Callable[[Tensor, Tensor], Tensor]
SIZE = 256  # larger batches are slower on a CPU


class Evaluation(NamedTuple):
    """The mean loss, and the share of rows that are right: None where outputs are no classes."""

    loss: float
    accuracy: float | None


def evaluate(
    model: nn.Module,
    data: Any,
    *,
    loss: Loss,
    attack: Attack | None = None,
    workers: int = 0,
    collate: Callable[[list[Any]], Any] | None = None,
) -> Evaluation:
    """Loss and accuracy on rows that are not those of the training, as they are or under attack; in evaluation mode."""
    rows = Rows(data, workers=workers, collate=collate, device=device_of(model))
    return evaluate_rows(model, rows, loss, read_task(model, rows, loss), attack)


def evaluate_rows(
    model: nn.Module, rows: Rows, loss: Loss, task: Task, attack: Attack | None = None, own: BatchShard | None = None
) -> Evaluation:
    """`evaluate` on rows that have been read and checked; by all processes together, if each has its `own`."""
    total = hits = torch.zeros((), dtype=torch.float64)
    comm = LOCAL if own is None else PROCESSES
    with eval_mode(model, loss), torch.no_grad():
        for (x, y, _), weight in rows.own_batches(torch.arange(len(rows)), SIZE, own):
            if rows.in_memory is None:
                task.check(y)
            outputs = model(x if attack is None else attack(model, loss, x, y))
            if weight == 0:
                continue
            total = total + loss(outputs, y).sum().cpu()
            if task.score is not None:
                hits = hits + task.score(outputs, y).sum().cpu()
    found, right = comm.total(float(total)) / len(rows), comm.total(float(hits)) / len(rows)
    return Evaluation(found, None if task.score is None else right)


def losses_of(model: nn.Module, rows: Rows, order: Tensor, loss: Loss, attack: Attack | None = None) -> Tensor:
    """The loss of each of these rows in evaluation mode: J(theta; x_i, y_i), or J(theta; x_i^b, y_i) under attack."""
    return torch.cat([losses.cpu() for _, losses, _, _ in eval_pass(model, rows, order, loss, attack)])


def eval_pass(
    model: nn.Module, rows: Rows, order: Tensor, loss: Loss, attack: Attack | None = None, own: BatchShard | None = None
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """These rows, or `own` ones, batch by batch in evaluation mode: their numbers, losses, outputs and labels."""
    with eval_mode(model, loss), torch.no_grad():
        for (x, y, index), weight in rows.own_batches(order, SIZE, own):
            row_loss = for_rows(loss, index)
            outputs = model(x if attack is None else attack(model, row_loss, x, y))
            if weight > 0:
                yield index, row_loss(outputs, y), outputs, y


class Task(NamedTuple):
    """What the network's outputs are: so many classes, if they are, and what makes a row right, if anything does.

    `one_label` says that outputs are the logits of one label a row: of classes, or a lone one of two.
    """

    n_classes: int | None
    score: Score | None
    one_label: bool

    def check(self, labels: Tensor) -> None:
        """An error unless these labels are numbers of classes."""
        if self.n_classes is None:
            return
        low, high = (int(bound) for bound in labels.aminmax())
        if low < 0 or high >= self.n_classes:
            raise ValueError(
                f"need labels from 0 to {self.n_classes - 1}, as the network has {self.n_classes} outputs; "
                f"got {low} to {high}"
            )


def read_task(model: nn.Module, rows: Rows, loss: Loss) -> Task:
    """An error unless network, loss and labels fit together: tried on a first batch, and on all labels in memory."""
    x, y, index = next(rows.batches(torch.arange(min(len(rows), 4)), SIZE))
    with eval_mode(model, loss), torch.no_grad():
        outputs = model(x)
        labels = y if rows.in_memory is None else rows.in_memory[1]
        task = _task(outputs, labels)
        task.check(labels)
        losses = loss(outputs, y)
    if losses.shape != (len(index),):
        raise ValueError(
            f"need one loss per row, got shape {tuple(losses.shape)} for {len(index)} rows; "
            "build the loss with reduction='none'"
        )
    return task


def _task(outputs: Tensor, labels: Tensor) -> Task:
    if outputs.ndim == 2 and outputs.shape[1] > 1 and labels.ndim == 1:
        whole = not labels.is_floating_point()
        return Task(outputs.shape[1] if whole else None, _same_class if whole else None, whole)
    as_many = outputs[0].numel() == labels[0].numel()
    binary = as_many and bool(((labels == 0) | (labels == 1)).all())
    return Task(None, _same_side if binary else None, binary and outputs[0].numel() == 1)


def device_of(model: nn.Module) -> torch.device:
    """Where the network is."""
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def _same_class(outputs: Tensor, y: Tensor) -> Tensor:
    return outputs.argmax(1) == y


def _same_side(outputs: Tensor, y: Tensor) -> Tensor:
    """The share of a row's labels that are right."""
    right = (outputs > 0) == (y.reshape(outputs.shape) > 0)
    return right.reshape(len(y), -1).float().mean(1)
