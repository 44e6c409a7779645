"""`fit(stop="settled")`: a run ends when nothing changes any more, and not before."""

from pathlib import Path

import pytest
import torch
from torch import nn

import rockafellian as rk
from rockafellian.training.history import Epoch, History
from rockafellian.training.stopping import MAX_CHANGED, MAX_FALL, MAX_RISE, PATIENCE, has_settled
from toy import make_toy

TOY = make_toy(n=300)
N = 1_000


def record(number: int, loss: float = 0.1, accuracy: float | None = 0.9, valid: float | None = None) -> Epoch:
    return Epoch(number, loss, accuracy, valid and 0.5, valid, 0.1, 0.1, 1.0)


def history(*, losses=(), accuracies=(), valids=(), changed=()) -> History:
    """A history that settled, but for the last values of what is given."""
    n = 3 * PATIENCE
    found = History([record(1, loss=2.0, accuracy=0.5, valid=0.4 if valids else None)])
    for number in range(2, n + 1):
        more = {"valid": 0.8} if valids else {}
        found.epochs.append(record(number, **more))
        found.rounds.append(rk.Reweighting(number - 1, 1.0, 0.0, 100, 0.1, None, 0))
    for back, loss in enumerate(reversed(losses), 1):
        found.epochs[-back] = record(n + 1 - back, loss=loss)
    for back, accuracy in enumerate(reversed(accuracies), 1):
        found.epochs[-back] = record(n + 1 - back, accuracy=accuracy)
    for back, valid in enumerate(reversed(valids), 1):
        found.epochs[-back] = record(n + 1 - back, valid=valid)
    for back, count in enumerate(reversed(changed), 1):
        found.rounds[-back] = rk.Reweighting(n - back, 1.0, 0.0, 100, 0.1, None, count)
    return found


def test_a_run_without_changes_has_settled_after_as_many_epochs_and_rounds_as_the_patience_says() -> None:
    whole = history()
    for epochs in range(1, len(whole.epochs) + 1):
        short = History(whole.epochs[:epochs], whole.rounds[: epochs - 1])
        assert has_settled(short, N, reweights=True) == (epochs >= PATIENCE + 2)  # the first epoch is worse
    assert not has_settled(History(whole.epochs), N, reweights=True)
    assert has_settled(History(whole.epochs), N, reweights=False)


@pytest.mark.parametrize(
    ("settled", "still"),
    [
        ({"losses": [0.1 - 1.9 * MAX_FALL]}, {"losses": [0.1 - 2.1 * MAX_FALL]}),  # 2.0 in the first epoch
        ({"accuracies": [0.9 + 0.9 * MAX_RISE]}, {"accuracies": [0.9 + 1.1 * MAX_RISE]}),
        ({"valids": [0.8]}, {"valids": [0.8 + 1.1 * MAX_RISE]}),
        ({"changed": [int(MAX_CHANGED * N)]}, {"changed": [int(MAX_CHANGED * N) + 1]}),
        ({"accuracies": [0.95] + [0.9] * PATIENCE}, {"accuracies": [0.95] + [0.9] * (PATIENCE - 1)}),
        ({"changed": [500] + [0] * PATIENCE}, {"changed": [500] + [0] * (PATIENCE - 1)}),
    ],
)
def test_a_change_of_loss_accuracy_or_removed_rows_within_the_patience_keeps_a_run_going(settled, still) -> None:
    assert has_settled(history(**settled), N, reweights=True)
    assert not has_settled(history(**still), N, reweights=True)


def test_a_task_without_accuracy_settles_by_its_loss() -> None:
    falling = [record(number, loss=1 / number, accuracy=None) for number in range(1, 5)]
    flat = [record(number, loss=0.2, accuracy=None) for number in range(5, 11)]
    assert not has_settled(History(falling + flat[:2]), N, reweights=False)
    assert has_settled(History(falling + flat), N, reweights=False)


def fit(epochs: int, stop, **options) -> tuple[rk.History, rk.SampleWeights]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 3))
    weights = rk.SampleWeights(300, rk.RRM(contamination=0.4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data = (TOY.x, TOY.y)
    more = {"loss": "cce", "epochs": epochs, "batch_size": 50, "progress": "quiet", "optimizer": optimizer}
    return rk.fit(model, data, weights=weights, stop=stop, **more, **options), weights


def test_a_settled_run_ends_early_and_removes_what_a_longer_one_does() -> None:
    short, early = fit(100, "settled")
    assert PATIENCE < len(short.epochs) < 50
    long, late = fit(100, None)
    assert len(long.epochs) == 100
    assert short.epochs == long.epochs[: len(short.epochs)]
    assert (early.removed != late.removed).double().mean() < 0.03


def test_a_settled_run_that_was_interrupted_ends_where_the_whole_one_does(tmp_path: Path) -> None:
    whole, _ = fit(100, "settled")
    fit(5, "settled", checkpoint=tmp_path)
    for _ in range(2):  # the second time there is nothing left to do
        assert fit(100, "settled", checkpoint=tmp_path, resume=True)[0].epochs == whole.epochs


def test_a_word_that_is_not_settled_is_an_error() -> None:
    with pytest.raises(ValueError, match=r'need stop to be a function or "settled", got \'setled\''):
        fit(3, "setled")
