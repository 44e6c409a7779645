import json
import re
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from browser import reload, until
from instances import known_rate
from page_samples import PIXEL, animals, current, exported, issue, press, report, shown, written

from rockafellian.auditing.report.charts import MAX_CLASSES, Pairs, class_bars, drawings, pairs
from rockafellian.auditing.report.contents import Banner, LabelIssue, Report, Sample, headline, noise_rate_sentence
from rockafellian.auditing.report.page import render
from rockafellian.training.history import Epoch, History

HOSTILE = (
    "<script>window.hacked=1</script>",
    '"><img src=x onerror="window.hacked=1">',
    "</script><script>window.hacked=1</script>",
    "{{7*7}}",
    "line\u2028end",
    "<!--<script>",
    "<b>bold</b> &lt;",
)


def data_of(text: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_the_page_starts_with_the_count_and_the_noise_rate() -> None:
    four = animals()
    assert headline(four) == "4 of 20,000 rows look mislabeled"
    assert headline(report([issue(1)])) == "1 of 20,000 rows looks mislabeled"
    assert headline(report([])) == "None of 20,000 rows looks mislabeled"
    assert "12 %" in noise_rate_sentence(four)
    assert "10 % to 14 %" in noise_rate_sentence(four)
    assert "no errors to be seen; up to 3.0 %" in noise_rate_sentence(report([], estimate=known_rate(0.0, 0.0, 0.03)))
    assert "not estimated" in noise_rate_sentence(report([], estimate=None))
    assert "The 4 with the lowest label quality" in render(report(list(four.issues), flagged=9))


def test_images_from_elsewhere_and_tables_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="data:image/"):
        render(report([issue(1, image="https://example.org/cat.png")]))
    with pytest.raises(ValueError, match="square matrix for 3 classes"):
        render(report([], matrix=[[1, 2], [3, 4]]))


def test_what_is_not_a_number_is_left_out_and_a_million_losses_cost_nothing() -> None:
    losses = np.random.default_rng(0).exponential(size=1_000_000)
    losses[:3] = np.nan, np.inf, 1e9
    start = time.perf_counter()
    text = render(report([issue(1, quality=float("nan"))], kept_losses=losses, threshold=float("inf")))
    assert time.perf_counter() - start < 5
    data = data_of(text)
    assert data["issues"][0][4] is None
    kept = re.findall(r"<title>loss about ([^:]+): ([0-9,]+) kept</title>", text)
    assert len(kept) <= 80
    assert max(float(loss) for loss, _ in kept) < 20  # the one huge loss does not squeeze the others
    assert sum(int(count.replace(",", "")) for _, count in kept) == 999_998


def test_of_many_classes_the_most_affected_are_shown_and_it_says_so() -> None:
    classes = [f"class {number}" for number in range(150)]
    many = report([issue(n, classes[149], classes[148]) for n in range(9)], classes=classes)
    bars, matrix = class_bars(many), pairs(many)
    assert len(bars) == MAX_CLASSES
    assert (bars[0].name, bars[0].flagged) == ("class 149", 9)
    assert matrix == Pairs([149], [148], [[9]], 9)  # without lines of zeros
    assert render(many).count("Only the 30 most affected of 150 classes are shown.") == 2


def test_the_page_is_small_and_draws_its_charts_without_a_library() -> None:
    text = render(animals())
    assert len(text) < 120_000
    assert text.count('<svg class="drawing"') == 3
    assert "NaN" not in text.partition("<script")[0]


@pytest.mark.parametrize("values", [[0.5], [0.0, 0.0], [None, 0.2], [1e-6, 2e-6], [0.3, float("nan"), 0.31]])
def test_drawings_stay_inside_their_frame(values: list[float | None]) -> None:
    epochs = [Epoch(e, 1.0, value, None, None, value, 0.1, 1.0) for e, value in enumerate(values, 1)]
    losses = np.array([value for value in values if value])
    drawn = drawings(report([], history=History(epochs, []), kept_losses=losses, removed_losses=losses + 7))
    assert {each.name for each in drawn} >= {"accuracy", "removed"}
    for each in drawn:
        numbers = re.findall(r' (?:c?x|c?y|[xy][12])="([^"]+)"', each.svg) + re.findall(r"[\d.]+(?=[, \"])", each.svg)
        assert all(-1 <= float(number) <= 401 for number in numbers)


