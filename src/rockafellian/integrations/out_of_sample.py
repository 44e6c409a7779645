"""What an estimator of scikit-learn says of the rows it is to learn: in sample, out of bag or cross-fitted.

An estimator that fits its rows perfectly, as forests and boosting do, agrees with every wrong label it was shown. So it
is asked about rows that it did not learn from. Linear models cannot do that where rows are many, and are asked about
all rows at once; only the first time they are not, since columns may be many too.
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
Rows: TypeAlias = NDArray[np.intp]
Splits: TypeAlias = list[tuple[Rows, Rows]]
Losses: TypeAlias = Literal["auto", "in-sample", "out-of-bag", "cross-fitted"]
#: Of each row about a third of the trees can speak out of bag; with fewer trees than this that is too few.
ENOUGH_TREES = 50


class Said(NamedTuple):
    """What was said of each row, of which rows anything was, and the model if one learned from all rows."""

    of_rows: Floats
    seen: NDArray[np.bool_]
    model: Any = None


@dataclass(frozen=True, eq=False)
class Task:
    """An estimator, rows and what they are labelled, and pairs (rows to learn, rows to ask about).

    What is said of a row is a probability for each of `classes`, or where these are None, a number.
    """

    estimator: Any
    x: Any
    y: NDArray[Any]
    splits: Splits
    classes: NDArray[Any] | None = None

    def fit(self, weights: Floats, *, rows: Rows | None = None, model: Any = None) -> Any:
        """The estimator fitted to these rows; rows of weight 0 are left out. A `model` is fitted itself."""
        learned = np.flatnonzero(weights) if rows is None else rows
        x = self.x if len(learned) == len(self.y) else _safe_indexing(self.x, learned)
        model = clone(self.estimator) if model is None else model
        with config_context(enable_metadata_routing=False):  # these weights are not metadata that someone passed
            return model.fit(x, self.y[learned], **{_weight_name(model): weights[learned]})

    def go_on(self, weights: Floats, model: Any) -> Any:
        """The estimator fitted to all rows, from where `model` stands if it is a linear one that can."""
        last = last_step(model)
        if model is None or not (is_linear(model) and "warm_start" in last.get_params()):
            return self.fit(weights)
        own = last.warm_start
        last.set_params(warm_start=True)
        self.fit(weights, model=model)
        last.set_params(warm_start=own)
        return model

    def in_sample(self, weights: Floats, model: Any) -> Said:
        """By a model that learned from the rows themselves."""
        model = self.go_on(weights, model)
        return Said(self._say(model, self.x), np.ones(len(self.y), bool), model)

    def out_of_bag(self, weights: Floats, model: Any) -> Said:
        """By those trees that did not draw a row; of rows without weight, by all of them."""
        model = clone(self.estimator)
        forest = last_step(model).set_params(oob_score=True)
        with warnings.catch_warnings(), np.errstate(invalid="ignore"):
            warnings.filterwarnings("ignore", "Some inputs do not have OOB scores")
            self.fit(weights, model=model)
        said, seen = self._say(model, self.x), np.ones(len(self.y), bool)
        drawn = weights > 0
        if self.classes is None:
            said[drawn] = forest.oob_prediction_
        else:
            said[drawn] = self._by_class(forest.oob_decision_function_, model)
            seen = said.sum(1) > 0.5  # 0 or NaN where every tree drew the row
        return Said(said, seen, model)

    def cross_fitted(self, weights: Floats, model: Any) -> Said:
        """By models that learned from the other rows; the mean where a row is asked about several times."""
        shape = len(self.y) if self.classes is None else (len(self.y), len(self.classes))
        said, times = np.zeros(shape), np.zeros(len(self.y))
        for rows, asked in self.splits:
            learned = rows[weights[rows] > 0]
            if self._can_learn(learned, rows):
                said[asked] += self._say(self.fit(weights, rows=learned), _safe_indexing(self.x, asked))
                times[asked] += 1
        often = np.maximum(times, 1)
        return Said(said / (often if self.classes is None else often[:, None]), times > 0)

    def _can_learn(self, learned: Rows, rows: Rows) -> bool:
        """Whether the rows left have all classes that were there, and two at least."""
        return self.classes is None or len(np.unique(self.y[learned])) >= max(2, len(np.unique(self.y[rows])))

    def _say(self, model: Any, x: Any) -> Floats:
        if self.classes is None:
            return np.array(model.predict(x), dtype=np.float64)
        return self._by_class(_probabilities(model, x), model)

    def _by_class(self, said: Floats, model: Any) -> Floats:
        """One column for every class, also for those that the model has not met."""
        whole = np.zeros((len(said), len(self.classes)))  # type: ignore[arg-type]
        whole[:, np.searchsorted(self.classes, model.classes_)] = said  # type: ignore[arg-type]
        return whole


Look: TypeAlias = Callable[[Task, Floats, Any], Said]
LOOKS: dict[str, Look] = {
    "in-sample": Task.in_sample,
    "out-of-bag": Task.out_of_bag,
    "cross-fitted": Task.cross_fitted,
}


def looks(estimator: Any, losses: Losses, *, unseen: bool) -> tuple[Look, Look]:
    """How to ask for the losses the first time, `unseen` only of rows that were not learned, and after that."""
    if losses not in get_args(Losses):
        raise ValueError(f"need losses to be one of {', '.join(map(repr, get_args(Losses)))}; got {losses!r}")
    if losses == "out-of-bag" and not _draws(estimator):
        raise ValueError(
            f"need an ensemble that draws rows with bootstrap=True for losses='out-of-bag', got {estimator!r}; "
            "use losses='cross-fitted'"
        )
    if losses != "auto":
        return LOOKS["cross-fitted" if unseen and losses == "in-sample" else losses], LOOKS[losses]
    if _draws(estimator) and last_step(estimator).n_estimators >= ENOUGH_TREES:
        return Task.out_of_bag, Task.out_of_bag
    return Task.cross_fitted, Task.in_sample if is_linear(estimator) else Task.cross_fitted


def is_linear(estimator: Any) -> bool:
    """Whether this is one of scikit-learn's linear models, or made from one."""
    return any(kind.__module__.startswith("sklearn.linear_model.") for kind in type(last_step(estimator)).__mro__)


