"""Tables, texts and images: the inputs of a row, its preview for people, and a fingerprint to find equal rows."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from torch import Tensor

from rockafellian._internal.files import check_regular
from rockafellian.auditing.data.cells import as_text, decoded, has_text, is_text, shown
from rockafellian.auditing.data.image_folders import IMAGE_SUFFIXES
from rockafellian.auditing.data.reading import Source
from rockafellian.auditing.data.settings import Settings
from rockafellian.auditing.features.decisive import Decisive, decisive_columns, decisive_words
from rockafellian.auditing.features.images import (
    THUMBNAIL_SIDE,
    EfficientNet,
    Pixels,
    efficientnet_installed,
    median_side,
    read_image,
    thumbnail,
)
from rockafellian.auditing.features.tables import TableFeatures
from rockafellian.auditing.features.texts import TextFeatures, installed_encoder
from rockafellian.training.progress import Progress, counting

#: Smaller images suit a network trained on them better than one pretrained on photographs.
MIN_PHOTO_SIDE = 64
MAX_VALUES, MAX_VALUE_LENGTH, MAX_TEXT_LENGTH = 60, 300, 5_000


class Features(Protocol):
    """How rows become inputs of a network; learned from the training rows, and saved as JSON and tensors.

    Slow ones have `reports_progress = True` and take a function `progress`.
    """

    def __call__(self, content: Any, /) -> Tensor: ...  # noqa: D102
    def describe(self) -> str: ...  # noqa: D102
    @property
    def state(self) -> dict[str, Any]: ...  # noqa: D102


class Kind(Protocol):
    """What rows are: a table, texts or images. `content` is what features read, taken from the source once."""

    name: ClassVar[str]
    #: Whether rows of this kind mostly have one right answer.
    crisp: ClassVar[bool]
    #: What `decisive` returns, in a sentence for the page.
    why: ClassVar[str]

    def content(self, source: Source) -> Any: ...  # noqa: D102
    def fit_transform(self, content: Any, settings: Settings, progress: Progress) -> tuple[Features, Tensor]: ...  # noqa: D102
    def fingerprints(self, content: Any, inputs: Tensor) -> NDArray[np.uint64]: ...  # noqa: D102
    def decisive(self, features: Any, content: Any, slopes: Tensor, offsets: Tensor) -> list[Decisive]: ...  # noqa: D102
    def preview(self, source: Source, row: int, first: Sequence[str] = ()) -> dict[str, Any]: ...  # noqa: D102
    def describe(self) -> str: ...  # noqa: D102


@dataclass(frozen=True)
class Table:
    """Rows of numbers, categories, dates and texts."""

    name: ClassVar[str] = "table"
    crisp: ClassVar[bool] = False
    why: ClassVar[str] = (
        "Highlighted columns speak most for the suggested label and against the given one, compared with an average "
        "row."
    )
    columns: tuple[str, ...]

    def content(self, source: Source) -> pa.Table:
        """Return the columns that are neither labels nor ids; if one is missing all others, for an error to list."""
        present = set(source.table.column_names)
        return source.table.select(self.columns) if present.issuperset(self.columns) else source.table

    def fit_transform(self, content: pa.Table, settings: Settings, progress: Progress) -> tuple[Features, Tensor]:
        """Learn an encoder for each column; return the features and the inputs of these rows."""
        return TableFeatures.fit_transform(content, seed=settings.seed)

    def fingerprints(self, content: pa.Table, inputs: Tensor) -> NDArray[np.uint64]:
        """Return a number for each row, equal for rows with equal inputs."""
        return _mixed(np.ascontiguousarray(inputs.numpy()).view(np.uint32).T)

    def decisive(self, features: TableFeatures, content: pa.Table, slopes: Tensor, offsets: Tensor) -> list[Decisive]:
        """Return the columns of each row that add most to a sum of its inputs, from slopes and offsets of these."""
        return decisive_columns(features, slopes * offsets)

    def preview(self, source: Source, row: int, first: Sequence[str] = ()) -> dict[str, Any]:
        """Return the values of a row by column, those that are named first."""
        names = list(dict.fromkeys([*first, *self.columns[:MAX_VALUES]]))[:MAX_VALUES]
        values = {name: shown(source.table.column(name), row) for name in names}
        return {"values": {name: _short(value, MAX_VALUE_LENGTH) for name, value in values.items()}}

    def describe(self) -> str:
        """Return the kind in a few words."""
        return f"a table of {len(self.columns)} columns"


@dataclass(frozen=True)
class Texts:
    """Texts in one column."""

    name: ClassVar[str] = "texts"
    crisp: ClassVar[bool] = True
    why: ClassVar[str] = (
        "Highlighted words speak most for the suggested label and against the given one, by the words alone."
    )
    column: str

    def content(self, source: Source) -> list[str]:
        """Return the texts; a missing one is empty."""
        cells = decoded(source.column(self.column))
        if not has_text(cells.type):
            raise ValueError(
                f"need texts in column {self.column!r}, got {cells.type}; name another column, or convert it to text"
            )
        return [text or "" for text in as_text(cells).to_pylist()]

    def fit_transform(self, content: list[str], settings: Settings, progress: Progress) -> tuple[Features, Tensor]:
        """Learn TF-IDF, beside a sentence encoder if there is one; return the features and the inputs of these rows."""
        encoder = settings.encoder
        folder = installed_encoder() if encoder == "auto" else None if encoder == "none" else Path(encoder)
        with counting(progress, "reading texts") as on_progress:
            return TextFeatures.fit_transform(content, folder, seed=settings.seed, progress=on_progress)

    def fingerprints(self, content: list[str], inputs: Tensor) -> NDArray[np.uint64]:
        """Return a number for each row, equal for texts that differ in whitespace at most."""
        return np.array([_digest(" ".join(text.split()).encode()) for text in content], np.uint64)

    def decisive(self, features: TextFeatures, content: list[str], slopes: Tensor, offsets: Tensor) -> list[Decisive]:
        """Return the words of each text that add most to a sum of its inputs, from slopes of these."""
        return decisive_words(features, content, slopes)

    def preview(self, source: Source, row: int, first: Sequence[str] = ()) -> dict[str, Any]:
        """Return the text, shortened if it is very long."""
        return {"text": _short(shown(source.column(self.column), row), MAX_TEXT_LENGTH)}

    def describe(self) -> str:
        """Return the kind in a few words."""
        return f"texts in column {self.column!r}"


@dataclass(frozen=True)
class Images:
    """Images, by their paths in a column, or as one array."""

    name: ClassVar[str] = "images"
    crisp: ClassVar[bool] = True
    why: ClassVar[str] = ""
    column: str | None

    def content(self, source: Source) -> list[Path] | NDArray[Any]:
        """Return the files, or the array."""
        if self.column is None:
            if source.images is None:
                raise ValueError("need images in an array X, as in training; pass an .npz file")
            return source.images
        files = source.column(self.column).to_pylist()
        missing = next((row for row, file in enumerate(files) if not file), None)
        if missing is not None:
            raise ValueError(
                f"need the path of an image in every row, got none in row {missing + 1} of {self.column!r}"
            )
        return [source.folder / str(file) for file in files]

    def fit_transform(self, content: Any, settings: Settings, progress: Progress) -> tuple[Features, Tensor]:
        """Choose a pretrained network for photographs if it is installed, otherwise pixels; return these and inputs."""
        encoder = settings.encoder
        if encoder not in ("auto", "none", "efficientnet-lite0"):
            raise ValueError(f"need an encoder of images that is auto, none or efficientnet-lite0; got {encoder!r}")
        photos = encoder == "auto" and efficientnet_installed() and median_side(content) >= MIN_PHOTO_SIDE
        features = EfficientNet() if photos or encoder == "efficientnet-lite0" else Pixels.fit(content)
        return features, encode(self, features, content, progress)

    def fingerprints(self, content: list[Path] | NDArray[Any], inputs: Tensor) -> NDArray[np.uint64]:
        """Return a number for each row, equal for files of equal bytes; only files of equal size are read for it."""
        if isinstance(content, np.ndarray):
            return np.array([_digest(each.tobytes()) for each in content], np.uint64)
        sizes = [file.stat().st_size for file in content]
        files_of_size = Counter(sizes)
        digests = [
            int.from_bytes(_hash_file(file, size=8)) if files_of_size[size] > 1 else _digest(str(file).encode())
            for file, size in zip(content, sizes, strict=True)
        ]
        return np.array(digests, np.uint64)

    def checksum(self, content: list[Path] | NDArray[Any]) -> str:
        """Return a checksum of all images in their order: of the names and bytes of files, or of the array.

        The folders of files do not count, as data may move.
        """
        total = hashlib.blake2b()
        if isinstance(content, np.ndarray):
            total.update(f"{content.dtype.str} {content.shape}\n".encode())
            for each in content:
                total.update(np.ascontiguousarray(each).tobytes())
        else:
            for file in content:
                total.update(os.fsencode(file.name) + b"\n" + _hash_file(file, size=32))
        return total.hexdigest()

    def decisive(self, features: Features, content: Any, slopes: Tensor, offsets: Tensor) -> list[Decisive]:
        """Return nothing: people look at an image as a whole."""
        return [Decisive()] * len(slopes)

    def preview(self, source: Source, row: int, first: Sequence[str] = ()) -> dict[str, Any]:
        """Return a thumbnail, and the file of the image."""
        [image] = self.content(source.take(np.array([row])))
        file = {} if self.column is None else {"file": str(source.column(self.column)[row])}
        return {"image": thumbnail(read_image(image, min_side=2 * THUMBNAIL_SIDE)), "values": file}

    def describe(self) -> str:
        """Return the kind in a few words."""
        return "images in an array" if self.column is None else f"images by the paths in column {self.column!r}"


KINDS: dict[str, Any] = {each.name: each for each in (Table, Texts, Images)}
FEATURES: dict[str, Any] = {each.__name__: each for each in (TableFeatures, TextFeatures, Pixels, EfficientNet)}


def encode(kind: Kind, features: Features, content: Any, progress: Progress = "quiet") -> Tensor:
    """Return the inputs of these rows, with a progress bar where the features are slow."""
    call: Callable[..., Tensor] = features
    with counting(progress, f"reading {kind.name}") as on_progress:
        options = {"progress": on_progress} if getattr(features, "reports_progress", False) else {}
        return call(content, **options)


def choose_kind(source: Source, others: Sequence[str], text: str | None = None, image: str | None = None) -> Kind:
    """Return what the rows are: as set, or as the columns `others`, which hold neither labels nor ids, look like."""
    if text is not None and image is not None:
        raise ValueError("need --text or --image, got both; name one")
    if source.images is not None:
        return Images(None)
    column = text or image
    if column is not None and column not in others:  # a column that is not there raises its own error
        source.column(column)
        raise ValueError(f"need a column beside the label and the id, got {column!r} for both; name another column")
    if image is not None or source.format == "folder":
        return Images(image or "file")
    if text is not None:
        return Texts(text)
    if not others:
        raise ValueError("need columns to learn from, got none beside the label and the id")
    images = next((name for name in others if _has_images(source, name)), None)
    if images is not None:
        return Images(images)
    return Texts(others[0]) if len(others) == 1 and _has_texts(source, others[0]) else Table(tuple(others))


def _first(source: Source, name: str, count: int = 50) -> list[str]:
    """The first cells that are text and not empty."""
    column = source.table.column(name)
    if not (is_text(column.type) or pa.types.is_dictionary(column.type)):
        return []
    cells = decoded(column.slice(0, 10 * count))
    return [cell for cell in cells.to_pylist() if cell][:count] if is_text(cells.type) else []


def _has_images(source: Source, name: str) -> bool:
    return _are_images(_first(source, name, 1)) and _are_images(_first(source, name))


def _are_images(cells: list[str]) -> bool:
    return bool(cells) and all(Path(cell).suffix.lower() in IMAGE_SUFFIXES for cell in cells)


def _has_texts(source: Source, name: str) -> bool:
    cells = _first(source, name)
    return bool(cells) and sum(len(cell.split()) for cell in cells) >= 3 * len(cells)


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _digest(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest())


def _hash_file(path: Path, *, size: int) -> bytes:
    """The hash of a file, of `size` bytes; the file is read in small parts."""
    check_regular(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, partial(hashlib.blake2b, digest_size=size)).digest()


def _mixed(columns: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """A 64-bit hash of each row, from its numbers column by column."""
    mixed = np.zeros(columns.shape[1], np.uint64)
    for column in columns:
        mixed = (mixed ^ column) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed
