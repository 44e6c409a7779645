"""RRM in Keras: `WeightedRows` gives `fit` each row's weight, the callback `Reweight` changes it after each epoch."""

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
#: The least probability that is told apart from 0.
LEAST = 1e-7
#: Rows in a batch that is only looked at: fewer cost Keras's time, and the memory is less than that of training.
LOOK = 256


class WeightedRows(keras.utils.PyDataset):
    """Batches (x, y, weight) for `fit`.

    `data` is a pair of arrays or tensors, of which x may be a dict or a list of several; rows are shuffled anew in each
    epoch, by `seed` and the epochs that `weights` counts. Or it is a PyDataset of batches (x, y) that come in the same
    order each time; `batch_size`, `shuffle` and `seed` are then its own affair.
    """

    def __init__(
        self, data: Any, weights: SampleWeights, *, batch_size: int = 32, shuffle: bool = True, seed: int = 0
    ) -> None:
        super().__init__()
        if not isinstance(weights, SampleWeights):
            raise ValueError(f"need SampleWeights with a weight for each row, got {type(weights).__name__}")
        self.weights = weights
        #: How many batches were asked for so far.
        self.reads = 0
        self._data = data if isinstance(data, keras.utils.PyDataset) else _read_arrays(data)
        self._batch_size, n = _sizes(data) if self._is_made else (batch_size, _length(self._data))
        self._shuffle, self._seed = shuffle, seed
        self._order: tuple[int, Index] = (-1, np.arange(n))
        if self._batch_size < 1:
            raise ValueError(f"need a batch_size >= 1, got {self._batch_size}")
        if n != len(weights):
            raise ValueError(
                f"need one weight for each row, got {len(weights)} weights and {n} rows; make SampleWeights({n}, ...)"
            )

    def __len__(self) -> int:
        return math.ceil(len(self.weights) / self._batch_size)

    def __getitem__(self, i: int) -> tuple[Any, Any, NDArray[np.float32]]:
        if not 0 <= i < len(self):  # ends a loop over the batches where PyDataset has no end of its own
            raise IndexError(f"need a batch from 0 to {len(self) - 1}, got {i}")
        self.reads += 1
        index, x, y = self._numbered(i)
        return x, y, self.weights.values.cpu().numpy()[index]

    def in_order(self) -> Iterator[tuple[Index, Any, Any]]:
        """All rows as they lie in the data, in batches for a look at them: their numbers, x and y."""
        if self._is_made:
            return map(self._numbered, range(len(self)))
        size = max(self._batch_size, min(4 * self._batch_size, LOOK))
        starts = range(0, len(self.weights), size)
        return (self._taken(np.arange(start, min(start + size, len(self.weights)))) for start in starts)

    @property
    def _is_made(self) -> bool:
        """Whether the batches are made by someone else."""
        return isinstance(self._data, keras.utils.PyDataset)

    def _rows_of_epoch(self) -> Index:
        epoch = self.weights.epoch
        if self._order[0] != epoch and self._shuffle and not self._is_made:
            random = torch.Generator().manual_seed(self._seed + epoch)
            self._order = (epoch, torch.randperm(len(self.weights), generator=random).numpy())
        return self._order[1]

    def _numbered(self, i: int) -> tuple[Index, Any, Any]:
        """Batch i of this epoch."""
        index = self._rows_of_epoch()[i * self._batch_size : (i + 1) * self._batch_size]
        if not self._is_made:
            return self._taken(index)
        x, y = _read_batch(self._data[i])
        if _length(x) != len(index):
            raise ValueError(
                f"need batches of {self._batch_size} rows, the last one of what is left, or rows have no number; "
                f"got {_length(x)} rows in batch {i}"
            )
        return index, x, y

    def _taken(self, index: Index) -> tuple[Index, Any, Any]:
        return index, *keras.tree.map_structure(lambda part: part[index], self._data)


class Reweight(keras.callbacks.Callback):
    """After each epoch: one more look at every row, then a re-weighting; `rrm_removed_fraction` goes to the logs.

    The loss of a row is that of `compile`, in evaluation mode.
    """

    def __init__(self, rows: WeightedRows) -> None:
        super().__init__()
        if not isinstance(rows, WeightedRows):
            raise ValueError(f"need the WeightedRows that fit is given, got {type(rows).__name__}")
        self.rows = rows
        self._reads, self._tested = 0, 0

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Refuse what would only show later."""
        _check_workers(self.rows)
        _loss_of(self.model)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """From here on batches are read."""
        self._reads = self.rows.reads

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Look at every row and re-weight."""
        if self.rows.reads == self._reads:
            raise ValueError("need fit(rows, ...) with the rows that Reweight was given, got an epoch without them")
        weights, loss = self.rows.weights, _loss_of(self.model)
        for index, x, y in self.rows.in_order():
            said, given = _as_array(self.model.predict_on_batch(x)), _as_array(y)
            logits, labels = _words(loss, given, said)
            weights.remember(_losses(loss, given, said), index, logits=logits, labels=labels)
        weights.step()
        if logs is not None:
            logs["rrm_removed_fraction"] = weights.removed_fraction

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Rows of the training are not for evaluation: their labels are in doubt and their weights differ."""
        self._tested = self.rows.reads

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        """Refuse the same rows as `validation_data`."""
        if self.rows.reads != self._tested:
            raise ValueError(
                "need other rows for evaluation, got the WeightedRows of the training: eval rows mixed into training; "
                "pass validation_data=(x, y)"
            )


def _check_workers(data: Any) -> None:
    if data.workers > 1 or data.use_multiprocessing:
        raise ValueError(
            f"need batches made in this process, got workers={data.workers} and use_multiprocessing="
            f"{data.use_multiprocessing}: they would go on with old weights; leave both at their defaults"
        )


def _read_arrays(data: Any) -> Any:
    """A pair (x, y) whose parts are arrays or tensors with as many rows each."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise ValueError(
            f"need data as a pair (x, y) or as a PyDataset, got {type(data).__name__}"
            + (f" of {len(data)}; own sample weights go to SampleWeights(prior=)" if isinstance(data, tuple) else "")
        )
    pair = keras.tree.map_structure(_to_numpy, tuple(data))
    shapes = [tuple(part.shape) for part in keras.tree.flatten(pair)]
    if len({shape[:1] for shape in shapes}) != 1 or () in shapes:
        raise ValueError(f"need arrays with as many rows each, got shapes {shapes[:5]}; lists of numbers are no arrays")
    return pair


