"""Small data sets of every kind, and files of them in every format, by seed."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from mutations import CELLS

FORMATS = ("csv", "tsv", "semicolon", "latin-1", "utf-16", "csv.gz", "jsonl", "json", "xlsx", "parquet")


def rows_of(draw: random.Random, hostile: float = 0.0) -> tuple[list[str], list[list[str]]]:
    """A header and 40 to 60 rows: an id, two numbers, a category, a text and a label; some cells are hostile."""
    header = ["id", "height", "width", "color", "note", "label"]
    rows = []
    for number in range(draw.randrange(40, 60)):
        true = number % 2
        label = ["cat", "dog"][true if draw.random() > 0.15 else 1 - true]
        cells = [f"row-{number}", f"{3 * true + draw.gauss(0, 1):.3f}", f"{draw.gauss(-true, 1):.2f}"]
        cells += [draw.choice(["red", "green", "blue"]), draw.choice(["warm", "cold"]) + " day", label]
        rows.append([draw.choice(CELLS) if draw.random() < hostile else cell for cell in cells])
    if hostile and draw.random() < 0.3:
        header[draw.randrange(len(header))] = draw.choice([*CELLS, "label", "id"])
    return header, rows


def file_of(form: str, folder: Path, draw: random.Random, hostile: float = 0.0) -> Path:
    """Write such rows in a format; return the file."""
    header, rows = rows_of(draw, hostile)
    if form in ("jsonl", "json"):
        return _json_file(form, folder, header, rows, draw)
    if form == "xlsx":
        return _excel_file(folder, header, rows)
    if form == "parquet":
        return _parquet_file(folder, header, rows, draw, hostile)
    delimiter = {"tsv": "\t", "semicolon": ";"}.get(form, ",")
    text = io.StringIO()
    ends = draw.choice(["\n", "\r\n"])
    csv.writer(text, delimiter=delimiter, lineterminator=ends).writerows([header, *rows])
    encoding = form if form in ("latin-1", "utf-16") else draw.choice(["utf-8", "utf-8-sig"])
    content = text.getvalue().encode(encoding, "replace")
    path = folder / {"tsv": "data.tsv", "csv.gz": "data.csv.gz"}.get(form, "data.csv")
    path.write_bytes(gzip.compress(content, mtime=0) if form == "csv.gz" else content)
    return path


def _json_file(form: str, folder: Path, header: list[str], rows: list[list[str]], draw: random.Random) -> Path:
    records: list[dict[str, Any]] = [dict(zip(header, row, strict=True)) for row in rows]
    for record in records:
        if "height" in record and draw.random() < 0.9:
            record["height"] = draw.choice([draw.gauss(0, 1), None, 3, True]) if draw.random() < 0.05 else draw.random()
    path = folder / f"data.{form}"
    text = json.dumps(records) if form == "json" else "".join(f"{json.dumps(each)}\n" for each in records)
    path.write_text(text)
    return path


def _excel_file(folder: Path, header: list[str], rows: list[list[str]]) -> Path:
    import openpyxl
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    book = openpyxl.Workbook()
    for row in [header, *rows]:
        cells = [ILLEGAL_CHARACTERS_RE.sub("", cell) for cell in row]
        # openpyxl does not mark blanks as text to be preserved, so that by the standard such a cell is empty.
        book.active.append([cell if cell.strip() else "" for cell in cells])
    for cells in book.active.iter_rows():
        for cell in cells:
            cell.data_type = "s" if isinstance(cell.value, str) else cell.data_type
    path = folder / "data.xlsx"
    book.save(path)
    return path


def _parquet_file(folder: Path, header: list[str], rows: list[list[str]], draw: random.Random, hostile: float) -> Path:
    columns: list[pa.Array] = [pa.array(column) for column in zip(*rows, strict=True)]
    if hostile:
        for place in range(len(columns)):
            if draw.random() < 0.3:
                columns[place] = odd_column(len(rows), draw)
    path = folder / "data.parquet"
    pyarrow.parquet.write_table(pa.Table.from_arrays(columns, names=header), path)
    return path


def odd_column(n: int, draw: random.Random) -> pa.Array:
    """A column of an unusual type."""
    few = [draw.randrange(3) for _ in range(n)]
    made = [
        lambda: pa.array(few, pa.duration("s")),
        lambda: pa.array(few, pa.time32("s")),
        lambda: pa.array(few, pa.timestamp("ns", "Europe/Berlin")),
        lambda: pa.array(few, pa.date32()),
        lambda: pa.array([[each] for each in few]),
        lambda: pa.array([[[each]] for each in few]),
        lambda: pa.array([[{"a": each}] for each in few]),
        lambda: pa.array([{"a": each} for each in few]),
        lambda: pa.array([str(each) for each in few], pa.string_view()),
        lambda: pa.array([str(each).encode() for each in few], pa.binary_view()),
        lambda: pa.array([str(each).encode() for each in few], pa.binary()),
        lambda: pa.array([bytes([each] * 16) for each in few], pa.binary(16)),
        lambda: pa.array([str(each) for each in few]).dictionary_encode(),
        lambda: pa.array(few, pa.uint64()),
        lambda: pa.array([2**63 + each for each in few], pa.uint64()),
        lambda: pa.array([each / 7 for each in few], pa.float16()),
        lambda: pa.array([float("nan") if each else 1.0 for each in few]),
        lambda: pa.array([each == 1 for each in few]),
        lambda: pa.array(few).cast(pa.decimal128(25, 3)),
        lambda: pa.nulls(n),
        lambda: pa.array([None if each else "x" for each in few]),
    ]
    return draw.choice(made)()


def images_in(folder: Path, draw: random.Random, n: int = 40) -> Path:
    """A folder of light and dark images in sub-folders by class; return it."""
    from PIL import Image

    noise = np.random.default_rng(draw.randrange(2**32))
    for number in range(n):
        true = number % 2
        label = ["dark", "light"][true if draw.random() > 0.15 else 1 - true]
        pixels = np.clip(noise.normal(60 + 130 * true, 15, (9, 9)), 0, 255).astype(np.uint8)
        suffix = draw.choice(["png", "png", "jpg", "bmp", "gif", "tif", "webp"])
        path = folder / "images" / label / f"{number:03d}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    return folder / "images"


def arrays_in(folder: Path, draw: random.Random) -> Path:
    """An .npz file with X and y, some of odd types; return it."""
    n = draw.randrange(30, 50)
    y = np.arange(n) % 2
    x: Any = np.random.default_rng(draw.randrange(2**32)).normal(size=(n, 3)) + 2 * y[:, None]
    odd = draw.randrange(12)
    if odd < 9:
        kinds = [">f8", np.longdouble, complex, "f2", "i1", "m8[s]", "M8[s]", "S3", [("a", "i4")]]
        x = np.zeros((n, 3), kinds[odd]) if odd == 8 else x.astype(kinds[odd])
    elif odd == 9:
        y = draw.choice([y.astype(">i4"), y.astype(str), y.astype("S1"), y / 3, y.astype(complex), y > 0, y[:-1]])
    path = folder / "data.npz"
    draw.choice([np.savez, np.savez_compressed])(path, X=x, y=y)
    return path
