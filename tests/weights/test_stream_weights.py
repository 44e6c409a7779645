"""StreamWeights: where it and the exact method both apply they agree, and it finds wrong rows that come only once."""

import math
from collections import deque
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import numbers
from ranks import run_ranks
from torch import Tensor

import rockafellian as rk
from rockafellian.weights.stream_weights import StreamWeights
from toy import Toy, make_toy, precision_and_recall

RULES = {
    "contamination": rk.RRM(contamination=0.3),
    "gamma": rk.RRM(gamma=1.5, mu=1),
    "l1": rk.RRM(gamma=0.5, mu=1, penalty="l1"),
}
LOSS = st.one_of(st.floats(0, 20, width=32), st.sampled_from([0.0, 1.0, 2.0, math.inf]))


def at_once(rule: rk.RRM, window: int = 1_000, **options: Any) -> StreamWeights:
    """A stream that removes from the first batch on and finds the threshold in each."""
    return StreamWeights(rule, window=window, **{"warmup": 0, "every": 1} | options)


def exact(rule: rk.RRM, losses: Tensor, **evidence: Tensor) -> rk.SampleWeights:
    """The weights of these rows after one re-weighting."""
    weights = rk.SampleWeights(len(losses), rule)
    weights.reduce(losses, torch.arange(len(losses)), **evidence)
    weights.step()
    return weights


def gradient(losses: Tensor, reduce: Any) -> Tensor:
    leaf = losses.clone().requires_grad_()
    reduce(leaf).backward()
    assert leaf.grad is not None
    return leaf.grad


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@settings(max_examples=50)
@given(losses=st.lists(LOSS, min_size=1, max_size=60).filter(lambda losses: min(losses) < math.inf))
def test_a_window_that_holds_all_rows_gives_the_threshold_and_the_gradient_of_the_exact_method(
    rule: rk.RRM, losses: list[float]
) -> None:
    c = torch.tensor(losses)
    stream, weights = at_once(rule), exact(rule, c)
    ours = gradient(c, stream.reduce)
    assert stream.threshold == weights.history[-1].threshold == float(rule.threshold(c))
    assert torch.equal(stream.removed, weights.removed)
    theirs = gradient(c, lambda leaf: weights.reduce(leaf, torch.arange(len(c))))
    torch.testing.assert_close(ours, theirs)


def test_the_thresholds_are_those_of_the_paper() -> None:
    losses = torch.rand(200, generator=torch.Generator().manual_seed(0))
    told, gamma = at_once(rk.RRM(contamination=0.25)), at_once(rk.RRM(gamma=0.5))
    for batch in losses.split(32):
        told.reduce(batch)
        gamma.reduce(batch)
    assert told.threshold == float(rk.threshold_for(losses, 0.25))
    assert gamma.threshold == float(losses.min() + 0.5)


@given(losses=st.lists(st.floats(0, 20, width=32), min_size=1, max_size=60))
def test_with_argmin_it_is_the_capped_mean_whose_removed_rows_give_no_gradient(losses: list[float]) -> None:
    c, rule = torch.tensor(losses), rk.RRM(gamma=1.5, spread="argmin")
    stream = at_once(rule)
    assert float(stream.reduce(c)) == pytest.approx(float(rk.optimal_value(c, gamma=1.5)), rel=1e-5, abs=1e-6)
    expected = (~rk.partition(c, 1.5).above).float() / len(c)
    torch.testing.assert_close(gradient(c, stream.reduce), expected)


