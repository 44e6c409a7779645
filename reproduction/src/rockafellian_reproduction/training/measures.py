"""What a finished training is measured by, table by table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from sklearn.metrics import average_precision_score, precision_recall_curve
from torch import Tensor, nn

from rockafellian._internal.modes import eval_mode
from rockafellian.contamination import uniform
from rockafellian.training.history import History
from rockafellian_reproduction.tables.figures import EPS
from rockafellian_reproduction.training.epoch_log import EpochLog, accuracy
from rockafellian_reproduction.training.problems import Problem

#: Paper: the authors' public code adds each eps to the one before, so the rows of Tables 4 and 7 may be these.
SUMMED_EPS = (0.0, 0.1, 0.35, 0.85, 1.85)
CURVE_POINTS = 60
#: Rows in a batch of the scores.
BATCH = 256


def measure_last(model: nn.Module, problem: Problem, history: History, log: EpochLog) -> dict[str, Any]:
    """Return the accuracy after the last epoch."""
    return {"test accuracy": accuracy(model, problem.test)}


def measure_eps(model: nn.Module, problem: Problem, history: History, log: EpochLog) -> dict[str, Any]:
    """Return the accuracy under every eps in both readings, at the best validation accuracy and at the end.

    Where validation rows are not attacked, also that at the best accuracy on attacked ones.
    """
    found = {f"last, eps {eps:g}": accuracy(model, problem.test, eps) for eps in EPS}
    if log.load_best_attacked():
        found |= _under_attack(model, problem, "attacked validation, ")
    _load_best(model, history)
    return found | _under_attack(model, problem)


def _under_attack(model: nn.Module, problem: Problem, chosen: str = "") -> dict[str, float]:
    """Return the accuracy under every eps, and under each added to those before it."""
    pairs = [(f"{chosen}eps {eps:g}", eps) for eps in EPS]
    pairs += [(f"{chosen}summed eps {eps:g}", more) for eps, more in zip(EPS, SUMMED_EPS, strict=True)]
    return {name: accuracy(model, problem.test, eps) for name, eps in pairs}


def measure_peak(model: nn.Module, problem: Problem, history: History, log: EpochLog) -> dict[str, Any]:
    """Return the accuracy at the best validation accuracy, the best on the test rows, and that after the last epoch."""
    tested = list(log.record()["tested"].values())
    last = accuracy(model, problem.test)
    _load_best(model, history)
    at_best = accuracy(model, problem.test)
    return {"at best validation": at_best, "best on test": max(*tested, at_best, last), "last": last}


def measure_ranking(model: nn.Module, problem: Problem, history: History, log: EpochLog) -> dict[str, Any]:
    """Return areas under precision-recall curves: of the test rows, and of the training rows with the given labels.

    Paper: how the training rows count is not stated; each counts with its weight, and all with 1 in a second figure.
    Whether test rows are mislabeled too is not stated either: they are not, and in a second figure they are.
    """
    weights = None if log.weights is None else log.weights.values.numpy()
    (scores, labels), (test_scores, test_labels) = (_scores(model, part) for part in (problem.train, problem.test))
    noise_rate = float(problem.wrong.float().mean())
    mislabeled = uniform(torch.from_numpy(test_labels), noise_rate, n_classes=2).labels.numpy()
    precision, recall, _ = precision_recall_curve(test_labels, test_scores)
    points = torch.linspace(0, len(recall) - 1, CURVE_POINTS).long()
    return {
        "PR-AUC, test": float(average_precision_score(test_labels, test_scores)),
        "PR-AUC, test, mislabeled": float(average_precision_score(mislabeled, test_scores)),
        "PR-AUC, train": float(average_precision_score(labels, scores, sample_weight=weights)),
        "PR-AUC, train, all rows alike": float(average_precision_score(labels, scores)),
        "curve": [[round(float(part[i]), 4) for i in points] for part in (recall, precision)],
    }


MEASURES: dict[str, Callable[[nn.Module, Problem, History, EpochLog], dict[str, Any]]] = {
    "last": measure_last,
    "eps": measure_eps,
    "peak": measure_peak,
    "ranking": measure_ranking,
}


def _load_best(model: nn.Module, history: History) -> None:
    assert history.best is not None
    model.load_state_dict(history.best.model)


def _scores(model: nn.Module, data: tuple[Tensor, Tensor]) -> tuple[Any, Any]:
    """Return the mean logit of each row, and its label."""
    with eval_mode(model), torch.no_grad():
        found = [model(x).mean(1) for x in torch.split(data[0], BATCH)]
    return torch.cat(found).numpy(), data[1][:, 0].long().numpy()