def test_half_a_surrogate_pair_can_be_written() -> None:
    render(report([issue(1, text="\ud800")], title="\udfff")).encode("utf-8")


def test_the_page_opens_from_a_file_without_an_error_or_a_request(tmp_path: Path, tab: Any) -> None:
    images = [issue(n, image=PIXEL, values={"file": f"{n}.png"}) for n in range(5)]
    opened = tab()
    page = opened.open(written(tmp_path, report(images, kind="images")))
    assert not page.locator("#chart-losses").is_visible()
    page.click("#training > summary")
    assert page.locator("#chart-losses rect.removed").first.is_visible()
    assert page.evaluate("document.querySelector('.picture').naturalWidth") == 1
    assert page.locator("h1").inner_text() == "5 of 20,000 rows look mislabeled"
    assert opened.errors == []
    assert [url for url in opened.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_the_policy_stops_whatever_would_go_out_or_run(tmp_path: Path, tab: Any) -> None:
    page = tab().open(written(tmp_path, animals()))
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'window.hacked = 1'}))")
    page.evaluate("document.body.append(Object.assign(new Image(), {src: 'x', onerror: () => {}}))")
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("fetch('https://example.org').then(() => 'out', () => 'stopped')") == "stopped"


def test_keys_decide_and_move_on_and_a_reload_keeps_it(tmp_path: Path, tab: Any) -> None:
    page = tab().open(written(tmp_path, animals()))
    assert current(page) == "id-7 (row 7)"
    press(page, "k")
    assert current(page) == "id-3 (row 3)"
    press(page, "rd")
    assert page.locator("#progress").inner_text() == "3 of 4 flagged rows reviewed: 1 keep, 1 relabel, 1 drop"
    reload(page)
    assert page.locator("#progress").inner_text() == "3 of 4 flagged rows reviewed: 1 keep, 1 relabel, 1 drop"
    assert current(page) == "id-1 (row 1)"  # the first that is left
    press(page, "s")
    assert "1 skip" in page.locator("#progress").inner_text()
    assert "All flagged rows are reviewed" in page.locator("#message").inner_text()


def test_undo_takes_back_the_last_decision_and_after_a_move_clears_the_current_one(tmp_path: Path, tab: Any) -> None:
    page = tab().open(written(tmp_path, animals()))
    press(page, "kdu")
    assert current(page) == "id-3 (row 3)"
    assert page.locator("#progress").inner_text().startswith("1 of 4 flagged rows reviewed: 1 keep")
    press(page, "rpp")
    assert current(page) == "id-7 (row 7)"
    press(page, "u")
    assert page.locator("#progress").inner_text() == "1 of 4 flagged rows reviewed: 0 keep, 1 relabel, 0 drop"


def test_keys_move_and_are_only_letters_while_typing(tmp_path: Path, tab: Any) -> None:
    page = tab().open(written(tmp_path, animals()))
    for key, row in (("ArrowDown", 3), ("n", 5), ("p", 3), ("ArrowUp", 7), ("End", 1), ("Home", 7)):
        page.keyboard.press(key)
        assert current(page) == f"id-{row} (row {row})", key
    press(page, "/kdr")
    assert page.input_value("[name=search]") == "kdr"
    assert page.locator("#progress").inner_text() == "0 of 4 flagged rows reviewed"
    page.fill("[name=search]", "")
    page.focus("#theme")
    press(page, "d")
    page.keyboard.press("Control+d")
    assert page.locator("#progress").inner_text() == "0 of 4 flagged rows reviewed"


def test_a_row_without_a_suggestion_is_relabeled_only_to_a_label_that_was_chosen(tmp_path: Path, tab: Any) -> None:
    page = tab().open(written(tmp_path, animals()))
    page.keyboard.press("End")
    page.keyboard.press("r")
    assert page.locator("#progress").inner_text() == "0 of 4 flagged rows reviewed"
    assert "Choose another label" in page.locator("#message").inner_text()
    page.select_option("#label", label="owl")
    page.click("[data-do=relabel]")
    assert exported(page, tmp_path)[1][1:] == [["1", "id-1", "relabel", "owl"]]