@pytest.mark.parametrize("every", [1, 3])
@settings(max_examples=50)
@given(
    window=st.integers(2, 12),
    batches=st.lists(st.lists(st.floats(0, 20, width=32), min_size=1, max_size=20), min_size=1, max_size=12),
)
def test_the_threshold_is_that_of_the_last_rows_however_they_come(
    every: int, window: int, batches: list[list[float]]
) -> None:
    rule = rk.RRM(contamination=0.4)
    stream = StreamWeights(rule, window=window, every=every)
    last: deque[float] = deque(maxlen=window)
    threshold, kept, seen = math.inf, 1.0, 0
    for call, batch in enumerate(batches, 1):
        last.extend(batch)
        seen += len(batch)
        if call % every == 0 and seen >= window:
            threshold = float(rk.threshold_for(torch.tensor(last), 0.4))
            kept = sum(loss <= threshold for loss in last) / len(last)
        value = stream.reduce(torch.tensor(batch))
        assert (stream.seen, stream.threshold, stream.removed_fraction) == (
            seen,
            threshold,
            pytest.approx(1 - kept, abs=1e-6),
        )
        assert stream.removed.tolist() == [loss > threshold for loss in batch]
        total = sum(loss for loss in batch if loss <= threshold)
        assert float(value) == pytest.approx(total / len(batch) / kept, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_losses_of_another_precision_are_judged_alike(dtype: torch.dtype) -> None:
    losses = torch.rand(100, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
    stream, weights = at_once(rk.RRM(contamination=0.3)), exact(rk.RRM(contamination=0.3), losses)
    assert stream.reduce(losses).dtype == dtype
    assert torch.equal(stream.removed, weights.removed)


def test_an_infinite_loss_moves_nothing_once_it_is_removed() -> None:
    stream = at_once(rk.RRM(contamination=0.25))
    losses = torch.tensor([torch.inf, 1.0, 2.0, 3.0])
    assert float(stream.reduce(losses)) == pytest.approx(2.0)
    assert gradient(losses, stream.reduce).tolist() == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3])


def test_if_nothing_is_wrong_a_loss_larger_than_any_before_stays() -> None:
    stream = at_once(rk.RRM(contamination=0.0), every=2)
    for largest in (1.0, 2.0, 3.0, 4.0):
        stream.reduce(torch.tensor([0.5, largest, torch.inf]))
    assert stream.removed.tolist() == [False, False, True]
    stream.reduce(torch.tensor([5.0, torch.inf]))
    assert stream.removed.tolist() == [False, True]


def test_nothing_is_removed_before_the_warmup_is_over() -> None:
    stream = StreamWeights(rk.RRM(contamination=0.5), window=20, warmup=40, every=1)
    removed = []
    for _ in range(6):
        stream.reduce(torch.rand(10))
        removed.append(bool(stream.removed.any()))
    assert removed == [False] * 3 + [True] * 3


def test_a_class_whose_rows_all_have_large_losses_does_not_vanish() -> None:
    labels = torch.arange(400) % 20 // 19  # one row in twenty has label 1
    losses = torch.rand(400, generator=torch.Generator().manual_seed(0)) + 5 * labels
    logits = torch.zeros(400, 2)
    told, deaf = (at_once(rk.RRM(contamination=0.2)) for _ in range(2))
    told.reduce(losses, logits=logits, labels=labels)
    deaf.reduce(losses)
    assert deaf.removed[labels == 1].all()
    assert torch.equal(told.removed, exact(rk.RRM(contamination=0.2), losses, logits=logits, labels=labels).removed)
    assert int((~told.removed)[labels == 1].sum()) == 2
    assert told.removed_fraction == pytest.approx(float(told.removed.float().mean()), abs=1e-6)
    resumed = at_once(rk.RRM(contamination=0.2), every=99)
    resumed.load_state_dict(told.state_dict())
    resumed.reduce(losses, logits=logits, labels=labels)
    assert torch.equal(resumed.removed, told.removed)


def fresh(batch: int, seed: int = 0) -> Toy:
    """Rows that were never seen before."""
    return make_toy(1_000 * seed + batch, n=60)


def network(seed: int) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 3))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def train(stream: StreamWeights, *, batches: int = 160, seed: int = 0, clean: bool = False) -> tuple[Tensor, Tensor]:
    """One pass over a stream; the rows of its later half that were removed, and those that are wrong."""
    model, optimizer = network(seed)
    removed, wrong = [], []
    for batch in range(batches):
        x, y, is_wrong = fresh(batch, seed)
        y = torch.arange(len(x)) % 3 if clean else y
        logits = model(x)
        losses = torch.nn.functional.cross_entropy(logits, y, reduction="none")
        optimizer.zero_grad()
        stream.reduce(losses, logits=logits, labels=y).backward()
        optimizer.step()
        removed.append(stream.removed)
        wrong.append(is_wrong)
    half = batches // 2
    return torch.cat(removed[half:]), torch.cat(wrong[half:])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rule", [rk.RRM(crisp=True), rk.RRM(contamination=0.4)], ids=["auto", "told"])
def test_wrong_rows_are_found_that_come_only_once(rule: rk.RRM, seed: int) -> None:
    stream = StreamWeights(rule, window=1_500)
    precision, recall = precision_and_recall(*train(stream, seed=seed))
    assert precision > 0.9
    assert recall > 0.8
    if rule.auto:
        assert stream.estimate is not None
        assert stream.estimate.ceiling.rate == pytest.approx(0.4, abs=0.06)


