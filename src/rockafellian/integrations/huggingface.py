"""RRM in Hugging Face's Trainer: write RRMTrainer where Trainer stands, and nothing else changes.

A row carries its number from the dataset through the collator to the loss, where its weight finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from rockafellian._internal.extras import missing

try:
    from transformers import Trainer, TrainerCallback
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    from transformers.trainer_utils import get_last_checkpoint
except ImportError as error:
    raise missing("transformers for rockafellian.integrations.huggingface", "huggingface") from error

from rockafellian.method.reweight import RRM
from rockafellian.training import checkpoints
from rockafellian.training.data import Indexed
from rockafellian.weights.sample_weights import SampleWeights

#: The entry of a row, and of a batch, that holds the row's number; and the file of a checkpoint that holds the weights.
INDEX, FILE = "rrm_index", "rrm.safetensors"
IGNORED = -100  # the label of a token that is no target


class RRMTrainer(Trainer):
    """A Trainer whose loss is the weighted mean of one loss a row; `weights` are RRM() over train_dataset if not given.

    Classes, several labels a row and regression have the model's own loss; language models and other taggers of tokens
    have the mean over the tokens of a row. For other heads `row_losses(outputs, labels)` returns the losses (batch,).
    With gradient accumulation and several processes the mean is over all rows between two steps of the optimiser.
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
        self.weights = SampleWeights(n_samples, RRM()) if weights is None else weights
        if len(self.weights) != n_samples:
            raise ValueError(
                f"need a weight for each of the {n_samples} rows of train_dataset, got {len(self.weights)}; "
                "pass SampleWeights(len(train_dataset), ...)"
            )
        self._fresh = self.weights.state_dict()
        self.add_callback(Reweight(self.weights))

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """As Trainer does it; the weights go on from a checkpoint too, and start anew where `model_init` does."""
        if resume_from_checkpoint is True:
            resume_from_checkpoint = get_last_checkpoint(self.args.output_dir) or True  # type: ignore[no-untyped-call]
        if isinstance(resume_from_checkpoint, str | PathLike):
            self.weights.load_state_dict(_saved(Path(resume_from_checkpoint)))
        elif self.model_init is not None:
            self.weights.load_state_dict(self._fresh)
        return super().train(resume_from_checkpoint, *args, **kwargs)

    def get_train_dataloader(self) -> Any:
        """Trainer's own, over rows that carry their number."""
        own = rows = self.train_dataset
        if hasattr(rows, "remove_columns"):  # as Trainer does with a datasets.Dataset, which it will no longer see
            rows = self._remove_unused_columns(rows, description="training")
        self.train_dataset = Indexed(rows, key=INDEX)
        try:
            return super().get_train_dataloader()
        finally:
            self.train_dataset = own

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> tuple[list[Any], Any]:
        """The batches between two steps of the optimiser, and how many rows they have in all processes."""
        batches, _ = super().get_batch_samples(*args, **kwargs)
        rows = sum(len(batch.get(INDEX, ())) for batch in batches)
        return batches, self.accelerator.gather(torch.tensor(rows, device=self.args.device)).sum()

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        """Trainer's own, which is to take the loss as it is: only evaluation divides as the model would have it."""
        own, self.model_accepts_loss_kwargs = self.model_accepts_loss_kwargs, True
        try:
            return super().training_step(*args, **kwargs)
        finally:
            self.model_accepts_loss_kwargs = own

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """In training the weighted loss, of which `weights` take note; in evaluation Trainer's own."""
        if not model.training:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        batch = dict(inputs)
        index = batch.pop(INDEX, None)
        if index is None:
            raise ValueError(
                f"need rows that are dicts and carry their number as {INDEX!r} into each training batch, got a batch "
                "without; leave get_train_dataloader as it is, and let the dataset return dicts"
            )
        labels = self._take_labels(batch)
        outputs = model(**batch)
        rows = self._rows(outputs, labels, index)
        # A batch without a single target teaches nothing, but its gradient is still asked for.
        total = rows.losses.sum()
        if len(rows.numbers):
            reduced = self.weights.reduce(rows.losses, rows.numbers, logits=rows.logits, labels=rows.labels)
            total = reduced * len(rows.numbers)
        count = len(index) if num_items_in_batch is None else num_items_in_batch / self.accelerator.num_processes
        return (total / count, outputs) if return_outputs else total / count

    def _get_collator_with_removed_columns(self, *args: Any, **kwargs: Any) -> Any:
        return _Numbered(super()._get_collator_with_removed_columns(*args, **kwargs))

    @property
    def _network(self) -> Any:
        """The model without an adapter around it."""
        model: Any = self.model
        return model.get_base_model() if hasattr(model, "get_base_model") else model

    def _take_labels(self, batch: dict[str, Any]) -> Any:
        """The labels, which a model would make a loss of but need not see; a dict if they have several names."""
        decoder_reads_them = getattr(getattr(self._network, "config", None), "is_encoder_decoder", False)
        names = [name for name in self.label_names or ["labels"] if name in batch]
        found = {name: batch[name] if decoder_reads_them else batch.pop(name) for name in names}
        return found if len(found) > 1 else next(iter(found.values()), None)

    def _rows(self, outputs: Any, labels: Any, index: Tensor) -> _Rows:
        if self.row_losses is None:
            rows = _own_rows(self._network, outputs, labels, index, self.args.label_smoothing_factor)
        else:
            rows = _given_rows(self.row_losses(outputs, labels), outputs, labels, index)
        asks = self.weights.held_out is not None or self.weights.per_class
        if asks and rows.logits is None:
            raise ValueError(
                "need one class a row to find the share of wrong labels or to weigh each class, got labels "
                f"{_shape(labels)}; pass weights=SampleWeights(len(train_dataset), RRM(contamination=0.1))"
            )
        return rows


