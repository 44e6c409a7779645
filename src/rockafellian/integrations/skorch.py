"""RRMNetClassifier: skorch's classifier with RRM in its training loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, Self

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Subset

from rockafellian._internal.extras import missing

try:
    from skorch import NeuralNetClassifier
except ImportError as error:
    raise missing("skorch for rockafellian.integrations.skorch", "skorch") from error

from rockafellian.label_issues import Findings, findings
from rockafellian.method.reweight import RRM, Spread
from rockafellian.training.data import Indexed
from rockafellian.weights.sample_weights import SampleWeights


class RRMNetClassifier(NeuralNetClassifier):
    """A NeuralNetClassifier that re-weights its rows after every epoch and removes the mislabeled ones.

    Args:
        contamination: the noise rate; "auto" estimates it from held-out rows during the first epochs.
        crisp: with "auto", whether every row has one right answer, as in `RRM`.
        gamma: as in `RRM`.
        mu: as in `RRM`.
        spread: as in `RRM`.
        per_class: whether each class keeps its total weight.
        train_split: as in skorch, but None by default. Validation rows are scored without weights and never removed.

    All else is skorch's. `fit` starts with new weights; `partial_fit` and `warm_start` resume, for the same rows.
    """

    sample_weights_: SampleWeights | None

    def __init__(
        self,
        module: Any,
        *args: Any,
        contamination: float | Literal["auto"] = "auto",
        crisp: bool = False,
        gamma: float | None = None,
        mu: float | None = None,
        spread: Spread = "kept",
        per_class: bool = False,
        train_split: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(module, *args, train_split=train_split, **kwargs)
        self.contamination = contamination
        self.crisp = crisp
        self.gamma = gamma
        self.mu = mu
        self.spread = spread
        self.per_class = per_class

    @property
    def weights_(self) -> NDArray[Any]:
        """One weight per row of X: 1 is nominal, 0 is removed."""
        return self._weights.values.numpy().copy()

    @property
    def removed_(self) -> NDArray[Any]:
        """The mask of the rows of X that are removed."""
        return self._weights.removed.numpy()

    def findings(self, *, ids: Sequence[str] | Sequence[int] | None = None) -> Findings:
        """Return the table of the rows of X, in their order; see `rockafellian.findings`.

        Args:
            ids: one id for each row of X; its position by default.
        """
        return findings(self._weights, ids=ids, names=[str(label) for label in self.classes_])

    def initialize(self) -> Self:
        """Initialize the net, and forget the weights."""
        self.sample_weights_ = None
        super().initialize()
        return self

    def initialize_criterion(self) -> Self:
        """Make the criterion, with reduction="none" if it has a reduction."""
        super().initialize_criterion()
        if hasattr(self.criterion_, "reduction"):
            self.criterion_.reduction = "none"
        return self

    def get_split_datasets(self, X: Any, y: Any = None, **fit_params: Any) -> tuple[Any, Any]:  # noqa: N803
        """Return the training rows, with their index in X, and the validation rows, without."""
        rows = self.get_dataset(X, y)
        self._make_weights(len(rows))
        train, valid = super().get_split_datasets(rows, y, **fit_params)
        if train is rows:
            return Indexed(rows), valid
        if not isinstance(train, Subset) or train.dataset is not rows:
            raise ValueError(
                f"need a train_split that returns a Subset of the data, or all of it; got {type(train).__name__}; "
                "use train_split=None, ValidSplit or predefined_split"
            )
        return Subset(Indexed(rows), train.indices), valid

    def run_single_epoch(self, iterator: Any, training: bool, prefix: str, step_fn: Any, **fit_params: Any) -> None:
        """Run one pass; callbacks see batches without the index."""
        batches = self._without_index(iterator) if training else iterator
        super().run_single_epoch(batches, training, prefix, step_fn, **fit_params)

    def get_loss(self, y_pred: Any, y_true: Tensor, X: Any = None, training: bool = False) -> Tensor:  # noqa: N803
        """Return the weighted mean loss of a training batch, which the weights remember; the mean loss of others."""
        losses: Tensor = super().get_loss(y_pred, y_true, X=X, training=training)
        if losses.ndim != 1:
            raise ValueError(
                f"need one loss per row, got shape {tuple(losses.shape)}; "
                "use a criterion that has a reduction, or build it with reduction='none'"
            )
        if not training:
            return losses.mean()
        logits = y_pred[0] if isinstance(y_pred, tuple) else y_pred
        if isinstance(self.criterion_, torch.nn.NLLLoss):  # skorch takes this logarithm of probabilities
            logits = torch.log(logits + torch.finfo(logits.dtype).eps)
        return self._weights.reduce(losses, self.index_, logits=logits, labels=y_true)

    def on_epoch_end(self, net: Any, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any) -> None:
        """Re-weight the rows."""
        super().on_epoch_end(net, dataset_train=dataset_train, dataset_valid=dataset_valid, **kwargs)
        self._weights.step()

    @property
    def _weights(self) -> SampleWeights:
        weights: SampleWeights | None = getattr(self, "sample_weights_", None)
        if weights is None:
            raise AttributeError("need a fitted net, got one that is not; call fit")
        return weights

    def _make_weights(self, n: int) -> None:
        """Make the weights of n rows, or check that the ones to resume with have as many."""
        if self.sample_weights_ is None:
            contamination = None if self.gamma is not None and self.contamination == "auto" else self.contamination
            rule = RRM(gamma=self.gamma, contamination=contamination, mu=self.mu, spread=self.spread, crisp=self.crisp)
            self.sample_weights_ = SampleWeights(n, rule, per_class=self.per_class)
        elif len(self.sample_weights_) != n:
            raise ValueError(
                f"need the same {len(self.sample_weights_)} rows as in the last fit, got {n}; "
                "pass the same rows, or call fit with warm_start=False"
            )

    def _without_index(self, batches: Iterable[Any]) -> Iterator[Any]:
        for *batch, self.index_ in batches:
            yield batch
