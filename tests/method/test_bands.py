import numpy as np
import pytest

from rockafellian.method.bands import N_BANDS, Band, split_into_bands
from rockafellian.method.noise_rate import NoiseRate
from rockafellian.method.out_of_sample import Estimate

RATE = NoiseRate(Estimate(0.1, 0.05, 0.15), Estimate(0.2, 0.1, 0.3))


def test_expected_fractions_add_up_to_the_ends_of_the_noise_rate_and_fall() -> None:
    margins = np.sort(np.random.default_rng(0).normal(2, 3, 4000))
    bands = split_into_bands(margins, RATE)
    assert len(bands) == N_BANDS
    rows = np.array([band.rows for band in bands])
    assert rows.sum() == 4000
    for end, rate in (("low", 0.05), ("high", 0.3)):
        fractions = np.array([getattr(band, end) for band in bands])
        assert fractions @ rows / 4000 == pytest.approx(rate, abs=1e-6)
        assert (np.diff(fractions) < 0).all()
    assert all(band.low <= band.high for band in bands)


def test_chances_are_right_where_margins_are_log_odds() -> None:
    random = np.random.default_rng(1)
    margins = np.sort(random.normal(2, 2, 100_000))
    wrong = random.random(100_000) < 1 / (1 + np.exp(margins))
    sure = Estimate(*[float(wrong.mean())] * 3)
    first = 0
    for band in split_into_bands(margins, NoiseRate(sure, sure)):
        truth = wrong[first : first + band.rows].mean()
        assert band.low == band.high == pytest.approx(truth, abs=0.01)
        first += band.rows


def test_bands_are_narrow_where_wrong_and_right_labels_meet() -> None:
    margins = np.concatenate([np.linspace(-1, 1, 500), np.full(500, 20.0)])
    between = NoiseRate(Estimate(0.25, 0.25, 0.25), Estimate(0.25, 0.25, 0.25))
    rows = [band.rows for band in split_into_bands(margins, between)]
    assert max(rows[:3]) < 0.5 * rows[-1]


def test_few_rows_make_few_bands() -> None:
    assert [band.rows for band in split_into_bands(np.array([-1.0, 3.0]), RATE)] == [1, 1]
    assert split_into_bands(np.empty(0), RATE) == []
    assert split_into_bands(np.zeros(3), None, n_bands=1) == [Band(3, 0.0, 1.0)]


def test_infinite_margins_are_taken_and_others_refused() -> None:
    bands = split_into_bands(np.array([-np.inf] * 5 + [np.inf] * 5), RATE)
    assert bands[0].high > 0.5 > bands[-1].high
    for wrong in ([1.0, 0.0], [0.0, np.nan]):
        with pytest.raises(ValueError, match="ascending order, without NaN"):
            split_into_bands(np.array(wrong), RATE)
