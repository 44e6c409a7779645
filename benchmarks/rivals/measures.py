"""Measures of a method: test accuracy, how well it finds mislabeled rows, and its estimate of the noise rate."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from rivals.outcome import Outcome
from rivals.problem import Problem, outputs


def measure(problem: Problem, outcome: Outcome) -> dict[str, Any]:
    """Return all measures; None where there is nothing to measure."""
    return {
        **on_the_test(outputs(outcome.model, problem.test_x), problem.test_y),
        **of_ranking(outcome.quality, problem.wrong),
        **of_flags(outcome.flags, problem.wrong),
        **by_class(outcome.flags, problem),
        **of_rate(outcome, problem.rate),
        "cpu_seconds": outcome.cpu_seconds,
    }


def on_the_test(logits: Tensor, labels: Tensor) -> dict[str, float | None]:
    """Return the accuracy on clean test rows and, of two classes, the area under the precision-recall curve."""
    from sklearn.metrics import average_precision_score

    two = logits.shape[1] == 2
    score = (logits[:, 1] - logits[:, 0]).numpy() if two else None
    return {
        "accuracy": float((logits.argmax(1) == labels).double().mean()),
        "test_auprc": float(average_precision_score(labels.numpy(), score)) if two else None,
    }


def of_ranking(quality: Tensor | None, wrong: Tensor) -> dict[str, float | None]:
    """Return how well low quality ranks mislabeled rows, and what is missed among as many as are mislabeled.

    None if there is no ranking or no mislabeled row.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    if quality is None or not wrong.any():
        return dict.fromkeys(("auprc", "auroc", "missed_at_true_rate"))
    suspicion, truth = -quality.double().numpy(), wrong.numpy()
    worst = quality.argsort()[: int(wrong.sum())]
    return {
        "auprc": float(average_precision_score(truth, suspicion)),
        "auroc": float(roc_auc_score(truth, suspicion)),
        "missed_at_true_rate": 1 - float(wrong[worst].double().mean()),
    }


def of_flags(flags: Tensor | None, wrong: Tensor) -> dict[str, float | None]:
    """Return the fraction flagged and, if rows are mislabeled, precision, recall and F1; 0 if nothing is flagged."""
    names = ("flagged", "precision", "recall", "f1")
    if flags is None:
        return dict.fromkeys(names)
    flagged = float(flags.double().mean())
    if not wrong.any():
        return {**dict.fromkeys(names), "flagged": flagged}
    hits, n_flagged, n_wrong = (int(each.sum()) for each in (flags & wrong, flags, wrong))
    return {
        "flagged": flagged,
        "precision": hits / max(n_flagged, 1),
        "recall": hits / n_wrong,
        "f1": 2 * hits / (n_flagged + n_wrong),
    }


def by_class(flags: Tensor | None, problem: Problem) -> dict[str, list[float | None] | None]:
    """Return fractions by given class: flagged rows, flagged among its right rows, and mislabeled rows."""
    names = ("flagged_by_class", "right_flagged_by_class", "wrong_by_class")
    if flags is None:
        return dict.fromkeys(names)
    classes = [problem.y == label for label in range(problem.n_classes)]
    shares = (
        [_share(flags[rows]) for rows in classes],
        [_share(flags[rows & ~problem.wrong]) for rows in classes],
        [_share(problem.wrong[rows]) for rows in classes],
    )
    return dict(zip(names, shares, strict=True))


def of_rate(outcome: Outcome, rate: float) -> dict[str, float | None]:
    """Return the estimated noise rate, its error, its interval, and the floor."""
    error = None if outcome.rate is None else outcome.rate - rate
    interval = {"rate_low": outcome.low, "rate_high": outcome.high}
    return {"rate": outcome.rate, "rate_error": error, **interval, "floor": outcome.floor}


def _share(marks: Tensor) -> float | None:
    return float(marks.double().mean()) if len(marks) else None
