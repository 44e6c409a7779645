"""Folders of images with one sub-folder per class."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

#: The common formats that Pillow reads.
IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
TRAINING_NAMES = ("train", "training")
OTHER_SPLIT_NAMES = ("val", "valid", "validation", "dev", "test", "testing")


class Found(NamedTuple):
    """Images, and what was left out: links to folders, and what has the name of an image but is no regular file."""

    images: list[Path]
    left_out: list[Path]


def read_folder(path: Path, labeled: bool) -> tuple[pa.Table, tuple[str, ...]]:
    """Return the images below each sub-folder, whose name is their label; without labels, all images below."""
    below = _find_images(path)
    classes = {file: file.relative_to(path).parts[0] for file in below.images if file.parent != path}
    classes = {file: name for file, name in classes.items() if not name.startswith(".")}
    files = list(classes) if labeled else below.images
    if not files:
        folders = sum(each.is_dir() and not each.name.startswith(".") for each in path.iterdir())
        wanted = "one sub-folder of images per class" if labeled else "images"
        raise ValueError(
            f"need a folder with {wanted}, but {path} has {len(below.images) or 'no'} images and {folders} "
            "sub-folders; sort the images into sub-folders, or pass a CSV of their paths with --image COLUMN"
        )
    columns = {"file": _text([file.relative_to(path).as_posix() for file in files], path)}
    if labeled:
        _check_no_splits(path, classes)
        columns["label"] = _text(list(classes.values()), path)
    return pa.table(columns), tuple(_notices(path, below, len(files)))


def write_folder(out: Path, folder: Path, files: Sequence[str], labels: Sequence[str], kept: Sequence[bool]) -> None:
    """Write a new folder with a copy of each kept image below its label; a folder that exists is an error.

    Args:
        out: the new folder; it has its name only once it is complete.
        folder: where the images are.
        files: the path of each image in that folder, which begins with its old label.
        labels: the label of each image.
        kept: which images to copy.
    """
    if out.exists():
        raise ValueError(f"need a new folder for the images, but {out} exists; name another")
    partial = out.with_name(f".{out.name}.partial-{os.getpid()}")
    partial.mkdir()
    try:
        for file, label in ((file, label) for file, label, keep in zip(files, labels, kept, strict=True) if keep):
            target = _free_name(partial / label / Path(file).relative_to(Path(file).parts[0]))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(folder / file, target)
        partial.rename(out)
    except BaseException:
        shutil.rmtree(partial)
        raise


def _free_name(path: Path) -> Path:
    """The path, or one with a number if another image of that name was there first."""
    numbered = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(1, sys.maxsize))
    return path if not path.exists() else next(other for other in numbered if not other.exists())


def _find_images(path: Path) -> Found:
    """The images below, in order. A link to a folder is followed at the first level only, so that none leads back."""
    found = Found([], [])
    for folder in [path, *(each for each in path.iterdir() if _is_followed(each, path))]:
        for name, folders, files in os.walk(folder, onerror=_refuse):
            for each in (Path(name, entry) for entry in folders):
                if each.is_symlink() and not _is_followed(each, path):
                    found.left_out.append(each)
            for each in (Path(name, entry) for entry in files):
                if each.suffix.lower() in IMAGE_SUFFIXES:
                    (found.images if each.is_file() else found.left_out).append(each)
    return Found(sorted(found.images), sorted(found.left_out))


def _is_followed(link: Path, path: Path) -> bool:
    """Whether this is a link from the folder itself to another folder that does not hold it."""
    return (
        link.is_symlink()
        and link.parent == path
        and link.is_dir()
        and not path.resolve().is_relative_to(link.resolve())
    )


def _refuse(error: OSError) -> None:
    raise ValueError(f"need folders that can be read, but {error.filename} cannot ({error.strerror}); allow it")


def _check_no_splits(path: Path, classes: dict[Path, str]) -> None:
    """Raise an error if the sub-folders are parts of the data for training and validation, with classes below."""
    names = sorted(set(classes.values()))
    train = [name for name in names if name.lower() in TRAINING_NAMES]
    others = [name for name in names if name.lower() in OTHER_SPLIT_NAMES]
    deep = {name for file, name in classes.items() if len(file.relative_to(path).parts) > 2}
    if len(train) + len(others) < len(names) or not deep >= set(names):
        return
    command = f"audit {path / (train or others)[0]}"
    if train and others:
        command += f" --valid {path / others[0]}"
    raise ValueError(
        f"need one sub-folder per class, but {path} has parts of the data ({', '.join(names)}) with sub-folders; "
        f"name the parts: `{command}`"
    )


def _text(names: list[str], path: Path) -> pa.Array:
    try:
        return pa.array(names, pa.string())
    except UnicodeEncodeError as error:
        raise ValueError(f"need file names in UTF-8, got others in {path}; rename them") from error


def _notices(path: Path, below: Found, used: int) -> Iterator[str]:
    if others := len(below.images) - used:
        yield f"{others:,} images are not in a sub-folder of {path.name}: left out"
    if below.left_out:
        shown = ", ".join(ascii(each.relative_to(path).as_posix()) for each in below.left_out[:3])
        yield (
            f"{len(below.left_out):,} links to folders and entries that are no files are left out: "
            f"{shown}{', ...' * (len(below.left_out) > 3)}"
        )
