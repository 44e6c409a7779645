"""Predictions of a scikit-learn estimator for its training rows: in sample, out of bag or cross-fitted.

Forests and boosted trees memorize their training rows and agree with every wrong label among them, so their losses
must come from models that were not trained on the row. Linear models cannot memorize many rows: theirs are in sample
after a first cross-fitted round, which guards against many columns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

Floats: TypeAlias = NDArray[np.floating[Any]]
Index: TypeAlias = NDArray[np.intp]
Splits: TypeAlias = list[tuple[Index, Index]]
Losses: TypeAlias = Literal["auto", "in-sample", "out-of-bag", "cross-fitted"]
#: A row is out of bag for about a third of the trees; fewer trees than this leave too few predictions of a row.
MIN_TREES = 50


class RowPredictions(NamedTuple):
    """Predictions by row, which rows have one, and the model if one was trained on all rows."""

    values: Floats
    known: NDArray[np.bool_]
    model: Any = None


@dataclass(frozen=True, eq=False)
class Task:
    """An estimator, its training rows and labels, and splits (rows to train on, rows to predict).

    The prediction for a row is a probability for each of `classes`; a number where `classes` is None.
    """

    estimator: Any
    x: Any
    y: NDArray[Any]
    splits: Splits
    classes: NDArray[Any] | None = None

    def fit(self, weights: Floats, *, index: Index | None = None, model: Any = None) -> Any:
        """Fit a clone of the estimator, or `model` itself, to the rows of `index`; rows of weight 0 by default not."""
        train = np.flatnonzero(weights) if index is None else index
        x = self.x if len(train) == len(self.y) else _safe_indexing(self.x, train)
        model = clone(self.estimator) if model is None else model
        with config_context(enable_metadata_routing=False):  # these weights are not metadata that a user passed
            return model.fit(x, self.y[train], **{_weight_name(model): weights[train]})

    def refit(self, weights: Floats, model: Any) -> Any:
        """Fit to all rows, from the last solution if `model` is a linear one with a warm start."""
        last = last_step(model)
        if model is None or not (is_linear(model) and "warm_start" in last.get_params()):
            return self.fit(weights)
        own = last.warm_start
        last.set_params(warm_start=True)
        self.fit(weights, model=model)
        last.set_params(warm_start=own)
        return model

    def in_sample(self, weights: Floats, model: Any) -> RowPredictions:
        """Predictions of a model that was trained on the same rows."""
        model = self.refit(weights, model)
        return RowPredictions(self._predict(model, self.x), np.ones(len(self.y), bool), model)

    def out_of_bag(self, weights: Floats, model: Any) -> RowPredictions:
        """Predictions of the trees that did not draw a row; of all trees for rows of weight 0."""
        model = clone(self.estimator)
        forest = last_step(model).set_params(oob_score=True)
        with warnings.catch_warnings(), np.errstate(invalid="ignore"):
            warnings.filterwarnings("ignore", "Some inputs do not have OOB scores")
            self.fit(weights, model=model)
        values, known = self._predict(model, self.x), np.ones(len(self.y), bool)
        drawn = weights > 0
        if self.classes is None:
            values[drawn] = forest.oob_prediction_
        else:
            values[drawn] = self._by_class(forest.oob_decision_function_, model)
            known = values.sum(1) > 0.5  # 0 or NaN where every tree drew the row
        return RowPredictions(values, known, model)

    def cross_fitted(self, weights: Floats, model: Any) -> RowPredictions:
        """Predictions of models that were trained on other rows; their mean where a row is predicted several times."""
        shape = len(self.y) if self.classes is None else (len(self.y), len(self.classes))
        total, count = np.zeros(shape), np.zeros(len(self.y))
        for fold, test in self.splits:
            train = fold[weights[fold] > 0]
            if self._has_all_classes(train, fold):
                total[test] += self._predict(self.fit(weights, index=train), _safe_indexing(self.x, test))
                count[test] += 1
        divisor = np.maximum(count, 1)
        return RowPredictions(total / (divisor if self.classes is None else divisor[:, None]), count > 0)

    def _has_all_classes(self, train: Index, fold: Index) -> bool:
        """Whether the rows left in a fold have all of its classes, at least two."""
        return self.classes is None or len(np.unique(self.y[train])) >= max(2, len(np.unique(self.y[fold])))

    def _predict(self, model: Any, x: Any) -> Floats:
        if self.classes is None:
            return np.array(model.predict(x), dtype=np.float64)
        return self._by_class(_probabilities(model, x), model)

    def _by_class(self, probabilities: Floats, model: Any) -> Floats:
        """One column for every class, 0 for classes that the model was not trained on."""
        columns = np.zeros((len(probabilities), len(self.classes)))  # type: ignore[arg-type]
        columns[:, np.searchsorted(self.classes, model.classes_)] = probabilities  # type: ignore[arg-type]
        return columns


Predictor: TypeAlias = Callable[[Task, Floats, Any], RowPredictions]
PREDICTORS: dict[str, Predictor] = {
    "in-sample": Task.in_sample,
    "out-of-bag": Task.out_of_bag,
    "cross-fitted": Task.cross_fitted,
}


def choose_predictors(estimator: Any, losses: Losses, *, out_of_sample: bool) -> tuple[Predictor, Predictor]:
    """How to predict the rows in the first round, `out_of_sample` if that is needed, and in all later rounds."""
    if losses not in get_args(Losses):
        raise ValueError(f"need losses to be one of {', '.join(map(repr, get_args(Losses)))}; got {losses!r}")
    if losses == "out-of-bag" and not _is_bagged(estimator):
        raise ValueError(
            f"need an ensemble that draws rows with bootstrap=True for losses='out-of-bag', got {estimator!r}; "
            "use losses='cross-fitted'"
        )
    if losses != "auto":
        return PREDICTORS["cross-fitted" if out_of_sample and losses == "in-sample" else losses], PREDICTORS[losses]
    if _is_bagged(estimator) and last_step(estimator).n_estimators >= MIN_TREES:
        return Task.out_of_bag, Task.out_of_bag
    return Task.cross_fitted, Task.in_sample if is_linear(estimator) else Task.cross_fitted


def is_linear(estimator: Any) -> bool:
    """Whether this is one of scikit-learn's linear models, or derived from one."""
    return any(kind.__module__.startswith("sklearn.linear_model.") for kind in type(last_step(estimator)).__mro__)


