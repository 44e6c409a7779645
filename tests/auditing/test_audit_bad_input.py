"""Bad input: one line that says what was wanted, exit code 2, and nothing written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from samples import command, image_folder, table

Make = Callable[[Path], list[object]]


def csv(text: str | bytes, *options: object, name: str = "data.csv") -> Make:
    def make(folder: Path) -> list[object]:
        path = folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return [path, *(options or ("--label", "label"))]

    return make


def good(*options: object) -> Make:
    def make(folder: Path) -> list[object]:
        table(60)[0].to_csv(folder / "data.csv", index=False)
        return [folder / "data.csv", *options]

    return make


def good_with(change: Callable[[pd.DataFrame], pd.DataFrame], *options: object) -> Make:
    def make(folder: Path) -> list[object]:
        change(table(60)[0]).to_csv(folder / "data.csv", index=False)
        return [folder / "data.csv", "--label", "label", *options]

    return make


def npz(*options: object, **arrays: object) -> Make:
    def make(folder: Path) -> list[object]:
        np.savez(folder / "data.npz", **arrays)  # type: ignore[arg-type]
        return [folder / "data.npz", *options]

    return make


def broken_parquet(folder: Path) -> list[object]:
    table(60)[0].to_parquet(folder / "data.parquet")
    content = (folder / "data.parquet").read_bytes()
    (folder / "data.parquet").write_bytes(content[: len(content) // 2])
    return [folder / "data.parquet", "--label", "label"]


def broken_image(folder: Path) -> list[object]:
    image_folder(folder / "images", 40)
    (folder / "images" / "dark" / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n and then nothing")
    return [folder / "images"]


def cut_image(folder: Path) -> list[object]:
    image_folder(folder / "images", 40)
    victim = next((folder / "images" / "dark").iterdir())
    victim.write_bytes(victim.read_bytes()[:-30])
    return [folder / "images"]


def text_as_image(folder: Path) -> list[object]:
    image_folder(folder / "images", 40)
    (folder / "images" / "dark" / "note.jpg").write_text("no image")
    return [folder / "images"]


def empty_folder(folder: Path) -> list[object]:
    (folder / "images" / "dark").mkdir(parents=True)
    return [folder / "images"]


def loose_images(folder: Path) -> list[object]:
    image_folder(folder / "images", 40)
    return [folder / "images" / "dark"]


def one_class_folder(folder: Path) -> list[object]:
    image_folder(folder / "images", 60)
    for file in (folder / "images" / "light").iterdir():
        file.unlink()
    return [folder / "images"]


def missing_image(folder: Path) -> list[object]:
    names = [f"{i}.png" for i in range(40)]
    pd.DataFrame({"path": names, "label": ["a", "b"] * 20}).to_csv(folder / "data.csv", index=False)
    return [folder / "data.csv", "--label", "label", "--image", "path"]


def no_path(folder: Path) -> list[object]:
    found = image_folder(folder, 40)
    frame = pd.DataFrame({"path": list(found), "label": [name.split("/")[0] for name in found]})
    frame.loc[3, "path"] = None
    frame.to_csv(folder / "data.csv", index=False)
    return [folder / "data.csv", "--label", "label", "--image", "path"]


def not_a_zip(folder: Path) -> list[object]:
    (folder / "data.npz").write_bytes(b"PK\x03\x04 nothing of the kind")
    return [folder / "data.npz"]


def pickled(folder: Path) -> list[object]:
    np.savez(folder / "data.npz", X=np.array([{}, {}], dtype=object), y=np.zeros(2))
    return [folder / "data.npz"]


def file_in_the_way(folder: Path) -> list[object]:
    (folder / "taken").write_text("mine")
    return [*good()(folder), "--label", "label", "--out", folder / "taken"]


def full_folder(folder: Path) -> list[object]:
    (folder / "taken").mkdir()
    (folder / "taken" / "thesis.txt").write_text("mine")
    return [*good()(folder), "--label", "label", "--out", folder / "taken"]


def no_model_there(folder: Path) -> list[object]:
    return [
        *good_with(lambda f: f[["label"]].assign(review="a word or two")[["review", "label"]])(folder),
        "--text",
        "review",
        "--encoder",
        folder,
    ]


def bad_valid(text: str) -> Make:
    def make(folder: Path) -> list[object]:
        (folder / "valid.csv").write_text(text)
        return [*good()(folder), "--label", "label", "--valid", folder / "valid.csv"]

    return make


ROWS = "".join(f"{i},{'ab'[i % 2]}\n" for i in range(40))
CASES: dict[str, tuple[Make, str]] = {
    "no such file": (lambda folder: [folder / "nothing.csv", "--label", "label"], "there is no"),
    "an unknown ending": (csv("a,label\n1,x\n", name="data.ods"), "ends in .csv"),
    "an empty file": (csv(""), "is empty"),
    "an empty parquet file": (csv("", name="data.parquet"), "is empty"),
    "an empty line": (csv("\n\n"), "need a header"),
    "a header alone": (csv("a,label\n"), "need rows"),
    "no such column": (good("--label", "lable"), "did you mean 'label'"),
    "no label named": (good("--seed", 1), "--label"),
    "the same label twice": (good("--label", "label", "--label", "label"), "several different ones"),
    "one class": (csv("a,label\n" + ROWS.replace("b", "a")), "at least two classes"),
    "as many classes as rows": (csv("a,label\n" + "".join(f"{i % 7},{i}\n" for i in range(40))), "an id or a number"),
    "a number to predict": (csv("a,label\n" + "".join(f"{i % 7},{i / 3}\n" for i in range(40))), "a number to predict"),
    "labels all empty": (csv("a,label\n" + "".join(f"{i},\n" for i in range(40))), "cells are empty"),
    "few rows": (csv("a,label\n1,x\n2,y\n1,x\n2,y\n"), "at least 20 rows"),
    "few labels": (good_with(lambda f: f.assign(label=f["label"].where(f.index < 12))), "at least 20 rows"),
    "a short row": (csv("a,label\n" + ROWS + "7\n"), "row 42 (the header is row 1)"),
    "a long row": (csv("a,label\n" + ROWS + "7,a,b\n"), "has 3; look for"),
    "an open quote": (csv("a,label\n" + ROWS + '"7,a\n'), "quote"),
    "broken UTF-8": (csv("a,label\néè,a\n".encode() + ROWS.encode() + b"\xff,a\n"), "the first in line 43"),
    "broken UTF-8 in the header": (csv("aé".encode() + b"\xff,label\n" + ROWS.encode()), "the first in line 1"),
    "broken UTF-16": (csv(("a,label\n" + ROWS).encode("utf-16")[:-1]), "need text in utf-16"),
    "a column twice": (csv("a,a,label\n1,2,x\n"), "twice"),
    "only labels": (csv("label\n" + "a\nb\n" * 20), "need columns to learn from"),
    "only constants": (csv("a,label\n" + "".join(f"1,{'ab'[i % 2]}\n" for i in range(40))), "constant"),
    "a broken parquet": (broken_parquet, "need a whole Parquet file"),
    "a parquet that is none": (csv("hello", name="data.parquet"), "need a whole Parquet file"),
    "a broken image": (broken_image, "bad.png"),
    "an image cut short": (cut_image, "truncated"),
    "a text called image": (text_as_image, "note.jpg"),
    "a folder without images": (empty_folder, "no images"),
    "images without sub-folders": (loose_images, "sub-folders"),
    "a folder of one class": (one_class_folder, "at least two classes"),
    "an image that is not there": (missing_image, "0.png"),
    "a row without an image": (no_path, "row 4"),
    "an npz that is none": (not_a_zip, "need a whole .npz"),
    "an npz of pickles": (pickled, "pickled objects"),
    "an npz without y": (npz(X=np.zeros((30, 3))), "y is missing"),
    "an npz of unequal lengths": (npz(X=np.zeros((30, 3)), y=np.zeros(29)), "one label y for each of the 30 rows"),
    "an npz of text": (npz(X=np.array([["a"], ["b"]]), y=np.zeros(2)), "need numbers X"),
    "text and image": (good("--label", "label", "--text", "colour", "--image", "id"), "got both"),
    "no such text column": (good("--label", "label", "--text", "review"), "need a column 'review'"),
    "the label as text": (good("--label", "label", "--text", "label"), "beside the label"),
    "an id that is not one": (good("--label", "label", "--id", "colour"), "differs in every row"),
    "several labels that are none": (good("--label", "label", "--label", "colour"), "need 0 and 1"),
    "a loss for several labels": (
        good_with(lambda f: f.assign(label=f.index % 2, big=f.index % 3 == 0), "--label", "big", "--loss", "mse"),
        "several labels",
    ),
    "several labels that look like one": (
        good_with(lambda f: f.assign(**{"label": f.index % 2, "big | old": f.index % 3 == 0}), "--label", "big | old"),
        "rename it",
    ),
    "a share above 1": (good("--label", "label", "--contamination", "20"), "in [0, 1)"),
    "a share that is a word": (good("--label", "label", "--contamination", "some"), "'some'"),
    "an unknown loss": (good("--label", "label", "--loss", "hinge"), "cce, mse"),
    "an unknown attack": (good("--label", "label", "--attack", "cw", "--eps", "0.1"), "fgsm, pgd"),
    "an attack without eps": (good("--label", "label", "--attack", "fgsm"), "together"),
    "eps without an attack": (good("--label", "label", "--eps", "0.1"), "together"),
    "a negative eps": (good("--label", "label", "--attack", "fgsm", "--eps", "-1"), "eps >= 0"),
    "too few epochs": (good("--label", "label", "--epochs", "2"), "at least 10 epochs"),
    "a negative seed": (good("--label", "label", "--seed", "-1"), "seed >= 0"),
    "an unknown device": (good("--label", "label", "--device", "abacus"), "'abacus'"),
    "an empty separator": (good("--label", "label", "--separator", ""), "separator"),
    "an encoder that is none": (no_model_there, "config.json"),
    "a file in the way": (file_in_the_way, "is a file"),
    "a folder of other files": (full_folder, "holds other files"),
    "nothing to resume": (good("--label", "label", "--resume", "--out", "fresh"), "holds none"),
    "resume without a folder": (good("--label", "label", "--resume"), "--resume --out"),
    "validation without its columns": (bad_valid("height,label\n1,cat\n"), "missing"),
    "validation of other classes": (
        bad_valid("id,height,width,colour,seen,label\n1,1,1,red,2024-01-01,cow\n"),
        "'cow'",
    ),
    "validation with a word for a number": (
        bad_valid("id,height,width,colour,seen,label\n1,tall,1,red,2024-01-01,cat\n"),
        "'tall'",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_gets_one_line_and_exit_code_2_and_nothing_is_written(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make, predicted = CASES[case]
    inputs, here = tmp_path / "inputs", tmp_path / "here"
    inputs.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    arguments = make(inputs)
    before = sorted((path, path.stat().st_size) for path in tmp_path.rglob("*"))
    assert command(monkeypatch, "train", *arguments) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1
    assert predicted in shown.err
    assert sorted((path, path.stat().st_size) for path in tmp_path.rglob("*")) == before
