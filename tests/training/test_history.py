import copy
import json
import math
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from rockafellian._internal.extras import install_command
from rockafellian.training.history import Best, Epoch, History, Reweighting

EPOCHS = [
    Epoch(epoch, 1 / epoch, 0.5 + epoch / 10, 2 / epoch, 0.4 + epoch / 10, epoch / 20, 0.1, 3.0) for epoch in (1, 2, 3)
]
ROUNDS = [
    Reweighting(1, 2.0, 0.5, 10, 0.1, None, 10, 0.9, 0.8, 0.5, 0.1),
    Reweighting(2, 1.5, 0.25, 20, 0.2, 0.25, 12, None, 0.7, 0.5, 0.1),
]
BEST = Best(3, 2 / 3, 0.7, {"weight": torch.arange(3.0), "seen": torch.tensor(7)})
ROUND_COLUMNS = ("n_changed", "threshold", "c_min", "n_removed", "removed_fraction", "gap", "precision", "recall")
ROUND_COLUMNS += ("seconds", "rule_seconds")
REGRESSION = History([replace(epoch, accuracy=None, valid_accuracy=None) for epoch in EPOCHS])


def full() -> History:
    return History(list(EPOCHS), list(ROUNDS), replace(BEST))


def test_a_frame_has_a_row_per_epoch_and_the_rounds_beside_theirs() -> None:
    frame = full().to_frame()
    assert frame.index.tolist() == [1, 2, 3]
    assert frame.index.name == "epoch"
    for name in ("loss", "accuracy", "valid_loss", "valid_accuracy", "removed_fraction", "learning_rate", "seconds"):
        assert frame[name].tolist() == [getattr(epoch, name) for epoch in EPOCHS]
    for name in ROUND_COLUMNS:
        expected = [getattr(made, name) for made in ROUNDS] + [None]
        assert frame.pop(f"round_{name}").tolist() == pytest.approx(
            [math.nan if value is None else value for value in expected], nan_ok=True
        )
    assert len(frame.columns) == 7


@pytest.mark.parametrize(
    "history",
    [
        full(),
        REGRESSION,
        History(),
    ],
    ids=["full", "without accuracy and rounds", "empty"],
)
def test_every_column_of_a_frame_is_of_numbers(history: History) -> None:
    frame = history.to_frame()
    assert len(frame) == len(history.epochs)
    assert set(frame.dtypes) == {np.dtype(np.float64)}


def drawn(panel) -> dict[str, tuple[list[float], list[float]]]:
    return {line.get_label(): (line.get_xdata().tolist(), line.get_ydata().tolist()) for line in panel.get_lines()}


def test_a_plot_shows_loss_accuracy_and_what_was_removed(tmp_path) -> None:
    figure = full().plot(tmp_path / "history.png")
    assert (tmp_path / "history.png").read_bytes().startswith(b"\x89PNG")
    assert [panel.get_title() for panel in figure.axes] == ["loss", "accuracy", "re-weightings"]
    for panel, name in zip(figure.axes, ("loss", "accuracy"), strict=False):
        assert drawn(panel) == {
            "training, labels as given": ([1, 2, 3], [getattr(epoch, name) for epoch in EPOCHS]),
            "validation": ([1, 2, 3], [getattr(epoch, f"valid_{name}") for epoch in EPOCHS]),
        }
    found = drawn(figure.axes[2])
    assert found.pop("precision")[1] == pytest.approx([0.9, math.nan], nan_ok=True)
    assert found == {"rows removed": ([1, 2], [0.1, 0.2]), "recall": ([1, 2], [0.8, 0.7])}
    assert all(len(panel.get_legend().get_texts()) == len(panel.get_lines()) for panel in figure.axes)


