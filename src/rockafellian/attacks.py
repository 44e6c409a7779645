"""Adversarial attacks: projected gradient ascent (PGD) on each row's loss; FGSM of Algorithm 2 is one step of it.

An attack is any callable (model, loss, x, y) -> x, where the loss has one value per row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor, nn

from rockafellian._internal.arrays import read_array
from rockafellian._internal.modes import eval_mode
from rockafellian._internal.validation import is_integer, read_number

Norm: TypeAlias = Literal["linf", "l2"]
Step: TypeAlias = Literal["sign", "unit", "raw"]
Bound: TypeAlias = float | Sequence[float]
Attack: TypeAlias = Callable[[nn.Module, Callable[[Tensor, Tensor], Tensor], Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class PGD:
    """Projected gradient ascent on each row's loss, within a ball of radius `eps` around the input.

    The network is in evaluation mode meanwhile, so dropout is off and the statistics of BatchNorm do not change; modes
    and gradients are afterwards what they were before.

    Args:
        eps: radius of the ball, in units of the inputs as the network sees them.
        steps: number of steps.
        step_size: length of a step; None is 2.5 * eps / steps.
        norm: the ball is of this norm, "linf" or "l2".
        step: direction of a step: "sign" of the gradient (None with "linf"), "unit" for the gradient divided by its
            norm (None with "l2"), or "raw" for the gradient itself.
        random_start: whether to start from a random point of the ball.
        bounds: smallest and largest input, two numbers or two lists with one number per channel (axis 1); None does
            not clip, as in the paper.
    """

    eps: float
    steps: int = 10
    step_size: float | None = None
    norm: Norm = "linf"
    step: Step | None = None
    random_start: bool = True
    bounds: tuple[Bound, Bound] | None = None

    def __post_init__(self) -> None:
        if not 0 <= read_number("eps", self.eps) < math.inf:
            raise ValueError(f"need a finite eps >= 0, in units of the inputs as the network sees them; got {self.eps}")
        if not is_integer(self.steps) or self.steps < 1:
            raise ValueError(f"need at least one step, got {self.steps!r}")
        if self.step_size is not None and not 0 < read_number("step_size", self.step_size) < math.inf:
            raise ValueError(f"need a finite step_size > 0, got {self.step_size}; None means 2.5 * eps / steps")
        if self.bounds is not None and not _are_bounds(self.bounds):
            raise ValueError(f"need bounds (low, high) with low <= high, got {self.bounds!r}")
        for name, value, choices in (("norm", self.norm, Norm), ("step", self.step or "sign", Step)):
            if not isinstance(value, str) or value not in get_args(choices):
                raise ValueError(f"need {name} to be one of {', '.join(get_args(choices))}; got {value!r}")

    def __call__(self, model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor) -> Tensor:
        """Return the attacked inputs, detached."""
        if not isinstance(x, Tensor) or not x.is_floating_point():
            kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"need inputs of a floating type to have a gradient, got {kind}; attack embeddings")
        if max(self.eps, self.step_size or 0) > torch.finfo(x.dtype).max / 8:
            raise ValueError(f"need eps and step_size that {x.dtype} can hold, got {self.eps} and {self.step_size}")
        clip = self._clipping(x)
        step_size = 2.5 * self.eps / self.steps if self.step_size is None else self.step_size
        origin = x.detach()
        if self.eps == 0:
            return clip(origin)
        attacked = clip(origin + self._random_shift(origin)) if self.random_start else origin
        with eval_mode(model):
            for _ in range(self.steps):
                uphill = self._direction(_gradient(model, loss, attacked, y))
                shift = self._projected(attacked + step_size * uphill - origin)
                attacked = clip(origin + shift)
        return attacked

    def _direction(self, gradient: Tensor) -> Tensor:
        step = self.step or ("sign" if self.norm == "linf" else "unit")
        if step == "sign":
            return gradient.sign()
        return gradient / _row_norms(gradient) if step == "unit" else gradient

    def _projected(self, shift: Tensor) -> Tensor:
        if self.norm == "linf":
            return shift.clamp(-self.eps, self.eps)
        return shift * (self.eps / _row_norms(shift)).clamp(max=1)

    def _random_shift(self, x: Tensor) -> Tensor:
        """Return a shift drawn uniformly from the ball."""
        if self.norm == "linf":
            return torch.empty_like(x).uniform_(-self.eps, self.eps)
        direction = torch.randn_like(x)
        per_row = (len(x), *[1] * (x.ndim - 1))
        radius = torch.rand(per_row, dtype=x.dtype, device=x.device) ** (1 / math.prod(x.shape[1:]))
        return self.eps * radius * direction / _row_norms(direction)

    def _clipping(self, x: Tensor) -> Callable[[Tensor], Tensor]:
        """Return what clips inputs of this shape to the bounds."""
        smallest, largest = self.bounds or (-math.inf, math.inf)
        if isinstance(smallest, int | float) and isinstance(largest, int | float):  # numbers need no copy to a GPU
            return partial(torch.clamp, min=smallest, max=largest)
        low, high = (
            torch.as_tensor(bound, dtype=x.dtype).to(x.device, non_blocking=True) for bound in (smallest, largest)
        )
        for bound in (low, high):
            if bound.ndim and (x.ndim < 2 or bound.shape != x.shape[1:2]):
                raise ValueError(f"need one bound, or one per channel of inputs {tuple(x.shape)}; got {len(bound)}")
        per_channel = (-1, *[1] * (x.ndim - 2))
        if low.ndim or high.ndim:
            low, high = low.reshape(per_channel), high.reshape(per_channel)
        return partial(torch.clamp, min=low, max=high)


def FGSM(  # noqa: N802 - reads as the class it makes
    eps: float, *, norm: Norm = "linf", step: Step | None = None, bounds: tuple[Bound, Bound] | None = None
) -> PGD:
    """Return the attack of Algorithm 2, x + eps * sign(gradient): one step of PGD of length `eps`, from x itself.

    Args:
        eps: length of the step, in units of the inputs as the network sees them.
        norm: "linf" or "l2".
        step: direction of the step, as for `PGD`.
        bounds: smallest and largest input, as for `PGD`.
    """
    return PGD(eps, steps=1, step_size=eps or None, norm=norm, step=step, random_start=False, bounds=bounds)


def _are_bounds(bounds: object) -> bool:
    """Return whether these are a smallest and a largest input, in numbers."""
    if not isinstance(bounds, Sequence) or len(bounds) != 2:
        return False
    try:
        return bool(np.all(read_array(bounds[0]) <= read_array(bounds[1])))
    except ValueError:
        return False


#: By name, for the command line and for the tests that every attack must pass.
ATTACKS: dict[str, Callable[..., PGD]] = {"fgsm": FGSM, "pgd": PGD}


def _gradient(model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor) -> Tensor:
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        losses = loss(model(x), y)
        if losses.shape != (len(x),):
            raise ValueError(
                f"need one loss per row, got shape {tuple(losses.shape)} for {len(x)} rows; "
                "build the loss with reduction='none'"
            )
        return torch.autograd.grad(losses.sum(), x)[0]


def _row_norms(x: Tensor) -> Tensor:
    """Return the l2 norm of each row, shaped to divide `x` by it; never 0."""
    norms: Tensor = torch.linalg.vector_norm(x.flatten(1), dim=1)
    return norms.clamp(min=torch.finfo(x.dtype).tiny).reshape(len(x), *[1] * (x.ndim - 1))
