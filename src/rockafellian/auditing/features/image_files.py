"""One image file, read with little memory: upright, in gray or RGB; a hostile or broken one is refused in one line."""

from __future__ import annotations

import os
import struct
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

import numpy as np

from rockafellian._internal.extras import missing
from rockafellian._internal.files import check_regular

try:
    from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError
except ImportError as error:
    raise missing("pillow for images", "audit") from error

#: Other formats are not tried: for some of them Pillow starts other programs.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")
#: An image with more pixels, in a larger file, or that takes more bytes while it is decoded, is refused.
MAX_PIXELS, MAX_FILE_BYTES, MAX_BYTES = 100_000_000, 300_000_000, 500_000_000
#: What decoding takes for each pixel. JPEG is scaled down meanwhile, unless it is progressive; WebP is copied often.
BYTES_PER_PIXEL = {"JPEG": 1, "progressive JPEG": 6, "WEBP": 20}
DEFAULT_BYTES_PER_PIXEL = 4
#: Images that take more are decoded by the calling thread, one at a time: other threads keep memory that they free.
MAX_BYTES_IN_THREADS = 32_000_000
#: Metadata of more bytes, or a TIFF with more numbers in one of its tags, is no image from a camera or a program.
MAX_EXIF_BYTES, MAX_TIFF_NUMBERS = 1_000_000, 200_000
#: Pixels that are converted to gray or RGB at a time.
BAND_PIXELS = 1_000_000
#: Characters of a path in an error.
MAX_SHOWN = 300


