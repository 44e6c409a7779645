"""From a user's files to a corrected data set by way of the page, in a real browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from samples import command, image_folder, table, texts

from rockafellian.cli import screen

HOSTILE = "<script>window.hacked=1</script>"


def test_what_is_decided_on_the_page_is_what_apply_writes(
    tab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image_folder(tmp_path / "images", 200)
    arguments = ("train", tmp_path / "images", "--out", tmp_path / "run", "--contamination", "0.2", "--epochs", 12)
    assert command(monkeypatch, *arguments) == 0
    found = pd.read_parquet(tmp_path / "run" / "findings.parquet")
    worst = found[found["is_label_issue"]].sort_values(["label_quality", "average_margin"])
    opened = tab(accept_downloads=True)
    page = opened.open(tmp_path / "run" / "report.html")
    assert page.locator("h1").inner_text().startswith(f"{len(worst)} of 200 rows look mislabeled")
    assert page.locator("#count").inner_text() == f"200 rows, {len(worst)} flagged"  # all others follow below
    for key in ("r", "d", "k", "s"):
        page.keyboard.press(key)
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    download.value.save_as(tmp_path / "decisions.csv")
    decided = pd.read_csv(tmp_path / "decisions.csv").set_index("index")
    assert decided["decision"].reindex(worst["index"][:4]).tolist() == ["relabel", "drop", "keep", "skip"]
    assert (
        command(monkeypatch, "apply", tmp_path / "run", tmp_path / "decisions.csv", "--out", tmp_path / "new.csv") == 0
    )
    relabeled, dropped = worst["index"].tolist()[:2]
    wanted = found.set_index("index")["given_label"].copy()
    wanted[relabeled] = found["predicted_label"][relabeled]
    assert pd.read_csv(tmp_path / "new.csv")["label"].tolist() == wanted.drop(dropped).tolist()
    assert not opened.errors
    assert all(url.startswith(("file:", "data:", "blob:")) for url in opened.requests)


def test_hostile_texts_labels_and_file_names_are_shown_and_do_not_run(
    tab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, _ = texts(100)
    frame["review"] = HOSTILE + frame["review"] + '"><img src=x onerror="window.hacked=1">'
    frame["label"] = frame["label"].map({"good": HOSTILE, "bad": "{{7*7}}</script>"})
    path = tmp_path / "<img src=x onerror=window.hacked=1>.csv"
    frame.rename(columns={"review": "<b>review</b>"}).to_csv(path, index=False)
    arguments = ("train", path, "--label", "label", "--encoder", "none", "--out", tmp_path / "run", "--epochs", 10)
    assert command(monkeypatch, *arguments, "--contamination", "0.2") == 0
    opened = tab()
    page = opened.open(tmp_path / "run" / "report.html")
    page.keyboard.press("r")
    shown = page.locator("body").inner_text()
    assert HOSTILE in shown
    assert "{{7*7}}</script>" in shown
    assert path.name in shown
    assert page.evaluate("window.hacked") is None
    assert not opened.errors


@pytest.mark.parametrize(("option", "opens"), [([], False), (["--open"], True), (["--no-open"], False)])
def test_an_audit_opens_its_page_if_told_to(
    option: list[str], opens: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(screen, "has_screen", lambda: True)
    monkeypatch.setattr(webbrowser, "open", opened.append)
    table(60)[0].to_csv(tmp_path / "data.csv", index=False)
    arguments = ("audit", tmp_path / "data.csv", "--label", "label", "--out", tmp_path / "run", "--epochs", 10)
    assert command(monkeypatch, *arguments, "--contamination", 0.2, *option) == 0
    assert f"review: {tmp_path / 'run' / 'report.html'}" in capsys.readouterr().out
    assert opened == ([(tmp_path / "run" / "report.html").as_uri()] if opens else [])
