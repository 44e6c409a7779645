"""Several processes end with the weights of one that saw all their batches, whoever holds the rows."""

import re
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from ranks import run_ranks
from torch import Tensor

import rockafellian as rk
from rockafellian._internal.comm import PROCESSES, gathered, shard
from rockafellian._internal.kth_largest import kth_largest
from rockafellian.weights.sharding import resharded
from toy import make_toy

N, EPOCHS, CASES = 300, 6, 60
RULES = {
    "told": rk.RRM(contamination=0.4, mu=0.5),
    "auto": rk.RRM(crisp=True),
    "argmin": rk.RRM(gamma=1.0, spread="argmin"),
    "per class": rk.RRM(contamination=0.3),
    "crowded": rk.RRM(contamination=0.4),
}
LIMITS = {"per class": {"per_class": True}, "crowded": {"class_limit": 0.2}}
OF_FOUR = ("auto", "per class")  # what four ranks try of them
CASES_OF_RANKS = [*product([2], RULES), *product([4], OF_FOUR)]
PRIOR = {"argmin": torch.linspace(0.5, 1.5, N)}


@cache
def whole_epoch(epoch: int) -> tuple[Tensor, ...]:
    """What a network that learns the toy problem might say: sums of numbers by row and epoch, no training."""
    toy = make_toy(n=N)
    centres = torch.stack([toy.x[(toy.y == label) & ~toy.wrong].mean(0) for label in range(3)])
    noise = torch.randn(N, 3, generator=torch.Generator().manual_seed(epoch))
    logits = min(epoch + 1, 3) * -torch.cdist(toy.x, centres) + noise
    return torch.nn.functional.cross_entropy(logits, toy.y, reduction="none"), torch.arange(N), logits, toy.y


def batch(epoch: int, rows: Tensor) -> tuple[Tensor, ...]:
    return tuple(part[rows] for part in whole_epoch(epoch))


def batches(epoch: int, n_ranks: int) -> list[list[Tensor]]:
    """Those of each rank: uneven, a row comes twice, in epoch 2 one rank has all, in epoch 3 some rows do not come."""
    order = torch.randperm(N, generator=torch.Generator().manual_seed(100 + epoch))
    parts = list(torch.cat([order[: N - 30 * (epoch == 3)], order[:1]]).split(40))
    return [parts] + [[]] * (n_ranks - 1) if epoch == 2 else [parts[rank::n_ranks] for rank in range(n_ranks)]


