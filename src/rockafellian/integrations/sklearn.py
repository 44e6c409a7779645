"""RRMClassifier and RRMRegressor: any scikit-learn estimator that takes sample_weight, robust against wrong labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.extras import missing

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise missing("scikit-learn for rockafellian.integrations.sklearn", "sklearn") from error
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_array,
    check_is_fitted,
    column_or_1d,
)

from rockafellian import losses as loss_functions
from rockafellian.integrations.alternating import Alternating, has
from rockafellian.integrations.out_of_sample import Floats, Index, Losses, Task
from rockafellian.label_issues import Findings
from rockafellian.method.noise_rate import estimate_noise_rate
from rockafellian.method.reweight import Spread
from rockafellian.weights.sample_weights import SampleWeights

#: Probabilities are clipped here, so that the loss of a row is finite.
MIN_PROBABILITY = 1e-6
#: Residuals beyond this many robust standard deviations are outliers (Iglewicz and Hoaglin, 1993).
MAX_Z_SCORE, MAD_OF_NORMAL = 3.5, 0.6745


class RRMClassifier(ClassifierMixin, Alternating):
    """A classifier that is robust against wrong labels and finds them, around any that takes sample_weight.

    Args:
        estimator: the classifier, or a pipeline that ends in one; LogisticRegression() by default.
        contamination: the noise rate; "auto" estimates it from out-of-sample predictions.
        crisp: with "auto", whether every row has one right answer, as in `RRM`.
        gamma: as in `RRM`.
        mu: as in `RRM`.
        spread: as in `RRM`.
        rounds: how many times to re-weight at most.
        per_class: whether each class keeps its total weight.
        losses: where the losses of a row come from. "in-sample": a model trained on the row; "out-of-bag": the trees
            that did not draw it; "cross-fitted": models trained on other folds. "auto" is out-of-bag for ensembles
            that draw rows, in-sample for linear models after a first cross-fitted round, cross-fitted for all others.
        cv: a number of folds, shuffled by `random_state`; a splitter; or a list of splits.

    After `fit`: `estimator_`, `classes_`, `weights_` (the weight of each row in the last fit), `removed_` (the mask of
    removed rows), `removed_fraction_`, `estimate_` (the noise rate, floor and ceiling; None if it was given),
    `n_rounds_`, `findings()`, and `sample_weights_`, the SampleWeights of the rows with a positive sample_weight.
    """

    _default, _has_classes = LogisticRegression, True

    def __init__(
        self,
        estimator: Any = None,
        *,
        contamination: float | Literal["auto"] = "auto",
        crisp: bool = False,
        gamma: float | None = None,
        mu: float | None = None,
        spread: Spread = "kept",
        rounds: int = 3,
        per_class: bool = False,
        losses: Losses = "auto",
        cv: Any = 5,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.contamination = contamination
        self.crisp = crisp
        self.gamma = gamma
        self.mu = mu
        self.spread = spread
        self.rounds = rounds
        self.per_class = per_class
        self.losses = losses
        self.cv = cv
        self.random_state = random_state

    @property
    def estimate_(self) -> Any:
        """The estimated noise rate, floor and ceiling; None if contamination or gamma was given."""
        return self.sample_weights_.estimate

    @available_if(has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the probabilities of the fitted estimator."""
        return self._fitted.predict_proba(X)  # type: ignore[no-any-return]

    @available_if(has("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the log-probabilities of the fitted estimator."""
        return self._fitted.predict_log_proba(X)  # type: ignore[no-any-return]

    @available_if(has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the decision function of the fitted estimator."""
        return self._fitted.decision_function(X)  # type: ignore[no-any-return]

    def findings(self, *, ids: Sequence[str] | Sequence[int] | None = None) -> Findings:
        """Return the table of the training rows, in their order; see `rockafellian.findings`.

        Args:
            ids: one id for each row of X; its position by default.
        """
        check_is_fitted(self, "estimator_")
        return self._table(ids, [str(each) for each in self.classes_])

    def _read(self, y: Any) -> NDArray[Any]:
        labels: NDArray[Any] = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        return labels

    def _task(self, x: Any, y: NDArray[Any], kept: NDArray[np.bool_]) -> Task:
        self.classes_ = np.unique(y[kept])
        if len(self.classes_) < 2:
            raise ValueError(f"need at least two classes in y, got one class only: {self.classes_.tolist()}")
        return super()._task(x, y, kept)

    def _remember(self, weights: SampleWeights, y: NDArray[Any], predicted: Floats, index: Index) -> Tensor:
        logits = torch.from_numpy(np.log(np.maximum(predicted, MIN_PROBABILITY)).astype(np.float32))
        labels = torch.from_numpy(np.searchsorted(self.classes_, y))
        losses = -logits.gather(1, labels[:, None])[:, 0]
        weights.remember(losses, index, logits=logits, labels=labels)
        return losses

    def _noise_rate(self, weights: SampleWeights, y: NDArray[Any], predicted: Floats, mass: Floats) -> float:
        """The fraction of mass to remove, by the first estimate and by how much has another predicted label."""
        labels = np.searchsorted(self.classes_, y)
        if weights.estimate is None:
            weights.estimate = estimate_noise_rate(predicted, labels, weights=mass)
        disagree = float(mass[predicted.argmax(1) != labels].sum() / mass.sum())
        return weights.estimate.fraction_to_remove(disagree, crisp=self.crisp)


class RRMRegressor(RegressorMixin, Alternating):
    """A regressor that is robust against wrong targets and finds them, around any that takes sample_weight.

    Args:
        estimator: the regressor, or a pipeline that ends in one; Ridge() by default.
        loss: "squared" or "huber", of residuals in the units of y; matters only with a `gamma`.
        contamination: the fraction of wrong targets. "auto" is in each round the fraction of outliers: residuals more
            than 3.5 robust standard deviations (median absolute deviation / 0.6745) from the median residual.

    All else is as in RRMClassifier; there is no `estimate_`.
    """

    _default, _has_classes = Ridge, False

    def __init__(
        self,
        estimator: Any = None,
        *,
        loss: Literal["squared", "huber"] = "squared",
        contamination: float | Literal["auto"] = "auto",
        gamma: float | None = None,
        mu: float | None = None,
        spread: Spread = "kept",
        rounds: int = 3,
        losses: Losses = "auto",
        cv: Any = 5,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.loss = loss
        self.contamination = contamination
        self.gamma = gamma
        self.mu = mu
        self.spread = spread
        self.rounds = rounds
        self.losses = losses
        self.cv = cv
        self.random_state = random_state

    def findings(self, *, ids: Sequence[str] | Sequence[int] | None = None) -> Findings:
        """Return the table of the training rows, in their order, ranked by loss; it has no labels.

        Args:
            ids: one id for each row of X; its position by default.
        """
        return self._table(ids)

    def _read(self, y: Any) -> NDArray[Any]:
        if self.loss not in ("squared", "huber"):
            raise ValueError(f"need loss to be 'squared' or 'huber', got {self.loss!r}")
        targets: NDArray[Any] = check_array(
            column_or_1d(y, warn=True), ensure_2d=False, dtype="numeric", input_name="y"
        )
        return targets

    def _remember(self, weights: SampleWeights, y: NDArray[Any], predicted: Floats, index: Index) -> Tensor:
        outputs, targets = (torch.from_numpy(part.astype(np.float64)) for part in (predicted, y))
        losses: Tensor = getattr(loss_functions, self.loss)(outputs, targets).float()
        weights.remember(losses, index)
        return losses

    def _noise_rate(self, weights: SampleWeights, y: NDArray[Any], predicted: Floats, mass: Floats) -> float:
        residuals = y - predicted
        deviations = np.abs(residuals - _median(residuals, mass))
        limit = MAX_Z_SCORE / MAD_OF_NORMAL * _median(deviations, mass)
        return float(mass[deviations > limit].sum() / mass.sum())


def _median(values: Floats, mass: Floats) -> float:
    """The weighted median: a row of weight 2 counts as two."""
    order = np.argsort(values)
    covered = np.cumsum(mass[order])
    low, high = (np.searchsorted(covered, covered[-1] / 2, side) for side in ("left", "right"))
    return float((values[order[low]] + values[order[min(high, len(order) - 1)]]) / 2)
