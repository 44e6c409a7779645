"""RRM in Keras: `WeightedRows` passes the weight of each row to `fit`, `Reweight` updates them after each epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.extras import missing
from rockafellian.weights.sample_weights import SampleWeights

try:
    import keras
except ImportError as error:
    raise missing("keras for rockafellian.integrations.keras", "keras") from error

Index = NDArray[np.int64]
#: Probabilities are clipped here before the logarithm.
MIN_PROBABILITY = 1e-7
#: Rows in a batch of the evaluation pass: small batches cost overhead, and without gradients memory is no concern.
EVAL_BATCH_SIZE = 256


class WeightedRows(keras.utils.PyDataset):
    """Batches (x, y, weight) for `fit`.

    Args:
        data: a pair (x, y) of arrays or tensors, of which x may be a dict or a list of several; or a PyDataset of
            batches (x, y) that come in the same order each time.
        weights: one weight per row.
        batch_size: rows in a batch, for arrays only.
        shuffle: whether rows are shuffled, for arrays only.
        seed: for arrays only. The order of an epoch depends on `seed` and `weights.epoch`.
    """

    def __init__(
        self, data: Any, weights: SampleWeights, *, batch_size: int = 32, shuffle: bool = True, seed: int = 0
    ) -> None:
        super().__init__()
        if not isinstance(weights, SampleWeights):
            raise ValueError(f"need SampleWeights, got {type(weights).__name__}")
        self.weights = weights
        #: How many batches were read so far.
        self.reads = 0
        self._data = data if isinstance(data, keras.utils.PyDataset) else _read_arrays(data)
        self._batch_size, n = _sizes(data) if self._has_batches else (batch_size, _length(self._data))
        self._shuffle, self._seed = shuffle, seed
        self._order: tuple[int, Index] = (-1, np.arange(n))
        if self._batch_size < 1:
            raise ValueError(f"need a batch_size >= 1, got {self._batch_size}")
        if n != len(weights):
            raise ValueError(
                f"need one weight per row, got {len(weights)} weights and {n} rows; pass SampleWeights({n}, ...)"
            )

    def __len__(self) -> int:
        return math.ceil(len(self.weights) / self._batch_size)

    def __getitem__(self, i: int) -> tuple[Any, Any, NDArray[np.float32]]:
        if not 0 <= i < len(self):  # ends a loop over the batches
            raise IndexError(f"need a batch from 0 to {len(self) - 1}, got {i}")
        self.reads += 1
        index, x, y = self._batch(i)
        return x, y, self.weights.values.cpu().numpy()[index]

    def in_order(self) -> Iterator[tuple[Index, Any, Any]]:
        """Yield all rows in the order of the data, in batches (index, x, y)."""
        if self._has_batches:
            return map(self._batch, range(len(self)))
        size = max(self._batch_size, min(4 * self._batch_size, EVAL_BATCH_SIZE))
        starts = range(0, len(self.weights), size)
        return (self._take(np.arange(start, min(start + size, len(self.weights)))) for start in starts)

    @property
    def _has_batches(self) -> bool:
        """Whether the data come as batches."""
        return isinstance(self._data, keras.utils.PyDataset)

    def _order_of_epoch(self) -> Index:
        epoch = self.weights.epoch
        if self._order[0] != epoch and self._shuffle and not self._has_batches:
            random = torch.Generator().manual_seed(self._seed + epoch)
            self._order = (epoch, torch.randperm(len(self.weights), generator=random).numpy())
        return self._order[1]

    def _batch(self, i: int) -> tuple[Index, Any, Any]:
        """Batch i of this epoch, with the index of its rows."""
        index = self._order_of_epoch()[i * self._batch_size : (i + 1) * self._batch_size]
        if not self._has_batches:
            return self._take(index)
        x, y = _read_batch(self._data[i])
        if _length(x) != len(index):
            raise ValueError(
                f"need batches of {self._batch_size} rows, only the last one smaller, to know the index of a row; "
                f"got {_length(x)} rows in batch {i}"
            )
        return index, x, y

    def _take(self, index: Index) -> tuple[Index, Any, Any]:
        return index, *keras.tree.map_structure(lambda part: part[index], self._data)


class Reweight(keras.callbacks.Callback):
    """A callback that evaluates every row after each epoch and re-weights; it logs `rrm_removed_fraction`.

    The loss of a row is the loss of `compile`, in evaluation mode.

    Args:
        rows: the WeightedRows that are passed to `fit`.
    """

    def __init__(self, rows: WeightedRows) -> None:
        super().__init__()
        if not isinstance(rows, WeightedRows):
            raise ValueError(f"need the WeightedRows that are passed to fit, got {type(rows).__name__}")
        self.rows = rows
        self._reads, self._tested = 0, 0

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Check workers and loss before training starts."""
        _check_workers(self.rows)
        _loss_of(self.model)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Count the batches read so far."""
        self._reads = self.rows.reads

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Evaluate every row and re-weight."""
        if self.rows.reads == self._reads:
            raise ValueError("need fit(rows, ...) with the rows passed to Reweight, got an epoch without them")
        weights, loss = self.rows.weights, _loss_of(self.model)
        for index, x, y in self.rows.in_order():
            y_pred, y_true = _as_array(self.model.predict_on_batch(x)), _as_array(y)
            logits, labels = _logits_and_labels(loss, y_true, y_pred)
            weights.remember(_losses(loss, y_true, y_pred), index, logits=logits, labels=labels)
        weights.step()
        if logs is not None:
            logs["rrm_removed_fraction"] = weights.removed_fraction

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Count the batches read so far: an evaluation must not read training rows, whose labels may be wrong."""
        self._tested = self.rows.reads

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        """Refuse the same rows as `validation_data`."""
        if self.rows.reads != self._tested:
            raise ValueError(
                "need validation rows that are not trained on, got the WeightedRows of the training; "
                "pass validation_data=(x, y)"
            )


def _check_workers(data: Any) -> None:
    if data.workers > 1 or data.use_multiprocessing:
        raise ValueError(
            f"need batches made in this process, or their weights are out of date; got workers={data.workers} and "
            f"use_multiprocessing={data.use_multiprocessing}; leave both at their defaults"
        )


def _read_arrays(data: Any) -> Any:
    """A pair (x, y) of arrays with the same number of rows."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise ValueError(
            f"need data as a pair (x, y) or as a PyDataset, got {type(data).__name__}"
            + (f" of {len(data)}; pass sample weights as SampleWeights(prior=...)" if isinstance(data, tuple) else "")
        )
    pair = keras.tree.map_structure(_to_numpy, tuple(data))
    shapes = [tuple(part.shape) for part in keras.tree.flatten(pair)]
    if len({shape[:1] for shape in shapes}) != 1 or () in shapes:
        raise ValueError(f"need arrays with the same number of rows, got shapes {shapes[:5]}; convert lists to arrays")
    return pair