class Reweight(TrainerCallback):
    """Steps the weights with the last step of each epoch, before a checkpoint or an evaluation, and saves them too.

    An epoch that `max_steps` or an early stop ends is no epoch. RRMTrainer adds this itself.
    """

    def __init__(self, weights: SampleWeights) -> None:
        self.weights = weights
        self._stepped = False

    def on_epoch_begin(self, *args: Any, **kwargs: Any) -> None:
        """Another epoch, not stepped after yet."""
        self._stepped = False

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The whole epoch was seen: re-weight."""
        if state.epoch == int(state.epoch):
            self.weights.step()
            self._stepped = True

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The same for an epoch that somebody's callback cut short."""
        if not self._stepped and not control.should_training_stop:
            self.weights.step()

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The weights into the checkpoint that Trainer has just written."""
        self.weights.synchronize()  # Trainer tells every process
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if args.should_save and folder.is_dir():  # a search over settings keeps its checkpoints elsewhere
            checkpoints.save(folder / FILE, self.weights.state_dict())


class _Rows(NamedTuple):
    """What `reduce` is told: the losses, the rows' numbers, and logits and labels where a row has one class."""

    losses: Tensor
    numbers: Tensor
    logits: Tensor | None = None
    labels: Tensor | None = None


@dataclass(frozen=True)
class _Numbered:
    """A collator that does not see the number of a row; batches have it again. Rows without one are left alone."""

    collate: Callable[[Sequence[Any]], dict[str, Any]]

    def __call__(self, rows: Sequence[Any]) -> dict[str, Any]:
        if not all(isinstance(row, Mapping) and INDEX in row for row in rows):
            return self.collate(rows)
        batch = self.collate([{key: value for key, value in row.items() if key != INDEX} for row in rows])
        batch[INDEX] = torch.tensor([row[INDEX] for row in rows])
        return batch


