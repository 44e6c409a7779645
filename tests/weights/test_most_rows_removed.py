"""A noise rate so large that all rows would go removes all that may go, wherever it is used."""

import math

import pytest
import torch

import rockafellian as rk

N = 60
LOSSES = torch.rand(N, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(N) % 2
LOGITS = 4 * torch.nn.functional.one_hot(1 - LABELS, 2).float()  # the network disagrees with every label
RULES = [rk.RRM(contamination=rate) for rate in (0.99, 0.999, math.nextafter(1, 0))]


def stepped(rule: rk.RRM, with_labels: bool, **options: object) -> rk.SampleWeights:
    weights = rk.SampleWeights(N, rule, **options)
    weights.reduce(LOSSES, range(N), **({"logits": LOGITS, "labels": LABELS} if with_labels else {}))
    weights.step()
    assert float(weights.values.mean()) == pytest.approx(1)
    assert weights.history[-1].n_removed == weights.n_removed
    return weights


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_without_labels_only_the_row_of_least_loss_stays(rule: rk.RRM) -> None:
    kept = ~stepped(rule, with_labels=False).removed
    assert kept.nonzero()[:, 0].tolist() == [int(LOSSES.argmin())]


@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize(("limit", "stay"), [(0.9, 3), (0.5, 15), (1.0, 1)])
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_limit_of_a_class_comes_before_the_rule(rule: rk.RRM, limit: float, stay: int, per_class: bool) -> None:
    kept = ~stepped(rule, with_labels=True, class_limit=limit, per_class=per_class).removed
    for label in (0, 1):
        of_class = LOSSES.masked_fill(label != LABELS, torch.inf)
        expected = of_class.argsort()[:stay]
        if limit == 1 and not per_class:  # the row of least loss stays, of whatever class
            expected = expected[LOSSES[expected] == LOSSES.min()]
        assert set((kept & (label == LABELS)).nonzero()[:, 0].tolist()) == set(expected.tolist())


@pytest.mark.parametrize("spread", ["kept", "argmin"])
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_stream_keeps_only_the_least_loss_of_its_window(rule: rk.RRM, spread: str) -> None:
    stream = rk.StreamWeights(
        rk.RRM(contamination=rule.contamination, spread=spread), window=N, warmup=0, every=1, class_limit=1.0
    )
    assert stream.reduce(LOSSES).isfinite()
    assert stream.threshold == float(LOSSES.min())
    assert int(stream.removed.sum()) == N - 1
    equal = rk.StreamWeights(rule, window=N, warmup=0, every=1)
    assert float(equal.reduce(torch.ones(N))) == 1  # rows that tie all stay
    assert equal.threshold == math.inf


def test_the_limit_is_exact_where_a_product_would_be_rounded() -> None:
    """0.29 * 100 is below 29, and yet 29 of 100 rows are the limit."""
    losses, labels = torch.arange(100.0), torch.zeros(100, dtype=torch.int64)
    for limit, removed in ((0.29, 29), (math.nextafter(0.29, 0), 28), (math.nextafter(0.29, 1), 29)):
        weights = rk.SampleWeights(100, rk.RRM(contamination=0.5), class_limit=limit)
        weights.reduce(losses, range(100), logits=torch.ones(100, 2), labels=labels)
        weights.step()
        assert weights.n_removed == removed