def test_a_plot_has_no_panel_and_no_line_for_what_there_was_not(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    history = History([replace(epoch, valid_loss=None, valid_accuracy=None, removed_fraction=None) for epoch in EPOCHS])
    figure = history.plot()
    assert [panel.get_title() for panel in figure.axes] == ["loss", "accuracy"]
    assert [list(drawn(panel)) for panel in figure.axes] == [["training, labels as given"]] * 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("history", [REGRESSION, History()], ids=["without accuracy", "empty"])
def test_a_plot_without_a_line_in_a_panel_warns_of_nothing(history: History) -> None:
    figure = history.plot()
    assert drawn(figure.axes[1]) == {}


def test_a_state_is_plain_but_for_the_best_network_and_gives_the_same_history() -> None:
    state = full().state_dict()
    plain = {name: value for name, value in state["best"].items() if name != "model"}
    again = json.loads(json.dumps({**state, "best": plain}))
    again["best"]["model"] = state["best"]["model"]
    history = History()
    history.load_state_dict(again)
    assert history == full()
    assert [epoch.seconds for epoch in history.epochs] == [3.0, 3.0, 3.0]
    assert history.best.model.keys() == BEST.model.keys()
    assert all(torch.equal(history.best.model[name], tensor) for name, tensor in BEST.model.items())


def test_a_state_is_a_copy_and_replaces_what_was_there() -> None:
    history = History()
    state = history.state_dict()
    history.epochs.append(EPOCHS[0])
    history.rounds.append(ROUNDS[0])
    history.best = BEST
    assert state == {"epochs": [], "rounds": [], "best": None}
    history.load_state_dict(state)
    assert history == History()


def test_a_change_to_a_state_is_none_to_the_history() -> None:
    history = full()
    state = history.state_dict()
    for record in (state["epochs"][0], state["rounds"][0], state["best"]):
        record["epoch"] = 99
    assert history == full()


@pytest.mark.parametrize(
    ("part", "number", "changes", "equal"),
    [
        ("epochs", 1, {"seconds": 99.0}, True),
        ("epochs", 1, {"loss": 99.0}, False),
        ("epochs", 1, {"removed_fraction": None}, False),
        ("rounds", 0, {"seconds": 99.0, "rule_seconds": 99.0}, True),
        ("rounds", 0, {"recall": 0.5}, False),
    ],
)
def test_histories_are_equal_if_all_but_the_seconds_is(part: str, number: int, changes, equal: bool) -> None:
    other = full()
    getattr(other, part)[number] = replace(getattr(other, part)[number], **changes)
    assert (other == full()) == equal


def test_histories_with_different_ends_or_best_networks_are_not_equal() -> None:
    shorter = copy.copy(full())
    shorter.epochs = EPOCHS[:2]
    assert shorter != full()
    assert History(EPOCHS, ROUNDS, replace(BEST, epoch=2)) != full()
    assert History(EPOCHS, ROUNDS, replace(BEST, model={})) == full()


@pytest.mark.parametrize(
    ("new", "old", "beats"),
    [
        ((1.0, 0.8), None, True),
        ((9.0, 0.8), (1.0, 0.7), True),
        ((0.1, 0.7), (1.0, 0.8), False),
        ((0.9, 0.8), (1.0, 0.8), True),
        ((1.1, 0.8), (1.0, 0.8), False),
        ((1.0, 0.8), (1.0, 0.8), False),  # the first of equals stays
        ((0.9, 0.0), (1.0, 0.0), True),
        ((0.9, None), (1.0, None), True),
        ((1.1, None), (1.0, None), False),
        ((1.0, None), (1.0, None), False),
        ((math.nan, None), (1.0, None), False),
        ((1.0, None), (math.nan, None), True),
    ],
)
def test_the_best_is_the_most_accurate_and_among_those_the_one_of_least_loss(new, old, beats: bool) -> None:
    assert Best(2, *new, {}).beats(None if old is None else Best(1, *old, {})) == beats


@pytest.mark.parametrize(
    ("missing", "call", "extra"),
    [("pandas", History.to_frame, "frames"), ("matplotlib.figure", History.plot, "charts")],
)
def test_a_missing_library_is_an_error_that_names_the_extra(missing: str, call, extra: str, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, "rockafellian.training.charts")
    with pytest.raises(ImportError, match=f"need {missing.split('.')[0]} .*{re.escape(install_command(extra))}"):
        call(full())
