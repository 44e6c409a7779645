"""What `summary.json` holds, and `rockafellian show` prints."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from rockafellian._internal.extras import missing

try:
    import msgspec
except ImportError as error:
    raise missing("msgspec to write and read runs", "audit") from error

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Fraction: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Interval(msgspec.Struct, frozen=True):
    """A noise rate and its 90 % interval."""

    rate: Fraction
    low: Fraction
    high: Fraction


class NoiseRateSummary(msgspec.Struct, frozen=True):
    """The noise rate, what it means in words, the skill of the network, and what was made of it."""

    floor: Interval
    ceiling: Interval
    skill: Fraction
    verdict: str
    crisp: bool  # whether every row was taken to have one right answer
    limit: Fraction | None  # the share of rows that may be flagged all the same, None without a limit
    reviewed: bool  # whether it is what a person's decisions leave


class ClassCounts(msgspec.Struct, frozen=True):
    """How many rows have a label, and how many of them are flagged."""

    rows: Count
    flagged: Count


class BandSummary(msgspec.Struct, frozen=True):
    """Rows that follow each other in the ranking, and between which fractions of them should be mislabeled."""

    rows: Count
    low: Fraction
    high: Fraction


class ReviewSummary(msgspec.Struct, frozen=True):
    """The bands of the ranking, the worst first; and the rows to check first, by index, each with its band."""

    bands: list[BandSummary]
    sample: list[tuple[Count, Count]]


class DoubtSummary(msgspec.Struct, frozen=True):
    """Something that speaks against the findings: which check, why, and what to do."""

    check: str
    reason: str
    fix: str


class Summary(msgspec.Struct, frozen=True):
    """The figures of a run."""

    doubts: list[DoubtSummary]  # none, if the findings can be trusted
    kind: str
    inputs: str
    rows: Annotated[int, msgspec.Meta(ge=1)]
    labeled_rows: Annotated[int, msgspec.Meta(ge=1)]
    flagged_rows: Count
    doubtful_rows: Count  # not flagged, but their label is contradicted by the network
    noise_rate: NoiseRateSummary | None
    accuracy_on_given_labels: Fraction | None
    validation_accuracy: Fraction | None
    epochs: Count
    classes: dict[str, ClassCounts]
    conflicting_groups: Count
    review: ReviewSummary
    notices: list[str]
    seconds: Annotated[float, msgspec.Meta(ge=0)]
    versions: dict[str, str]
