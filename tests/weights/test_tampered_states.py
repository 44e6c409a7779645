"""A state that is incomplete, edited or of another run is refused, and a refused state changes nothing."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import rockafellian as rk
from rockafellian.weights.holdout import HoldOut
from rockafellian.weights.loss_sums import LossSums
from rockafellian.weights.predictions import Predictions

N, CLASSES = 30, 3
State = dict[str, Tensor]


def train(weights: rk.SampleWeights, epochs: int) -> rk.SampleWeights:
    random = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        rows = torch.randperm(N, generator=random)[:25]
        logits = torch.randn(25, CLASSES, generator=random)
        weights.reduce(torch.rand(25, generator=random), rows, logits=logits, labels=rows % CLASSES)
        weights.step()
    rows = torch.arange(5)
    weights.reduce(
        torch.rand(5, generator=random), rows, logits=torch.randn(5, CLASSES, generator=random), labels=rows % CLASSES
    )
    return weights


def stream() -> rk.StreamWeights:
    made = rk.StreamWeights(window=N, warmup=0, every=1)
    random = torch.Generator().manual_seed(0)
    for _ in range(8):
        labels = torch.arange(10) % CLASSES
        logits = 5 * torch.nn.functional.one_hot(labels, CLASSES) + torch.randn(10, CLASSES, generator=random)
        made.reduce(torch.rand(10, generator=random), logits=logits, labels=labels)
    return made


MAKERS: dict[str, Callable[[], rk.SampleWeights | rk.StreamWeights]] = {
    "contamination": lambda: train(rk.SampleWeights(N, rk.RRM(contamination=0.2)), 3),
    "estimated": lambda: train(rk.SampleWeights(N), 6),
    "held out": lambda: train(rk.SampleWeights(N), 1),
    "stream": stream,
}
CONSTANTS = {"nan": float("nan"), "negative": -5.0, "-inf": float("-inf"), "huge": 1e30, "half": 0.5}


def tampered(value: Tensor) -> dict[str, object]:
    """The value, edited in many ways."""
    edits: dict[str, object] = {
        name: torch.full_like(value, number, dtype=torch.float64) for name, number in CONSTANTS.items()
    }
    edits |= {f"first {name}": with_first(value, number) for name, number in CONSTANTS.items() if value.numel()}
    edits |= {"bool": value.bool(), "complex": value.to(torch.complex64), "list": value.tolist(), "none": None}
    edits |= {"longer": torch.cat([value.reshape(-1), torch.ones(1, dtype=value.dtype)]), "nested": value[None]}
    edits |= {"integers": value.nan_to_num(0, 9, 0).to(torch.int64)}
    if value.ndim:
        edits |= {"shorter": value[:-1], "scalar": torch.tensor(1.0)}
    return edits


def with_first(value: Tensor, number: float) -> Tensor:
    changed = value.double().clone()
    changed.view(-1)[0] = number
    return changed


def equal(a: State, b: State) -> bool:
    return a.keys() == b.keys() and all(
        torch.equal(a[k].float().nan_to_num(-77), b[k].float().nan_to_num(-77)) for k in a
    )


def refusal(target: rk.SampleWeights | rk.StreamWeights, state: State) -> str | None:
    try:
        target.load_state_dict(state)
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", MAKERS)
def test_every_entry_tampered_with_is_refused_or_loaded_as_it_is_and_never_halfway(name: str) -> None:
    good, target = MAKERS[name]().state_dict(), MAKERS[name]()
    accepted = []
    for entry, value in good.items():
        for edit, changed in tampered(value).items():
            state = {**good, entry: changed}
            before = target.state_dict()
            message = refusal(target, state)
            if message is not None:
                assert "\n" not in message, (entry, edit)
                assert equal(before, target.state_dict()), (entry, edit)
                continue
            assert isinstance(changed, Tensor), (entry, edit)
            assert equal(target.state_dict(), state), (entry, edit)
            if not equal({"": changed}, {"": value}):
                accepted.append((entry, edit))
            target.load_state_dict(good)
    # What remains is possible: sums of losses, a number of epochs, an estimate, and thresholds of any size.
    free = {
        "round_sum",
        "run_sum",
        "predictions.margin_sum",
        "epoch",
        "start",
        "history",
        "thresholds",
        "recent",
        "kept",
    }
    free |= {
        "holdout.best",
        "counts",
        "predictions.margin_weight",
        "estimate",
        "predictions.probability",
        "round_count",
        "run_count",
    }
    assert {entry for entry, _ in accepted} <= free, accepted


@pytest.mark.parametrize("name", MAKERS)
def test_a_missing_entry_and_an_unknown_one_are_refused(name: str) -> None:
    good, target = MAKERS[name]().state_dict(), MAKERS[name]()
    for entry in good:
        if entry == "estimate" and name == "contamination":
            continue
        with pytest.raises(ValueError, match=r"lacks|RRM\(\)"):
            target.load_state_dict({key: value for key, value in good.items() if key != entry})
    with pytest.raises(ValueError, match="also has more"):
        target.load_state_dict({**good, "more": torch.ones(1)})
    with pytest.raises(ValueError, match="state_dict"):
        target.load_state_dict([])
    assert equal(target.state_dict(), good)


@pytest.mark.parametrize(
    ("entry", "edit", "message"),
    [
        ("values", lambda v: v * 2, "mean of its weights is 2"),
        ("values", lambda v: v.long(), "values is torch.int64 and not of a floating type"),
        ("values", lambda v: v * torch.nan, "values ranges from nan"),
        ("values", lambda v: with_first(v, -1), "values ranges from -1"),
        ("epoch", lambda v: v * 0, "history is not one of 0 epochs"),
        ("epoch", lambda v: v - 100, "epoch ranges from -97"),
        ("epoch", lambda v: v + 0.5, "epoch has numbers that are not integers"),
        ("last_removed", lambda v: v + 1, "last_removed ranges from"),
        ("last_removed", lambda v: v * 0, "differ in how many rows are removed"),
        ("history", lambda v: v.flip(0), "history is not one of 3 epochs"),
        ("history", lambda v: v[:, :5], "no table of floats"),
        ("history", lambda v: v + 0.25, "not integers"),
        ("round_count", lambda v: v * 0, "round_sum has losses of rows that round_count does not count"),
        ("run_sum", lambda v: v * torch.nan, "run_sum ranges from nan"),
        ("predictions.margin_weight", lambda v: v * 0, "only a part of a prediction"),
        ("predictions.probability", lambda v: v + 1, "probability ranges"),
    ],
)
def test_an_error_says_what_is_wrong(entry: str, edit: Callable[[Tensor], Tensor], message: str) -> None:
    weights = MAKERS["contamination"]()
    good = weights.state_dict()
    with pytest.raises(ValueError, match=message):
        weights.load_state_dict({**good, entry: edit(good[entry])})
    assert equal(weights.state_dict(), good)


def test_a_state_of_other_rows_or_of_another_rule_is_refused() -> None:
    half = rk.SampleWeights(N, rk.RRM(contamination=0.2)).state_dict()
    with pytest.raises(ValueError, match="need a state of rows range"):
        rk.SampleWeights(N, rk.RRM(gamma=1.0)).load_state_dict({**half, "rows": torch.tensor([3, N + 3])})
    with pytest.raises(ValueError, match=r"need a state of RRM\(\)"):
        rk.SampleWeights(N).load_state_dict(half)
    both = MAKERS["held out"]().state_dict() | {"estimate": torch.tensor([0.2, 0.1, 0.3] * 2 + [0.9]).double()}
    with pytest.raises(ValueError, match="held out after the noise rate was estimated"):
        rk.SampleWeights(N).load_state_dict(both)


def parts_in_use() -> list[LossSums | Predictions | HoldOut]:
    weights = MAKERS["held out"]()
    weights.collect()
    assert weights.predictions is not None
    assert weights._holdout is not None
    return [weights._losses, weights.predictions, weights._holdout]


@pytest.mark.parametrize("part", parts_in_use(), ids=lambda part: type(part).__name__)
def test_a_part_refuses_on_its_own(part: LossSums | Predictions | HoldOut) -> None:
    good = part.state_dict()
    for entry, value in good.items():
        wrong = [value * torch.nan, value[None], None, value.to(torch.complex64)]
        for changed in wrong if entry != "probability" else wrong[1:]:
            with pytest.raises(ValueError, match="need "):
                part.load_state_dict({**good, entry: changed})
            assert equal(part.state_dict(), good)
    part.load_state_dict(good)
    assert equal(part.state_dict(), good)
