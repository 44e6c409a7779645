"""What speaks most for the suggested label: found by the model, and shown first on the page."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from page_samples import PIXEL, issue, report, shown, written
from samples import image_folder

import rockafellian as rk
from rockafellian.auditing.commands import outputs
from rockafellian.auditing.commands.audit import Audited
from rockafellian.auditing.features.decisive import find_spans
from rockafellian.auditing.model.decisive import find_decisive

N = 400


def audited(frame: pd.DataFrame, **options: Any) -> Audited:
    settled: dict[str, Any] = {"epochs": 10, "contamination": 0.1, "encoder": "none", "progress": "quiet"}
    return rk.audit(frame, "label", **settled | options)


def first_names(found: Audited) -> list[str]:
    rows = np.flatnonzero(found.flagged)
    assert len(rows) > 10
    return [each.names[0] for each in find_decisive(found.problem, found.model, rows, found.predicted[rows])]


def wide(n_columns: int, kind: str, n: int = N) -> pd.DataFrame:
    """Columns of noise and, as the last one, one that decides."""
    random = np.random.default_rng(0)
    true, wrong = random.integers(0, 2, n), random.random(n) < 0.1
    values = {f"noise {number}": random.normal(size=n) for number in range(n_columns - 1)}
    deciding: dict[str, Any] = {
        "number": 3.0 * true + random.normal(size=n) / 4,
        "category": np.array(["low", "high"])[true],
        "date": pd.Timestamp("2024-01-01") + pd.to_timedelta(300 * true + random.integers(0, 9, n), unit="D"),
    }
    return pd.DataFrame({**values, "deciding": deciding[kind], "label": np.array(["cat", "dog"])[true ^ wrong]})


@pytest.mark.parametrize("kind", ["number", "category", "date"])
def test_the_column_that_decides_comes_first(kind: str) -> None:
    names = first_names(audited(wide(6, kind)))
    assert names.count("deciding") > 0.9 * len(names)


def test_in_a_thousand_columns_the_deciding_one_is_found_fast_and_is_on_the_page() -> None:
    frame = wide(1_000, "number", n=2_000)
    found = audited(frame)
    start = time.process_time()
    page = outputs.report(found, "key")
    assert time.process_time() - start < 20
    wrong = (frame["deciding"] > 1.5) != (frame["label"] == "dog")
    issues = [one for one in page.issues if one.flagged and wrong[one.index]]
    assert len(issues) > 10
    assert all(len(one.values or ()) == 60 for one in issues)  # of a thousand, of which the deciding one is the last
    assert sum("deciding" in (one.values or ()) for one in issues) > 0.9 * len(issues)


def test_the_word_that_decides_comes_first_and_is_found_in_the_text() -> None:
    random = np.random.default_rng(0)
    true, wrong = random.integers(0, 2, N), random.random(N) < 0.1
    filler = ["the", "film", "was", "long", "and", "we", "went", "home", "with", "some", "friends"]
    texts = [" ".join([*random.choice(filler, 8), ("Splendid", "Dull")[k], *random.choice(filler, 8)]) for k in true]
    found = audited(pd.DataFrame({"review": texts, "label": np.array(["good", "bad"])[true ^ wrong]}))
    names = [name for name, row in zip(first_names(found), np.flatnonzero(found.flagged), strict=True) if wrong[row]]
    assert len(names) > 20
    assert set(names) == {"splendid", "dull"}
    issues = [one for one in outputs.report(found, "key").issues if one.flagged and wrong[one.index]]
    marked = [{str(one.text)[start:end] for start, end in one.spans} for one in issues]
    assert all({"Splendid", "Dull"} & words for words in marked)


def test_the_parts_add_up_to_the_difference_of_the_margins(monkeypatch: pytest.MonkeyPatch) -> None:
    found = audited(wide(6, "number"))
    rows, seen = np.flatnonzero(found.flagged), []
    monkeypatch.setattr(
        type(found.problem.kind),
        "decisive",
        lambda self, features, content, slopes, offsets: seen.append((slopes * offsets).sum(1)) or [],
    )
    find_decisive(found.problem, found.model, rows, found.predicted[rows])
    average = found.problem.inputs.mean(0, keepdim=True)
    logits = [found.model.logits(each) for each in (found.problem.inputs[rows], average)]
    given, suggested = (torch.as_tensor(each[rows]) for each in (found.problem.labels.given, found.predicted))
    margins = [(each[:, 0] - each[:, 1]) * (1 - 2 * suggested.float()) for each in logits]
    assert (given != suggested).all()
    torch.testing.assert_close(seen[0], margins[0] - margins[1], rtol=0.05, atol=0.05)


def test_nothing_speaks_for_another_label_where_none_is_suggested() -> None:
    found = audited(wide(6, "number"))
    rows = np.flatnonzero(found.predicted == found.problem.labels.given)
    assert all(each.names == [] for each in find_decisive(found.problem, found.model, rows, found.predicted[rows]))


def test_images_and_rows_with_several_labels_do_not_fail(tmp_path: Path) -> None:
    image_folder(tmp_path / "images", 60)
    images = rk.audit(tmp_path / "images", epochs=10, contamination=0.1, progress="quiet")
    assert all(not one.decisive for one in outputs.report(images, "key").issues)
    frame = wide(3, "number").rename(columns={"label": "first"})
    frame["first"] = (frame["first"] == "dog").astype(int)
    frame["second"] = np.arange(N) % 2
    several = rk.audit(frame, ["first", "second"], epochs=10, contamination=0.1, progress="quiet")
    assert any("deciding" in one.decisive for one in outputs.report(several, "key").issues)


@pytest.mark.parametrize(
    ("text", "words", "analyzer", "marked"),
    [
        ("A dull, DULL film", ["dull"], "word", ["dull", "DULL"]),
        ("\uff24\uff35\uff2c\uff2c 🎬 dull", ["dull"], "word", ["\uff24\uff35\uff2c\uff2c", "dull"]),
        ("dullness", ["dull"], "word", []),
        ("很好看的电影", ["好看"], "char", ["好", "看"]),
        ("", ["dull"], "word", []),
    ],
)
def test_words_are_found_as_the_features_read_them(
    text: str, words: list[str], analyzer: str, marked: list[str]
) -> None:
    assert [text[start:end] for start, end in find_spans(text, words, analyzer)] == marked


HOSTILE = "<img src=x onerror=window.hacked=1>"


def test_decisive_words_are_marked_and_hostile_text_stays_text(tmp_path: Path, tab: Any) -> None:
    text = f"🎬 {HOSTILE} is <b>bad</b>"
    at = text.index(HOSTILE)
    spans = [(at, at + len(HOSTILE)), (text.index("bad"), text.index("bad") + 3)]
    rows = [issue(1, text=text, decisive=[HOSTILE, "bad"], spans=spans), issue(2, text="nothing")]
    opened = tab()
    page = opened.open(written(tmp_path, report(rows, why="Highlighted words decide.")))
    assert page.locator(".words mark").all_inner_texts() == [HOSTILE, "bad"]
    assert page.locator(".text mark").all_inner_texts() == [HOSTILE, "bad"]
    assert page.locator(".text").inner_text() == text
    assert page.locator(".why").inner_text() == "Highlighted words decide."
    page.keyboard.press("n")
    assert page.locator(".text").inner_text() == "nothing"
    assert page.locator("mark, .why").count() == 0
    assert page.evaluate("window.hacked") is None
    assert opened.errors == []


def test_decisive_columns_come_first_and_the_end_of_a_long_row_is_folded(tmp_path: Path, tab: Any) -> None:
    values = {HOSTILE if number == 30 else f"column {number}": str(number) for number in range(40)}
    rows = [issue(n, values=values, decisive=[HOSTILE, "column 7"]) for n in (1, 2)]
    page = tab().open(written(tmp_path, report(rows, kind="table", why="Highlighted columns decide.")))
    assert page.locator(".content dt").all_text_contents()[:3] == [HOSTILE, "column 7", "column 0"]
    assert page.locator(".decisive dt").all_text_contents() == [HOSTILE, "column 7"]
    assert shown(page)[0].startswith(f"{HOSTILE} 30")
    assert page.locator("summary", has_text="32 more columns").is_visible()
    assert not page.locator("dd", has_text="39").is_visible()
    page.locator("summary", has_text="32 more columns").click()
    page.locator("#list").focus()
    page.keyboard.press("n")
    assert page.locator("dd", has_text="39").is_visible()  # it stays open
    assert page.evaluate("window.hacked") is None


def test_a_short_row_is_whole_and_an_image_has_nothing_decisive(tmp_path: Path, tab: Any) -> None:
    rows = [issue(1, values={"a": "1", "b": "2"}), issue(2, image=PIXEL, values={"file": "2.png"})]
    page = tab().open(written(tmp_path, report(rows, kind="table", why="Highlighted columns decide.")))
    assert page.locator(".content dt").all_text_contents() == ["a", "b"]
    page.keyboard.press("n")
    assert page.locator(".content dt").all_text_contents() == ["file"]
    assert page.locator(".why, .content details").count() == 0