@pytest.mark.parametrize("seed", range(3))
def test_of_right_labels_next_to_none_is_removed(seed: int) -> None:
    removed, _ = train(StreamWeights(window=2_000), seed=seed, clean=True)
    assert float(removed.float().mean()) <= 0.02


def test_nothing_is_removed_while_the_network_says_no_more_than_chance() -> None:
    stream = StreamWeights(window=500, every=1)
    for batch in range(60):
        _, y, _ = fresh(batch)
        logits = torch.randn(len(y), 3, generator=torch.Generator().manual_seed(batch))
        stream.reduce(torch.nn.functional.cross_entropy(logits, y, reduction="none"), logits=logits, labels=y)
        assert not stream.removed.any()
    assert stream.estimate is None


def test_nothing_is_removed_while_the_network_gets_better() -> None:
    stream = StreamWeights(window=1_200, every=1)
    started = []
    for batch in range(90):
        y = torch.arange(60) % 3
        wrong_share = 0.6 * max(1 - batch / 60, 0)
        says = torch.where(torch.linspace(0, 1, 60) < wrong_share, (y + 1) % 3, y)
        logits = 3 * torch.nn.functional.one_hot(says, 3).float()
        stream.reduce(torch.nn.functional.cross_entropy(logits, y, reduction="none"), logits=logits, labels=y)
        started.append(stream.estimate is not None)
    assert 55 < started.index(True) < 80


def sizes(stream: StreamWeights) -> dict[str, int]:
    return {name: part.numel() * part.element_size() for name, part in stream.state_dict().items()}


@pytest.mark.parametrize("rule", [rk.RRM(crisp=True), rk.RRM(gamma=1.0)], ids=["auto", "gamma"])
def test_memory_does_not_depend_on_how_many_rows_were_seen(rule: rk.RRM) -> None:
    few, many = (StreamWeights(rule, window=100) for _ in range(2))
    train(few, batches=2)
    train(many, batches=200)
    assert (few.seen, many.seen) == (120, 12_000)
    assert sizes(few) == sizes(many)
    assert sum(sizes(many).values()) < 20 * 100 + 200
    held = {name: part.nbytes for name, part in vars(many).items() if hasattr(part, "nbytes")}
    assert sum(held.values()) < 20 * 100 + 200


@pytest.mark.parametrize("stop", [5, 37, 80])
@pytest.mark.parametrize("rule", [rk.RRM(crisp=True), rk.RRM(contamination=0.4)], ids=["auto", "told"])
def test_a_resumed_stream_equals_one_that_was_not_interrupted(rule: rk.RRM, stop: int, tmp_path: Path) -> None:
    def go_on(stream: StreamWeights, batches: range) -> list[float]:
        values = []
        for batch in batches:
            x, y, _ = fresh(batch)
            centres = torch.stack([make_toy().x[torch.arange(1500) % 3 == label].mean(0) for label in range(3)])
            logits = -min(batch / 20, 1.5) * torch.cdist(x, centres)
            losses = torch.nn.functional.cross_entropy(logits, y, reduction="none")
            values.append(float(stream.reduce(losses, logits=logits, labels=y)))
        return values

    whole, first, second = (StreamWeights(rule, window=700, every=3) for _ in range(3))
    expected = go_on(whole, range(100))
    values = go_on(first, range(stop))
    safetensors.torch.save_file(first.state_dict(), tmp_path / "stream.safetensors")
    second.load_state_dict(safetensors.torch.load_file(tmp_path / "stream.safetensors"))
    assert values + go_on(second, range(stop, 100)) == expected
    for name, part in whole.state_dict().items():
        assert torch.equal(part.nan_to_num(-7), second.state_dict()[name].nan_to_num(-7)), name
    assert whole.removed_fraction > 0.2


def test_a_state_is_a_copy_and_must_fit() -> None:
    stream = at_once(rk.RRM(contamination=0.3), window=10)
    state = stream.state_dict()
    stream.reduce(torch.rand(5))
    assert (state["recent"] == -1).all()
    with pytest.raises(ValueError, match="need a state of window=20, got one of 10"):
        StreamWeights(window=20).load_state_dict(state)
    with pytest.raises(ValueError, match="lacks counts, estimate, kept, thresholds"):
        stream.load_state_dict({"recent": state["recent"]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 1}, "need window to be an integer >= 2, got 1"),
        ({"every": 0}, "need every to be an integer >= 1, got 0"),
        ({"warmup": -1}, "need warmup to be an integer >= 0, got -1"),
        ({"class_limit": 1.5}, "class_limit in .*got 1.5"),
        ({"rule": lambda losses, weights: weights}, "need a rule with a threshold"),
    ],
)
def test_settings_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StreamWeights(**options)


