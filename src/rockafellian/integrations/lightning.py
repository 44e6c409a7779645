"""RRM in Lightning: `training_step` calls `weights.reduce`, the callback `Reweight` re-weights, saves and logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from rockafellian._internal.extras import missing
from rockafellian.training.data import Indexed
from rockafellian.weights.sample_weights import SampleWeights

try:
    from lightning import Callback, LightningModule, Trainer
except ImportError as error:
    raise missing("lightning for rockafellian.integrations.lightning", "lightning") from error


class Reweight(Callback):
    """A callback that re-weights after each epoch, saves the weights in checkpoints, and logs.

    It logs `rrm_removed_fraction`, and `rrm_noise_rate_floor` and `rrm_noise_rate_ceiling` once these are estimated.

    Args:
        weights: the SampleWeights whose `reduce` the module calls in `training_step`.
    """

    def __init__(self, weights: SampleWeights) -> None:
        if not isinstance(weights, SampleWeights):
            raise ValueError(f"need the SampleWeights whose reduce training_step calls, got {type(weights).__name__}")
        self.weights = weights
        self._n_calls = 0
        self._in_epoch = self._first = self._indexed = False

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Check the number of rows, and that no weights are among the hyperparameters: both would fail later."""
        _check_hyperparameters(pl_module)
        datasets = list(_datasets(trainer.train_dataloader))
        _check_length(datasets, len(self.weights))
        self._first, self._indexed = True, any(isinstance(dataset, Indexed) for dataset in datasets)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Check that the first batch has an index, before the module unpacks it."""
        if self._first and not self._indexed:
            _check_batch(batch, len(self.weights))
        self._n_calls = self.weights.reports

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Re-weight after the last batch: Lightning may write a checkpoint before `on_train_epoch_end`."""
        if self._first and self.weights.reports == self._n_calls:
            raise ValueError(
                "need training_step to call reduce of the weights passed to Reweight, got a batch without such a call; "
                "end it with: return self.weights.reduce(losses, index, logits=logits, labels=y)"
            )
        self._first, self._in_epoch = False, True
        if trainer.is_last_batch:
            self._close_epoch()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Re-weight if the epoch ended early, and log."""
        self._close_epoch()
        pl_module.log("rrm_removed_fraction", self.weights.removed_fraction, sync_dist=True)
        if (estimate := self.weights.estimate) is not None:
            pl_module.log("rrm_noise_rate_floor", estimate.floor.rate, sync_dist=True)
            pl_module.log("rrm_noise_rate_ceiling", estimate.ceiling.rate, sync_dist=True)

    def on_validation_batch_start(self, *_: Any) -> None:
        """Count the calls of `reduce` so far: validation rows must not reach the weights."""
        self._n_calls = self.weights.reports

    def on_validation_batch_end(self, *_: Any) -> None:
        """Refuse a `validation_step` that calls `reduce`."""
        self._check_not_called("validation_step")

    def on_test_batch_start(self, *_: Any) -> None:
        """Count the calls of `reduce` so far: test rows must not reach the weights."""
        self._n_calls = self.weights.reports

    def on_test_batch_end(self, *_: Any) -> None:
        """Refuse a `test_step` that calls `reduce`."""
        self._check_not_called("test_step")

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state of the weights, tensors only, so that a checkpoint loads with weights_only=True."""
        self.weights.synchronize()  # Lightning calls this in every process
        return self.weights.state_dict()

    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """Load the state of the weights from a checkpoint."""
        self.weights.load_state_dict(state_dict)

    def _close_epoch(self) -> None:
        if self._in_epoch:
            self.weights.step()
            self._in_epoch = False

    def _check_not_called(self, step: str) -> None:
        if self.weights.reports != self._n_calls:
            raise ValueError(
                f"need reduce to see training rows only, got a {step} that calls it; use losses.mean() there"
            )


def _check_hyperparameters(module: LightningModule) -> None:
    names = [name for name, value in module.hparams.items() if isinstance(value, SampleWeights)]
    if names:
        raise ValueError(
            f"need hyperparameters that a checkpoint can hold, got SampleWeights as {names[0]!r}; "
            f"call save_hyperparameters(ignore=[{names[0]!r}])"
        )


def _check_length(datasets: list[Any], n: int) -> None:
    """Raise an error unless the `Indexed` dataset, or without one any dataset of the loader, has n rows."""
    indexed = [dataset for dataset in datasets if isinstance(dataset, Indexed)]
    lengths = [len(dataset) for dataset in indexed or datasets if hasattr(dataset, "__len__")]
    if lengths and n not in lengths:
        raise ValueError(
            f"need one weight for each row of the training set, got {n} weights and {lengths[0]} rows; "
            "make SampleWeights with the length of the dataset that Indexed wraps"
        )


def _check_batch(batch: Any, n: int) -> None:
    """Raise an error for a batch of tensors none of which can be an index; other objects may hold one."""
    parts = list(_leaves(batch))
    if all(isinstance(part, Tensor) and not _can_be_index(part, n) for part in parts):
        shapes = ", ".join(str(tuple(part.shape)) for part in parts)
        raise ValueError(
            f"need the index of each row in a batch, got tensors {shapes}, none with an integer below {n} per row; "
            "make the loader with DataLoader(rk.Indexed(train), ...) and unpack x, y, index = batch"
        )


def _can_be_index(part: Tensor, n: int) -> bool:
    """Whether these can be indices of rows: few repeat, while labels repeat often."""
    if part.ndim == 0 or part.numel() != len(part) or part.is_floating_point() or part.dtype == torch.bool:
        return False
    values = part.flatten().tolist()
    return 2 * len(set(values)) > len(values) and min(values) >= 0 and max(values) < n


def _datasets(loaders: Any) -> Iterator[Any]:
    """The dataset of each loader, the dataset that it wraps, and so on."""
    for inner in _leaves(loaders):
        while (inner := getattr(inner, "dataset", None)) is not None:
            yield inner


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, Mapping | list | tuple):
        for part in tree.values() if isinstance(tree, Mapping) else tree:
            yield from _leaves(part)
    else:
        yield tree