def _read_batch(batch: Any) -> tuple[Any, Any]:
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        what = f"{len(batch)} parts" if isinstance(batch, tuple | list) else type(batch).__name__
        raise ValueError(f"need batches (x, y), got {what}; own sample weights go to SampleWeights(prior=)")
    return batch[0], batch[1]


def _sizes(data: Any) -> tuple[int, int]:
    """Rows in a batch and in all, by the first batch and the last."""
    _check_workers(data)
    size, last = (_length(_read_batch(data[i])[0]) for i in (0, len(data) - 1))
    return size, size * (len(data) - 1) + last


def _length(parts: Any) -> int:
    return len(keras.tree.flatten(parts)[0])


def _as_array(part: Any) -> NDArray[Any]:
    if keras.tree.is_nested(part):
        raise ValueError(f"need a model with one output and one label a row, got several: {type(part).__name__}")
    return _to_numpy(part)


def _to_numpy(part: Any) -> NDArray[Any]:
    return part.detach().cpu().numpy() if isinstance(part, Tensor) else np.asarray(part)


def _loss_of(model: Any) -> Any:
    """The loss that the model was compiled with: an object or a function."""
    loss = model.loss
    if keras.tree.is_nested(loss) or loss in (None, "crossentropy", "ce"):
        raise ValueError(f"need one loss, by its full name, got {loss!r}; such as 'sparse_categorical_crossentropy'")
    found = keras.losses.get(loss)
    if getattr(found, "reduction", "mean") == "mean_with_sample_weight":
        raise ValueError("need a mean over the batch, or a batch of removed rows counts; got mean_with_sample_weight")
    return found


def _losses(loss: Any, given: NDArray[Any], said: NDArray[Any]) -> Tensor:
    """One loss a row, before Keras takes their mean."""
    call: Callable[..., Any] = loss.call if isinstance(loss, keras.losses.Loss) else loss
    y_true = given[:, None] if given.ndim == 1 and said.shape[1:] == (1,) else given
    y_true, y_pred = (keras.ops.convert_to_tensor(part, dtype=keras.config.floatx()) for part in (y_true, said))
    values = torch.tensor(keras.ops.convert_to_numpy(call(y_true, y_pred)))
    if values.ndim == 0 or values.numel() != len(said):
        raise ValueError(
            f"need one loss for each of {len(said)} rows, got shape {tuple(values.shape)}; "
            "take the mean in the loss over axis=-1, and leave that over the batch to Keras"
        )
    return values.reshape(-1)


def _words(loss: Any, given: NDArray[Any], said: NDArray[Any]) -> tuple[Tensor, Tensor] | tuple[None, None]:
    """Logits and labels where each row has one class as its label; else nothing can be said."""
    kind = f"{type(loss).__name__} {getattr(loss, 'name', getattr(loss, '__name__', ''))}".lower()
    outputs = said.shape[1] if said.ndim == 2 else 0
    binary, probable = "binary" in kind, _are_probabilities(said)
    one_class = binary if outputs == 1 else outputs > 1 and (probable or not binary)
    labels = _labels(given, outputs) if one_class else None
    if labels is None:
        return None, None
    z = torch.tensor(said)
    if not getattr(loss, "from_logits", not probable):
        p = z.clamp(LEAST, 1 - LEAST)
        z = p.logit() if outputs == 1 else p.log()
    return z, torch.tensor(labels)


def _labels(given: NDArray[Any], outputs: int) -> NDArray[np.int64] | None:
    """The class of each row, from its number or from a one-hot row; None if there is none."""
    if given.ndim == 2 and given.shape[1] == outputs > 1:
        return given.argmax(1) if bool(((given == 0) | (given == 1)).all() and (given.sum(1) == 1).all()) else None
    flat = given.reshape(-1) if given.shape[1:] == (1,) else given
    if flat.ndim != 1 or not bool(((flat >= 0) & (flat < max(outputs, 2)) & (flat == np.floor(flat))).all()):
        return None
    return flat.astype(np.int64)


def _are_probabilities(said: NDArray[Any]) -> bool:
    within = bool(((said >= 0) & (said <= 1)).all())
    return within and (said.shape[1:] == (1,) or bool(np.allclose(said.sum(-1), 1, atol=1e-3)))