ONE, LOGITS, LABELS = torch.ones(4), torch.zeros(4, 3), torch.zeros(4).long()


@pytest.mark.parametrize(
    ("rule", "given", "message"),
    [
        (rk.RRM(gamma=1.0), (torch.tensor(1.0),), "need one loss per row.*reduction='none'"),
        (rk.RRM(gamma=1.0), (torch.ones(4, 3),), "need one loss per row.*reduction='none'"),
        (rk.RRM(gamma=1.0), (torch.ones(0),), "need one loss per row"),
        (rk.RRM(gamma=1.0), (torch.tensor([1.0, torch.nan]),), "1 of 2 losses are NaN or -inf: training has diverged"),
        (rk.RRM(gamma=1.0), (torch.tensor([-torch.inf, 1]),), "1 of 2 losses are NaN or -inf: training has diverged"),
        (rk.RRM(gamma=1.0), (ONE, LOGITS), "need logits and labels together"),
        (rk.RRM(gamma=1.0), (ONE, LOGITS[:3], LABELS[:3]), "for each of 4 losses, got 3"),
        (rk.RRM(gamma=1.0), (ONE, LOGITS, LABELS + 3), "need labels that are integers from 0 to 2"),
        (rk.RRM(crisp=True), (ONE,), r"need logits and labels.*reduce\(losses, logits=logits, labels=labels\)"),
    ],
)
def test_a_batch_that_cannot_be_is_refused_and_changes_nothing(
    rule: rk.RRM, given: tuple[Tensor, ...], message: str
) -> None:
    stream = at_once(rule)
    before = stream.state_dict()
    with pytest.raises(ValueError, match=message) as caught:
        stream.reduce(given[0], **dict(zip(("logits", "labels"), given[1:], strict=False)))
    assert "\n" not in str(caught.value)
    for name, part in stream.state_dict().items():
        assert torch.equal(part.nan_to_num(-7), before[name].nan_to_num(-7)), name


def shown(call: int, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """What a rank is told in a call: the ranks' batches differ in size."""
    x, y, _ = fresh(call, rank)
    centres = torch.stack([make_toy().x[torch.arange(1500) % 3 == label].mean(0) for label in range(3)])
    rows = slice(0, 60 if rank == 0 else 45)
    logits = -min(call / 20, 1.5) * torch.cdist(x, centres)[rows]
    return torch.nn.functional.cross_entropy(logits, y[rows], reduction="none"), logits, y[rows]


CALLS = 80


def work(folder: Path) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    found: dict[str, Any] = {}
    for name, rule in (("told", rk.RRM(contamination=0.4)), ("auto", rk.RRM(crisp=True))):
        stream = StreamWeights(rule, window=10_000, warmup=2_000, every=4)
        for call in range(CALLS):
            losses, logits, labels = shown(call, rank)
            stream.reduce(losses, logits=logits, labels=labels)
        found[name] = [stream.threshold, stream.removed_fraction, *numbers(stream.estimate)]
    stream = at_once(rk.RRM(gamma=1.0))
    try:
        stream.reduce(torch.tensor([1.0, torch.nan if rank else 1.0]))
    except ValueError as error:
        found["stopped"] = str(error)
    torch.save(found, folder / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def test_two_processes_have_the_threshold_of_one_that_saw_all_their_rows(tmp_path: Path) -> None:
    run_ranks(work, 2, tmp_path, folder=tmp_path)
    zero, one = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    for name, rule in (("told", rk.RRM(contamination=0.4)), ("auto", rk.RRM(crisp=True))):
        assert zero[name] == one[name]
        alone = StreamWeights(rule, window=20_000, warmup=2_000, every=4)
        for call in range(CALLS):
            both = zip(shown(call, 0), shown(call, 1), strict=True)
            losses, logits, labels = (torch.cat(parts) for parts in both)
            alone.reduce(losses, logits=logits, labels=labels)
        assert zero[name] == pytest.approx([alone.threshold, alone.removed_fraction, *numbers(alone.estimate)])
        assert len(zero[name]) == (9 if rule.auto else 2)
        assert alone.removed_fraction > 0.2
    assert "training has diverged" in zero["stopped"]
    assert "training has diverged" in one["stopped"]
