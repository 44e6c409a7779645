import pickle
from collections.abc import Iterator
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import torch
import xgboost
from instances import numbers
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier, SGDClassifier
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, ShuffleSplit, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator
from threadpoolctl import threadpool_limits

import rockafellian as rk
from rockafellian.integrations.sklearn import RRMClassifier, RRMRegressor
from toy import make_toy, precision_and_recall

TOY = make_toy()
X, Y, WRONG = TOY.x.numpy().astype(np.float64), TOY.y.numpy(), TOY.wrong
FEW = slice(0, 240)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Boosting in several threads is many times slower on a busy machine."""
    with threadpool_limits(1):
        yield


def found(model: RRMClassifier) -> tuple[float, float]:
    return precision_and_recall(torch.from_numpy(model.removed_), WRONG)


@pytest.mark.parametrize("estimator", [RRMClassifier(LogisticRegression()), RRMRegressor(Ridge())], ids=str)
def test_scikit_learns_own_checks_all_pass(estimator: Any) -> None:
    results = check_estimator(estimator, on_skip=None)
    skipped = {result["check_name"] for result in results if result["status"] != "passed"}
    assert skipped <= {"check_array_api_input"}  # which wants a setting of the environment
    assert {"check_sample_weight_equivalence_on_dense_data", "check_estimators_pickle"} <= {
        result["check_name"] for result in results
    }


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(StandardScaler(), LogisticRegression()),
        LinearSVC(),
        RidgeClassifier(),
        SGDClassifier(random_state=0),
        GaussianNB(),
        SVC(),
        RandomForestClassifier(50, random_state=0),
        ExtraTreesClassifier(30, random_state=0),
        BaggingClassifier(random_state=0),
        HistGradientBoostingClassifier(max_iter=10, random_state=0),
        xgboost.XGBClassifier(n_estimators=20, n_jobs=1),
        lightgbm.LGBMClassifier(n_estimators=20, n_jobs=1, verbose=-1),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_the_rows_it_removes_are_the_wrong_ones(estimator: Any) -> None:
    model = RRMClassifier(estimator, crisp=True, random_state=0).fit(X, Y)
    precision, recall = found(model)
    assert precision >= 0.9
    assert recall >= 0.8
    assert model.removed_fraction_ == pytest.approx(model.removed_.mean())
    assert model.estimate_.ceiling.low <= model.removed_fraction_ <= model.estimate_.ceiling.high + 0.02


@pytest.mark.parametrize("estimator", [None, SVC(), RandomForestClassifier(50, random_state=0)], ids=str)
def test_it_can_be_given_the_noise_rate(estimator: Any) -> None:
    model = RRMClassifier(estimator, contamination=0.4, random_state=0).fit(X, Y)
    precision, recall = found(model)
    assert precision >= 0.9
    assert recall >= 0.8
    assert model.removed_fraction_ == pytest.approx(0.4, abs=0.02)
    assert model.estimate_ is None


def test_an_estimator_that_passes_its_weights_on_works() -> None:
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=3)
    assert min(found(RRMClassifier(search, contamination=0.4, rounds=2, random_state=0).fit(X, Y))) > 0.95


def test_it_predicts_better_than_the_estimator_alone() -> None:
    truth = np.arange(len(Y)) % 3
    forest = RandomForestClassifier(50, random_state=0)
    robust = RRMClassifier(forest, crisp=True, random_state=0).fit(X, Y)
    clean = make_toy(seed=1)
    new, labels = clean.x.numpy(), truth
    assert robust.score(new, labels) > forest.fit(X, Y).score(new, labels) + 0.1


def test_an_estimator_that_memorizes_finds_nothing_in_sample() -> None:
    trees = ExtraTreesClassifier(20, random_state=0)
    memorized = RRMClassifier(trees, contamination=0.4, losses="in-sample").fit(X, Y)
    assert not memorized.removed_.any()
    assert found(RRMClassifier(trees, contamination=0.4).fit(X, Y))[0] > 0.9


@pytest.mark.parametrize("losses", ["in-sample", "cross-fitted"])
def test_the_losses_can_be_chosen(losses: Any) -> None:
    model = RRMClassifier(contamination=0.4, losses=losses, random_state=0).fit(X, Y)
    assert min(found(model)) > 0.95


def test_clean_labels_are_left_alone() -> None:
    truth = np.arange(len(Y)) % 3
    model = RRMClassifier(crisp=True, random_state=0).fit(3 * X, truth)
    assert model.estimate_.ceiling.rate <= 0.02
    assert model.removed_.mean() <= 0.02


def test_one_weight_a_row_and_removed_rows_have_none() -> None:
    model = RRMClassifier(crisp=True, random_state=0).fit(X, Y)
    assert model.weights_.shape == model.removed_.shape == (len(Y),)
    np.testing.assert_array_equal(model.weights_, ~model.removed_)
    assert 1 <= model.n_rounds_ <= 3
    assert model.n_features_in_ == 2
    alone = LogisticRegression().fit(X, Y, sample_weight=model.weights_)
    np.testing.assert_allclose(alone.coef_, model.estimator_.coef_, atol=0.03)


def test_rounds_stop_when_nothing_changes() -> None:
    model = RRMClassifier(GaussianNB(), rounds=50, random_state=0, contamination=0.4).fit(X, Y)
    assert model.n_rounds_ < 50
    same = RRMClassifier(GaussianNB(), rounds=model.n_rounds_ - 1, random_state=0, contamination=0.4).fit(X, Y)
    np.testing.assert_array_equal(model.removed_, same.removed_)


def test_gamma_and_mu_are_those_of_rrm() -> None:
    model = RRMClassifier(gamma=1.0, rounds=2, random_state=0).fit(X, Y)
    assert model.sample_weights_.rule == rk.RRM(gamma=1.0)
    faded = model.weights_[model.removed_]
    assert ((faded > 0) & (faded < 1)).any()
    assert model.removed_.any()


def repeated(weights: NDArray[Any], *parts: NDArray[Any]) -> list[NDArray[Any]]:
    return [part.repeat(weights, axis=0) for part in parts]


@pytest.mark.parametrize("contamination", ["auto", 0.3])
def test_a_row_of_weight_two_counts_as_two_rows_and_one_of_weight_zero_as_none(contamination: Any) -> None:
    weights = np.random.default_rng(0).integers(0, 4, len(Y))
    fold = np.random.default_rng(1).integers(0, 3, len(Y))
    (x, y, its_fold, row) = repeated(weights, X, Y, fold, np.arange(len(Y)))
    by_weight, by_row = (
        RRMClassifier(cv=[(np.flatnonzero(of != k), np.flatnonzero(of == k)) for k in range(3)]).set_params(
            contamination=contamination
        )
        for of in (fold, its_fold)
    )
    by_weight.fit(X, Y, sample_weight=weights)
    by_row.fit(x, y)
    np.testing.assert_array_equal(by_weight.removed_[row], by_row.removed_)
    np.testing.assert_allclose(by_weight.estimator_.coef_, by_row.estimator_.coef_, rtol=1e-6)
    assert by_weight.removed_fraction_ == pytest.approx(by_row.removed_fraction_)
    assert not by_weight.removed_[weights == 0].any()
    assert by_row.removed_.any()
    if contamination == "auto":
        np.testing.assert_allclose(numbers(by_weight.estimate_), numbers(by_row.estimate_))


def test_the_scale_of_small_weights_does_not_matter_to_the_estimate() -> None:
    whole, parts = (
        RRMClassifier(GaussianNB(), crisp=True, random_state=0).fit(X, Y, sample_weight=w)
        for w in (None, np.full(1500, 1e-3))
    )
    np.testing.assert_allclose(numbers(whole.estimate_), numbers(parts.estimate_), rtol=1e-3)
    np.testing.assert_array_equal(whole.removed_, parts.removed_)


def test_an_estimate_by_weights_is_that_of_repeated_rows() -> None:
    random = np.random.default_rng(0)
    probabilities = random.dirichlet(np.ones(3), 400).round(2)  # with many ties
    labels = np.where(random.random(400) < 0.3, random.integers(0, 3, 400), probabilities.argmax(1))
    weights = random.integers(1, 5, 400)
    of_rows = rk.estimate_noise_rate(*repeated(weights, probabilities, labels), weights=np.ones(weights.sum()))
    weighted, unweighted = (rk.estimate_noise_rate(probabilities, labels, weights=each) for each in (weights, None))
    np.testing.assert_allclose(numbers(weighted), numbers(of_rows))
    np.testing.assert_allclose(numbers(unweighted), numbers(of_rows), atol=0.1)


@pytest.mark.parametrize("weights", [np.ones(3), np.zeros(400), np.full(400, np.nan), -np.ones(400)])
def test_an_estimate_needs_a_positive_weight_for_each_row(weights: NDArray[Any]) -> None:
    with pytest.raises(ValueError, match="need 400 positive finite weights"):
        rk.estimate_noise_rate(np.full((400, 2), 0.5), np.zeros(400, int), weights=weights)


def test_it_works_in_a_pipeline_a_grid_and_a_cross_validation() -> None:
    x, y = X[FEW], Y[FEW]
    inner = make_pipeline(StandardScaler(), LogisticRegression())
    grid = GridSearchCV(
        RRMClassifier(inner, crisp=True, random_state=0), {"estimator__logisticregression__C": [0.1, 1.0]}, cv=3
    )
    grid.fit(x, y)
    assert grid.best_params_["estimator__logisticregression__C"] == grid.best_estimator_.estimator_[-1].C
    outer = make_pipeline(StandardScaler(), RRMClassifier(crisp=True, random_state=0))
    assert outer.fit(x, y, rrmclassifier__sample_weight=np.ones(len(y)))[-1].removed_.any()
    assert cross_val_score(outer, x, y, cv=3).mean() > 0.5


def test_clone_and_pickle_and_set_params() -> None:
    model = RRMClassifier(LogisticRegression(C=2.0), contamination=0.3).set_params(estimator__C=3.0, rounds=1)
    copy = clone(model)
    assert (copy.estimator.C, copy.rounds) == (3.0, 1)
    assert not hasattr(copy, "estimator_")
    again = pickle.loads(pickle.dumps(copy.fit(X, Y)))  # noqa: S301
    np.testing.assert_array_equal(again.predict(X), copy.predict(X))
    assert len(again.findings()) == len(Y)
    assert model.estimator.C == 3.0
    assert not hasattr(model.estimator, "coef_")


def test_sample_weight_is_routed_and_the_inner_pipeline_needs_no_request() -> None:
    weights = np.r_[np.ones(120), np.zeros(120)]
    with config_context(enable_metadata_routing=True):
        inner = make_pipeline(StandardScaler(), LogisticRegression())
        model = RRMClassifier(inner, crisp=True, random_state=0).set_fit_request(sample_weight=True)
        outer = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        outer.fit(X[FEW], Y[FEW], sample_weight=weights)
    assert not outer[-1].weights_[120:].any()
    assert outer[-1].weights_[:120].any()


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_and_names_are_kept(frame: Any) -> None:
    table = frame({"a": X[:, 0], "b": X[:, 1]})
    names = np.array(["ant", "bee", "cow"])[Y]
    model = RRMClassifier(crisp=True, random_state=0).fit(table, names)
    assert list(model.feature_names_in_) == list(model.estimator_.feature_names_in_) == ["a", "b"]
    assert list(model.classes_) == ["ant", "bee", "cow"]
    assert set(model.predict(table)) == {"ant", "bee", "cow"}
    np.testing.assert_array_equal(RRMClassifier(crisp=True, random_state=0).fit(X, Y).removed_, model.removed_)
    worst = model.findings().worst(1)[0]
    assert worst["is_label_issue"]
    assert worst["given_label"] != worst["predicted_label"]
    assert worst["given_label"] == names[worst["index"]]


def test_findings_keep_the_position_in_x_where_rows_of_weight_zero_are_left_out() -> None:
    weights = np.ones(len(Y))
    weights[:100] = 0
    model = RRMClassifier(crisp=True, random_state=0).fit(X, Y, sample_weight=weights)
    table = model.findings()
    assert table.index.tolist() == table.id.tolist() == list(range(100, len(Y)))
    np.testing.assert_array_equal(table.given, Y[100:])
    named = model.findings(ids=[f"r{row}" for row in range(len(Y))])
    assert (named[0]["index"], named[0]["id"]) == (100, "r100")
    with pytest.raises(ValueError, match="need 1500 ids, one for each row of X, got 3"):
        model.findings(ids=["a", "b", "c"])


def test_sparse_rows_and_lists_are_accepted() -> None:
    plain = RRMClassifier(crisp=True, random_state=0).fit(X[FEW], Y[FEW])
    for rows in (scipy.sparse.csr_array(X[FEW]), scipy.sparse.coo_array(X[FEW]), X[FEW].tolist()):
        np.testing.assert_array_equal(
            RRMClassifier(crisp=True, random_state=0).fit(rows, Y[FEW].tolist()).removed_, plain.removed_
        )


def test_missing_values_are_left_to_the_estimator() -> None:
    holes = X.copy()
    holes[::50, 0] = np.nan
    boosted = xgboost.XGBClassifier(n_estimators=20, n_jobs=1)
    assert found(RRMClassifier(boosted, crisp=True, rounds=2, random_state=0).fit(holes, Y))[0] > 0.8
    with pytest.raises(ValueError, match="contains NaN"):
        RRMClassifier().fit(holes, Y)


def test_it_has_the_methods_of_its_estimator() -> None:
    assert not hasattr(RRMClassifier(LinearSVC()), "predict_proba")
    svm = RRMClassifier(LinearSVC(), contamination=0.4, rounds=1).fit(X, Y)
    np.testing.assert_array_equal(svm.decision_function(X), svm.estimator_.decision_function(X))
    assert not hasattr(RRMClassifier(RandomForestClassifier()), "decision_function")
    model = RRMClassifier(contamination=0.4, rounds=1).fit(X, Y)
    np.testing.assert_allclose(np.log(model.predict_proba(X)), model.predict_log_proba(X))


def test_each_class_keeps_its_weight_if_asked_to() -> None:
    model = RRMClassifier(contamination=0.4, per_class=True, random_state=0).fit(X, Y)
    by_class = np.bincount(Y, model.weights_) / model.weights_.sum()
    np.testing.assert_allclose(by_class, np.bincount(Y) / len(Y), atol=1e-5)
    assert min(found(model)) > 0.9


def test_a_class_never_vanishes() -> None:
    rare = Y.copy()
    rare[:3] = 3  # among rows of other classes
    model = RRMClassifier(contamination=0.5, random_state=0).fit(X, rare)
    assert set(rare[~model.removed_]) == {0, 1, 2, 3}
    forest = RandomForestClassifier(50, random_state=0)
    assert 3 in RRMClassifier(forest, contamination=0.5).fit(X, rare).classes_


def test_two_rows_of_a_class_are_enough_for_folds() -> None:
    y = np.zeros(60, int)
    y[[3, 40]] = 1
    model = RRMClassifier(GaussianNB(), contamination=0.1, random_state=0).fit(X[:60], y)
    assert set(y[~model.removed_]) == {0, 1}


def test_trees_with_probabilities_of_0_and_1_still_remove_rows() -> None:
    model = RRMClassifier(DecisionTreeClassifier(random_state=0), crisp=True, random_state=0).fit(X, Y)
    assert found(model)[1] > 0.7


def test_rows_that_every_tree_drew_are_not_judged() -> None:
    few = RandomForestClassifier(3, random_state=0)
    model = RRMClassifier(few, losses="out-of-bag", contamination=0.4, rounds=1).fit(X, Y)
    unseen = np.isnan(model.sample_weights_.average_losses.numpy())
    assert unseen.any()
    assert not model.removed_[unseen].any()


@pytest.mark.parametrize(
    "cv", [3, ShuffleSplit(4, random_state=0), RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)]
)
def test_any_splitter_works(cv: Any) -> None:
    assert min(found(RRMClassifier(contamination=0.4, cv=cv, random_state=0).fit(X, Y))) > 0.9


def test_the_same_random_state_gives_the_same_model() -> None:
    first, second = (RRMClassifier(crisp=True, random_state=3).fit(X, Y) for _ in range(2))
    np.testing.assert_array_equal(first.estimator_.coef_, second.estimator_.coef_)


def test_linear_models_start_from_the_last_solution_and_forests_do_not() -> None:
    model = RRMClassifier(LogisticRegression(), crisp=True, random_state=0).fit(X, Y)
    assert model.estimator_.warm_start is False
    steps = RRMClassifier(LogisticRegression(), crisp=True, random_state=0, rounds=1).fit(X, Y)
    assert model.n_rounds_ == 3
    assert model.estimator_.n_iter_[0] < steps.estimator_.n_iter_[0]
    growing = RandomForestClassifier(20, warm_start=True, random_state=0)
    assert len(RRMClassifier(growing).fit(X, Y).estimator_.estimators_) == 20


class HardClassifier(KNeighborsClassifier):  # type: ignore[misc]
    """Takes weights, predicts no probabilities."""

    predict_proba = property()  # type: ignore[assignment]

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        return super().fit(X, y)


@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (RRMClassifier(KNeighborsClassifier()), Y, "need an estimator whose fit takes sample_weight, got KNeighborsC"),
        (RRMClassifier(make_pipeline(StandardScaler(), KNeighborsClassifier())), Y, "got KNeighborsClassifier"),
        (RRMClassifier(make_pipeline(StandardScaler(), "passthrough")), Y, "whose fit takes sample_weight, got str"),
        (RRMClassifier(losses="training"), Y, "need losses to be one of 'auto', 'in-sample'.*got 'training'"),
        (RRMClassifier(losses="out-of-bag"), Y, "need an ensemble that draws rows with bootstrap=True"),
        (
            RRMClassifier(HardClassifier()),
            Y,
            "need an estimator with predict_proba or decision_function, got HardClassifier",
        ),
        (RRMClassifier(rounds=0), Y, "need rounds to be an integer >= 1, got 0"),
        (RRMClassifier(cv=1), Y, "need cv to be a splitter.*got cv=1"),
        (RRMClassifier(cv=1000), Y, "a number of folds from 2 to 516, the rows of the largest class; got cv=1000"),
        (RRMClassifier(gamma=1.0, contamination=0.2), Y, "need gamma or contamination"),
        (RRMClassifier(contamination=1.5), Y, "need a contamination in"),
        (RRMClassifier(), np.zeros(len(Y)), "need at least two classes in y, got one class only"),
        (RRMRegressor(loss="absolute"), Y, "need loss to be 'squared' or 'huber', got 'absolute'"),
    ],
)
def test_bad_settings_are_an_error_of_one_line(model: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        model.fit(X, y)
    assert "\n" not in str(raised.value)


def test_weights_that_are_all_zero_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one non-zero"):
        RRMClassifier().fit(X, Y, sample_weight=np.zeros(len(Y)))


def regression(seed: int = 0, noise: float = 0.15) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Rows, targets of which some are far off, a mask of these, and the true targets."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(600, 5))
    truth = x @ np.arange(1.0, 6.0) + np.sin(3 * x[:, 0])
    wrong = random.random(600) < noise
    return x, truth + 0.3 * random.normal(size=600) + wrong * random.uniform(15, 40, 600), wrong, truth


@pytest.mark.parametrize(
    "estimator",
    [
        LinearRegression(),
        make_pipeline(StandardScaler(), Ridge()),
        RandomForestRegressor(50, random_state=0),
        xgboost.XGBRegressor(n_estimators=30, n_jobs=1),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_a_regressor_finds_targets_that_are_far_off(estimator: Any) -> None:
    x, y, wrong, truth = regression()
    model = RRMRegressor(estimator, random_state=0).fit(x, y)
    precision, recall = precision_and_recall(torch.from_numpy(model.removed_), torch.from_numpy(wrong))
    assert precision >= 0.85
    assert recall >= 0.9
    alone = clone(estimator).fit(x, y)
    assert np.abs(model.predict(x) - truth).mean() < 0.5 * np.abs(alone.predict(x) - truth).mean()


def test_the_findings_of_a_regressor_are_ranked_by_loss() -> None:
    x, y, wrong, _ = regression()
    model = RRMRegressor(random_state=0).fit(x, y)
    table = model.findings(ids=[f"r{row}" for row in range(len(y))])
    assert table.id.tolist() == [f"r{row}" for row in range(len(y))]
    assert np.array_equal(table.is_label_issue, model.removed_)
    assert wrong[table.worst(wrong.sum()).index].mean() > 0.95


def test_the_loss_of_a_regressor_matters_to_gamma() -> None:
    x, y, _, _ = regression()
    squared, huber = (RRMRegressor(loss=loss, gamma=30.0, random_state=0).fit(x, y) for loss in ("squared", "huber"))
    assert squared.removed_.sum() > huber.removed_.sum()
    models = [RRMRegressor(loss=loss, contamination=0.1, random_state=0).fit(x, y) for loss in ("squared", "huber")]
    np.testing.assert_array_equal(models[0].removed_, models[1].removed_)


def test_hardly_anything_is_removed_from_a_normal_regression() -> None:
    x, y, _, _ = regression(noise=0.0)
    assert RRMRegressor(random_state=0).fit(x, y).removed_.mean() < 0.02


def test_a_regressor_counts_weights_as_rows() -> None:
    x, y, _, _ = regression()
    weights = np.random.default_rng(0).integers(0, 4, len(y))
    more_x, more_y, row = repeated(weights, x, y, np.arange(len(y)))
    by_weight = RRMRegressor(losses="in-sample").fit(x, y, sample_weight=weights)
    by_row = RRMRegressor(losses="in-sample").fit(more_x, more_y)
    np.testing.assert_array_equal(by_weight.removed_[row], by_row.removed_)
    np.testing.assert_allclose(by_weight.estimator_.coef_, by_row.estimator_.coef_)
