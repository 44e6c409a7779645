import math
from fractions import Fraction

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


@given(st.integers(1, 10**9), st.data())
def test_one_float_more_or_less_than_a_fraction_of_rows_is_told_apart(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    more, less = math.nextafter(k / n, 2), math.nextafter(k / n, -1)
    assert min_count(k / n, n) == max_count(k / n, n) == k
    if k < n:
        assert min_count(more, n) == k + 1
        assert max_count(more, n) == k
    if k > 0:
        assert min_count(less, n) == k
        assert max_count(less, n) == k - 1


@pytest.mark.parametrize("n", [1, 2, 3, 10**9])
def test_the_smallest_and_largest_fractions_have_their_counts(n: int) -> None:
    assert min_count(0.0, n) == max_count(0.0, n) == 0
    assert min_count(5e-324, n) == 1
    assert max_count(5e-324, n) == 0
    assert min_count(math.nextafter(1, 0), n) == n
    assert max_count(math.nextafter(1, 0), n) == n - 1
    assert min_count(1.0, n) == max_count(1.0, n) == max_count(1.7e308, n) == n


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 50), st.data())
def test_counts_of_a_fractional_number_of_rows_are_exact(n: int, d: int, m: int, data: st.DataObject) -> None:
    rows, k = Fraction(n * m, d), data.draw(st.integers(0, max(n * m // d, 0)))
    assert min_count(float(k / rows), rows) == k


def test_a_share_printed_in_decimals_means_its_count() -> None:
    assert min_count(0.07, 100) == 7  # 0.07 * 100 is 7.000000000000001
    assert max_count(0.29, 100) == 29  # 0.29 * 100 is 28.999999999999996
    assert max_count(7.5, 4) == 4