def last_step(estimator: Any) -> Any:
    """The estimator itself, or the last one of a pipeline."""
    return last_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def check_takes_weights(estimator: Any) -> None:
    """Raise an error unless `fit` takes a weight for each row."""
    last = last_step(estimator)
    parameters = signature(last.fit).parameters.values() if hasattr(last, "fit") else ()
    if not any(each.name == "sample_weight" or each.kind == Parameter.VAR_KEYWORD for each in parameters):
        raise ValueError(
            f"need an estimator whose fit takes sample_weight, got {type(last).__name__}; "
            "use another, or a pipeline that ends in one"
        )


def make_splits(cv: Any, x: Any, y: NDArray[Any], *, random_state: Any, stratified: bool) -> Splits:
    """The splits of a splitter or of a number of folds."""
    if hasattr(cv, "split"):
        return list(cv.split(x, y))
    n = int(np.unique(y, return_counts=True)[1].max()) if stratified else len(y)
    if isinstance(cv, bool) or not isinstance(cv, int | np.integer) or not 2 <= cv <= n:
        raise ValueError(
            f"need cv to be a splitter, a list of splits or a number of folds from 2 to {n}, the rows of "
            f"{'the largest class' if stratified else 'the data'}; got cv={cv!r} and n_samples={len(y)}; set cv"
        )
    kind = StratifiedKFold if stratified else KFold
    with warnings.catch_warnings():  # a fold may lack a class: it is then predicted with probability 0
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        return list(kind(cv, shuffle=True, random_state=random_state).split(np.zeros(len(y)), y))


def restrict_splits(splits: Iterable[Any], kept: NDArray[np.bool_]) -> Splits:
    """Splits of all rows as splits of the kept rows, by their positions among these."""
    position = np.cumsum(kept) - 1
    parts = [[np.arange(len(kept))[part] for part in split] for split in splits]
    return [(position[train[kept[train]]], position[test[kept[test]]]) for train, test in parts]


def _is_bagged(estimator: Any) -> bool:
    params = last_step(estimator).get_params(deep=False)
    return "oob_score" in params and bool(params.get("bootstrap"))


def _weight_name(estimator: Any) -> str:
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return f"{name}__{_weight_name(last)}"
    return "sample_weight"


def _probabilities(model: Any, x: Any) -> Floats:
    """The model's probabilities, or the softmax of its decision function if it has none."""
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(x))
    if not hasattr(model, "decision_function"):
        raise ValueError(
            f"need an estimator with predict_proba or decision_function, got {type(last_step(model)).__name__}; "
            "use a classifier that has one of them"
        )
    scores = np.asarray(model.decision_function(x), dtype=np.float64)
    scores = np.column_stack([np.zeros_like(scores), scores]) if scores.ndim == 1 else scores
    exponentials = np.exp(scores - scores.max(1, keepdims=True))
    probabilities: Floats = exponentials / exponentials.sum(1, keepdims=True)
    return probabilities