def last_step(estimator: Any) -> Any:
    """The estimator itself, or that at the end of a pipeline."""
    return last_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def check_takes_weights(estimator: Any) -> None:
    """An error unless `fit` takes a weight for each row."""
    last = last_step(estimator)
    taken = signature(last.fit).parameters.values() if hasattr(last, "fit") else ()
    if not any(each.name == "sample_weight" or each.kind == Parameter.VAR_KEYWORD for each in taken):
        raise ValueError(
            f"need an estimator whose fit takes sample_weight, got {type(last).__name__}; "
            "take another, or a pipeline that ends in one"
        )


def folds(cv: Any, x: Any, y: NDArray[Any], *, shuffle_by: Any, stratified: bool) -> Splits:
    """The splits of a number of folds or of a splitter."""
    if hasattr(cv, "split"):
        return list(cv.split(x, y))
    n = int(np.unique(y, return_counts=True)[1].max()) if stratified else len(y)
    if isinstance(cv, bool) or not isinstance(cv, int | np.integer) or not 2 <= cv <= n:
        raise ValueError(
            f"need cv to be a splitter, a list of splits or a number of folds from 2 to {n}, the rows of "
            f"{'the largest class' if stratified else 'the data'}; got cv={cv!r} and n_samples={len(y)}; set cv"
        )
    kind = StratifiedKFold if stratified else KFold
    with warnings.catch_warnings():  # a class that is missing in a fold is no harm here
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        return list(kind(cv, shuffle=True, random_state=shuffle_by).split(np.zeros(len(y)), y))


def on_rows(splits: Iterable[Any], kept: NDArray[np.bool_]) -> Splits:
    """Splits of all rows as splits of the rows kept, by their new numbers."""
    number = np.cumsum(kept) - 1
    parts = [[np.arange(len(kept))[part] for part in split] for split in splits]
    return [(number[learned[kept[learned]]], number[asked[kept[asked]]]) for learned, asked in parts]


def _draws(estimator: Any) -> bool:
    params = last_step(estimator).get_params(deep=False)
    return "oob_score" in params and bool(params.get("bootstrap"))


def _weight_name(estimator: Any) -> str:
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return f"{name}__{_weight_name(last)}"
    return "sample_weight"


def _probabilities(model: Any, x: Any) -> Floats:
    """Those of the model, or where it has none, the softmax of what it decides by."""
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(x))
    if not hasattr(model, "decision_function"):
        raise ValueError(
            f"need an estimator with predict_proba or decision_function, got {type(last_step(model)).__name__}; "
            "take one that says how sure it is"
        )
    scores = np.asarray(model.decision_function(x), dtype=np.float64)
    scores = np.column_stack([np.zeros_like(scores), scores]) if scores.ndim == 1 else scores
    raised = np.exp(scores - scores.max(1, keepdims=True))
    total: Floats = raised / raised.sum(1, keepdims=True)
    return total
