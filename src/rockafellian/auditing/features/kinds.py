"""Tables, texts and images: what the network sees of a row, what a person sees, and which rows are the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from torch import Tensor

from rockafellian.auditing.data.reading import IMAGE_SUFFIXES, Source
from rockafellian.auditing.data.settings import Settings
from rockafellian.auditing.features.columns import Columns
from rockafellian.auditing.features.images import (
    EfficientNet,
    Pixels,
    efficientnet_installed,
    median_side,
    read_image,
    thumbnail,
)
from rockafellian.auditing.features.texts import WordsAndSentences, installed_encoder
from rockafellian.training.progress import Progress, counting

#: Images with shorter sides than this say more to a network of their own than to one that learned from photographs.
PHOTOGRAPH = 64
MOST_VALUES, LONGEST_VALUE, LONGEST_TEXT = 60, 300, 5_000


class Features(Protocol):
    """How rows become inputs of a network; learned from the training rows, and kept as JSON and tensors.

    Those that take their time say `tells_progress`: they can be called with a function to be told of it.
    """

    def __call__(self, content: Any, /) -> Tensor: ...  # noqa: D102
    def describe(self) -> str: ...  # noqa: D102
    @property
    def state(self) -> dict[str, Any]: ...  # noqa: D102


class Kind(Protocol):
    """What rows are."""

    name: ClassVar[str]

    def content(self, source: Source) -> Any: ...  # noqa: D102
    def learn(self, source: Source, settings: Settings, progress: Progress) -> tuple[Features, Tensor]: ...  # noqa: D102
    def shown(self, source: Source, row: int) -> dict[str, Any]: ...  # noqa: D102
    def same(self, source: Source, inputs: Tensor) -> NDArray[np.uint64]: ...  # noqa: D102
    def describe(self) -> str: ...  # noqa: D102


@dataclass(frozen=True)
class Table:
    """Rows of numbers, categories, dates and texts."""

    name: ClassVar[str] = "table"
    columns: tuple[str, ...]

    def content(self, source: Source) -> pa.Table:
        """The columns that are not labels or ids, as far as they are there; the features know which they need."""
        return source.table.select([name for name in self.columns if name in source.table.column_names])

    def learn(self, source: Source, settings: Settings, progress: Progress) -> tuple[Features, Tensor]:
        """Each column by what is in it."""
        features = Columns.learn(self.content(source), seed=settings.seed)
        return features, features(self.content(source))

    def shown(self, source: Source, row: int) -> dict[str, Any]:
        """The values of a row by column."""
        values = {name: source.table.column(name)[row].as_py() for name in self.columns[:MOST_VALUES]}
        return {"values": {name: _short(value, LONGEST_VALUE) for name, value in values.items()}}

    def same(self, source: Source, inputs: Tensor) -> NDArray[np.uint64]:
        """A number for each row, equal for rows that are equal to the network."""
        return _mixed(np.ascontiguousarray(inputs.numpy()).view(np.uint32).T)

    def describe(self) -> str:
        """The kind in a few words."""
        return f"a table of {len(self.columns)} columns"


@dataclass(frozen=True)
class Texts:
    """Texts in one column."""

    name: ClassVar[str] = "texts"
    column: str

    def content(self, source: Source) -> list[str]:
        """The texts; what is missing is empty."""
        cells = source.column(self.column)
        if pa.types.is_nested(cells.type) or pa.types.is_binary(cells.type) or pa.types.is_large_binary(cells.type):
            raise ValueError(
                f"need texts in column {self.column!r}, got {cells.type}; name another, or make text of it"
            )
        return [text or "" for text in cells.cast(pa.large_string()).to_pylist()]

    def learn(self, source: Source, settings: Settings, progress: Progress) -> tuple[Features, Tensor]:
        """By words, and by a sentence encoder if there is one."""
        told = settings.encoder
        folder = installed_encoder() if told == "auto" else None if told == "none" else Path(told)
        with counting(progress, "reading texts") as tell:
            return WordsAndSentences.learn(self.content(source), folder, seed=settings.seed, progress=tell)

    def shown(self, source: Source, row: int) -> dict[str, Any]:
        """The text, cut where few read on."""
        return {"text": _short(source.column(self.column)[row].as_py(), LONGEST_TEXT)}

    def same(self, source: Source, inputs: Tensor) -> NDArray[np.uint64]:
        """A number for each row, equal for equal texts, whatever the space in and around them."""
        return np.array([_digest(" ".join(text.split()).encode()) for text in self.content(source)], np.uint64)

    def describe(self) -> str:
        """The kind in a few words."""
        return f"texts in column {self.column!r}"


@dataclass(frozen=True)
class Images:
    """Images, by their paths in a column, or as one array."""

    name: ClassVar[str] = "images"
    column: str | None

    def content(self, source: Source) -> list[Path] | NDArray[Any]:
        """The files, or the array."""
        if self.column is None:
            if source.images is None:
                raise ValueError("need images in an array X, as the model was trained on such; pass an .npz file")
            return source.images
        files = source.column(self.column).to_pylist()
        missing = next((row for row, file in enumerate(files) if not file), None)
        if missing is not None:
            raise ValueError(
                f"need the path of an image in every row, got none in row {missing + 1} of {self.column!r}"
            )
        return [source.folder / str(file) for file in files]

    def learn(self, source: Source, settings: Settings, progress: Progress) -> tuple[Features, Tensor]:
        """By a network trained on photographs if it is there and these may be some; otherwise as pixels."""
        content, encoder = self.content(source), settings.encoder
        if encoder not in ("auto", "none", "efficientnet-lite0"):
            raise ValueError(f"need an encoder of images that is auto, none or efficientnet-lite0; got {encoder!r}")
        suits = encoder == "auto" and efficientnet_installed() and median_side(content) >= PHOTOGRAPH
        features = EfficientNet() if suits or encoder == "efficientnet-lite0" else Pixels.learn(content)
        return features, encode(self, features, source, progress)

    def shown(self, source: Source, row: int) -> dict[str, Any]:
        """A small picture, and its file."""
        content = self.content(source.take(np.array([row])))
        where = {} if self.column is None else {"file": str(source.column(self.column)[row])}
        return {"image": thumbnail(read_image(content[0])), "values": where}

    def same(self, source: Source, inputs: Tensor) -> NDArray[np.uint64]:
        """A number for each row, equal for files of equal bytes."""
        content = self.content(source)
        read = [each.read_bytes() if isinstance(each, Path) else each.tobytes() for each in content]
        return np.array([_digest(each) for each in read], np.uint64)

    def describe(self) -> str:
        """The kind in a few words."""
        return "images in an array" if self.column is None else f"images by the paths in column {self.column!r}"


KINDS: dict[str, Any] = {each.name: each for each in (Table, Texts, Images)}
FEATURES: dict[str, Any] = {each.__name__: each for each in (Columns, WordsAndSentences, Pixels, EfficientNet)}


def encode(kind: Kind, features: Features, source: Source, progress: Progress = "quiet") -> Tensor:
    """The inputs of these rows; long work shows how far it is."""
    call: Callable[..., Tensor] = features
    with counting(progress, f"reading {kind.name}") as tell:
        more = {"progress": tell} if getattr(features, "tells_progress", False) else {}
        return call(kind.content(source), **more)


def choose(source: Source, others: Sequence[str], text: str | None = None, image: str | None = None) -> Kind:
    """What the rows are: as told, or as the columns `others`, which hold neither labels nor ids, look."""
    if text is not None and image is not None:
        raise ValueError("need --text or --image, got both; name the column that tells most")
    if source.images is not None:
        return Images(None)
    column = text or image
    if column is not None and column not in others:
        source.column(column)
        raise ValueError(f"need a column beside the label and the id, got {column!r} for both; name another")
    if image is not None or source.form == "folder":
        return Images(image or "file")
    if text is not None:
        return Texts(text)
    if not others:
        raise ValueError("need columns to learn from, got none beside the label and the id")
    images = next((name for name in others if _has_images(source, name)), None)
    if images is not None:
        return Images(images)
    return Texts(others[0]) if len(others) == 1 and _has_texts(source, others[0]) else Table(tuple(others))


def _first(source: Source, name: str, how_many: int = 50) -> list[str]:
    """The first cells that are text and not empty."""
    cells = source.table.column(name)
    if not (pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)):
        return []
    return [cell for cell in cells.slice(0, 10 * how_many).to_pylist() if cell][:how_many]


def _has_images(source: Source, name: str) -> bool:
    cells = _first(source, name)
    return bool(cells) and all(Path(cell).suffix.lower() in IMAGE_SUFFIXES for cell in cells)


def _has_texts(source: Source, name: str) -> bool:
    cells = _first(source, name)
    return bool(cells) and sum(len(cell.split()) for cell in cells) >= 3 * len(cells)


def _short(value: Any, length: int) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= length else text[: length - 1] + "…"


def _digest(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest())


def _mixed(columns: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """One number of 64 bits for each row, from its numbers column by column; different rows hardly ever share one."""
    mixed = np.zeros(columns.shape[1], np.uint64)
    for column in columns:
        mixed = (mixed ^ column) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed
