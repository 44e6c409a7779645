"""What a table of the paper is: its cells, how they are trained and measured, and how the text was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, TypeAlias

from rockafellian_reproduction.tables.figures import PUBLISHED, Figure
from rockafellian_reproduction.tables.recipes import Recipe

#: One training, by what varies in its table: `{"method": "RRM", "contamination": 0.2}`.
Cell: TypeAlias = dict[str, Any]
Scale: TypeAlias = Literal["paper", "small"]


@dataclass(frozen=True)
class Table:
    """One table of the paper as data. A cell is one training; it may give several printed figures.

    Args:
        axes: what varies between the cells, with its values
        paper: settings at the paper's scale
        small: settings for two cores
        minutes: a guess of how long a cell takes on one core, at the paper's scale and at the small one
        readings: how the text was read where it leaves something open
        chosen: how the settings of the small scale were chosen
        substitutes: what replaces data or networks that are not available
        pairs: the plain and the robust method
    """

    number: int
    title: str
    axes: Mapping[str, tuple[Any, ...]]
    paper: Recipe
    small: Recipe
    measures: Literal["last", "eps", "ranking", "peak"]
    minutes: tuple[float, float]
    readings: tuple[str, ...]
    chosen: str = ""
    substitutes: tuple[str, ...] = ()
    pairs: tuple[str, str] = ("ERM", "RRM")

    @property
    def cells(self) -> list[Cell]:
        """Every training of the table."""
        return [dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values())]

    @property
    def published(self) -> tuple[Figure, ...]:
        """The figures printed in the paper."""
        return PUBLISHED[self.number]

    def recipe(self, scale: Scale) -> Recipe:
        """Return how its cells are trained at this scale."""
        return self.paper if scale == "paper" else self.small


RATE = "A step sums (1/N + u_i) times the gradients, so the learning rate of the mean loss is eta * batch / N."
PENALTY = "gamma is that of Algorithm 3, gamma * ||u||_1: rows above c_min + 2 * gamma are removed."
UPDATES = "No re-weighting follows the last round."
