"""RRM in Hugging Face's Trainer: use RRMTrainer in place of Trainer.

The dataset adds the index of each row, the collator carries it into the batch, `compute_loss` passes it to `reduce`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rockafellian._internal.extras import missing

try:
    from transformers import Trainer, TrainerCallback
    from transformers.trainer_utils import get_last_checkpoint
except ImportError as error:
    raise missing("transformers for rockafellian.integrations.huggingface", "huggingface") from error

from rockafellian.integrations.huggingface_losses import RowLosses, row_losses_of, shape_of, with_predictions
from rockafellian.training import checkpoints
from rockafellian.training.data import Indexed
from rockafellian.weights.sample_weights import SampleWeights

#: The key of the index in a row and in a batch; and the file of a checkpoint that holds the weights.
INDEX, FILE = "rrm_index", "rrm.safetensors"


class RRMTrainer(Trainer):
    """A Trainer whose loss is the weighted mean of one loss per row.

    Classes, several labels per row and regression have the model's own loss; language models and token classifiers
    have the mean over the tokens of a row. With gradient accumulation and several processes the mean is over all rows
    between two optimizer steps.

    Args:
        weights: the SampleWeights of train_dataset; with the rule RRM() by default.
        row_losses: a function (outputs, labels) that returns losses (batch,), for other heads.
    """

    def __init__(
        self,
        *args: Any,
        weights: SampleWeights | None = None,
        row_losses: Callable[[Any, Any], Tensor] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        _check_parts(self)
        self.row_losses = row_losses
        n_samples = len(Indexed(self.train_dataset, key=INDEX))
        self.weights = SampleWeights(n_samples) if weights is None else weights
        if len(self.weights) != n_samples:
            raise ValueError(
                f"need a weight for each of the {n_samples} rows of train_dataset, got {len(self.weights)}; "
                "pass SampleWeights(len(train_dataset), ...)"
            )
        self._initial_state = self.weights.state_dict()
        self.add_callback(Reweight(self.weights))

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """Train as Trainer does; the weights too are resumed from a checkpoint, and reset where `model_init` is."""
        if resume_from_checkpoint is True:
            resume_from_checkpoint = get_last_checkpoint(self.args.output_dir) or True  # type: ignore[no-untyped-call]
        if isinstance(resume_from_checkpoint, str | PathLike):
            self.weights.load_state_dict(_load_weights(Path(resume_from_checkpoint)))
        elif self.model_init is not None:
            self.weights.load_state_dict(self._initial_state)
        return super().train(resume_from_checkpoint, *args, **kwargs)

    def get_train_dataloader(self) -> Any:
        """Return Trainer's own loader, over rows with their index."""
        own = rows = self.train_dataset
        if hasattr(rows, "remove_columns"):  # Trainer does this only for a datasets.Dataset, which Indexed is not
            rows = self._remove_unused_columns(rows, description="training")
        self.train_dataset = Indexed(rows, key=INDEX)
        try:
            return super().get_train_dataloader()
        finally:
            self.train_dataset = own

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> tuple[list[Any], Any]:
        """Return the batches between two optimizer steps, and their number of rows over all processes."""
        batches, _ = super().get_batch_samples(*args, **kwargs)
        rows = sum(len(batch.get(INDEX, ())) for batch in batches)
        return batches, self.accelerator.gather(torch.tensor(rows, device=self.args.device)).sum()

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        """Run Trainer's own step; the flag keeps it from dividing the loss again by the accumulation steps."""
        own, self.model_accepts_loss_kwargs = self.model_accepts_loss_kwargs, True
        try:
            return super().training_step(*args, **kwargs)
        finally:
            self.model_accepts_loss_kwargs = own

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the weighted loss in training, which `weights` remember; Trainer's own loss in evaluation."""
        if not model.training:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        batch = dict(inputs)
        index = batch.pop(INDEX, None)
        if index is None:
            raise ValueError(
                f"need rows that are dicts with their index as {INDEX!r} in each training batch, got a batch without; "
                "keep RRMTrainer.get_train_dataloader, and let the dataset return dicts"
            )
        labels = self._pop_labels(batch)
        outputs = model(**batch)
        rows = self._row_losses(outputs, labels, index)
        total = rows.losses.sum()  # 0, with a gradient, for a batch without a single target
        if len(rows.index):
            reduced = self.weights.reduce(rows.losses, rows.index, logits=rows.logits, labels=rows.labels)
            total = reduced * len(rows.index)
        count = len(index) if num_items_in_batch is None else num_items_in_batch / self.accelerator.num_processes
        return (total / count, outputs) if return_outputs else total / count

    def _get_collator_with_removed_columns(self, *args: Any, **kwargs: Any) -> Any:
        return _IndexCollator(super()._get_collator_with_removed_columns(*args, **kwargs))

    @property
    def _network(self) -> Any:
        """The model without an adapter around it."""
        model: Any = self.model
        return model.get_base_model() if hasattr(model, "get_base_model") else model

    def _pop_labels(self, batch: dict[str, Any]) -> Any:
        """The labels, which only a decoder needs to see; a dict if they have several names."""
        has_decoder = getattr(getattr(self._network, "config", None), "is_encoder_decoder", False)
        names = [name for name in self.label_names or ["labels"] if name in batch]
        found = {name: batch[name] if has_decoder else batch.pop(name) for name in names}
        return found if len(found) > 1 else next(iter(found.values()), None)

    def _row_losses(self, outputs: Any, labels: Any, index: Tensor) -> RowLosses:
        if self.row_losses is None:
            rows = row_losses_of(self._network, outputs, labels, index, self.args.label_smoothing_factor)
        else:
            rows = with_predictions(self.row_losses(outputs, labels), outputs, labels, index)
        needs_logits = self.weights.held_out is not None or self.weights.per_class
        if needs_logits and rows.logits is None:
            raise ValueError(
                "need one class per row to estimate the noise rate or to re-weight per class, got labels "
                f"{shape_of(labels)}; pass weights=SampleWeights(len(train_dataset), RRM(contamination=0.1))"
            )
        return rows


