"""The rounds of RRMClassifier and RRMRegressor: predict every row, re-weight, fit with the new weights.

Rows of weight 0 are left out of a fit, which works with every estimator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from rockafellian.integrations.out_of_sample import (
    Floats,
    Index,
    Task,
    check_takes_weights,
    choose_predictors,
    make_splits,
    restrict_splits,
)
from rockafellian.label_issues import Findings, findings
from rockafellian.method.per_class import CLASS_LIMIT, balanced_limit
from rockafellian.method.reweight import RRM
from rockafellian.weights.sample_weights import SampleWeights


def has(method: str) -> Callable[[Any], bool]:
    """A condition for `available_if`: whether the inner estimator has this method."""
    return lambda self: hasattr(getattr(self, "estimator_", self._inner), method)


class Alternating(MetaEstimatorMixin, BaseEstimator):
    """The base of RRMClassifier and RRMRegressor: the rounds, and the attributes after them.

    A subclass says how to read y, how to turn predictions into losses (`_remember`), and what the noise rate is.
    """

    _default: ClassVar[type]
    _has_classes: ClassVar[bool]
    per_class = False
    crisp = False

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
        return RRM(gamma=self.gamma, contamination=contamination, mu=self.mu, spread=self.spread, crisp=self.crisp)

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
            if rule.auto:
                weights.class_limit = balanced_limit(CLASS_LIMIT, rule, rate)
        weights.step()

    def _table(self, ids: Sequence[str] | Sequence[int] | None, names: list[str] | None = None) -> Findings:
        """The findings of the rows with a positive sample weight, by their position in X."""
        check_is_fitted(self, "estimator_")
        if ids is not None and len(ids) != len(self.weights_):
            raise ValueError(f"need {len(self.weights_)} ids, one for each row of X, got {len(ids)}")
        own = self._index if ids is None else [ids[row] for row in self._index.tolist()]
        return replace(findings(self.sample_weights_, ids=own, names=names), index=self._index)


def _rows_of_mass(losses: Floats, mass: Floats, fraction: float) -> int:
    """How many rows, the largest losses first, hold this fraction of the mass; never a row of the least loss."""
    if fraction <= 0:
        return 0
    covered = np.cumsum(mass[np.argsort(-losses, kind="stable")]) / mass.sum()
    return min(int(np.searchsorted(covered, fraction)) + 1, int((losses > losses.min()).sum()))


def _fit_weights(weights: SampleWeights, mass: Floats) -> Floats:
    """The weights for `fit`, scaled so that the sum over the kept rows stays the same.

    A penalty such as LogisticRegression's is relative to this sum, and should not weaken as rows are removed.
    """
    factor = weights.values.double().numpy() / (mass / mass.mean())
    # Weights are in single precision: beyond its digits, equal rows would differ by how often they are repeated.
    scaled = mass * np.round(factor / factor.max(), 6)
    result: Floats = scaled * (mass[~weights.removed.numpy()].sum() / scaled.sum())
    return result
