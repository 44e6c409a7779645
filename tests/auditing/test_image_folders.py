"""Folders of images: splits are recognized, and links, pipes and loose files do no harm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rockafellian.auditing.data.reading import read


def touch(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"image")
    return folder


@pytest.mark.parametrize(
    ("train", "other"),
    [("train", "val"), ("Training", "TEST"), ("train", "valid"), ("train", "validation"), ("train", "dev")],
)
def test_parts_of_the_data_are_no_classes(train: str, other: str, tmp_path: Path) -> None:
    folder = touch(tmp_path, *(f"{part}/class{i}/{i}.png" for part in (train, other) for i in range(2)))
    with pytest.raises(ValueError, match=rf"`audit {folder}/{train} --valid {folder}/{other}`$"):
        read(folder)
    assert read(folder / train).table.column("label").to_pylist() == ["class0", "class1"]
    assert len(read(folder, labeled=False)) == 4


def test_a_part_alone_is_named_without_validation(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"`audit {tmp_path}/train`$"):
        read(touch(tmp_path, "train/a/1.png", "train/b/1.png"))


def test_classes_may_be_called_like_parts_if_they_hold_images(tmp_path: Path) -> None:
    source = read(touch(tmp_path, "train/1.png", "test/2.png"))
    assert source.table.column("label").to_pylist() == ["test", "train"]


@pytest.mark.parametrize("name", ["New York", " a ", "=1+1", "Ünï", "a,b", "cat's", "1"])
def test_a_class_has_the_name_of_its_folder(name: str, tmp_path: Path) -> None:
    source = read(touch(tmp_path, f"{name}/1.png", f"{name}/deep/er/2.JPG"))
    assert source.table.column("label").to_pylist() == [name, name]


def test_links_in_a_circle_and_pipes_are_left_out_with_a_notice(tmp_path: Path) -> None:
    folder = touch(tmp_path / "data", "a/1.png", "b/2.png")
    (folder / "a" / "up").symlink_to(folder)
    (folder / "c").symlink_to(folder)
    (folder / "b" / "gone.png").symlink_to(folder / "nowhere.png")
    os.mkfifo(folder / "b" / "pipe.png")
    source = read(folder)
    assert source.table.column("file").to_pylist() == ["a/1.png", "b/2.png"]
    assert source.notices == (
        "4 links to folders and entries that are no files are left out: 'a/up', 'b/gone.png', 'b/pipe.png', ...",
    )


def test_a_class_may_be_a_link_to_a_folder_elsewhere(tmp_path: Path) -> None:
    folder = touch(tmp_path / "data", "a/1.png")
    (folder / "b").symlink_to(touch(tmp_path / "other", "2.png", "3.png"))
    source = read(folder)
    assert source.table.to_pydict() == {"file": ["a/1.png", "b/2.png", "b/3.png"], "label": ["a", "b", "b"]}
    assert source.notices == ()


def test_images_beside_the_classes_are_left_out_with_a_notice(tmp_path: Path) -> None:
    source = read(touch(tmp_path, "a/1.png", "b/2.png", "3.png", ".hidden/4.png"))
    assert len(source) == 2
    assert source.notices == (f"2 images are not in a sub-folder of {tmp_path.name}: left out",)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.json", "a.xlsx", "a.npz", "a.parquet", "a"])
def test_a_pipe_is_no_data(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(ValueError, match=r"need a regular file, got .* a pipe, socket or device"):
        read(tmp_path / name)
