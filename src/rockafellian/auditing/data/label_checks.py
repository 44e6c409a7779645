"""What a user should know about the labels: errors for what cannot be classes, notices for what may be a mistake."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from rockafellian.auditing.data.cells import Column, decoded, is_text, quoted

MIN_ROWS = 20
#: Above these numbers of different values, numbers are no classes; integers only with few rows each.
MAX_FRACTIONS, MAX_INTEGERS, FEW_ROWS = 20, 50, 10
#: Cells that programs write for no label, and those of people, which may be a class.
WORDS_FOR_NONE = ["nan", "NaN", "null", "NULL", "<NA>", "#N/A", "NaT"]
MAYBE_NONE = {"NA", "N/A", "None", "none", "?", "-"}
SEPARATORS = (";", "|", ",", "/", "+")
#: Labels are made of parts if there are this many labels for each part.
LABELS_PER_PART = 1.5
MAX_SHOWN = 5


def check_classes(names: Sequence[str], rows: int, all_rows: int, column: str, multilabel: bool) -> None:
    """Raise an error if these are no classes; `rows` are those that have a label, of `all_rows`."""
    if rows == 0 or not names:
        raise ValueError(
            f"need labels, got none in column {column!r}: all {all_rows} cells are empty; name another column"
        )
    if not multilabel:
        _check_one_class_a_row(names, rows, column)
    if rows < MIN_ROWS:
        raise ValueError(f"need at least {MIN_ROWS} rows with a label, got {rows}; add labeled rows")


def _check_one_class_a_row(names: Sequence[str], rows: int, column: str) -> None:
    if len(names) < 2:
        raise ValueError(
            f"need at least two classes, got only {quoted(names[0])} in column {column!r}; name another column"
        )
    if len(names) * 2 > rows:
        raise ValueError(
            f"need classes of several rows each, got {len(names)} different labels in {rows} rows of column "
            f"{column!r}; it looks like an id or a number to predict: name another column"
        )
    numbers = as_numbers(names)
    if numbers is None:
        return
    fractions = any(number % 1 for number in numbers)
    if len(names) > MAX_FRACTIONS if fractions else len(names) > MAX_INTEGERS and rows < FEW_ROWS * len(names):
        raise ValueError(
            f"need classes, got {len(names)} different numbers in {rows} rows of column {column!r}, which looks like a "
            "number to predict; name another column, or write the classes as text such as class-14"
        )


def as_numbers(names: Iterable[str]) -> list[float] | None:
    """Return the labels as numbers, which may have decimal commas; None if one of them is none."""
    try:
        numbers = [float(name.replace(",", ".").replace("_", "?")) for name in names]
    except ValueError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def about_unlabeled(columns: Iterable[Column]) -> str | None:
    """Return the notice that cells such as nan are read as no label."""
    found: Counter[str] = Counter()
    for cells in map(decoded, columns):
        if is_text(cells.type):
            words = pc.utf8_trim_whitespace(cells)
            words = words.filter(pc.is_in(words, pa.array(WORDS_FOR_NONE, pa.large_string())))
        elif pa.types.is_floating(cells.type):
            words = cells.filter(pc.is_inf(cells)).cast(pa.large_string())
        else:
            continue
        found.update({each["values"]: each["counts"] for each in pc.value_counts(words).to_pylist()})
    if not found:
        return None
    one = found.total() == 1
    return (
        f"{found.total():,} label{'' if one else 's'} {_listed(found)} {'is' if one else 'are'} read as no label; "
        "write another word if it is a class"
    )


def about_spaces(cells: Column) -> str | None:
    """Return the notice that labels with and without surrounding spaces are one class."""
    if not is_text(decoded(cells).type):
        return None
    found = set(pc.unique(decoded(cells)).to_pylist()) - {None}
    merged = sorted(name for name in found if name != name.strip() and name.strip() in found - {""})
    return f"labels with spaces around them are read without: {_listed(merged)}" if merged else None


def about_variants(names: Sequence[str]) -> str | None:
    """Return the notice that classes differ only in how they are written: case, spacing, encoding, 1 and 1.0."""
    alike: dict[str, list[str]] = defaultdict(list)
    for name in names:
        alike[_normalized(name)].append(name)
    groups = [group for group in alike.values() if len(group) > 1]
    if not groups:
        return None
    shown = "; ".join(" and ".join(map(_told_apart, group[:MAX_SHOWN])) for group in groups[:MAX_SHOWN])
    return (
        f"{sum(map(len, groups))} classes differ only in case, spacing or the like: {shown}"
        f"{'; ...' * (len(groups) > MAX_SHOWN)}; write them alike if they are the same"
    )


def about_maybe_missing(names: Sequence[str]) -> str | None:
    """Return the notice that labels such as NA are classes."""
    if not (found := [name for name in names if name in MAYBE_NONE]):
        return None
    return (
        f"{_listed(found)} {'is' if len(found) == 1 else 'are'} read as a class; leave the cell empty if it means none"
    )


def about_separators(names: Sequence[str]) -> str | None:
    """Return the notice that the labels look like several in one cell."""
    if as_numbers(names) is not None:
        return None
    for separator in SEPARATORS:
        parts = [[part.strip() for part in name.split(separator)] for name in names]
        joined = [name for name, each in zip(names, parts, strict=True) if len(each) > 1]
        if len(joined) > 1 and _are_sets(parts):
            example = quoted(joined[0])
            return f"labels such as {example} look like several in one cell; if so, pass --separator '{separator}'"
    return None


def _are_sets(labels: Sequence[Sequence[str]]) -> bool:
    """Whether few parts make up many labels, in different numbers or places; not so a city and its state."""
    if any("" in parts for parts in labels):
        return False
    places = defaultdict(set)
    for parts in labels:
        for place, part in enumerate(parts):
            places[part].add(place)
    free = len(set(map(len, labels))) > 1 or any(len(each) > 1 for each in places.values())
    return free and len(labels) >= LABELS_PER_PART * len(places)


def _normalized(name: str) -> str:
    if (number := as_numbers([name])) is not None:
        return str(number[0])
    visible = "".join(each for each in unicodedata.normalize("NFKC", name) if unicodedata.category(each) != "Cf")
    return " ".join(visible.casefold().split())


def _told_apart(name: str) -> str:
    """A label in quotes, with escapes where letters look the same in another encoding."""
    return quoted(name) if unicodedata.is_normalized("NFC", name) else ascii(name)


def _listed(names: Iterable[str]) -> str:
    shown = list(map(quoted, names))
    return ", ".join(shown[:MAX_SHOWN]) + ", ..." * (len(shown) > MAX_SHOWN)