class Reweight(TrainerCallback):
    """A callback that steps the weights after each epoch, before an evaluation or a checkpoint, and saves them.

    An epoch that `max_steps` or an early stop ends is not counted. RRMTrainer adds this callback itself.
    """

    def __init__(self, weights: SampleWeights) -> None:
        self.weights = weights
        self._stepped = False

    def on_epoch_begin(self, *args: Any, **kwargs: Any) -> None:
        """Expect a step at the end of this epoch."""
        self._stepped = False

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Re-weight after the last step of an epoch."""
        if state.epoch == int(state.epoch):
            self.weights.step()
            self._stepped = True

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Re-weight after an epoch that another callback ended early."""
        if not self._stepped and not control.should_training_stop:
            self.weights.step()

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write the weights into the checkpoint that Trainer has just written."""
        self.weights.synchronize()  # Trainer calls this in every process
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if args.should_save and folder.is_dir():  # a hyperparameter search keeps its checkpoints elsewhere
            checkpoints.save(folder / FILE, self.weights.state_dict())


@dataclass(frozen=True)
class _IndexCollator:
    """A collator that keeps the index from the inner one and adds it to the batch; rows without it are left alone."""

    collate: Callable[[Sequence[Any]], dict[str, Any]]

    def __call__(self, rows: Sequence[Any]) -> dict[str, Any]:
        if not all(isinstance(row, Mapping) and INDEX in row for row in rows):
            return self.collate(rows)
        batch = self.collate([{key: value for key, value in row.items() if key != INDEX} for row in rows])
        batch[INDEX] = torch.tensor([row[INDEX] for row in rows])
        return batch


def _load_weights(folder: Path) -> Mapping[str, Tensor]:
    path = folder / FILE
    if not path.is_file():
        raise ValueError(
            f"need the weights of the rows to resume, but there is no {path}; "
            "resume from a checkpoint that RRMTrainer wrote, or train from the start"
        )
    return checkpoints.load(path)


def _check_parts(trainer: Trainer) -> None:
    rows, evaluation = trainer.train_dataset, trainer.eval_dataset
    if rows is None:
        raise ValueError("need a train_dataset, got None; evaluate with transformers.Trainer")
    if any(rows is each for each in (evaluation.values() if isinstance(evaluation, dict) else [evaluation])):
        raise ValueError(
            "need an eval_dataset that is not trained on, got one dataset for both; split it, or leave eval_dataset out"
        )
    if trainer.compute_loss_func is not None:
        raise ValueError(
            "need one loss per row, but compute_loss_func returns one per batch; "
            "pass row_losses=function(outputs, labels) that returns losses (batch,)"
        )
