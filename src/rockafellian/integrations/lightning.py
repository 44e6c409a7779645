"""RRM in Lightning: the module's `training_step` calls `weights.reduce`, the callback `Reweight` does the rest."""

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
    """Re-weights after each epoch, saves the weights in checkpoints, logs `rrm_removed_fraction` and `rrm_estimate`.

    `weights` are the object whose `reduce` the module calls in `training_step`.
    """

    def __init__(self, weights: SampleWeights) -> None:
        if not isinstance(weights, SampleWeights):
            raise ValueError(f"need the SampleWeights that the module reduces by, got {type(weights).__name__}")
        self.weights = weights
        self._reports = 0
        self._in_epoch = self._first = self._indexed = False

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuse what would only fail later: another number of rows, or weights among the hyper-parameters."""
        _check_hyper_parameters(pl_module)
        datasets = list(_datasets(trainer.train_dataloader))
        _check_length(datasets, len(self.weights))
        self._first, self._indexed = True, any(isinstance(dataset, Indexed) for dataset in datasets)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Look for row numbers in the first batch, before the module unpacks it."""
        if self._first and not self._indexed:
            _check_batch(batch, len(self.weights))
        self._reports = self.weights.reports

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Re-weight after the last batch: Lightning may write its checkpoint before it says that the epoch ended."""
        if self._first and self.weights.reports == self._reports:
            raise ValueError(
                "need training_step to call reduce of the weights that Reweight was given, got a batch without a call; "
                "end it with: return self.weights.reduce(losses, index, logits=logits, labels=y)"
            )
        self._first, self._in_epoch = False, True
        if trainer.is_last_batch:
            self._close_epoch()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Re-weight if the epoch was cut short, and log."""
        self._close_epoch()
        removed = self.weights.removed.float().mean()
        pl_module.log("rrm_removed_fraction", removed.to(pl_module.device), sync_dist=True)
        if self.weights.estimate is not None:
            pl_module.log("rrm_estimate", self.weights.estimate.rate, sync_dist=True)

    def on_validation_batch_start(self, *_: Any) -> None:
        """Note how often the weights were told of rows: those for validation must not reach them."""
        self._reports = self.weights.reports

    def on_validation_batch_end(self, *_: Any) -> None:
        """Refuse a `validation_step` that reduces by the weights."""
        self._check_untold("validation_step")

    def on_test_batch_start(self, *_: Any) -> None:
        """The same for `test_step`."""
        self._reports = self.weights.reports

    def on_test_batch_end(self, *_: Any) -> None:
        """Refuse a `test_step` that reduces by the weights."""
        self._check_untold("test_step")

    def state_dict(self) -> dict[str, Tensor]:
        """The state of the weights, as tensors only: a checkpoint can be loaded with weights_only=True."""
        self.weights.synchronize()  # Lightning asks every process
        return self.weights.state_dict()

    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        self.weights.load_state_dict(state_dict)

    def _close_epoch(self) -> None:
        if self._in_epoch:
            self.weights.step()
            self._in_epoch = False

    def _check_untold(self, step: str) -> None:
        if self.weights.reports != self._reports:
            raise ValueError(
                f"need training rows only, got a {step} that calls reduce: eval rows mixed into training; "
                "take losses.mean() there"
            )


def _check_hyper_parameters(module: LightningModule) -> None:
    names = [name for name, value in module.hparams.items() if isinstance(value, SampleWeights)]
    if names:
        raise ValueError(
            f"need hyper-parameters that a checkpoint can hold, got SampleWeights as {names[0]!r}; "
            f"call save_hyperparameters(ignore=[{names[0]!r}])"
        )


def _check_length(datasets: list[Any], n: int) -> None:
    """The rows are those of the dataset that is `Indexed`, else of any dataset on the way down to the rows."""
    indexed = [dataset for dataset in datasets if isinstance(dataset, Indexed)]
    lengths = [len(dataset) for dataset in indexed or datasets if hasattr(dataset, "__len__")]
    if lengths and n not in lengths:
        raise ValueError(
            f"need one weight for each row of the training set, got {n} weights and {lengths[0]} rows; "
            "make SampleWeights with the length of the dataset that Indexed wraps"
        )


def _check_batch(batch: Any, n: int) -> None:
    """Refuse a batch of tensors of which none can be row numbers. What else a batch is made of may hold them."""
    parts = list(_leaves(batch))
    if all(isinstance(part, Tensor) and not _are_numbers(part, n) for part in parts):
        shapes = ", ".join(str(tuple(part.shape)) for part in parts)
        raise ValueError(
            f"need the row numbers in each batch, got tensors {shapes} and none with a number below {n} for each row; "
            "make the loader with DataLoader(rk.Indexed(train), ...) and unpack x, y, index = batch"
        )


def _are_numbers(part: Tensor, n: int) -> bool:
    """Whether these can be numbers of rows: labels repeat, but so does a row that is drawn twice."""
    if part.ndim == 0 or part.numel() != len(part) or part.is_floating_point() or part.dtype == torch.bool:
        return False
    values = part.flatten().tolist()
    return 2 * len(set(values)) > len(values) and min(values) >= 0 and max(values) < n


def _datasets(loaders: Any) -> Iterator[Any]:
    """The dataset of each loader, the one that it wraps, and so on."""
    for inner in _leaves(loaders):
        while (inner := getattr(inner, "dataset", None)) is not None:
            yield inner


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, Mapping | list | tuple):
        for part in tree.values() if isinstance(tree, Mapping) else tree:
            yield from _leaves(part)
    else:
        yield tree
