"""Means of the records over the seeds, by cell, method and measure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from rivals.data import DATA
from rivals.methods import AUTO, EVERYWHERE, RIVALS
from rivals.noise import kind_of

Key = tuple[str, str]
Record = dict[str, Any]


class Summary:
    """The records by cell, in the order of data sets and noises; `ours` names the method to judge, or the best one."""

    def __init__(self, records: Iterable[Record], ours: str | None = None) -> None:
        found = list(records)
        self.ours = ours
        self.runs: dict[Key, list[Record]] = {}
        for data, setting in DATA.items():
            for noise in setting.noises:
                runs = [each for each in found if (each["about"]["data"], each["about"]["noise"]) == (data, noise)]
                if runs:
                    self.runs[data, noise] = runs

    @cached_property
    def cells(self) -> list[Key]:
        """The cells in which every method has run with every recorded seed."""
        return [key for key, runs in self.runs.items() if all(set(EVERYWHERE) <= run["methods"].keys() for run in runs)]

    @property
    def noisy_cells(self) -> list[Key]:
        """The cells with label noise."""
        return [key for key in self.cells if key[1] != "none"]

    def values(self, key: Key, method: str, measure: str) -> list[float]:
        """Return a measure by seed, without seeds that have none."""
        found = [run["methods"].get(method, {}).get(measure) for run in self.runs[key]]
        return [value for value in found if value is not None]

    def mean(self, key: Key, method: str, measure: str) -> float | None:
        """Return the mean over the seeds, or None if no seed has the measure."""
        found = self.values(key, method, measure)
        return statistics.mean(found) if found else None

    def means(self, keys: Iterable[Key], method: str, measure: str) -> list[float]:
        """Return the mean of each cell that has one."""
        return [value for key in keys if (value := self.mean(key, method, measure)) is not None]

    def costs(self, keys: Iterable[Key], method: str) -> list[float]:
        """Return the time of a method divided by that of plain training in the same run, by cell and seed."""
        found = [run["methods"][method] for key in keys for run in self.runs[key] if method in run["methods"]]
        return [each["cpu_seconds"] / each["ce_seconds"] for each in found if "ce_seconds" in each]

    def true_rate(self, key: Key) -> float:
        """Return the true noise rate, mean over the seeds."""
        return statistics.mean(run["about"]["true_rate"] for run in self.runs[key])

    def rate_errors(self, keys: Iterable[Key], method: str) -> list[float]:
        """Return the absolute error of the estimated noise rate, by cell and seed."""
        return [abs(error) for key in keys for error in self.values(key, method, "rate_error")]

    def of_kind(self, *kinds: str, shares: tuple[str, ...] = ()) -> list[Key]:
        """Return the cells with noise of these kinds, or of exactly these names."""
        return [key for key in self.cells if kind_of(key[1]) in kinds or key[1] in shares]

    @cached_property
    def chosen(self) -> str:
        """The method to judge: `ours`, or RRM with an estimated noise rate on the loss that is best on average."""
        return self.ours or max(AUTO, key=lambda method: statistics.mean(self.means(self.cells, method, "accuracy")))

    def best(self, key: Key, measure: str, methods: Iterable[str] = RIVALS) -> tuple[str, float]:
        """Return the method with the largest mean in a cell, and that mean; of the rivals, unless others are named."""
        found = {name: value for name in methods if (value := self.mean(key, name, measure)) is not None}
        name = max(found, key=lambda each: found[each])
        return name, found[name]

    def behind(self, key: Key, measure: str) -> float:
        """Return by how much the best rival is ahead of the chosen method in a cell; negative if it is not."""
        ours = self.mean(key, self.chosen, measure)
        return self.best(key, measure)[1] - (0.0 if ours is None else ours)
