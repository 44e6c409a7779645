"""The review page in use: by keyboard, by touch, on paper, and with what follows an export."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from browser import until
from page_samples import PIXEL, animals, current, exported, issue, press, report, shown, written

PHONE: dict[str, Any] = {"viewport": {"width": 375, "height": 812}, "has_touch": True, "is_mobile": True}


def progress(page: Any) -> str:
    return page.locator("#progress").inner_text()  # type: ignore[no-any-return]


def focused(page: Any) -> str:
    return page.evaluate("document.activeElement.id || document.activeElement.name")  # type: ignore[no-any-return]


@pytest.mark.parametrize("key", ["Escape", "Enter"])
def test_escape_and_enter_leave_the_search_for_the_list(tmp_path: Path, tab: Any, key: str) -> None:
    page = tab().open(written(tmp_path, animals()))
    press(page, "/purrs")
    assert focused(page) == "search"
    page.keyboard.press(key)
    assert focused(page) == "list"
    assert page.input_value("[name=search]") == "purrs"
    press(page, "k")
    assert progress(page) == "1 of 4 flagged rows reviewed: 1 keep, 0 relabel, 0 drop"


def test_r_relabels_right_after_a_label_was_chosen(tmp_path: Path, tab: Any) -> None:
    page = tab().open(written(tmp_path, animals()))
    page.locator("#label").select_option(label="owl")
    assert focused(page) == "list"
    press(page, "r")
    assert current(page) == "id-3 (row 3)"
    assert exported(page, tmp_path)[1][1] == ["7", "id-7", "relabel", "owl"]


def test_a_label_is_chosen_by_keys_alone(tmp_path: Path, tab: Any) -> None:
    page = tab().open(written(tmp_path, animals()))
    page.focus("#label")
    page.keyboard.press("ArrowDown")  # from dog, the suggested label
    assert focused(page) == "label"  # more arrows may follow
    assert page.locator("#label option:checked").inner_text() == "owl"
    page.keyboard.press("Enter")
    assert focused(page) == "list"
    press(page, "r")
    assert exported(page, tmp_path)[1][1] == ["7", "id-7", "relabel", "owl"]


def test_a_filter_chosen_with_the_pointer_gives_the_keys_back(tmp_path: Path, tab: Any) -> None:
    page = tab().open(written(tmp_path, animals()))
    page.select_option("[name=state]", "undecided")
    press(page, "kd")
    assert progress(page).startswith("2 of 4")


def similar(n: int = 12) -> list[Any]:
    rows = [issue(i, "cat", "dog", quality=i / 100) for i in range(n)]
    return [*rows, issue(50, "dog", "owl", quality=0.001), issue(51, "cat", "owl", quality=0.001)]


def test_all_rows_like_this_one_are_accepted_after_a_question_and_undone_together(tmp_path: Path, tab: Any) -> None:
    page = tab().open(written(tmp_path, report(similar())))
    page.fill("[name=search]", "id-7")
    page.keyboard.press("Enter")
    press(page, "a")
    assert page.locator("#question").inner_text() == "Relabel 8 rows from “cat” to “dog”?"  # qualities 0 to 0.07
    page.keyboard.press("Escape")
    assert progress(page) == "0 of 14 flagged rows reviewed"
    page.click("#alike")
    page.keyboard.press("Enter")
    assert progress(page) == "8 of 14 flagged rows reviewed: 0 keep, 8 relabel, 0 drop"
    page.click("#reset")
    press(page, "nn")  # a look around does not lose the undo
    press(page, "u")
    assert progress(page) == "0 of 14 flagged rows reviewed"


def test_accepting_all_leaves_decided_rows_and_is_not_offered_for_one(tmp_path: Path, tab: Any) -> None:
    page = tab().open(written(tmp_path, report(similar(4))))
    press(page, "k")  # the first, of quality 0
    page.fill("[name=search]", "id-3")
    page.keyboard.press("Enter")
    press(page, "a")
    page.click("#yes")
    decided = {row[0]: row[2] for row in exported(page, tmp_path)[1][1:]}
    assert decided == {"0": "keep", "1": "relabel", "2": "relabel", "3": "relabel"}
    page.fill("[name=search]", "id-50")
    page.keyboard.press("Enter")
    assert not page.locator("#alike").is_visible()
    press(page, "a")
    assert "No other undecided row" in page.locator("#message").inner_text()


def test_several_labels_are_chosen_in_boxes(tmp_path: Path, tab: Any) -> None:
    rows = [issue(0, "cat | owl", "cat"), issue(1, "dog", None), issue(2, "owl", "cat")]
    page = tab().open(written(tmp_path, report(rows, multilabel=True)))
    assert page.get_by_role("checkbox", checked=True).count() == 1
    page.get_by_role("checkbox", name="dog").check()
    press(page, "r")  # from the box
    assert page.locator("[data-do=relabel]").get_attribute("aria-disabled") == "true"  # no other label chosen yet
    page.get_by_role("checkbox", name="owl").focus()
    press(page, " r")
    page.get_by_role("checkbox", name="cat").uncheck()
    press(page, "r")
    path, lines = exported(page, tmp_path)
    assert [line[2:] for line in lines[1:]] == [["relabel", "cat | dog"], ["relabel", "dog | owl"], ["relabel", ""]]
    other = tab().open(written(tmp_path, report(rows, multilabel=True)))
    other.set_input_files("#file", path)
    until(other, "document.getElementById('message').textContent")
    assert other.locator("#message").inner_text() == "Imported 3 decisions."


def below(n: int, **more: Any) -> Any:
    return issue(n, "cat", None, flagged=False, quality=0.5 + n / 1000, text=f"fine {n}", **more)


def test_below_the_flagged_rows_the_list_goes_on(tmp_path: Path, tab: Any) -> None:
    rows = [below(20), issue(1, quality=0.6, text="flagged"), below(10)]
    page = tab().open(written(tmp_path, report(rows, flagged=1)))
    assert page.locator("h1").inner_text() == "1 of 20,000 rows looks mislabeled"
    assert shown(page) == ["flagged", "fine 10", "fine 20"]
    assert page.locator(".item .mark").all_inner_texts() == ["", "not flagged", "not flagged"]
    assert page.locator("#count").inner_text() == "3 rows, 1 flagged"
    press(page, "d")
    assert "All flagged rows are reviewed" in page.locator("#message").inner_text()
    assert page.locator("#unflagged").is_visible()
    press(page, "k")
    assert progress(page) == "1 of 1 flagged rows reviewed and 1 not flagged: 1 keep, 0 relabel, 1 drop"
    page.select_option("[name=flagged]", "no")
    assert shown(page) == ["fine 10", "fine 20"]
    page.select_option("[name=flagged]", "yes")
    assert shown(page) == ["flagged"]


def test_without_a_flagged_row_there_is_still_something_to_review(tmp_path: Path, tab: Any) -> None:
    opened = tab()
    page = opened.open(written(tmp_path, report([below(1), below(2)], flagged=0, matrix=[[0] * 3] * 3)))
    assert page.locator("h1").inner_text() == "None of 20,000 rows looks mislabeled"
    press(page, "k")
    assert progress(page) == "No row is flagged, 1 not flagged reviewed: 1 keep, 0 relabel, 0 drop"
    assert opened.errors == []


def test_a_cell_of_the_matrix_lists_flagged_rows_only_and_works_by_keys(tmp_path: Path, tab: Any) -> None:
    rows = [issue(1, "cat", "dog"), issue(2, "cat", "dog", flagged=False)]
    page = tab().open(written(tmp_path, report(rows, flagged=1, matrix=[[0, 1, 0], [0, 0, 0], [0, 0, 0]])))
    page.locator("#pairs button").focus()
    page.keyboard.press("Enter")
    assert shown(page) == ["text of 1"]
    assert focused(page) == "list"


def gallery(n: int = 40) -> Any:
    return report([issue(i, image=PIXEL, values={"file": f"{i}.png"}) for i in range(n)], kind="images")


def test_images_are_a_gallery_through_which_arrows_move_in_two_directions(tmp_path: Path, tab: Any) -> None:
    page = tab().open(written(tmp_path, gallery()))
    tops = [box["y"] for box in (item.bounding_box() for item in page.locator(".item").all())]
    across = tops.count(tops[0])
    assert across >= 3
    for key, row in (("ArrowRight", 1), ("ArrowDown", across + 1), ("ArrowLeft", across), ("ArrowUp", 0)):
        page.keyboard.press(key)
        assert current(page) == f"id-{row} (row {row})", key
    page.keyboard.press("End")
    assert page.locator(".item[aria-selected=true]").is_visible()
    page.keyboard.press("Home")
    press(page, "kr")
    assert current(page) == "id-2 (row 2)"


@pytest.mark.parametrize("kind", ["texts", "table"])
def test_texts_and_tables_are_compact(tmp_path: Path, tab: Any, kind: str) -> None:
    content: Any = {"text": "long " * 100} if kind == "texts" else {"values": {f"c{i}": "1" for i in range(30)}}
    page = tab().open(written(tmp_path, report([issue(n, **content) for n in range(30)], kind=kind)))
    box, area = page.locator(".item").first.bounding_box(), page.locator("#list").bounding_box()
    assert area["height"] / box["height"] >= 6


def test_long_numbers_are_short_in_the_list_and_whole_beside_it(tmp_path: Path, tab: Any) -> None:
    values = {"height": "-1.959881624692813", "id": "1234567890", "version": "1.2.33333333"}
    page = tab().open(written(tmp_path, report([issue(1, values=values)], kind="table")))
    assert shown(page) == ["height -1.96 · id 1234567890 · version 1.2.33333333"]
    assert "-1.959881624692813" in page.locator("#content").inner_text()


def test_numbers_are_shown_only_where_they_tell_rows_apart(tmp_path: Path, tab: Any) -> None:
    rows = [issue(0, quality=0.0, probability=0.9999), issue(1, quality=0.25, probability=0.6)]
    page = tab().open(written(tmp_path, report(rows)))
    assert page.locator("#numbers").inner_text() == ""
    assert [text.strip() for text in page.locator(".item .side").all_inner_texts()] == ["", "0.25"]
    press(page, "n")
    assert page.locator("#numbers span").all_inner_texts() == ["Label quality 0.25", "suggested with 60 %"]


@pytest.mark.parametrize("kind", ["texts", "table", "images"])
def test_on_a_phone_the_buttons_are_in_reach_and_decide_by_touch(tmp_path: Path, tab: Any, kind: str) -> None:
    content: Any = {"texts": {"text": "word " * 900}, "table": {"values": {f"c{i}": "1" for i in range(40)}}}
    rows = [issue(n, **content.get(kind, {"image": PIXEL})) for n in range(30)]
    page = tab(**PHONE).open(written(tmp_path, report(rows, kind=kind)))
    page.evaluate("document.getElementById('detail').scrollIntoView()")
    for word in ("keep", "relabel", "drop", "skip", "undo"):
        box = page.locator(f"[data-do={word}]").bounding_box()
        assert box["height"] >= 40
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 812, word
    for word in ("keep", "relabel", "drop"):
        page.tap(f"[data-do={word}]")
    assert progress(page) == "3 of 30 flagged rows reviewed: 1 keep, 1 relabel, 1 drop"
    plain = page.evaluate("getComputedStyle(document.querySelector('[data-do=skip]')).backgroundColor")
    touched = page.evaluate("getComputedStyle(document.querySelector('[data-do=drop]')).backgroundColor")
    assert touched == plain  # not highlighted for the next row
    page.tap("[data-do=undo]")
    assert progress(page).startswith("2 of 30")


def test_on_a_phone_the_buttons_wait_until_the_row_is_in_sight(tmp_path: Path, tab: Any) -> None:
    page = tab(**PHONE).open(written(tmp_path, report([issue(n, text="word " * 900) for n in range(3)])))
    page.evaluate("scrollTo(0, document.getElementById('detail').getBoundingClientRect().top - 600)")
    top, buttons = (page.locator(name).bounding_box()["y"] for name in ("#content", ".actions"))
    assert top < 812
    assert buttons - top > 100


def test_a_small_phone_still_has_the_buttons_at_its_lower_edge(tmp_path: Path, tab: Any) -> None:
    rows = [issue(n, text="word " * 900) for n in range(3)]
    page = tab(**{**PHONE, "viewport": {"width": 320, "height": 500}}).open(written(tmp_path, report(rows)))
    page.evaluate("document.getElementById('detail').scrollIntoView()")
    box = page.locator("[data-do=undo]").bounding_box()
    assert box["y"] + box["height"] <= 500


def test_after_an_export_the_page_shows_the_commands_to_copy(tmp_path: Path, tab: Any) -> None:
    content = report([issue(1)], folder="runs/my data; rm -rf ~", corrected="corrected.parquet")
    page = tab(permissions=["clipboard-read", "clipboard-write"]).open(written(tmp_path, content))
    assert not page.locator("#after").is_visible()
    press(page, "k")
    exported(page, tmp_path)
    apply, retrain = page.locator("#after code").all_inner_texts()
    decisions = [content.folder, "decisions.csv"]
    assert shlex.split(apply) == ["rockafellian", "apply", *decisions, "--out", "corrected.parquet"]
    assert shlex.split(retrain) == ["rockafellian", "retrain", *decisions]
    page.locator("[data-copy]").first.click()
    until(page, "document.getElementById('message').textContent")
    assert page.evaluate("getSelection().toString()") == apply


def test_without_a_run_there_are_no_commands(tmp_path: Path, tab: Any) -> None:
    opened = tab()
    page = opened.open(written(tmp_path, animals()))
    exported(page, tmp_path)
    assert page.locator("#after").count() == 0
    assert opened.errors == []


def test_on_paper_there_are_the_rows_the_decisions_and_the_charts(tmp_path: Path, tab: Any) -> None:
    page = tab().open(written(tmp_path, animals()))
    press(page, "rk")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    lines = page.locator("#printed tbody tr").all_inner_texts()
    assert len(lines) == 4
    assert page.locator("#printed caption").inner_text().startswith("2 of 4 flagged rows reviewed")
    assert re.split(r"\s*\t\s*", lines[0])[1:6] == ["cat", "dog", "0.01", "yes", "relabel: dog"]
    assert page.locator("#chart-losses").is_visible()
    assert page.locator("#chart-pairs").is_visible()
    assert not page.locator("#filters").is_visible()
    assert not page.locator("#detail").is_visible()
