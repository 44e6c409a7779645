"""RRMClassifier and RRMRegressor: fit a scikit-learn estimator and re-weight its rows, in turn.

Each round predicts every row, hands the losses to `SampleWeights`, and fits the estimator with the new weights. Rows
of weight 0 are left out of the fit, which works with every estimator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.extras import missing

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise missing("scikit-learn for rockafellian.integrations.sklearn", "sklearn") from error
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from rockafellian import losses as loss_functions
from rockafellian.integrations.out_of_sample import (
    Floats,
    Index,
    Losses,
    Task,
    check_takes_weights,
    choose_predictors,
    make_splits,
    restrict_splits,
)
from rockafellian.label_issues import Findings, findings
from rockafellian.method.noise_rate import estimate_contamination
from rockafellian.method.reweight import RRM, Spread
from rockafellian.weights.sample_weights import SampleWeights

#: Probabilities are clipped here, so that the loss of a row is finite.
MIN_PROBABILITY = 1e-6
#: Residuals beyond this many robust standard deviations are outliers (Iglewicz and Hoaglin, 1993).
MAX_Z_SCORE, MAD_OF_NORMAL = 3.5, 0.6745


def _has(method: str) -> Callable[[Any], bool]:
    return lambda self: hasattr(getattr(self, "estimator_", self._inner), method)


class _Alternating(MetaEstimatorMixin, BaseEstimator):
    """What classifier and regressor share: the rounds, and the attributes after them."""

    _default: ClassVar[type]
    _has_classes: ClassVar[bool]
    per_class = False

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803
        """Fit and re-weight in turn. A row of weight 2 counts as two equal rows, one of weight 0 is left out."""
        rule = self._rule()
        check_takes_weights(self._inner)
        validate_data(self, X, y, skip_check_array=True)  # names and columns only: the estimator checks the values
        X, y = indexable(X, self._read(y))  # noqa: N806
        mass = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        kept = mass > 0
        task = self._task(X, y, kept)
        weights = SampleWeights(
            len(task.y),
            rule.with_contamination(0.0) if rule.auto else rule,
            per_class=self.per_class,
            prior=mass[kept],
        )
        final = self._alternate(task, rule, weights, mass[kept])
        self.sample_weights_ = weights
        self._index = np.flatnonzero(kept)
        self.weights_, self.removed_ = np.zeros(len(kept)), np.zeros(len(kept), bool)
        self.weights_[kept], self.removed_[kept] = final, weights.removed.numpy()
        self.removed_fraction_ = float(mass[self.removed_].sum() / mass.sum())
        self.n_rounds_ = len(weights.history)
        return self

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the predictions of the fitted estimator."""
        return self._fitted.predict(X)  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags, own = super().__sklearn_tags__(), get_tags(self._inner)
        tags.input_tags = own.input_tags
        if own.classifier_tags is not None and tags.classifier_tags is not None:
            tags.classifier_tags.multi_class = own.classifier_tags.multi_class
        return tags

    @property
    def _inner(self) -> Any:
        return self._default() if self.estimator is None else self.estimator

    @property
    def _fitted(self) -> Any:
        check_is_fitted(self, "estimator_")
        return self.estimator_

    def _rule(self) -> RRM:
        if isinstance(self.rounds, bool) or not isinstance(self.rounds, int | np.integer) or self.rounds < 1:
            raise ValueError(f"need rounds to be an integer >= 1, got {self.rounds!r}")
        contamination = None if self.gamma is not None and self.contamination == "auto" else self.contamination
        return RRM(self.gamma, contamination, self.mu, self.spread)

    def _task(self, x: Any, y: NDArray[Any], kept: NDArray[np.bool_]) -> Task:
        if not kept.all():
            x, y = (_safe_indexing(part, np.flatnonzero(kept)) for part in (x, y))
        if hasattr(self.cv, "__iter__"):
            splits = restrict_splits(self.cv, kept)
        else:
            splits = make_splits(self.cv, x, y, random_state=self.random_state, stratified=self._has_classes)
        return Task(self._inner, x, y, splits, np.unique(y) if self._has_classes else None)

    def _alternate(self, task: Task, rule: RRM, weights: SampleWeights, mass: Floats) -> Floats:
        """Return the weights of the last fit; stops when a round changes nothing."""
        first, later = choose_predictors(self._inner, self.losses, out_of_sample=rule.auto and self._has_classes)
        current, model, changed = mass, None, True
        for turn in range(self.rounds):
            predictions = (later if turn else first)(task, current, model)
            model = predictions.model
            index = np.flatnonzero(predictions.known)
            if len(index) == 0:
                break
            self._reweight(weights, rule, task.y[index], predictions.values[index], index, mass[index])
            before, current = current, _fit_weights(weights, mass)
            changed = not np.array_equal(before, current)
            if not changed:
                break
        self.estimator_ = task.refit(current, model) if changed or model is None else model
        return current

    def _reweight(
        self, weights: SampleWeights, rule: RRM, y: NDArray[Any], predicted: Floats, index: Index, mass: Floats
    ) -> None:
        losses = self._remember(weights, y, predicted, index)
        if rule.gamma is None:
            rate = self._noise_rate(weights, y, predicted, mass) if rule.auto else float(rule.contamination)  # type: ignore[arg-type]
            weights.rule = rule.with_contamination(_rows_of_mass(losses.numpy(), mass, rate) / len(index))
        weights.step()

    def _table(self, ids: Sequence[str] | Sequence[int] | None, names: list[str] | None = None) -> Findings:
        """The findings of the rows with a positive sample weight, by their position in X."""
        check_is_fitted(self, "estimator_")
        if ids is not None and len(ids) != len(self.weights_):
            raise ValueError(f"need {len(self.weights_)} ids, one for each row of X, got {len(ids)}")
        own = self._index if ids is None else [ids[row] for row in self._index]
        return replace(findings(self.sample_weights_, ids=own, names=names), index=self._index)


