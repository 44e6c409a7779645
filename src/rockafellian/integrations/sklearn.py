"""RRMClassifier and RRMRegressor: an estimator of scikit-learn that takes sample_weight, fit and re-weighted in turn.

Each round asks the estimator about every row, hands the losses of what it says to `SampleWeights`, and fits it anew by
the new weights. Rows of weight 0 are left out, which every estimator understands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

from rockafellian import losses as loss_of
from rockafellian.integrations.out_of_sample import Floats, Losses, Task, check_takes_weights, folds, looks, on_rows
from rockafellian.label_issues import Findings, findings
from rockafellian.method.noise_rate import estimate_contamination
from rockafellian.method.reweight import RRM, Spread
from rockafellian.weights.sample_weights import SampleWeights

#: The logarithm of a probability of 0 is taken to be that of this one.
LEAST = 1e-6
#: A residual of more robust standard deviations than this is an outlier, as Iglewicz and Hoaglin (1993) have it.
OUTLYING, MAD_OF_NORMAL = 3.5, 0.6745


def _has(method: str) -> Callable[[Any], bool]:
    return lambda self: hasattr(getattr(self, "estimator_", self._given), method)


class _Alternating(MetaEstimatorMixin, BaseEstimator):
    """What classifier and regressor share: the rounds, and what is known after them."""

    _default: ClassVar[type]
    _has_classes: ClassVar[bool]
    per_class = False

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803
        """Fit and re-weight in turn. A row of weight 2 counts like two that are equal, one of weight 0 is left out."""
        rule = self._rule()
        check_takes_weights(self._given)
        validate_data(self, X, y, skip_check_array=True)  # names and columns only: values are the estimator's matter
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
        self._rows = np.flatnonzero(kept)
        self.weights_, self.removed_ = np.zeros(len(kept)), np.zeros(len(kept), bool)
        self.weights_[kept], self.removed_[kept] = final, weights.removed.numpy()
        self.contamination_ = float(mass[self.removed_].sum() / mass.sum())
        self.n_rounds_ = len(weights.history)
        return self

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """What the fitted estimator predicts."""
        return self._fitted.predict(X)  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags, own = super().__sklearn_tags__(), get_tags(self._given)
        tags.input_tags = own.input_tags
        if own.classifier_tags is not None and tags.classifier_tags is not None:
            tags.classifier_tags.multi_class = own.classifier_tags.multi_class
        return tags

    @property
    def _given(self) -> Any:
        return self._default() if self.estimator is None else self.estimator

    @property
    def _fitted(self) -> Any:
        check_is_fitted(self, "estimator_")
        return self.estimator_

    def _rule(self) -> RRM:
        if isinstance(self.rounds, bool) or not isinstance(self.rounds, int | np.integer) or self.rounds < 1:
            raise ValueError(f"need rounds to be a whole number >= 1, got {self.rounds!r}")
        share = None if self.gamma is not None and self.contamination == "auto" else self.contamination
        return RRM(self.gamma, share, self.mu, self.spread)

    def _task(self, x: Any, y: NDArray[Any], kept: NDArray[np.bool_]) -> Task:
        if not kept.all():
            x, y = (_safe_indexing(part, np.flatnonzero(kept)) for part in (x, y))
        if hasattr(self.cv, "__iter__"):
            splits = on_rows(self.cv, kept)
        else:
            splits = folds(self.cv, x, y, shuffle_by=self.random_state, stratified=self._has_classes)
        return Task(self._given, x, y, splits, np.unique(y) if self._has_classes else None)

    def _alternate(self, task: Task, rule: RRM, weights: SampleWeights, mass: Floats) -> Floats:
        """The weights that the estimator was fitted by in the end; stops where a round changes nothing."""
        first, then = looks(self._given, self.losses, unseen=rule.auto and self._has_classes)
        now, model, changed = mass, None, True
        for turn in range(self.rounds):
            said = (then if turn else first)(task, now, model)
            model = said.model
            rows = np.flatnonzero(said.seen)
            if len(rows) == 0:
                break
            self._reweigh(weights, rule, task.y[rows], said.of_rows[rows], rows, mass[rows])
            before, now = now, _to_fit_by(weights, mass)
            changed = not np.array_equal(before, now)
            if not changed:
                break
        self.estimator_ = task.go_on(now, model) if changed or model is None else model
        return now

    def _reweigh(
        self, weights: SampleWeights, rule: RRM, y: NDArray[Any], said: Floats, rows: NDArray[np.intp], mass: Floats
    ) -> None:
        losses = self._remember(weights, y, said, rows)
        if rule.gamma is None:
            share = self._share(weights, y, said, mass) if rule.auto else float(rule.contamination)  # type: ignore[arg-type]
            weights.rule = rule.with_contamination(_rows_of_mass(losses.numpy(), mass, share) / len(rows))
        weights.step()


class RRMClassifier(ClassifierMixin, _Alternating):
    """A classifier robust against wrong labels, around any that takes sample_weight; it says which labels are wrong.

    `estimator` is LogisticRegression() unless given, and may be a pipeline that ends in a classifier. `contamination`,
    `gamma`, `mu`, `spread` and `per_class` are those of `RRM`; "auto" finds the share of wrong labels itself.

    `losses` says of which rows the estimator is asked: "in-sample" of those it learned, "out-of-bag" by the trees that
    did not draw a row, "cross-fitted" by `cv` models that did not learn it. "auto" is out of bag for ensembles that
    draw rows, in sample for linear models after a first cross-fitted round, and cross-fitted for all others. `cv` is a
    number of folds, which `random_state` shuffles, a splitter, or a list of splits.

    After fit: `estimator_`, `classes_`, `weights_` (what each row weighed in the end), `removed_`, `contamination_`
    (the share removed), `estimate_` (that of wrong labels, with an interval, or None), `n_rounds_`, `findings()`, and
    `sample_weights_`, the SampleWeights of rows with a positive sample_weight.
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
        """The share of wrong labels and its interval, if it was to be found."""
        return self.sample_weights_.estimate

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The probabilities of the fitted estimator."""
        return self._fitted.predict_proba(X)  # type: ignore[no-any-return]

    @available_if(_has("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Their logarithms."""
        return self._fitted.predict_log_proba(X)  # type: ignore[no-any-return]

    @available_if(_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """What the fitted estimator decides by."""
        return self._fitted.decision_function(X)  # type: ignore[no-any-return]

    def findings(self, *, ids: Sequence[str] | Sequence[int] | None = None) -> Findings:
        """What was found out about each training row, the worst label first; see `rockafellian.findings`."""
        check_is_fitted(self, "estimator_")
        return findings(self.sample_weights_, ids=_ids(ids, self._rows), names=[str(each) for each in self.classes_])

    def _read(self, y: Any) -> NDArray[Any]:
        labels: NDArray[Any] = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        return labels

    def _task(self, x: Any, y: NDArray[Any], kept: NDArray[np.bool_]) -> Task:
        self.classes_ = np.unique(y[kept])
        if len(self.classes_) < 2:
            raise ValueError(f"need at least two classes in y, got one class only: {self.classes_.tolist()}")
        return super()._task(x, y, kept)

    def _remember(self, weights: SampleWeights, y: NDArray[Any], said: Floats, rows: NDArray[np.intp]) -> Tensor:
        logits = torch.from_numpy(np.log(np.maximum(said, LEAST)).astype(np.float32))
        labels = torch.from_numpy(np.searchsorted(self.classes_, y))
        losses = -logits.gather(1, labels[:, None])[:, 0]
        weights.remember(losses, rows, logits=logits, labels=labels)
        return losses

    def _share(self, weights: SampleWeights, y: NDArray[Any], said: Floats, mass: Floats) -> float:
        """The share of mass whose label the estimator disagrees with, within the interval of the first estimate."""
        labels = np.searchsorted(self.classes_, y)
        if weights.estimate is None:
            weights.estimate = estimate_contamination(said, labels, weights=mass)
        found = weights.estimate
        if found.rate == 0:
            return 0.0
        return float(np.clip(mass[said.argmax(1) != labels].sum() / mass.sum(), found.low, found.high))


class RRMRegressor(RegressorMixin, _Alternating):
    """A regressor robust against wrong targets, around any that takes sample_weight; Ridge() unless given.

    As RRMClassifier. `loss` is "squared" or "huber", of residuals in the units of y: that matters to `gamma` only. Here
    contamination="auto" is, in each round, the share of rows whose residual is an outlier: more than 3.5 robust
    standard deviations (median absolute deviations / 0.6745) from the median residual.
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
        """What was found out about each training row, the largest average loss first; labels are not told."""
        check_is_fitted(self, "estimator_")
        return findings(self.sample_weights_, ids=_ids(ids, self._rows))

    def _read(self, y: Any) -> NDArray[Any]:
        if self.loss not in ("squared", "huber"):
            raise ValueError(f"need loss to be 'squared' or 'huber', got {self.loss!r}")
        targets: NDArray[Any] = check_array(
            column_or_1d(y, warn=True), ensure_2d=False, dtype="numeric", input_name="y"
        )
        return targets

    def _remember(self, weights: SampleWeights, y: NDArray[Any], said: Floats, rows: NDArray[np.intp]) -> Tensor:
        outputs, targets = (torch.from_numpy(part.astype(np.float64)) for part in (said, y))
        losses: Tensor = getattr(loss_of, self.loss)(outputs, targets).float()
        weights.remember(losses, rows)
        return losses

    def _share(self, weights: SampleWeights, y: NDArray[Any], said: Floats, mass: Floats) -> float:
        residuals = y - said
        far = np.abs(residuals - _median(residuals, mass))
        limit = OUTLYING / MAD_OF_NORMAL * _median(far, mass)
        return float(mass[far > limit].sum() / mass.sum())


def _rows_of_mass(losses: Floats, mass: Floats, share: float) -> int:
    """How many rows, the largest losses first, have this share of the mass; none of those of least loss."""
    if share <= 0:
        return 0
    covered = np.cumsum(mass[np.argsort(-losses, kind="stable")]) / mass.sum()
    return min(int(np.searchsorted(covered, share)) + 1, int((losses > losses.min()).sum()))


def _to_fit_by(weights: SampleWeights, mass: Floats) -> Floats:
    """The weights with the sum that the kept rows had by themselves: removed ones take theirs along.

    A penalty such as that of LogisticRegression stands against this sum, and should not weaken as rows are removed.
    """
    factor = weights.values.double().numpy() / (mass / mass.mean())
    # They are kept in single precision: beyond its digits, equal rows would differ by how often they are repeated.
    scaled = mass * np.round(factor / factor.max(), 6)
    result: Floats = scaled * (mass[~weights.removed.numpy()].sum() / scaled.sum())
    return result


def _median(values: Floats, mass: Floats) -> float:
    """The weighted median: a row of weight 2 counts like two."""
    order = np.argsort(values)
    covered = np.cumsum(mass[order])
    low, high = (np.searchsorted(covered, covered[-1] / 2, side) for side in ("left", "right"))
    return float((values[order[low]] + values[order[min(high, len(order) - 1)]]) / 2)


def _ids(ids: Sequence[str] | Sequence[int] | None, rows: NDArray[np.intp]) -> Any:
    return rows if ids is None else [ids[row] for row in rows]