def _own_rows(network: Any, outputs: Any, labels: Any, index: Tensor, smoothing: float) -> _Rows:
    """The losses that the model would average, by the shapes of what it says and of the labels."""
    logits = _logits(outputs)
    if logits is None or not isinstance(labels, Tensor):
        raise _unknown(network, logits, labels)
    one_class = _has_one_class(logits, labels)
    kind = getattr(getattr(network, "config", None), "problem_type", None)
    if one_class and kind in (None, "single_label_classification"):
        labels = labels.reshape(-1)
        losses = functional.cross_entropy(logits.float(), labels, reduction="none", label_smoothing=smoothing)
        return _Rows(losses, index, logits, labels)
    if logits.ndim == 3 and labels.shape == logits.shape[:2]:
        if (shift := _shift(network)) is None:
            raise _unknown(network, logits, labels)
        return _token_rows(logits[:, : logits.shape[1] - shift], labels[:, shift:], index, smoothing)
    if logits.ndim > 2 or logits.numel() != labels.numel():
        raise _unknown(network, logits, labels)
    said, given = logits.float().flatten(1), labels.reshape(len(logits), -1).to(logits.device, torch.float32)
    if kind == "regression" or (kind is None and said.shape[1] == 1):
        return _Rows((said - given).square().mean(1), index)
    return _Rows(functional.binary_cross_entropy_with_logits(said, given, reduction="none").mean(1), index)


def _given_rows(losses: Tensor, outputs: Any, labels: Any, index: Tensor) -> _Rows:
    """The losses of a user's function; what the network says goes with them where it can be read."""
    logits = _logits(outputs)
    if logits is not None and isinstance(labels, Tensor) and _has_one_class(logits, labels):
        return _Rows(losses, index, logits, labels.reshape(-1))
    return _Rows(losses, index)


def _token_rows(logits: Tensor, labels: Tensor, index: Tensor, smoothing: float) -> _Rows:
    """The mean over the targets of each row. Rows without any are left out: a loss of 0 would pass for the best."""
    losses = functional.cross_entropy(
        logits.flatten(0, 1).float(),
        labels.flatten(),
        ignore_index=IGNORED,
        reduction="none",
        label_smoothing=smoothing,
    ).view_as(labels)
    targets = (labels != IGNORED).sum(1)
    seen = targets > 0
    return _Rows((losses.sum(1) / targets.clamp(min=1))[seen], index[seen])


def _logits(outputs: Any) -> Tensor | None:
    if isinstance(outputs, Mapping):
        outputs = outputs.get("logits")
    elif isinstance(outputs, tuple):
        outputs = outputs[0]
    return outputs if isinstance(outputs, Tensor) else None


def _has_one_class(logits: Tensor, labels: Tensor) -> bool:
    whole = not labels.is_floating_point() and labels.dtype != torch.bool
    return whole and logits.ndim == 2 and logits.shape[1] > 1 and labels.numel() == len(logits)


def _shift(network: Any) -> int | None:
    """By how many tokens labels lie behind what the network says of them; None if that is not known."""
    name = type(network).__name__
    if getattr(network.config, "is_encoder_decoder", False):
        return 0
    if name.endswith("ForCausalLM") or name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        return 1
    return 0 if name.endswith(("ForTokenClassification", "ForMaskedLM")) else None


def _saved(folder: Path) -> Mapping[str, Tensor]:
    path = folder / FILE
    if not path.is_file():
        raise ValueError(
            f"need the weights of the rows to go on, but there is no {path}; "
            "resume from a checkpoint that RRMTrainer wrote, or start anew"
        )
    return checkpoints.load(path)


def _check_parts(trainer: Trainer) -> None:
    rows, evaluation = trainer.train_dataset, trainer.eval_dataset
    if rows is None:
        raise ValueError("need a train_dataset to weigh the rows of, got None; evaluate with transformers.Trainer")
    if any(rows is each for each in (evaluation.values() if isinstance(evaluation, dict) else [evaluation])):
        raise ValueError(
            "need other rows to evaluate on than to train on, got one dataset for both; split it, or leave "
            "eval_dataset out"
        )
    if trainer.compute_loss_func is not None:
        raise ValueError(
            "need one loss a row, but compute_loss_func returns one for a whole batch; "
            "pass row_losses=function(outputs, labels) that returns losses (batch,)"
        )


def _unknown(network: Any, logits: Any, labels: Any) -> ValueError:
    return ValueError(
        f"need to know one loss a row, but {type(network).__name__} gives logits {_shape(logits)} for labels "
        f"{_shape(labels)}; pass row_losses=function(outputs, labels) that returns losses (batch,)"
    )


def _shape(value: Any) -> Any:
    return tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