def test_the_list_is_filtered_sorted_and_searched(tmp_path: Path, tab: Any) -> None:
    page = tab().open(written(tmp_path, animals()))
    assert shown(page) == ["a barking cat", "it hoots at night", "purrs", "who knows"]
    page.select_option("[name=sort]", "row")
    assert shown(page) == ["who knows", "it hoots at night", "purrs", "a barking cat"]
    page.select_option("[name=sort]", "probability")
    assert shown(page) == ["it hoots at night", "purrs", "a barking cat", "who knows"]
    page.select_option("[name=sort]", "given")
    assert shown(page) == ["a barking cat", "who knows", "it hoots at night", "purrs"]
    page.select_option("[name=given]", label="cat (2)")
    assert shown(page) == ["a barking cat", "who knows"]
    page.select_option("[name=suggested]", label="no suggestion (1)")
    assert shown(page) == ["who knows"]
    page.click("#reset")
    page.fill("[name=low]", "0.02")
    page.fill("[name=high]", "0.1")
    assert shown(page) == ["it hoots at night", "purrs"]
    page.click("#reset")
    for words, rows in (
        ("HOOTS", ["it hoots at night"]),
        ("id-5", ["purrs"]),
        ("dog", ["a barking cat", "it hoots at night"]),
    ):
        page.fill("[name=search]", words)
        assert shown(page) == rows
    page.fill("[name=search]", "no such thing")
    assert page.locator("#empty").is_visible()
    press(page, "k")
    assert page.locator("#progress").inner_text() == "0 of 4 flagged rows reviewed"


def test_under_the_filter_for_undecided_rows_a_decided_one_leaves_the_list(tmp_path: Path, tab: Any) -> None:
    page = tab().open(written(tmp_path, animals()))
    page.select_option("[name=state]", "undecided")
    page.focus("#list")
    press(page, "kd")
    assert shown(page) == ["purrs", "who knows"]
    assert current(page) == "id-5 (row 5)"
    press(page, "u")
    assert current(page) == "id-3 (row 3)"
    page.select_option("[name=state]", "keep")
    assert shown(page) == ["a barking cat"]


def test_clicking_a_cell_of_the_matrix_shows_its_rows(tmp_path: Path, tab: Any) -> None:
    page = tab().open(written(tmp_path, animals()))
    page.get_by_role("button", name="1 rows, given label dog, suggested label owl").click()
    until(page, "document.querySelectorAll('.item').length === 1")
    assert shown(page) == ["it hoots at night"]
    assert page.locator("#review").evaluate("it => it.getBoundingClientRect().top < innerHeight / 2")


def test_the_export_holds_what_was_chosen_in_row_order_and_can_be_imported(tmp_path: Path, tab: Any) -> None:
    source = written(tmp_path, animals())
    page = tab().open(source)
    press(page, "rkd")
    path, rows = exported(page, tmp_path)
    assert path.name == "decisions.csv"
    assert rows == [
        ["index", "id", "decision", "label"],
        ["3", "id-3", "keep", ""],
        ["5", "id-5", "drop", ""],
        ["7", "id-7", "relabel", "dog"],
    ]
    path.write_text(path.read_text() + "99,id-99,keep,\r\n1,someone-else,keep,\r\n1,id-1,relabel,unicorn\r\n")
    other = tab().open(source)
    assert other.locator("#progress").inner_text() == "0 of 4 flagged rows reviewed"
    other.set_input_files("#file", path)
    until(other, "document.getElementById('message').textContent")
    assert other.locator("#message").inner_text() == (
        "Imported 3 decisions. 3 lines do not fit this report and were ignored."
    )
    reload(other)
    assert exported(other, tmp_path)[1] == rows


