"""The banner of a page: figures, a text, and a strip of the worst label issues."""

from pathlib import Path
from typing import Any

import pytest
from page_samples import PIXEL, animals, current, issue, press, report, written

from rockafellian.auditing.report.contents import Banner
from rockafellian.auditing.report.page import N_IN_STRIP, render

BANNER = Banner({"plain training": "60.1%", "RRM": "97.2%"}, "Accuracy on 300 rows; one seed.")
HOSTILE = '</dd><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>{{7*7}}'


def gallery(n: int = 30, **changes: Any) -> Any:
    rows = [issue(i, "cat", "dog", image=PIXEL, values={"file": f"{i}.png"}) for i in range(n)]
    return report(rows, **{"kind": "images", "banner": BANNER, **changes})


def sizes(page: Any) -> list[float]:
    return page.locator(".banner dd").evaluate_all("all => all.map(it => parseFloat(getComputedStyle(it).fontSize))")  # type: ignore[no-any-return]


def test_the_banner_begins_the_page_and_its_last_figure_is_the_largest(tmp_path: Path, tab: Any) -> None:
    opened = tab()
    page = opened.open(written(tmp_path, gallery()))
    assert page.locator("main > :first-child").get_attribute("class") == "banner card"
    assert page.locator(".banner dt").all_inner_texts() == ["plain training", "RRM"]
    assert page.locator(".banner dd").all_inner_texts() == ["60.1%", "97.2%"]
    assert page.locator(".banner p").inner_text() == BANNER.text
    assert sizes(page)[1] > 1.5 * sizes(page)[0]
    assert opened.errors == []
    assert [url for url in opened.requests if not url.startswith(("file:", "data:"))] == []


def test_the_strip_shows_the_worst_with_both_labels_and_says_which_row(tmp_path: Path, tab: Any) -> None:
    page = tab().open(written(tmp_path, gallery()))
    pictures = page.locator(".strip img")
    assert pictures.evaluate_all("all => all.map(it => it.alt)") == [f"Row id-{i}" for i in range(N_IN_STRIP)]
    assert pictures.evaluate_all("all => all.every(it => it.naturalWidth === 1)")
    assert page.locator(".strip li").first.locator("bdi").all_inner_texts() == ["cat", "dog"]
    assert page.get_by_role("list", name="Label issues").get_by_role("listitem").count() == N_IN_STRIP


def test_only_flagged_rows_with_a_picture_and_a_suggestion_are_in_the_strip() -> None:
    rows = [
        issue(1, image=PIXEL, flagged=False),
        issue(2, text="no picture"),
        issue(3, "cat", None, image=PIXEL),
        issue(5, "cat", "cat", image=PIXEL),
        issue(4, image=PIXEL),
    ]
    shown = render(report(rows, banner=BANNER)).partition('<ul class="strip"')[2].partition("</ul>")[0]
    assert shown.count("<li>") == shown.count('alt="Row id-4"') == 1
    assert 'class="strip"' not in render(report(list(animals().issues), banner=BANNER))


def test_without_a_banner_the_page_begins_with_the_count() -> None:
    assert '<section class="banner' not in render(gallery(banner=None))


def test_a_hostile_banner_and_hostile_labels_are_shown_and_do_not_run(tmp_path: Path, tab: Any) -> None:
    row = issue(1, HOSTILE, HOSTILE + "!", id=HOSTILE, image=PIXEL)
    hostile = report([row], classes=[HOSTILE, HOSTILE + "!"], kind="images", banner=Banner({HOSTILE: HOSTILE}, HOSTILE))
    opened = tab()
    page = opened.open(written(tmp_path, hostile))
    for part in ("dt", "dd", "p", ".given"):
        assert page.locator(f".banner {part}").text_content() == HOSTILE
    assert page.locator(".banner img").get_attribute("alt") == f"Row {HOSTILE}"
    assert page.locator(".banner img").count() == 1
    assert page.evaluate("window.hacked") is None
    assert opened.errors == []


@pytest.mark.parametrize("width", [320, 390, 700, 1280])
@pytest.mark.parametrize("label", ["7", "a long name of a class " * 3, "unbroken" * 9])
def test_the_banner_fits_every_width(tmp_path: Path, tab: Any, width: int, label: str) -> None:
    rows = [issue(i, label, f"{label}!", image=PIXEL) for i in range(12)]
    banner = Banner({"plain training": "60.1%", "RRM": "97.2%"}, f"Accuracy of {label}.")
    content = report(rows, classes=[label, f"{label}!"], kind="images", banner=banner)
    page = tab(viewport={"width": width, "height": 800}).open(written(tmp_path, content))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    right = page.locator(".banner *").evaluate_all(
        "all => Math.max(...all.map(it => it.getBoundingClientRect().right))"
    )
    assert right <= width


def test_the_first_key_below_a_banner_brings_the_whole_row_into_sight(tmp_path: Path, tab: Any) -> None:
    page = tab(viewport={"width": 1280, "height": 760}).open(written(tmp_path, gallery()))
    assert page.evaluate("scrollY") == 0
    press(page, "k")
    assert current(page) == "id-1 (row 1)"
    box = page.locator("#detail").bounding_box()
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= 760
