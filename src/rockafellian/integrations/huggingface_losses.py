"""One loss per row from the outputs of a transformers model: what the model would average over the batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

IGNORED = -100  # the label of a token that is not a target


@dataclass(frozen=True, eq=False)
class RowLosses:
    """The arguments of `reduce`; logits and labels only where each row has one class."""

    losses: Tensor
    index: Tensor
    logits: Tensor | None = None
    labels: Tensor | None = None


def row_losses_of(network: Any, outputs: Any, labels: Any, index: Tensor, smoothing: float) -> RowLosses:
    """The losses that the model would average, chosen by its config and by the shapes of logits and labels."""
    logits = _logits(outputs)
    if logits is None or not isinstance(labels, Tensor):
        raise _unknown_loss(network, logits, labels)
    kind = getattr(getattr(network, "config", None), "problem_type", None)
    if _has_one_class(logits, labels) and kind in (None, "single_label_classification"):
        labels = labels.reshape(-1)
        losses = functional.cross_entropy(logits.float(), labels, reduction="none", label_smoothing=smoothing)
        return RowLosses(losses, index, logits, labels)
    if logits.ndim == 3 and labels.shape == logits.shape[:2]:
        if (shift := _label_shift(network)) is None:
            raise _unknown_loss(network, logits, labels)
        return _token_losses(logits[:, : logits.shape[1] - shift], labels[:, shift:], index, smoothing)
    if logits.ndim > 2 or logits.numel() != labels.numel():
        raise _unknown_loss(network, logits, labels)
    predicted, target = logits.float().flatten(1), labels.reshape(len(logits), -1).to(logits.device, torch.float32)
    if kind == "regression" or (kind is None and predicted.shape[1] == 1):
        return RowLosses((predicted - target).square().mean(1), index)
    return RowLosses(functional.binary_cross_entropy_with_logits(predicted, target, reduction="none").mean(1), index)


def with_predictions(losses: Tensor, outputs: Any, labels: Any, index: Tensor) -> RowLosses:
    """The losses of a user's function, with logits and labels where each row has one class."""
    logits = _logits(outputs)
    if logits is not None and isinstance(labels, Tensor) and _has_one_class(logits, labels):
        return RowLosses(losses, index, logits, labels.reshape(-1))
    return RowLosses(losses, index)


def shape_of(value: Any) -> Any:
    """The shape of a tensor, or the type of anything else, for error messages."""
    return tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__


def _token_losses(logits: Tensor, labels: Tensor, index: Tensor, smoothing: float) -> RowLosses:
    """The mean over the target tokens of each row; rows without any are left out, or their loss would be the least."""
    losses = functional.cross_entropy(
        logits.flatten(0, 1).float(),
        labels.flatten(),
        ignore_index=IGNORED,
        reduction="none",
        label_smoothing=smoothing,
    ).view_as(labels)
    n_targets = (labels != IGNORED).sum(1)
    has_target = n_targets > 0
    return RowLosses((losses.sum(1) / n_targets.clamp(min=1))[has_target], index[has_target])


def _logits(outputs: Any) -> Tensor | None:
    if isinstance(outputs, Mapping):
        outputs = outputs.get("logits")
    elif isinstance(outputs, tuple):
        outputs = outputs[0]
    return outputs if isinstance(outputs, Tensor) else None


def _has_one_class(logits: Tensor, labels: Tensor) -> bool:
    integers = not labels.is_floating_point() and labels.dtype != torch.bool
    return integers and logits.ndim == 2 and logits.shape[1] > 1 and labels.numel() == len(logits)


def _label_shift(network: Any) -> int | None:
    """By how many tokens labels are behind their logits: 1 for causal language models; None if unknown."""
    name = type(network).__name__
    if getattr(network.config, "is_encoder_decoder", False):
        return 0
    if name.endswith("ForCausalLM") or name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        return 1
    return 0 if name.endswith(("ForTokenClassification", "ForMaskedLM")) else None


def _unknown_loss(network: Any, logits: Any, labels: Any) -> ValueError:
    return ValueError(
        f"need a known loss per row, but {type(network).__name__} returns logits {shape_of(logits)} for labels "
        f"{shape_of(labels)}; pass row_losses=function(outputs, labels) that returns losses (batch,)"
    )