def test_an_import_survives_a_spreadsheet_and_refuses_what_is_no_list_of_decisions(tmp_path: Path, tab: Any) -> None:
    page = tab().open(written(tmp_path, animals()))
    saved = tmp_path / "saved.csv"
    saved.write_bytes('\ufeffindex;id;decision;label\n7;"id-7";relabel;dog\n3;id-3;keep;\n'.encode())
    page.set_input_files("#file", saved)
    until(page, "document.getElementById('message').textContent")
    assert page.locator("#message").inner_text() == "Imported 2 decisions."
    saved.write_text("name,age\nEve,7\n")
    page.set_input_files("#file", saved)
    until(page, "document.getElementById('message').textContent.startsWith('Need a file')")


def test_formulas_are_exported_as_text_and_come_back_as_they_were(tmp_path: Path, tab: Any) -> None:
    labels = ["=1+1", "-3", "@cmd", 'quote " and, comma', "two\nlines", "'=x", " +1;2", "plain"]
    issues = [issue(n, "plain", label, id=f"={n}" if n == 0 else f"-{n}") for n, label in enumerate(labels[:-1])]
    source = written(tmp_path, report(issues, classes=labels))
    page = tab().open(source)
    press(page, "r" * len(issues))
    path, rows = exported(page, tmp_path)
    assert [row[3] for row in rows[1:]] == [
        "'=1+1",
        "-3",
        "'@cmd",
        'quote " and, comma',
        "two\nlines",
        "''=x",
        "' +1;2",
    ]
    assert [row[1] for row in rows[1:3]] == ["'=0", "-1"]
    other = tab().open(source)
    other.set_input_files("#file", path)
    until(other, "document.getElementById('message').textContent")
    assert other.locator("#message").inner_text() == "Imported 7 decisions."
    assert exported(other, tmp_path)[1] == rows


def test_two_reports_do_not_mix_their_decisions(tmp_path: Path, tab: Any) -> None:
    opened = tab()
    page = opened.open(written(tmp_path, animals(), "one.html"))
    press(page, "kk")
    other = report(list(animals().issues), key="run-2")
    page = opened.open(written(tmp_path, other, "two.html"))
    assert page.locator("#progress").inner_text() == "0 of 4 flagged rows reviewed"
    page = opened.open(tmp_path / "one.html")
    assert page.locator("#progress").inner_text().startswith("2 of 4 flagged rows reviewed")


def test_without_storage_the_page_works_and_says_that_it_keeps_nothing(tmp_path: Path, tab: Any) -> None:
    opened = tab()
    opened.context.add_init_script(
        "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('no', 'SecurityError'); }})"
    )
    page = opened.open(written(tmp_path, animals()))
    assert page.locator("#storage").is_visible()
    press(page, "k")
    assert page.locator("#progress").inner_text().startswith("1 of 4 flagged rows reviewed")
    page.click("#theme")
    assert opened.errors == []


def test_what_another_wrote_into_the_storage_does_no_harm(tmp_path: Path, tab: Any) -> None:
    opened = tab()
    page = opened.open(written(tmp_path, animals()))
    for junk in ("no json", "[1]", '{"7": ["explode"], "3": ["relabel", "unicorn"]}'):
        page.evaluate("text => localStorage.setItem('rockafellian:run-1', text)", junk)
        reload(page)
        assert page.locator("#progress").inner_text() == "0 of 4 flagged rows reviewed", junk
    assert opened.errors == []


