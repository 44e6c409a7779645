"""What a table of the paper is: its cells, how they are trained and measured, and how the text was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Literal, TypeAlias

from rockafellian_reproduction.tables.figures import PUBLISHED, Figure
from rockafellian_reproduction.tables.measured import READINGS, Reading
from rockafellian_reproduction.tables.readings import OURS, Choice, Point, Variant
from rockafellian_reproduction.tables.recipes import Recipe

#: One training, by what varies in its table: `{"method": "RRM", "contamination": 0.2}`.
Cell: TypeAlias = dict[str, Any]
Scale: TypeAlias = Literal["paper", "features", "network"]

#: What each scale keeps of the paper.
SCALES: dict[Scale, str] = {
    "paper": "everything as printed",
    "features": "rows, epochs, rounds and rates as printed; the network is a head on a frozen encoder",
    "network": "a network trained from scratch as in the paper, on fewer rows or for fewer epochs",
}


@dataclass(frozen=True)
class Table:
    """One table of the paper as data. A cell is one training; it may give several printed figures.

    Args:
        axes: what varies between the cells, with its values
        scales: settings by scale; the paper's is always there
        answers: the scale that answers the table's question on two cores
        minutes: a guess of how long a cell takes on one core, by scale
        readings: how the text was read where it leaves something open
        points: those of them that have alternatives, which can be run
        shown: the variants beside "as printed" on the page
        chosen: how the settings of a scale were chosen
        substitutes: what replaces data or networks that are not available
        pairs: the plain and the robust method
        plain_table: the table with the plain runs, if this one has none
    """

    number: int
    title: str
    axes: Mapping[str, tuple[Any, ...]]
    scales: Mapping[Scale, Recipe]
    answers: Scale
    measures: Literal["last", "eps", "ranking", "peak"]
    minutes: Mapping[Scale, float]
    readings: tuple[str, ...]
    points: tuple[Point, ...] = ()
    shown: tuple[Variant, ...] = ()
    chosen: Mapping[Scale, str] = field(default_factory=dict)
    substitutes: tuple[str, ...] = ()
    pairs: tuple[str, str] = ("ERM", "RRM")
    plain_table: int | None = None

    @property
    def cells(self) -> list[Cell]:
        """Every training of the table."""
        return [dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values())]

    @property
    def published(self) -> tuple[Figure, ...]:
        """The figures printed in the paper."""
        return PUBLISHED[self.number]

    @property
    def headline(self) -> Reading:
        """Which measure of a record stands beside the printed figures."""
        return READINGS[self.measures][0]

    @property
    def paper(self) -> Recipe:
        """The settings at the paper's scale."""
        return self.scales["paper"]

    def recipe(self, scale: Scale, variant: Variant | None = None) -> Recipe:
        """Return how its cells are trained at this scale, as chosen or under other readings."""
        changes: dict[str, Any] = {}
        for name, value in (variant or {}).items():
            changes |= self.choice(name, value).changes
        return replace(self.scales[scale], **changes)

    def choice(self, name: str, value: str) -> Choice:
        """Return one alternative of a point; an error that lists them if there is none."""
        known = {(point.name, choice.name): choice for point in (*self.points, OURS) for choice in point.choices}
        if (name, value) not in known:
            listed = ", ".join(f"{point}={choice}" for point, choice in known)
            raise ValueError(f"need a reading of table {self.number}, one of {listed}; got {name}={value}")
        return known[name, value]

    def made(self, point: Point, scale: Scale) -> Choice:
        """Return the choice that was made at a scale: the one that the settings have, or the first."""
        recipe = self.scales[scale]
        others = (each for each in point.choices if each.changes)
        return next(
            (each for each in others if all(getattr(recipe, name) == value for name, value in each.changes.items())),
            point.choices[0],
        )

    def variant_of(self, cell: Cell, wanted: Variant) -> Variant:
        """Return those of the readings that change the training of this cell and are not the ones chosen."""
        robust = cell["method"] == self.pairs[1]
        points = {point.name: point for point in (*self.points, OURS)}
        return {
            name: value
            for name, value in wanted.items()
            if self.choice(name, value).changes and points[name].concerns(cell, robust=robust)
        }


RATE = "A step sums (1/N + u_i) times the gradients, so the learning rate of the mean loss is eta * batch / N."
PENALTY = "gamma is that of Algorithm 3, gamma * ||u||_1: rows above c_min + 2 * gamma are removed."
UPDATES = "No re-weighting follows the last round."
