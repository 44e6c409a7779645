"""The contents of the page of an audit, and its first two sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rockafellian.method.noise_rate import NoiseRate
from rockafellian.training.history import History

#: Bands of which at most this fraction should be mislabeled are not worth a word.
MIN_EXPECTED = 0.05

Floats: TypeAlias = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class LabelIssue:
    """A row to review, and what a person sees of it: a text, an image, or values by column."""

    index: int  # of the row in the data, from 0
    id: str
    given: str
    suggested: str | None  # the predicted label; None or the given one if no other label is suggested
    quality: float  # of the label, in [0, 1]; the lowest is the worst
    probability: float | None  # of the suggested label
    reason: str
    text: str | None = None
    image: str | None = None  # a data: URI
    values: Mapping[str, str] | None = None
    flagged: bool = True  # whether it looks mislabeled; others follow below
    place: int | None = None  # in the ranking of all rows with a label, 0 for the worst
    decisive: Sequence[str] = ()  # columns or words that speak most for the suggested label and against the given one
    spans: Sequence[tuple[int, int]] = ()  # where these words are in the text


@dataclass(frozen=True)
class Sample:
    """Rows drawn at random from each band of the ranking, which a person checks to measure the noise rate."""

    bands: Sequence[int]  # how many rows each has, the worst first
    drawn: Sequence[tuple[int, int]]  # index of the row and number of its band, in the order of the check
    expected: Sequence[tuple[float, float]] = ()  # between which fractions of each band should be mislabeled


@dataclass(frozen=True)
class Banner:
    """What a page begins with, beside a strip of the worst label issues: figures, the last the largest, and a text."""

    figures: Mapping[str, str]  # by what each measures
    text: str


@dataclass(frozen=True)
class Report:
    """The contents of a page. Browsers keep its decisions under `key`, so each run has its own."""

    title: str
    key: str
    kind: str  # "table", "texts" or "images"
    rows: int
    flagged: int
    estimate: NoiseRate | None
    classes: Sequence[str]
    class_rows: Sequence[int]
    class_flagged: Sequence[int]
    matrix: Sequence[Sequence[int]]  # flagged rows, given (row) against suggested (column)
    history: History
    kept_losses: Floats
    removed_losses: Floats
    threshold: float | None
    issues: Sequence[LabelIssue]  # flagged rows, perhaps not all, the next worst, and all rows of the sample
    facts: Mapping[str, str]
    notices: Sequence[str]
    multilabel: bool = False  # whether a row may have several labels
    separator: str = " | "  # between several labels of one row
    doubtful: int = 0  # rows that are not flagged, but whose label the network contradicts
    crisp: bool = False  # whether every row was taken to have one right answer
    limit: float | None = None  # the share of rows that may be flagged all the same, None without a limit
    reviewed: bool = False  # whether the noise rate is what a person's decisions leave
    sample: Sample | None = None
    folder: str | None = None  # of the run, for the commands that use decisions
    corrected: str = "corrected.csv"  # the file or folder that these commands name
    why: str = ""  # what decisive columns or words are, in a sentence
    doubts: Sequence[str] = ()  # what speaks against the findings, and what to do
    banner: Banner | None = None


def trust_sentence(doubts: int) -> str:
    """Return whether the findings can be trusted, by how many things speak against them."""
    if doubts == 0:
        return "The checks found nothing that speaks against these findings."
    many = "one thing speaks" if doubts == 1 else f"{doubts} things speak"
    return f"Take these findings with care: {many} against them."


def headline(report: Report) -> str:
    """Return how many rows look mislabeled."""
    if report.flagged == 0:
        return f"None of {report.rows:,} rows looks mislabeled"
    return f"{report.flagged:,} of {report.rows:,} rows {'looks' if report.flagged == 1 else 'look'} mislabeled"


def noise_rate_sentence(report: Report) -> str:
    """Return what is known of the noise rate."""
    if report.estimate is None:
        return "The noise rate was not estimated."
    floor, ceiling, _ = report.estimate
    used = describe_crisp(report.crisp, report.limit, report.reviewed, floor.low, ceiling.rate)
    parts = f"Noise rate: {report.estimate.verdict}.", used, doubt_sentence(report.doubtful)
    return " ".join(part for part in parts if part)


def doubt_sentence(doubtful: int) -> str:
    """Return how many rows are in doubt; nothing, if none are."""
    if doubtful == 0:
        return ""
    return f"In doubt: {doubtful:,} more rows, whose label the network contradicts; cleaned data keep them."


def expected_sentence(band_rows: Sequence[int], expected: Sequence[tuple[float, float]]) -> str:
    """Return how many of the worst rows should be mislabeled, band by band until hardly any are."""
    parts: list[str] = []
    for rows, (low, high) in zip(band_rows, expected, strict=False):
        if parts and high < MIN_EXPECTED:
            break
        parts.append(f"{100 * low:.0f} to {100 * high:.0f} % of the {'next' if parts else 'worst'} {rows:,}")
    return f"Expected to be mislabeled: {', '.join(parts)} rows." if parts else ""


def describe_crisp(crisp: bool, limit: float | None, reviewed: bool, floor: float, ceiling: float) -> str:
    """Return which end of the noise rate was used, and what the other would give."""
    if limit is not None and reviewed:
        return f"By the decisions {limit:.1%} are still mislabeled, and no more are flagged."
    if limit is not None and limit < ceiling:
        most = f"at most {limit:.1%}" if limit else "nothing"
        why = f"The network may be wrong instead of the labels, so {most} is flagged"
        return f"{why}; --crisp would flag up to {ceiling:.1%}."
    if crisp:
        return f"Every row is taken to have one right answer; --ambiguous would remove only {floor:.1%}."
    return f"Labels may be uncertain by nature: {floor:.1%} is removed; --crisp would remove up to {ceiling:.1%}."
