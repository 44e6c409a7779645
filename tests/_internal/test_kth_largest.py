import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rockafellian._internal.kth_largest import kth_largest, max_count, min_count

N = (1 << 18) + 12_345  # large enough for the band
random = np.random.default_rng(0)
VECTORS = {
    "random": random.exponential(size=N).astype(np.float32),
    "ascending": np.arange(N, dtype=np.float64),
    "descending": -np.arange(N, dtype=np.float64),
    "constant": np.ones(N, dtype=np.float32),
    "two values": (random.random(N) < 0.3).astype(np.float32),
    "few values": random.integers(0, 50, N).astype(np.float64),
    "mostly one value": np.where(random.random(N) < 0.98, 0.5, random.random(N)),
    "infinite in part": np.where(random.random(N) < 0.2, np.inf, random.random(N)),
    "hidden from the sample": np.where(np.arange(N) % (N >> 14) == 0, -1.0, random.random(N)),
}


@pytest.mark.parametrize("name", VECTORS)
def test_large_vectors_give_what_sorting_gives(name: str) -> None:
    values = VECTORS[name]
    ordered = np.sort(values)
    for share in (0.0, 1e-5, 0.02, 0.2, 0.4, 0.7, 0.98, 1.0):
        k = max(1, round(share * N))
        edge, below = kth_largest(values, k)
        assert edge == ordered[N - k]
        assert below == ordered[ordered < edge].max(initial=-np.inf)


@given(st.lists(st.floats(-3, 3) | st.integers(0, 3).map(float), min_size=1, max_size=30), st.data())
def test_small_vectors_give_what_sorting_gives(values: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(values)))
    edge, below = kth_largest(np.array(values), k)
    assert edge == sorted(values)[len(values) - k]
    assert below == max([v for v in values if v < edge], default=-np.inf)


@given(st.floats(0, 1), st.integers(1, 10**6))
def test_counts_are_the_nearest_on_either_side_of_a_share(share: float, n: int) -> None:
    k = min_count(share, n)
    assert k / n >= share
    assert k == 0 or (k - 1) / n < share
    k = max_count(share, n)
    assert k / n <= share
    assert k == n or (k + 1) / n > share


def test_a_share_printed_in_decimals_means_its_count() -> None:
    assert min_count(0.07, 100) == 7  # 0.07 * 100 is 7.000000000000001
    assert max_count(0.29, 100) == 29  # 0.29 * 100 is 28.999999999999996
    assert max_count(7.5, 4) == 4
