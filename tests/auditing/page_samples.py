"""Pages of an audit for tests, and what a person does on them."""

import base64
import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
from instances import known_rate

from rockafellian.auditing.report.contents import LabelIssue, Report
from rockafellian.auditing.report.page import render
from rockafellian.training.history import Epoch, History
from rockafellian.weights.sample_weights import Reweighting

PIXEL = (
    "data:image/png;base64,"
    + base64.b64encode(
        bytes.fromhex(
            "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
            "0000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
        )
    ).decode()
)


def issue(row: int, given: str = "cat", suggested: str | None = "dog", **more: Any) -> LabelIssue:
    content = more if {"text", "image", "values"} & set(more) else {**more, "text": f"text of {row}"}
    quality = content.pop("quality", row / 100)
    probability = content.pop("probability", 0.9)
    return LabelIssue(
        row, content.pop("id", f"id-{row}"), given, suggested, quality, probability, "it differs", **content
    )


def trained() -> History:
    epochs = [Epoch(e, 1 / e, 1 - 0.5 / e, None, 0.8, 0.01 * e, 0.1, 1.0) for e in range(1, 6)]
    return History(epochs, [Reweighting(5, 1.5, 0.1, 50, 0.05, None, 50, None, None, 1.0, 0.1)])


def report(issues: list[LabelIssue], **changes: Any) -> Report:
    classes = changes.get("classes") or ["cat", "dog", "owl"]
    n = len(classes)
    place = {label: number for number, label in enumerate(classes)}
    matrix = np.zeros((n, n), int)
    for one in issues:
        if one.given in place:
            matrix[place[one.given], place.get(one.suggested or one.given, 0)] += 1
    settled: dict[str, Any] = {
        "title": "animals.csv",
        "key": "run-1",
        "kind": "texts",
        "rows": 20_000,
        "flagged": len(issues),
        "estimate": known_rate(0.12, 0.1, 0.14),
        "classes": classes,
        "class_rows": [20_000 // n] * n,
        "class_flagged": matrix.sum(1).tolist(),
        "matrix": matrix.tolist(),
        "history": trained(),
        "kept_losses": np.linspace(0, 1, 500),
        "removed_losses": np.linspace(1.2, 4, 50),
        "threshold": 1.1,
        "issues": issues,
        "facts": {"epochs": "5"},
        "notices": ["2 rows have no label and were set aside."],
    }
    return Report(**{**settled, **changes})


def animals() -> Report:
    return report(
        [
            issue(7, "cat", "dog", quality=0.01, probability=0.7, text="a barking cat"),
            issue(3, "dog", "owl", quality=0.02, probability=0.99, text="it hoots at night"),
            issue(5, "owl", "cat", quality=0.1, probability=0.8, text="purrs"),
            issue(1, "cat", None, quality=0.4, probability=None, text="who knows"),
        ]
    )


def written(folder: Path, content: Report, name: str = "report.html") -> Path:
    path = folder / name
    path.write_text(render(content), encoding="utf-8")
    return path


def shown(page: Any) -> list[str]:
    return page.locator(".item .excerpt").all_inner_texts()  # type: ignore[no-any-return]


def current(page: Any) -> str:
    return page.locator("#name").inner_text()  # type: ignore[no-any-return]


def press(page: Any, keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def exported(page: Any, folder: Path) -> tuple[Path, list[list[str]]]:
    with page.expect_download() as waiting:
        page.click("#export")
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path, list(csv.reader(io.StringIO(path.read_bytes().decode("utf-8"), newline="")))
