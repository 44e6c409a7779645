"""Several processes end with the weights of one that saw all their batches."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor

import rockafellian as rk
from rockafellian.distributed import gathered
from toy import make_toy

N, EPOCHS = 300, 6
RULES = {"told": rk.RRM(contamination=0.4, mu=0.5), "auto": rk.RRM(), "per class": rk.RRM(gamma=1.0, per_class=True)}


def batch(epoch: int, rows: Tensor) -> tuple[Tensor, ...]:
    """What a network that learns the toy problem might say: sums of numbers by row and epoch, no training."""
    toy = make_toy(n=N)
    centres = torch.stack([toy.x[(toy.y == label) & ~toy.wrong].mean(0) for label in range(3)])
    noise = torch.randn(N, 3, generator=torch.Generator().manual_seed(epoch))
    logits = (min(epoch + 1, 3) * -torch.cdist(toy.x, centres) + noise)[rows]
    return torch.nn.functional.cross_entropy(logits, toy.y[rows], reduction="none"), rows, logits, toy.y[rows]


def shares(epoch: int, n_ranks: int) -> list[list[Tensor]]:
    """The batches of each rank in one epoch: uneven, one row of another's, and in one epoch a rank has none."""
    order = torch.randperm(N, generator=torch.Generator().manual_seed(100 + epoch))
    parts = list(torch.cat([order, order[:1]]).split(40))
    return (
        [parts, *([] for _ in range(n_ranks - 1))] if epoch == 2 else [parts[rank::n_ranks] for rank in range(n_ranks)]
    )


def train(rule: rk.RRM, rank: int | None, n_ranks: int) -> rk.SampleWeights:
    """The loop of one rank, or of one process that sees everything."""
    weights = rk.SampleWeights(N, rule, every=2)
    for epoch in range(EPOCHS):
        by_rank = shares(epoch, n_ranks)
        for rows in sum(by_rank, []) if rank is None else by_rank[rank]:  # noqa: RUF017
            weights.reduce(*batch(epoch, rows))
        weights.step()
    return weights


def work(rank: int, n_ranks: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=n_ranks)
    found = {
        f"{name}.{key}": part for name in RULES for key, part in train(RULES[name], rank, n_ranks).state_dict().items()
    }
    found["gathered"] = gathered(torch.full((rank, 3 if rank else 7), float(rank)))
    torch.save(found, f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


@pytest.fixture(scope="module", params=[3])
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Tensor]]:
    folder = tmp_path_factory.mktemp("ranks")
    mp.spawn(work, (request.param, str(folder)), nprocs=request.param)
    return [torch.load(Path(folder) / f"{rank}.pt", weights_only=True) for rank in range(request.param)]


@pytest.mark.parametrize("name", RULES)
def test_all_ranks_have_the_state_of_one_process_that_saw_everything(name: str, ranks: list[dict[str, Tensor]]) -> None:
    alone = train(RULES[name], None, len(ranks))
    assert alone.removed.sum() > N / 10
    assert alone.history
    for part, expected in alone.state_dict().items():
        for found in ranks:
            torch.testing.assert_close(found[f"{name}.{part}"], expected, rtol=1e-6, atol=1e-6, equal_nan=True)
            assert torch.equal(found[f"{name}.{part}"].nan_to_num(-7), ranks[0][f"{name}.{part}"].nan_to_num(-7))


def test_matrices_of_other_heights_are_stacked_in_the_order_of_ranks(ranks: list[dict[str, Tensor]]) -> None:
    expected = [[float(rank)] * 3 for rank in range(len(ranks)) for _ in range(rank)]
    assert all(found["gathered"].tolist() == expected for found in ranks)


def test_alone_a_matrix_is_left_as_it_is() -> None:
    matrix = torch.rand(2, 3)
    assert gathered(matrix) is matrix
