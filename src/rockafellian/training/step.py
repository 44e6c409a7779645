"""The optimizer step of Algorithm 2: gradients of one or several batches, scaled, clipped and applied."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

Amp: TypeAlias = Literal["bfloat16", "float16"]


def autocast(amp: Amp | None, device: torch.device) -> AbstractContextManager[object]:
    """Return the context in which forward passes run in this precision; None changes nothing."""
    return nullcontext() if amp is None else torch.autocast(device.type, getattr(torch, amp))


def full_precision(values: Tensor) -> Tensor:
    """Return values of half precision as float32, and others as they are."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


class GradientStep:
    """Gradients of several batches, and the optimizer step that ends them.

    Args:
        model: the network whose gradients are clipped.
        optimizer: makes the step.
        scheduler: steps after each optimizer step; None for none.
        grad_clip: largest norm of the gradient of a whole step; None for any.
        scaler: scales the loss so that small gradients survive in float16; None for other precisions.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        *,
        scheduler: LRScheduler | None = None,
        grad_clip: float | None = None,
        scaler: torch.amp.GradScaler | None = None,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.grad_clip = grad_clip
        self.scaler = scaler
        self._begun = False

    def add(self, loss: Tensor) -> None:
        """Add the gradient of this loss to those of the step."""
        if not self._begun:
            self.optimizer.zero_grad()
            self._begun = True
        scaled = loss if self.scaler is None else self.scaler.scale(loss)
        scaled.backward()  # type: ignore[no-untyped-call]

    def finish(self) -> None:
        """Clip the gradients, step the optimizer and the scheduler."""
        self._begun = False
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        if self.grad_clip is not None:
            clip_grad_norm_(self.model.parameters(), self.grad_clip)
        if self._step_optimizer() and self.scheduler is not None:
            self.scheduler.step()

    def _step_optimizer(self) -> bool:
        """Step the optimizer and return whether it moved: a scaler skips a step whose gradients overflowed."""
        if self.scaler is None:
            self.optimizer.step()
            return True
        before = self.scaler.get_scale()  # waits for a GPU, as torch's scaler itself does to find an overflow
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return self.scaler.get_scale() >= before