@pytest.mark.parametrize("kind", ["texts", "table"])
def test_hostile_strings_are_shown_as_text_and_never_run(tmp_path: Path, tab: Any, kind: str) -> None:
    issues = []
    for row, string in enumerate(HOSTILE):
        content = {"text": string} if kind == "texts" else {"values": {string: string, "plain": "b"}}
        other = HOSTILE[(row + 1) % len(HOSTILE)]
        issues.append(LabelIssue(row, string, string, other, 0.1, 0.9, string, **content))  # type: ignore[arg-type]
    everywhere = " ".join(HOSTILE)
    content = report(issues, classes=list(HOSTILE), title=everywhere, key=everywhere, kind=kind)
    hostile = Report(**{**vars(content), "notices": list(HOSTILE), "facts": {text: text for text in HOSTILE}})
    opened = tab()
    page = opened.open(written(tmp_path, hostile))
    as_seen = [page.evaluate("text => text", text) for text in HOSTILE]
    assert page.title() == " ".join(everywhere.split(" "))
    assert page.locator(".title").text_content() == everywhere
    assert page.locator("ul.notices li").all_text_contents() == as_seen
    for text in HOSTILE:
        assert page.locator("#content").evaluate("it => it.textContent").count(text) == (1 if kind == "texts" else 2)
        assert text in page.locator("#name").text_content()
        assert text == page.locator("#reason").text_content()
        press(page, "r")
    assert [row[3] for row in exported(page, tmp_path)[1][1:]] == [*HOSTILE[1:], HOSTILE[0]]
    names = page.locator("#chart-by-class th[scope=row]").all_text_contents()
    assert sorted(names) == sorted(as_seen)
    assert set(page.locator("#pairs th[scope=col]").all_text_contents()) == set(as_seen)
    assert page.locator("img").count() == 0
    assert page.evaluate("window.hacked") is None
    assert opened.errors == []


@pytest.fixture(scope="module")
def long_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    issues = [issue(n, quality=n / 10_000, text=f"text number {n} " + "word " * 60) for n in range(10_000)]
    return written(tmp_path_factory.mktemp("long"), report(issues))


def test_of_ten_thousand_rows_only_those_in_sight_are_in_the_document(long_report: Path, tab: Any) -> None:
    page = tab().open(long_report)
    for share in (0, 0.3, 0.7, 1):
        page.evaluate(
            "share => { const it = document.getElementById('list'); it.scrollTop = share * it.scrollHeight }", share
        )
        until(
            page,
            "share => [...document.querySelectorAll('.item')]"
            ".some(it => Math.abs(it.dataset.place - share * 9999) < 12)",
            share,
        )
        assert page.locator(".item").count() <= 100
    assert "text number 9999 " in shown(page)[-1]


def test_the_next_of_ten_thousand_rows_is_painted_at_once(long_report: Path, tab: Any) -> None:
    page = tab().open(long_report)
    times = page.evaluate(
        """async () => {
          const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
          const times = [];
          for (let i = 0; i < 20; i += 1) {
            const start = performance.now();
            document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "kdn"[i % 3], bubbles: true }));
            await painted();
            times.push(performance.now() - start);
          }
          return times;
        }"""
    )
    assert current(page) == "id-20 (row 20)"
    assert median(times) < 100


def test_light_and_dark_differ_and_the_choice_is_kept(tmp_path: Path, tab: Any) -> None:
    source = written(tmp_path, animals())
    background = "getComputedStyle(document.body).backgroundColor"
    light, dark = tab(color_scheme="light").open(source), tab(color_scheme="dark").open(source)
    assert light.evaluate(background) != dark.evaluate(background)
    light.click("#theme")
    reload(light)
    assert light.evaluate(background) == dark.evaluate(background)


def test_charts_follow_the_theme(tmp_path: Path, tab: Any) -> None:
    page = tab(color_scheme="light").open(written(tmp_path, animals()))
    line = "getComputedStyle(document.querySelector('#chart-accuracy polyline')).stroke"
    before = page.evaluate(line)
    page.click("#theme")
    assert page.evaluate(line) != before


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(tmp_path: Path, tab: Any, theme: str) -> None:
    rows = [*animals().issues, issue(9, "owl", None, flagged=False, place=0), issue(8, image=PIXEL)]
    around = {
        "folder": "runs/1",
        "sample": Sample([1], [(9, 0)]),
        "banner": Banner({"before": "1%", "after": "2%"}, "how"),
    }
    page = tab(color_scheme=theme).open(written(tmp_path, report(rows, flagged=5, **around)))
    press(page, "krds")
    exported(page, tmp_path)
    page.click("#training > summary")
    ratios = page.evaluate(CONTRAST)
    assert len(ratios) > 40
    page.click("#begin")
    press(page, "d")
    ratios += page.evaluate(CONTRAST)
    assert {name: ratio for name, ratio in ratios if ratio < 4.5} == {}


