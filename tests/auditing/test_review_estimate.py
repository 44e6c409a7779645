from collections import Counter

import numpy as np
import pytest

from rockafellian import RRM, SampleWeights
from rockafellian.auditing.review.estimate import Reviewed, estimate_from_decisions
from rockafellian.auditing.review.sample import draw_sample


def test_a_sample_is_balanced_wherever_one_stops_and_depends_on_the_seed_alone() -> None:
    rows = [50, 400, 3, 2000]
    drawn = draw_sample(rows, seed=1)
    assert len(set(drawn)) == len(drawn) == 100
    first = np.cumsum([0, *rows])
    assert all(first[each.band] <= each.place < first[each.band + 1] for each in drawn)
    for stop in (4, 8, 12):
        assert set(Counter(each.band for each in drawn[:stop]).values()) == {stop // 4}
    assert Counter(each.band for each in drawn)[2] == 3
    assert drawn == draw_sample(rows, seed=1) != draw_sample(rows, seed=2)


def test_all_of_few_rows_are_drawn() -> None:
    assert sorted(each.place for each in draw_sample([2, 0, 5], seed=0)) == list(range(7))
    assert draw_sample([], seed=0) == []


def test_every_row_of_a_band_is_drawn_equally_often() -> None:
    places = Counter(each.place for seed in range(2000) for each in draw_sample([10, 90], seed, size=20))
    assert [places[place] / 2000 for place in range(10)] == [1.0] * 10
    assert [places[place] / 2000 for place in range(10, 100)] == pytest.approx([1 / 9] * 90, abs=0.04)


def review(wrong: np.ndarray, rows: list[int], seed: int, clicks: int) -> Reviewed:
    drawn = draw_sample(rows, seed)
    return estimate_from_decisions(rows, drawn, {each.place: bool(wrong[each.place]) for each in drawn[:clicks]})


@pytest.mark.parametrize("rate", [0.005, 0.03, 0.2, 0.4])
@pytest.mark.parametrize("skill", [0.0, 0.7])
def test_the_estimate_is_unbiased_and_covers_whatever_the_model_knows(rate: float, skill: float) -> None:
    """With skill, wrong rows are mostly in the first bands; without, anywhere."""
    rows, random = [200, 300, 500, 1000, 1000], np.random.default_rng(3)
    score = random.random(3000) - skill * np.linspace(0, 1, 3000)
    wrong = np.zeros(3000, bool)
    wrong[np.argsort(score)[-round(3000 * rate) :] if skill == 0 else np.argsort(-score)[: round(3000 * rate)]] = True
    truth, runs = wrong.mean(), 300
    for clicks in (30, 100):
        found = [review(wrong, rows, seed, clicks).noise_rate for seed in range(runs)]
        rates = np.array([each.rate for each in found])
        assert rates.mean() == pytest.approx(truth, abs=4 * rates.std() / runs**0.5 + 1e-9)
        assert np.mean([each.low <= truth <= each.high for each in found]) >= 0.87


def test_more_decisions_make_it_surer_and_all_decisions_make_it_sure() -> None:
    rows, wrong = [20, 80], np.arange(100) % 10 == 0
    widths = [np.diff(review(wrong, rows, 0, clicks).noise_rate[1:])[0] for clicks in (0, 10, 30, 60, 100)]
    assert widths[0] == 1
    assert widths == sorted(widths, reverse=True)
    everything = review(wrong, rows, 0, 100)
    assert everything.noise_rate == (0.1, 0.1, 0.1)
    assert everything.bands == [(0.1, 0.1, 0.1)] * 2
    assert (everything.found, everything.expected, everything.still_expected) == (10, 10, 0)


def test_the_head_of_the_ranking_is_known_once_it_is_checked() -> None:
    rows = [20, 1000]
    drawn = draw_sample(rows, seed=0)
    head = dict.fromkeys(range(20), True)
    found = estimate_from_decisions(rows, drawn, head | {each.place: False for each in drawn if each.band == 1})
    assert found.bands[0] == (1, 1, 1)
    assert found.noise_rate.rate == found.noise_rate.low == pytest.approx(20 / 1020)
    assert found.bands[1].high < 0.05
    assert (found.found, found.still_expected) == (20, 0)


def test_rows_that_a_person_chose_only_bound_the_estimate() -> None:
    """Whoever picks rows that look wrong finds many; that says little about the others."""
    rows, wrong = [1000], np.arange(1000) < 100
    drawn = draw_sample(rows, seed=0)
    sampled = {each.place: bool(wrong[each.place]) for each in drawn[:30]}
    chosen = dict.fromkeys((place for place in range(1, 100) if place not in sampled), True)
    alone, both = (estimate_from_decisions(rows, drawn, each) for each in (sampled, sampled | chosen))
    assert both.noise_rate.rate == max(alone.noise_rate.rate, both.found / 1000)
    assert both.noise_rate.low == both.found / 1000 > alone.noise_rate.low
    assert both.noise_rate.high == alone.noise_rate.high
    skipped_ahead = {each.place: bool(wrong[each.place]) for each in drawn[1:30]}  # the first one drawn is not checked
    assert estimate_from_decisions(rows, drawn, skipped_ahead).noise_rate.high > 0.9


def test_rows_that_nobody_can_tell_are_left_out() -> None:
    rows = [10, 200]
    drawn = draw_sample(rows, seed=0)
    told = {each.place: each.band == 0 for each in drawn[:30]}
    unsure: dict[int, bool | None] = dict(told)
    unsure[drawn[0].place] = None
    found = estimate_from_decisions(rows, drawn, unsure)
    assert found.bands[0].rate == 1
    assert found.found == sum(wrong is True for wrong in unsure.values())
    only_skipped = estimate_from_decisions(rows, drawn, dict.fromkeys(range(10)))
    assert only_skipped.noise_rate == (0.5, 0, 1)


def test_a_band_without_decisions_may_be_anything() -> None:
    drawn = draw_sample([100, 100], seed=0)
    first = [each.place for each in drawn if each.band == 0][:10]
    found = estimate_from_decisions([100, 100], drawn, {place: number < 5 for number, place in enumerate(first)})
    assert found.bands[1] == (0.5, 0, 1)
    assert found.noise_rate.rate == 0.5


def test_training_again_removes_no_less_than_remains() -> None:
    found = review(np.arange(1000) < 300, [250, 250, 500], 0, 60)
    rate, low, high = found.remaining
    assert low < rate < high
    told = found.to_remove(removed_before=0.0)
    for disagree in (0.0, rate, 1.0):
        assert told.fraction_to_remove(disagree, crisp=True) == max(rate, min(disagree, high))
    assert told.floor == found.remaining
    assert SampleWeights(1000, RRM(crisp=True), estimate=told).estimate == told


def test_training_again_removes_as_much_as_the_run_before_unless_the_review_speaks_against_it() -> None:
    found = review(np.arange(1000) < 300, [250, 250, 500], 0, 60)
    rate, _, high = found.remaining
    corrected = found.found / 1000
    within = (rate + high) / 2
    assert found.to_remove(within + corrected).fraction_to_remove(0.0, crisp=True) == pytest.approx(within)
    assert found.to_remove(0.9).fraction_to_remove(0.0, crisp=True) == high
    assert found.to_remove(rate / 2).fraction_to_remove(0.0, crisp=True) == rate