def held_by(n_ranks: int, even: bool) -> list[range]:
    """The rows of each rank, in equal parts or with one that has none."""
    cuts = [0, *(N * rank // n_ranks for rank in range(1, n_ranks)), N] if even else [0, 70, 70, 71, N][-n_ranks - 1 :]
    return [range(*cut) for cut in pairwise([0, *cuts[1:]])]


def train(name: str, n_ranks: int, rank: int | None = None, rows: range | None = None) -> rk.SampleWeights:
    """The loop of one rank, which holds all rows or its own, or of one process that sees everything."""
    prior = PRIOR.get(name)
    prior = prior[rows.start : rows.stop] if prior is not None and rows is not None else prior
    weights = rk.SampleWeights(N, RULES[name], **LIMITS.get(name, {}), every=2, prior=prior, rows=rows)
    for epoch in range(EPOCHS):
        of_ranks = batches(epoch, n_ranks)
        for part in of_ranks[rank] if rank is not None and rows is None else [part for own in of_ranks for part in own]:
            mine = part if rows is None else part[(part >= rows.start) & (part < rows.stop)]
            if len(mine):
                losses, index, logits, labels = batch(epoch, mine)
                weights.reduce(losses, index, logits=logits, labels=labels)
        if epoch == 4 and rank is not None:  # saved and gone on with in the middle of an epoch
            weights.synchronize()
            state = weights.state_dict()
            weights = rk.SampleWeights(N, RULES[name], **LIMITS.get(name, {}), every=2, prior=prior, rows=rows)
            weights.load_state_dict(state)
        weights.step()
    return weights


def hard_case(seed: int) -> tuple[NDArray[np.float32], int]:
    """Values with ties, constants, infinities, zeros of both signs and tiny numbers, and which of them is wanted."""
    random = np.random.default_rng(seed)
    n = int(random.integers(1, 60))
    kinds = [
        random.normal(size=n),
        random.integers(-2, 3, n),
        np.full(n, random.normal()),
        np.where(random.random(n) < 0.5, np.inf, random.normal(size=n)),
        random.choice([0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38], n),
        1 + random.integers(0, 4, n) * 2.0**-23,
    ]
    return kinds[seed % len(kinds)].astype(np.float32), int(random.integers(1, n + 1))


def work(folder: Path) -> None:
    dist.init_process_group("gloo")
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    found: dict[str, Any] = {"gathered": gathered(torch.full((rank, 3 if rank else 7), float(rank)))}
    for name in RULES if n_ranks == 2 else OF_FOUR:
        found[f"replicated {name}"] = train(name, n_ranks, rank).state_dict()
        for even in (True, False):
            found[f"{even} {name}"] = train(name, n_ranks, rank, held_by(n_ranks, even)[rank]).state_dict()
    found["selected"] = []
    for seed in range(CASES):
        values, k = hard_case(seed)
        of_rank = np.random.default_rng(seed).integers(0, n_ranks if seed % 2 else max(n_ranks - 1, 1), len(values))
        found["selected"].append([float(value) for value in PROCESSES.kth_largest(values[of_rank == rank], k)])
    found["shard"] = list(shard(10))
    torch.save(found, folder / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def two_and_four(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[dict[str, Any]]]:
    folders = {n: tmp_path_factory.mktemp("ranks") for n in (2, 4)}
    for n, folder in folders.items():
        run_ranks(work, n, folder, folder=folder)
    return {
        n: [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(n)] for n, folder in folders.items()
    }


@pytest.fixture
def ranks(n: int, two_and_four: dict[int, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What each of n ranks found."""
    return two_and_four[n]


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float = 1e-6) -> None:
    assert found.keys() == expected.keys()
    for part, value in expected.items():
        torch.testing.assert_close(found[part], value, rtol=tolerance, atol=tolerance, equal_nan=True, msg=part)


@pytest.mark.parametrize(("n", "name"), CASES_OF_RANKS)
def test_all_ranks_have_the_state_of_one_process_that_saw_everything(
    n: int, name: str, ranks: list[dict[str, Any]]
) -> None:
    alone = train(name, len(ranks))
    assert alone.removed.sum() > N / 10
    assert len(alone.history) >= 2
    for found in ranks:
        assert_same(found[f"replicated {name}"], alone.state_dict())
        assert_same(found[f"replicated {name}"], ranks[0][f"replicated {name}"], tolerance=0)


@pytest.mark.parametrize(("n", "name"), CASES_OF_RANKS)
@pytest.mark.parametrize("even", [True, False], ids=["even", "one has none"])
def test_ranks_that_hold_rows_of_their_own_have_the_same_together(
    n: int, name: str, even: bool, ranks: list[dict[str, Any]]
) -> None:
    expected = train(name, len(ranks), rows=range(N)).state_dict()
    states = [found[f"{even} {name}"] for found in ranks]
    assert_same(resharded(states[::-1], range(N)), expected)
    assert torch.equal(resharded(states, range(N))["last_removed"], train(name, len(ranks)).last_removed)
    for state in states:
        assert torch.equal(state["history"], states[0]["history"])  # the same decision, bit for bit
    whole, parts = (resharded(given, range(50, 90)) for given in ([expected], states))
    assert_same(parts, whole)


@pytest.mark.parametrize("n", [2, 4])
def test_the_kth_largest_over_ranks_is_exact(n: int, ranks: list[dict[str, Any]]) -> None:
    expected = [[float(value) for value in kth_largest(*hard_case(seed))] for seed in range(CASES)]
    assert all(found["selected"] == expected for found in ranks)


@pytest.mark.parametrize("n", [2, 4])
def test_matrices_of_other_heights_are_stacked_in_the_order_of_ranks(n: int, ranks: list[dict[str, Any]]) -> None:
    expected = [[float(rank)] * 3 for rank in range(len(ranks)) for _ in range(rank)]
    assert all(found["gathered"].tolist() == expected for found in ranks)


@pytest.mark.parametrize("n", [2, 4])
def test_shards_are_even_and_make_up_all_rows(n: int, ranks: list[dict[str, Any]]) -> None:
    assert [row for found in ranks for row in found["shard"]] == list(range(10))
    assert {len(found["shard"]) for found in ranks} <= {10 // len(ranks), 10 // len(ranks) + 1}


def test_alone_a_matrix_is_left_as_it_is() -> None:
    matrix = torch.rand(2, 3)
    assert gathered(matrix) is matrix
    assert shard(7) == range(7)


@pytest.mark.parametrize("name", RULES)
def test_a_lone_process_with_a_shard_of_everything_does_as_without(name: str) -> None:
    found, expected = train(name, 2, rows=range(N)).state_dict(), train(name, 2).state_dict()
    assert found.pop("rows").tolist() == [0, N]
    assert_same(found, expected, tolerance=1e-6)


def test_rows_that_are_not_a_part_of_all_or_do_not_make_up_all_are_refused() -> None:
    for rows in (range(0, N, 2), range(-1, N), range(N + 1)):
        with pytest.raises(ValueError, match=re.escape(f"a part of range({N}), got {rows}")):
            rk.SampleWeights(N, RULES["told"], rows=rows)
    with pytest.raises(ValueError, match=f"need {N} rows over all processes, got 10"):
        rk.SampleWeights(N, RULES["told"], rows=range(10))


def test_states_that_lack_rows_are_refused() -> None:
    whole = train("told", 2, rows=range(N)).state_dict()
    with pytest.raises(ValueError, match="rows 0 to 400, got 300 of these 400"):
        resharded([whole], range(400))