#: For each text in sight: what it is, and the ratio of WCAG between its colour and the first background behind it.
CONTRAST = """() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map((c) => c * (/^color\\(srgb/.test(colour) ? 255 : 1));
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (it) => {
    const colour = getComputedStyle(it).backgroundColor;
    return (channels(colour)[3] ?? 1) === 1 || !it.parentElement ? light(channels(colour)) : behind(it.parentElement);
  };
  return [...document.querySelectorAll("body *")]
    .filter((it) => it.checkVisibility() && [...it.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
    .filter((it) => !["SCRIPT", "OPTION", "NOSCRIPT"].includes(it.tagName))
    .map((it) => {
      const pair = [light(channels(getComputedStyle(it).color)), behind(it)];
      return [`${it.tagName} ${it.id} ${it.className}`, (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05)];
    });
}"""


@pytest.mark.parametrize("kind", ["texts", "table", "images"])
def test_a_phone_needs_no_scrolling_sideways_and_has_buttons_for_thumbs(tmp_path: Path, tab: Any, kind: str) -> None:
    wide = "x" * 300
    content: dict[str, Any] = {"texts": {"text": wide}, "table": {"values": {wide: wide}}}.get(kind, {"image": PIXEL})
    rows = [issue(n, wide, "dog", id=wide + str(n), **content) for n in range(30)]
    page = tab(viewport={"width": 375, "height": 812}, has_touch=True).open(
        written(
            tmp_path, report(rows, kind=kind, title=wide, notices=[wide], classes=[wide, "dog"], facts={wide: wide})
        )
    )
    page.tap("#training > summary")
    page.tap("#more")
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    for button in page.locator("button:visible").all():
        assert button.bounding_box()["height"] >= 40
    page.tap("[data-do=keep]")
    assert page.locator("#progress").inner_text().startswith("1 of 30 flagged rows reviewed")


def test_everything_that_can_be_used_has_a_name_for_screen_readers(tmp_path: Path, tab: Any) -> None:
    opened = tab()
    page = opened.open(written(tmp_path, animals()))
    nodes = opened.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    named = [(node["role"]["value"], node["name"]["value"]) for node in nodes if "name" in node]
    used = {"button", "combobox", "searchbox", "spinbutton", "listbox", "progressbar", "option"}
    assert {role for role, _ in named} >= used
    assert [role for role, name in named if role in used and not name] == []
    active = page.get_attribute("#list", "aria-activedescendant")
    assert page.get_attribute(f"#{active}", "aria-selected") == "true"
    assert page.get_attribute("#progress", "aria-live") == "polite"


def test_rows_with_several_labels_are_filtered_by_each_and_relabeled_to_the_suggestion(
    tmp_path: Path, tab: Any
) -> None:
    rows = [issue(0, "cat | owl", "cat", text="one"), issue(1, "dog", "dog | owl", text="two")]
    page = tab().open(written(tmp_path, report(rows, multilabel=True)))
    press(page, "rr")
    assert [row[3] for row in exported(page, tmp_path)[1][1:]] == ["cat", "dog | owl"]
    page.select_option("[name=given]", label="owl (1)")
    assert shown(page) == ["one"]


def test_several_labels_may_have_something_else_between_them(tmp_path: Path, tab: Any) -> None:
    page = tab().open(written(tmp_path, report([issue(0, "cat;owl", "cat")], multilabel=True, separator=";")))
    assert page.locator("[name=given] option").all_inner_texts() == ["Any", "cat (1)", "owl (1)"]
    press(page, "r")
    assert exported(page, tmp_path)[1][1][3] == "cat"


def test_without_issues_there_is_a_friendly_page(tmp_path: Path, tab: Any) -> None:
    opened = tab()
    page = opened.open(written(tmp_path, report([], estimate=None, history=History(), kept_losses=np.array([]))))
    assert page.locator("h1").inner_text() == "None of 20,000 rows looks mislabeled"
    assert "Nothing to review" in page.locator("main").inner_text()
    assert page.locator("#list").count() == 0
    page.click("#theme")
    press(page, "kd")
    assert opened.errors == []
