import pickle
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch.callbacks import EpochScoring
from skorch.dataset import ValidSplit
from skorch.helper import predefined_split
from torch.utils.data import Dataset, TensorDataset

import rockafellian as rk
from rockafellian.integrations.skorch import RRMNetClassifier
from toy import make_toy, precision_and_recall

TOY = make_toy()
X, Y = TOY.x.numpy(), TOY.y.numpy()
STRATIFIED = ValidSplit(5, stratified=True)


class Net(torch.nn.Module):
    """Returns logits, or probabilities for skorch's own criterion."""

    def __init__(self, hidden: int = 32, probabilities: bool = False) -> None:
        super().__init__()
        layers = [torch.nn.Linear(2, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 3)]
        self.layers = torch.nn.Sequential(*layers, *([torch.nn.Softmax(1)] if probabilities else []))

    def forward(self, x: torch.Tensor) -> Any:
        return self.layers(x)


def make_net(**settings: Any) -> RRMNetClassifier:
    torch.manual_seed(0)
    usual = {
        "criterion": torch.nn.CrossEntropyLoss,
        "crisp": True,
        "lr": 0.1,
        "max_epochs": 10,
        "batch_size": 50,
        "verbose": 0,
    }
    return RRMNetClassifier(Net, **{**usual, "iterator_train__shuffle": True, **settings})


@pytest.mark.parametrize("contamination", ["auto", 0.4])
@pytest.mark.parametrize(
    "criterion",
    [{}, {"criterion": torch.nn.NLLLoss, "module__probabilities": True}],
    ids=["CrossEntropyLoss", "NLLLoss"],
)
def test_the_rows_it_removes_are_the_wrong_ones(criterion: dict[str, Any], contamination: Any) -> None:
    net = make_net(contamination=contamination, **criterion).fit(X, Y)
    precision, recall = precision_and_recall(torch.from_numpy(net.removed_), TOY.wrong)
    assert precision >= 0.9
    assert recall >= 0.8
    assert net.score(X[~TOY.wrong], Y[~TOY.wrong]) > 0.95
    assert net.weights_.shape == (len(Y),)


def test_training_equals_the_plain_loop() -> None:
    net = make_net(contamination=0.4, iterator_train__shuffle=False, max_epochs=3).fit(X, Y)
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    weights = rk.SampleWeights(len(Y), rk.RRM(contamination=0.4))
    for _ in range(3):
        for index in torch.arange(len(Y)).split(50):
            optimizer.zero_grad()
            logits = model(TOY.x[index])
            weights.reduce(rk.losses.cce(logits, TOY.y[index]), index, logits=logits, labels=TOY.y[index]).backward()
            optimizer.step()
        weights.step()
    np.testing.assert_array_equal(net.removed_, weights.removed.numpy())
    torch.testing.assert_close(net.module_.state_dict(), model.state_dict())


def test_validation_rows_are_never_removed_and_are_scored_without_weights() -> None:
    net = make_net(train_split=STRATIFIED, contamination=0.4).fit(X, Y)
    held = np.isnan(net.sample_weights_.average_losses.numpy())
    assert held.sum() == len(Y) // 5
    assert (net.weights_[held] == 1).all()
    assert not net.removed_[held].any()
    precision, recall = precision_and_recall(torch.from_numpy(net.removed_[~held]), TOY.wrong[~held])
    assert min(precision, recall) > 0.9
    with torch.no_grad():
        plain = rk.losses.cce(net.module_(TOY.x[held]), TOY.y[held]).mean()
    assert net.history[-1, "valid_loss"] == pytest.approx(float(plain), rel=1e-5)


def test_a_predefined_validation_set_works() -> None:
    other = make_toy(seed=1)
    net = make_net(train_split=predefined_split(TensorDataset(other.x, other.y)), max_epochs=2).fit(X, Y)
    assert len(net.weights_) == len(Y)
    assert net.history[-1, "valid_acc"] > 0.5


def test_callbacks_see_batches_without_the_index() -> None:
    scoring = EpochScoring("accuracy", on_train=True, name="train_acc", lower_is_better=False)
    net = make_net(callbacks=[scoring], max_epochs=4).fit(X, Y)
    assert net.history[-1, "train_acc"] > 0.5


def test_it_is_cloned_searched_and_put_into_a_pipeline() -> None:
    few = slice(0, 300)
    net = make_net(max_epochs=2, contamination=0.4)
    fitted = clone(net.fit(X[few], Y[few]))
    assert fitted.contamination == 0.4
    assert not hasattr(fitted, "removed_")
    grid = GridSearchCV(net, {"contamination": [0.2, "auto"], "module__hidden": [8]}, cv=2).fit(X[few], Y[few])
    assert len(grid.best_estimator_.removed_) == 300
    scaled = make_pipeline(StandardScaler(), net).fit(X[few], Y[few])
    assert scaled.predict(X).shape == (len(Y),)


def test_partial_fit_resumes_with_the_same_weights() -> None:
    net = make_net(contamination=0.4, max_epochs=3).fit(X, Y)
    before = net.sample_weights_
    net.partial_fit(X, Y)
    assert net.sample_weights_ is before
    assert (before.epoch, len(before.history)) == (6, 6)
    net.set_params(warm_start=True).fit(X, Y)
    assert before.epoch == 9
    net.set_params(warm_start=False).fit(X, Y)
    assert net.sample_weights_ is not before


def test_partial_fit_refuses_another_number_of_rows() -> None:
    net = make_net(contamination=0.4, max_epochs=1).fit(X, Y)
    with pytest.raises(ValueError, match="need the same 1500 rows as in the last fit, got 100; pass the same rows"):
        net.partial_fit(X[:100], Y[:100])


def test_findings_have_class_names_and_survive_a_pickle() -> None:
    net = make_net().fit(X, Y)
    table = pickle.loads(pickle.dumps(net)).findings(ids=[f"r{row}" for row in range(len(Y))])  # noqa: S301
    assert table.id.tolist() == [f"r{row}" for row in range(len(Y))]
    np.testing.assert_array_equal(table.removed, net.removed_)
    assert len(table.issues) > 0.9 * net.removed_.sum()
    worst = table.worst(1)[0]
    assert TOY.wrong[worst["index"]]
    assert worst["given_label"] in {"0", "1", "2"}


def test_an_unfitted_net_has_no_weights() -> None:
    with pytest.raises(AttributeError, match="need a fitted net"):
        _ = make_net().initialize().removed_


class Summed(torch.nn.Module):
    """A criterion that returns one loss per batch."""

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(logits, labels)


def test_a_loss_that_is_already_reduced_is_refused() -> None:
    with pytest.raises(ValueError, match=r"need one loss per row, got shape \(\); use a criterion"):
        make_net(criterion=Summed).fit(X, Y)


def test_a_split_that_makes_other_rows_is_refused() -> None:
    def split(dataset: Dataset[Any], y: Any) -> tuple[Any, Any]:
        return TensorDataset(TOY.x[:10], TOY.y[:10]), None

    with pytest.raises(ValueError, match="need a train_split that returns a Subset of the data"):
        make_net(train_split=split).fit(X, Y)