class RRMClassifier(ClassifierMixin, _Alternating):
    """A classifier that is robust against wrong labels and finds them, around any that takes sample_weight.

    Args:
        estimator: the classifier, or a pipeline that ends in one; LogisticRegression() by default.
        contamination: the noise rate; "auto" estimates it from out-of-sample predictions.
        gamma, mu, spread: as in `RRM`.
        rounds: how many times to re-weight at most.
        per_class: whether each class keeps its total weight.
        losses: where the losses of a row come from. "in-sample": a model trained on the row; "out-of-bag": the trees
            that did not draw it; "cross-fitted": models trained on other folds. "auto" is out-of-bag for ensembles
            that draw rows, in-sample for linear models after a first cross-fitted round, cross-fitted for all others.
        cv: a number of folds, shuffled by `random_state`; a splitter; or a list of splits.

    After `fit`: `estimator_`, `classes_`, `weights_` (the weight of each row in the last fit), `removed_` (the mask of
    removed rows), `removed_fraction_`, `estimate_` (of the noise rate, with an interval; None if it was given),
    `n_rounds_`, `findings()`, and `sample_weights_`, the SampleWeights of the rows with a positive sample_weight.
    """

    _default, _has_classes = LogisticRegression, True

    def __init__(
        self,
        estimator: Any = None,
        *,
        contamination: float | Literal["auto"] = "auto",
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
        """The estimated noise rate and its interval; None if contamination or gamma was given."""
        return self.sample_weights_.estimate

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the probabilities of the fitted estimator."""
        return self._fitted.predict_proba(X)  # type: ignore[no-any-return]

    @available_if(_has("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the log-probabilities of the fitted estimator."""
        return self._fitted.predict_log_proba(X)  # type: ignore[no-any-return]

    @available_if(_has("decision_function"))  # type: ignore[untyped-decorator]
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
        """The fraction of mass with another label predicted, within the interval of the first estimate."""
        labels = np.searchsorted(self.classes_, y)
        if weights.estimate is None:
            weights.estimate = estimate_contamination(predicted, labels, weights=mass)
        estimate = weights.estimate
        if estimate.rate == 0:
            return 0.0
        return float(np.clip(mass[predicted.argmax(1) != labels].sum() / mass.sum(), estimate.low, estimate.high))


class RRMRegressor(RegressorMixin, _Alternating):
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


def _rows_of_mass(losses: Floats, mass: Floats, fraction: float) -> int:
    """How many rows, the largest losses first, hold this fraction of the mass; never a row of the least loss."""
    if fraction <= 0:
        return 0
    covered = np.cumsum(mass[np.argsort(-losses, kind="stable")]) / mass.sum()
    return min(int(np.searchsorted(covered, fraction)) + 1, int((losses > losses.min()).sum()))


def _fit_weights(weights: SampleWeights, mass: Floats) -> Floats:
    """The weights for `fit`, scaled so that the kept rows weigh as much as before.

    A penalty such as LogisticRegression's is relative to this sum, and should not weaken as rows are removed.
    """
    factor = weights.values.double().numpy() / (mass / mass.mean())
    # Weights are in single precision: beyond its digits, equal rows would differ by how often they are repeated.
    scaled = mass * np.round(factor / factor.max(), 6)
    result: Floats = scaled * (mass[~weights.removed.numpy()].sum() / scaled.sum())
    return result


def _median(values: Floats, mass: Floats) -> float:
    """The weighted median: a row of weight 2 counts as two."""
    order = np.argsort(values)
    covered = np.cumsum(mass[order])
    low, high = (np.searchsorted(covered, covered[-1] / 2, side) for side in ("left", "right"))
    return float((values[order[low]] + values[order[min(high, len(order) - 1)]]) / 2)
