"""RRMNetClassifier: skorch's classifier with RRM inside its training loop, so that one training does all."""

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
    """A NeuralNetClassifier that weighs its rows: re-weighted after every epoch, those with a wrong label to 0.

    `contamination`, `gamma`, `mu`, `spread` and `per_class` are those of `RRM`; all else is skorch's, but there is no
    `train_split` unless you give one. Rows that it holds out are validated on without weights and never weighed.
    `fit` begins anew; `partial_fit` and `warm_start` go on with the same weights, for the same rows.
    """

    sample_weights_: SampleWeights | None

    def __init__(
        self,
        module: Any,
        *args: Any,
        contamination: float | Literal["auto"] = "auto",
        gamma: float | None = None,
        mu: float | None = None,
        spread: Spread = "kept",
        per_class: bool = False,
        train_split: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(module, *args, train_split=train_split, **kwargs)
        self.contamination = contamination
        self.gamma = gamma
        self.mu = mu
        self.spread = spread
        self.per_class = per_class

    @property
    def weights_(self) -> NDArray[Any]:
        """One weight per row of X: 1 is nominal, 0 is removed."""
        return self._told.values.numpy().copy()

    @property
    def removed_(self) -> NDArray[Any]:
        """The rows of X that it takes for wrong."""
        return self._told.removed.numpy()

    def findings(self, *, ids: Sequence[str] | Sequence[int] | None = None) -> Findings:
        """What was found out about each row of X, the worst label first; see `rockafellian.findings`."""
        return findings(self._told, ids=ids, names=[str(label) for label in self.classes_])

    def initialize(self) -> Self:
        """Begin anew, with weights of 1."""
        self.sample_weights_ = None
        super().initialize()
        return self

    def initialize_criterion(self) -> Self:
        """Make the criterion, with one loss per row."""
        super().initialize_criterion()
        if hasattr(self.criterion_, "reduction"):
            self.criterion_.reduction = "none"
        return self

    def get_split_datasets(self, X: Any, y: Any = None, **fit_params: Any) -> tuple[Any, Any]:  # noqa: N803
        """Rows to train on, which carry their place in X, and rows to validate on, which do not."""
        rows = self.get_dataset(X, y)
        self._expect(len(rows))
        train, valid = super().get_split_datasets(rows, y, **fit_params)
        if train is rows:
            return Indexed(rows), valid
        if not isinstance(train, Subset) or train.dataset is not rows:
            raise ValueError(
                f"need a train_split that gives a Subset of the data, or all of it; got {type(train).__name__}; "
                "use train_split=None, ValidSplit or predefined_split"
            )
        return Subset(Indexed(rows), train.indices), valid

    def run_single_epoch(self, iterator: Any, training: bool, prefix: str, step_fn: Any, **fit_params: Any) -> None:
        """One pass; callbacks see batches as they are used to."""
        batches = self._without_index(iterator) if training else iterator
        super().run_single_epoch(batches, training, prefix, step_fn, **fit_params)

    def get_loss(self, y_pred: Any, y_true: Tensor, X: Any = None, training: bool = False) -> Tensor:  # noqa: N803
        """The weighted loss of a training batch, which the weights remember; of other batches the mean."""
        losses: Tensor = super().get_loss(y_pred, y_true, X=X, training=training)
        if losses.ndim != 1:
            raise ValueError(
                f"need one loss per row, got shape {tuple(losses.shape)}; "
                "use a criterion that has a reduction, or build it with reduction='none'"
            )
        if not training:
            return losses.mean()
        said = y_pred[0] if isinstance(y_pred, tuple) else y_pred
        if isinstance(self.criterion_, torch.nn.NLLLoss):  # for which skorch takes the logarithm, just so
            said = torch.log(said + torch.finfo(said.dtype).eps)
        return self._told.reduce(losses, self.index_, logits=said, labels=y_true)

    def on_epoch_end(self, net: Any, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any) -> None:
        """Re-weight."""
        super().on_epoch_end(net, dataset_train=dataset_train, dataset_valid=dataset_valid, **kwargs)
        self._told.step()

    @property
    def _told(self) -> SampleWeights:
        weights: SampleWeights | None = getattr(self, "sample_weights_", None)
        if weights is None:
            raise AttributeError("need a net that was fitted, got one that was not; call fit")
        return weights

    def _expect(self, n: int) -> None:
        """Make the weights for so many rows, or see that these are for as many."""
        if self.sample_weights_ is None:
            share = None if self.gamma is not None and self.contamination == "auto" else self.contamination
            rule = RRM(self.gamma, share, self.mu, self.spread)
            self.sample_weights_ = SampleWeights(n, rule, per_class=self.per_class)
        elif len(self.sample_weights_) != n:
            raise ValueError(
                f"need the {len(self.sample_weights_)} rows that were trained on before, got {n}; "
                "weights belong to rows: call fit with warm_start=False to begin anew"
            )

    def _without_index(self, batches: Iterable[Any]) -> Iterator[Any]:
        for *batch, self.index_ in batches:
            yield batch
