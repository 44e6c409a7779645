"""Which measure of a record stands beside a printed figure: the headline of each kind of table, and other readings."""

from __future__ import annotations

from typing import NamedTuple


class Reading(NamedTuple):
    """One way to read what a table prints.

    Args:
        title: what is measured, in words
        template: the name of the measure in a record, from the name that the paper prints
        of: only measures that contain this
        explained: whether every difference is explained, or only shown
    """

    title: str
    template: str = "{}"
    of: str = ""
    explained: bool = True


#: By `Table.measures`; the first is the headline.
READINGS: dict[str, tuple[Reading, ...]] = {
    "last": (Reading("Test accuracy after the last epoch, in percent"),),
    "eps": (
        Reading("Test accuracy at the best validation accuracy, in percent, attacked with the printed eps"),
        Reading("The same, each eps added to those before it", "summed {}"),
        Reading("At the best accuracy on attacked validation rows", "attacked validation, {}", explained=False),
        Reading("After the last epoch, attacked with the printed eps", "last, {}", explained=False),
    ),
    "ranking": (
        Reading("Area under the precision-recall curve; training rows count with their weights"),
        Reading("The same on the training rows, all with weight 1", "{}, all rows alike", "train", explained=False),
        Reading("On test rows that are mislabeled like the training rows", "{}, mislabeled", "test", explained=False),
    ),
    "peak": (
        Reading("Test accuracy, in percent"),
        Reading(
            "After the last epoch, beside the figures at the best validation accuracy",
            "last",
            "at best",
            explained=False,
        ),
    ),
}
