import random

import numpy as np
import pytest
import torch

from rockafellian.training.rng import seeded


def draw() -> tuple[float, float, float, float]:
    return torch.rand(()).item(), np.random.rand(), random.random(), torch.randperm(1000)[0].item()  # noqa: NPY002


def start_as_a_user_would(seed: int) -> None:
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    draw()


def drawn(seed: int, epoch: int) -> tuple[float, float, float, float]:
    with seeded(seed, epoch):
        return draw()


def test_a_seed_and_an_epoch_give_the_same_numbers_whatever_came_before() -> None:
    start_as_a_user_would(1)
    first = drawn(0, 7)
    start_as_a_user_would(2)
    assert drawn(0, 7) == first


def test_every_other_seed_and_epoch_gives_other_numbers() -> None:
    pairs = [(seed, epoch) for seed in (0, 1, 2, 2**40) for epoch in (0, 1, 2, 300)]
    for numbers in zip(*(drawn(*pair)[:3] for pair in pairs), strict=True):  # of torch, of numpy and of random
        assert len(set(numbers)) == len(pairs)


@pytest.mark.parametrize("fails", [False, True])
def test_the_users_numbers_go_on_as_if_nothing_had_been(fails: bool) -> None:
    start_as_a_user_would(3)
    expected = [draw(), draw()]
    start_as_a_user_would(3)
    found = [draw()]
    try:
        with seeded(0, 1):
            draw()
            if fails:
                raise KeyError("in the middle of an epoch")
    except KeyError:
        assert fails
    found.append(draw())
    assert found == expected


def test_one_block_within_another_does_not_disturb_it() -> None:
    with seeded(0, 1):
        expected = [draw(), draw()]
    with seeded(0, 1):
        found = [draw()]
        drawn(0, 2)
        found.append(draw())
    assert found == expected
