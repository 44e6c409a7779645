"""Checking drawn rows on the page: which rows come, which decisions count, and what they say."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import reload
from page_samples import PIXEL, current, exported, issue, press, report, written
from scipy.stats import beta

from rockafellian.auditing.report.contents import Report, Sample
from rockafellian.auditing.report.page import render
from rockafellian.auditing.review.estimate import estimate_from_decisions
from rockafellian.auditing.review.sample import Drawn, draw_sample

PHONE: dict[str, Any] = {"viewport": {"width": 375, "height": 812}, "has_touch": True, "is_mobile": True}
BANDS = (20, 100, 880)


def sampled(kind: str = "texts", n: int = 36) -> Report:
    """A list of 20 flagged rows and 10 others, and a sample, equally many of each band; row 500 + place at `place`."""
    random = np.random.default_rng(0)
    first = np.cumsum([0, *BANDS[:-1]])
    columns = [first[band] + random.permutation(rows)[: n // 3] for band, rows in enumerate(BANDS)]
    drawn = [(500 + int(place), band) for places in zip(*columns, strict=True) for band, place in enumerate(places)]
    rows = sorted({*range(500, 530), *(row for row, _ in drawn)})
    content: Any = {"image": PIXEL} if kind == "images" else {}
    issues = [
        issue(row, "cat", "dog" if row < 520 else None, place=row - 500, flagged=row < 520, **content) for row in rows
    ]
    return report(issues, kind=kind, rows=1000, flagged=20, sample=Sample(BANDS, drawn))


def measured(page: Any) -> dict[str, str]:
    names = ("#measured-rate", "#measured-interval", "#still")
    return {name: page.locator(name).inner_text() for name in names}


def bands(page: Any) -> list[list[str]]:
    return [line.split("\t") for line in page.locator("#bands tr").all_inner_texts()]


def test_the_check_walks_through_the_drawn_rows_and_shows_no_numbers(tmp_path: Path, tab: Any) -> None:
    content = sampled()
    assert content.sample is not None
    opened = tab()
    page = opened.open(written(tmp_path, content))
    assert page.get_by_text("Check 30 rows to measure the noise rate").is_visible()
    page.click("#begin")
    assert not page.locator("#list").is_visible()
    assert page.locator("#place").inner_text() == "1 of 30"
    for row, _ in content.sample.drawn[:5]:
        assert current(page) == f"id-{row} (row {row})"
        assert page.locator("#numbers").inner_text() == ""
        assert page.locator("#reason").inner_text() == "Is the given label right?"
        assert not page.locator("#unflagged").is_visible()
        press(page, "k")
    press(page, "u")
    assert current(page) == f"id-{content.sample.drawn[4][0]} (row {content.sample.drawn[4][0]})"
    page.keyboard.press("Escape")
    assert page.locator("#list").is_visible()
    page.click("#begin")
    assert page.locator("#place").inner_text() == "5 of 30"  # goes on where it was
    assert opened.errors == []


def test_decisions_are_measured_live_and_skipped_rows_do_not_count(tmp_path: Path, tab: Any) -> None:
    page = tab().open(written(tmp_path, sampled()))
    page.click("#begin")
    press(page, "skk")  # one of each band
    assert [line[1] for line in bands(page)] == ["0 of 0", "0 of 1", "0 of 1"]
    assert measured(page)["#measured-interval"] == "as soon as a row of each band is checked"
    press(page, "dkk")
    assert [line[1] for line in bands(page)] == ["1 of 1", "0 of 2", "0 of 2"]
    assert bands(page)[0][0] == "worst 20"
    assert measured(page)["#measured-rate"] == "2.0 %"  # 20 of 1,000
    assert measured(page)["#still"] == "1 error found, about 19 more expected. 24 more to check."
    press(page, "dkk" * 8)
    assert "Go on with the worst 20" in measured(page)["#still"]
    assert "These rows are checked" in page.locator("#message").inner_text()
    assert page.locator("#place").inner_text() == "31 of 36"
    page.keyboard.press("Escape")
    line = page.locator("#rate").inner_text()
    assert line.startswith("Noise rate 2.0 % (90 % interval ")
    assert "from 29 checked rows" in line
    reload(page)
    assert page.locator("#rate").inner_text() == line


def test_the_whole_check_works_by_keys_alone(tmp_path: Path, tab: Any) -> None:
    page = tab().open(written(tmp_path, sampled()))
    press(page, "c")
    for _ in range(10):
        press(page, "dkk")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "list"
    assert "from 30 checked rows" in page.locator("#rate").inner_text()
    press(page, "cuuk")  # clears the row where it goes on, which is undecided
    assert page.locator("#place").inner_text() == "32 of 36"


def test_where_nothing_is_wrong_going_on_is_hardly_worth_it(tmp_path: Path, tab: Any) -> None:
    page = tab().open(written(tmp_path, sampled()))
    page.click("#begin")
    press(page, "k" * 30)
    assert "hardly worth it" in measured(page)["#still"]
    assert measured(page)["#measured-rate"] == "0 %"


def test_rows_chosen_from_the_list_do_not_pass_for_drawn_ones(tmp_path: Path, tab: Any) -> None:
    content = sampled()
    assert content.sample is not None
    page = tab().open(written(tmp_path, content))
    late = [row for row, band in content.sample.drawn if band == 2][-1]
    page.fill("[name=search]", f"id-{late}")
    page.keyboard.press("Enter")
    press(page, "d")
    page.click("#reset")
    page.click("#begin")
    press(page, "kkk")
    assert bands(page)[2][1:3] == ["1 of 2", "0.1 %"]  # 1 of 880 is known; the drawn one was right


def test_rows_from_the_list_alone_give_no_noise_rate(tmp_path: Path, tab: Any) -> None:
    page = tab().open(written(tmp_path, sampled()))
    press(page, "d" * 10)
    assert page.locator("#rate").inner_text() == ""


def test_the_check_is_exported_with_all_other_decisions(tmp_path: Path, tab: Any) -> None:
    content = sampled()
    assert content.sample is not None
    page = tab().open(written(tmp_path, content))
    page.click("#begin")
    press(page, "dks")
    page.keyboard.press("Escape")
    lines = exported(page, tmp_path)[1][1:]
    rows = [row for row, _ in content.sample.drawn[:3]]
    assert sorted(lines) == sorted(
        [str(row), f"id-{row}", word, ""] for row, word in zip(rows, ("drop", "keep", "skip"), strict=True)
    )


@pytest.mark.parametrize("kind", ["texts", "images"])
def test_a_phone_checks_by_touch(tmp_path: Path, tab: Any, kind: str) -> None:
    opened = tab(**PHONE)
    page = opened.open(written(tmp_path, sampled(kind)))
    page.tap("#begin")
    for word in ("drop", "keep", "skip", "keep", "keep", "keep"):
        box = page.locator(f"[data-do={word}]").bounding_box()
        assert box["y"] > 0
        assert box["y"] + box["height"] <= 812
        page.tap(f"[data-do={word}]")
    assert page.locator("#place").inner_text() == "7 of 30"
    assert page.evaluate("document.documentElement.scrollWidth") == 375
    page.tap("#stop")
    assert "from 5 checked rows" in page.locator("#rate").inner_text()
    assert opened.errors == []


def test_quantiles_of_the_beta_distribution_are_those_of_scipy(tmp_path: Path, tab: Any) -> None:
    cases = [(p, a, b) for p in (0.05, 0.5, 0.95) for a in (0.5, 1, 7.5, 80) for b in (0.5, 1, 3, 30.5, 400)]
    page = tab().open(written(tmp_path, sampled()))
    found = page.evaluate("cases => cases.map(([p, a, b]) => rockafellian.betaQuantile(p, a, b))", cases)
    np.testing.assert_allclose(found, [beta.ppf(*case) for case in cases], rtol=1e-9, atol=1e-12)


def test_a_sample_that_the_page_cannot_show_is_refused() -> None:
    with pytest.raises(ValueError, match="row 9 is not"):
        render(report([issue(1, place=0)], sample=Sample([10], [(9, 0)])))
    with pytest.raises(ValueError, match="got 1 for row 1 at place 0"):
        render(report([issue(1, place=0)], sample=Sample([10, 10], [(1, 1)])))


def test_the_page_and_the_library_estimate_the_same(tmp_path: Path, tab: Any) -> None:
    random = np.random.default_rng(7)
    cases: list[tuple[list[int], list[Drawn], dict[int, bool | None]]] = []
    for seed in range(60):
        rows = random.integers(0, 300, random.integers(1, 6)).tolist()
        sample = draw_sample(rows, seed)
        chosen = [each.place for each in sample[: random.integers(0, len(sample) + 1)]]
        chosen += list(range(min(random.integers(0, 40), sum(rows))))
        chosen += random.integers(0, max(sum(rows), 1), 5).tolist() if sum(rows) else []
        cases.append((rows, sample, {place: random.choice([True, False, None]) for place in chosen}))
    page = tab().open(written(tmp_path, sampled()))
    passed = [[rows, [list(each) for each in sample], list(checked.items())] for rows, sample, checked in cases]
    script = "cases => cases.map(([bands, sample, checked]) => rockafellian.estimate(bands, sample, checked))"
    for case, shown in zip(cases, page.evaluate(script, passed), strict=True):
        found = estimate_from_decisions(*case)
        assert [shown[name] for name in ("rate", "low", "high")] == pytest.approx(found.noise_rate, abs=1e-9)
        assert (shown["found"], shown["expected"]) == pytest.approx((found.found, found.expected), abs=1e-6)
        for band, wanted in zip(shown["bands"], found.bands, strict=True):
            assert [band[name] for name in ("rate", "low", "high")] == pytest.approx(wanted, abs=1e-9)