def _read_batch(batch: Any) -> tuple[Any, Any]:
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        what = f"{len(batch)} parts" if isinstance(batch, tuple | list) else type(batch).__name__
        raise ValueError(f"need batches (x, y), got {what}; pass sample weights as SampleWeights(prior=...)")
    return batch[0], batch[1]


def _sizes(data: Any) -> tuple[int, int]:
    """Rows in a batch and in all batches, from the first batch and the last."""
    _check_workers(data)
    size, last = (_length(_read_batch(data[i])[0]) for i in (0, len(data) - 1))
    return size, size * (len(data) - 1) + last


def _length(parts: Any) -> int:
    return len(keras.tree.flatten(parts)[0])


def _as_array(part: Any) -> NDArray[Any]:
    if keras.tree.is_nested(part):
        raise ValueError(f"need a model with one output and one label per row, got several: {type(part).__name__}")
    return _to_numpy(part)


def _to_numpy(part: Any) -> NDArray[Any]:
    return part.detach().cpu().numpy() if isinstance(part, Tensor) else np.asarray(part)


def _loss_of(model: Any) -> Any:
    """The loss of `compile`, an object or a function."""
    loss = model.loss
    if keras.tree.is_nested(loss) or loss in (None, "crossentropy", "ce"):
        raise ValueError(
            f"need one loss by its full name, got {loss!r}; use for example 'sparse_categorical_crossentropy'"
        )
    found = keras.losses.get(loss)
    if getattr(found, "reduction", "mean") == "mean_with_sample_weight":
        raise ValueError(
            "need the mean over the batch size, got reduction='mean_with_sample_weight'; use 'sum_over_batch_size'"
        )
    return found


def _losses(loss: Any, y_true: NDArray[Any], y_pred: NDArray[Any]) -> Tensor:
    """One loss per row, before Keras takes their mean."""
    call: Callable[..., Any] = loss.call if isinstance(loss, keras.losses.Loss) else loss
    y_true = y_true[:, None] if y_true.ndim == 1 and y_pred.shape[1:] == (1,) else y_true
    tensors = (keras.ops.convert_to_tensor(part, dtype=keras.config.floatx()) for part in (y_true, y_pred))
    values = torch.tensor(keras.ops.convert_to_numpy(call(*tensors)))
    if values.ndim == 0 or values.numel() != len(y_pred):
        raise ValueError(
            f"need one loss for each of {len(y_pred)} rows, got shape {tuple(values.shape)}; "
            "average over axis=-1 in the loss, and leave the mean over the batch to Keras"
        )
    return values.reshape(-1)


def _logits_and_labels(
    loss: Any, y_true: NDArray[Any], y_pred: NDArray[Any]
) -> tuple[Tensor, Tensor] | tuple[None, None]:
    """Logits and labels if each row has one class as its label, else None and None."""
    kind = f"{type(loss).__name__} {getattr(loss, 'name', getattr(loss, '__name__', ''))}".lower()
    n_outputs = y_pred.shape[1] if y_pred.ndim == 2 else 0
    binary, probabilities = "binary" in kind, _are_probabilities(y_pred)
    one_class = binary if n_outputs == 1 else n_outputs > 1 and (probabilities or not binary)
    labels = _labels(y_true, n_outputs) if one_class else None
    if labels is None:
        return None, None
    logits = torch.tensor(y_pred)
    if not getattr(loss, "from_logits", not probabilities):
        p = logits.clamp(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
        logits = p.logit() if n_outputs == 1 else p.log()
    return logits, torch.tensor(labels)


def _labels(y_true: NDArray[Any], n_outputs: int) -> NDArray[np.int64] | None:
    """The class of each row, from integers or from one-hot rows; None if the labels are neither."""
    if y_true.ndim == 2 and y_true.shape[1] == n_outputs > 1:
        one_hot = bool(((y_true == 0) | (y_true == 1)).all() and (y_true.sum(1) == 1).all())
        return y_true.argmax(1) if one_hot else None
    flat = y_true.reshape(-1) if y_true.shape[1:] == (1,) else y_true
    if flat.ndim != 1 or not bool(((flat >= 0) & (flat < max(n_outputs, 2)) & (flat == np.floor(flat))).all()):
        return None
    return flat.astype(np.int64)


def _are_probabilities(y_pred: NDArray[Any]) -> bool:
    within = bool(((y_pred >= 0) & (y_pred <= 1)).all())
    return within and (y_pred.shape[1:] == (1,) or bool(np.allclose(y_pred.sum(-1), 1, atol=1e-3)))