@contextmanager
def without_warnings() -> Iterator[None]:
    """Silence Pillow's warnings: what it warns of is read all the same, or is refused with an error."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        yield


def read_file(path: str | Path, min_side: int | None = None) -> Image.Image:
    """Return the image in gray or RGB, upright, on white where it is transparent; of an animation the first frame.

    Args:
        path: the file
        min_side: the image may be read at a smaller size, but with at least this number of pixels on its longer side,
            if it has them
    """
    with _opened(path) as opened:
        if min_side is not None:
            opened.draft(None, fitting(opened.size, min_side))
        opened.load()
        image = _reduced(opened, 1 if min_side is None else max(1, max(opened.size) // min_side))
        if len(opened.info.get("exif", b"")) > MAX_EXIF_BYTES:
            raise ValueError(f"its EXIF data have more than {MAX_EXIF_BYTES:,} bytes")
        image.getexif()[ExifTags.Base.Orientation] = opened.getexif().get(ExifTags.Base.Orientation, 1)
        ImageOps.exif_transpose(image, in_place=True)
        return image


def file_size(path: str | Path) -> tuple[int, int]:
    """Return width and height; only the header of the file is read."""
    with _opened(path) as opened:
        return opened.size


def takes_much_memory(path: str | Path) -> bool:
    """Return whether the file should be read by one thread only."""
    with suppress(OSError, ValueError):  # opening it will name what is wrong with the path
        if os.stat(path).st_size > MAX_BYTES_IN_THREADS:
            return True
    with _opened(path) as opened:
        return opened.width * opened.height * _bytes_per_pixel(opened) > MAX_BYTES_IN_THREADS


def fitting(size: tuple[int, int], side: int) -> tuple[int, int]:
    """Return the size at which the longer side is `side`."""
    return max(1, round(size[0] * side / max(size))), max(1, round(size[1] * side / max(size)))


@contextmanager
def _opened(path: str | Path) -> Iterator[Image.Image]:
    """Open an image file; any error while it is open names the file."""
    with suppress(OSError):  # a file that cannot be looked at cannot be opened either, which says why
        check_regular(Path(path))
    try:
        if (size := os.stat(path).st_size) > MAX_FILE_BYTES:  # some formats are read as a whole
            raise ValueError(f"it has {size:,} bytes, at most {MAX_FILE_BYTES:,} are read")
        _check_tiff(path)
        with Image.open(path, formats=FORMATS) as image:
            _check_size(image)
            yield image
    except Exception as error:  # Pillow raises nearly any exception for a broken file
        raise ValueError(
            f"need an image ({', '.join(FORMATS)}), got {_shown(path)}: {_reason(error)}; "
            "replace the file or leave it out"
        ) from error


def _check_tiff(path: str | Path) -> None:
    """Raise an error if a TIFF lists more strips, tiles or tags than images have: Pillow makes an object of each."""
    with open(path, "rb") as file, suppress(struct.error):  # Pillow refuses what is too short
        head = file.read(16)
        if head[:4] not in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
            return
        order, big = "<" if head[:2] == b"II" else ">", b"+" in head[:4]
        file.seek(*struct.unpack(f"{order}8xQ" if big else f"{order}4xI8x", head))
        [tags] = struct.unpack(f"{order}{'Q' if big else 'H'}", file.read(8 if big else 2))
        entry = struct.Struct(f"{order}2xH{'Q8x' if big else 'I4x'}")
        entries = file.read(min(tags, MAX_TIFF_NUMBERS) * entry.size)
        listed = entry.iter_unpack(entries[: len(entries) // entry.size * entry.size])
        counts = (count for kind, count in listed if kind not in (1, 2, 7))  # others than bytes and texts
        if max([tags, *counts]) > MAX_TIFF_NUMBERS:
            raise ValueError(f"one of its tags has more than {MAX_TIFF_NUMBERS:,} numbers, or it has more tags")


def _check_size(image: Image.Image) -> None:
    limit = min(MAX_BYTES // _bytes_per_pixel(image), Image.MAX_IMAGE_PIXELS or MAX_PIXELS)
    if not 0 < image.width * image.height <= limit:
        raise ValueError(f"it has {image.width:,} x {image.height:,} pixels, at least 1 and at most {limit:,} are read")


def _bytes_per_pixel(image: Image.Image) -> int:
    form = "progressive JPEG" if image.info.get("progressive") else image.format or ""
    return BYTES_PER_PIXEL.get(form, DEFAULT_BYTES_PER_PIXEL)


def _shown(path: str | Path) -> str:
    """The path in one line of moderate length."""
    text = str(path) if str(path).isprintable() else ascii(str(path))
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN // 2]}...{text[-MAX_SHOWN // 2 :]}"


def _reason(error: Exception) -> str:
    """What went wrong, in one line that is not empty."""
    if isinstance(error, MemoryError):
        return "there is not enough memory to read it"
    if isinstance(error, UnidentifiedImageError):
        return "it is in none of these formats, or damaged"
    message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(message.split()).rstrip(".") or type(error).__name__


def _reduced(image: Image.Image, factor: int) -> Image.Image:
    """The image in gray or RGB, each side divided by `factor`; a band of it at a time, which needs little memory."""
    factors = min(factor, image.width), min(factor, image.height)
    height = factors[1] * max(1, BAND_PIXELS // (image.width * factors[1]))
    to_gray = _gray_of_deep(image) if image.mode.startswith(("I", "F")) else None
    bands = []
    for top in range(0, image.height, height):
        band = image.crop((0, top, image.width, min(top + height, image.height)))
        bands.append((to_gray(band) if to_gray else _to_gray_or_rgb(band)).reduce(factors))
    if len(bands) == 1:
        return bands[0]
    whole = Image.new(bands[0].mode, (bands[0].width, sum(band.height for band in bands)))
    for row, band in enumerate(bands):
        whole.paste(band, (0, row * bands[0].height))
    return whole


def _to_gray_or_rgb(image: Image.Image) -> Image.Image:
    """An image of 8 bits in mode L or RGB; transparent parts become white."""
    if image.mode in ("L", "RGB"):
        return image
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        seen = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", seen.size, "white"), seen).convert("RGB")
    return image.convert("L" if image.mode == "1" else "RGB")


def _gray_of_deep(image: Image.Image) -> Callable[[Image.Image], Image.Image]:
    """How parts of an image of more than 8 bits become gray: integers of 16 bits as such, others by their range."""
    low, high = (0.0, 65_535.0)
    if not image.mode.startswith("I;16"):
        low, high = cast("tuple[float, float]", image.getextrema())
    if low >= 0 and image.mode == "I" and high <= 65_535:
        low, high = 0, 65_535
    elif low >= 0 and high <= 1:
        low, high = 0, 1

    def to_gray(part: Image.Image) -> Image.Image:
        values = (np.asarray(part).astype(np.float32) - low) / (high - low or 1)
        if not np.isfinite(values).all():
            raise ValueError("its pixels are not all finite numbers")
        return Image.fromarray((values * 255).round().astype(np.uint8))

    return to_gray
