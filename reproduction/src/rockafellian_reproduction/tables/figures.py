"""The figures printed in the paper's tables, cell by cell. Accuracies in percent, PR-AUC as a fraction.

A figure belongs to a cell of its table and to one measure of that cell's run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

EPS = (0.0, 0.1, 0.25, 0.5, 1.0)


class Figure(NamedTuple):
    """One printed figure, and its deviation over the runs if the paper prints one."""

    cell: dict[str, Any]
    measure: str
    value: float
    deviation: float | None = None


def _table_1() -> Iterator[Figure]:
    """Yield by loss and method, at 10, 20 and 30 %; GCE and some plain figures are from Zhang and Sabuncu."""
    rows: dict[tuple[str, str], list[tuple[float, float]]] = {
        ("gce", "ERM"): [(91.53, 0.25), (89.70, 0.11), (89.64, 0.17)],
        ("cce", "ERM"): [(89.94, 0.29), (86.98, 0.44), (81.90, 0.86)],
        ("cce", "RRM"): [(92.20, 0.26), (90.44, 0.31), (88.49, 0.33)],
        ("mae", "ERM"): [(92.04, 0.25), (83.72, 3.84), (88.28, 3.52)],
        ("mae", "RRM"): [(90.10, 3.56), (87.82, 4.07), (82.98, 6.55)],
        ("mse", "ERM"): [(91.83, 0.25), (89.43, 0.37), (86.34, 0.22)],
        ("mse", "RRM"): [(93.04, 0.17), (91.43, 0.32), (89.95, 0.55)],
    }
    for (loss, method), figures in rows.items():
        for rate, (value, deviation) in zip((0.1, 0.2, 0.3), figures, strict=True):
            yield Figure({"loss": loss, "method": method, "contamination": rate}, "test accuracy", value, deviation)


def _table_2() -> Iterator[Figure]:
    rows = {
        0.10: [(91.73, 0.28), (90.60, 0.40), (88.47, 0.73)],
        0.05: [(92.55, 0.15), (91.29, 0.41), (89.43, 0.64)],
    }
    for excess, figures in rows.items():
        for rate, (value, deviation) in zip((0.1, 0.2, 0.3), figures, strict=True):
            cell = {"loss": "mse", "method": "RRM", "contamination": rate, "excess": excess}
            yield Figure(cell, "test accuracy", value, deviation)


def _table_3() -> Iterator[Figure]:
    """Yield by loss: (plain, with RRM) at 55, 60 and 65 % contamination."""
    rows = {
        "elr": [(98, 99), (97, 98), (82, 87)],
        "cce": [(90, 98), (77, 96), (46, 67)],
        "mae": [(98, 98), (96, 98), (62, 68)],
        "mse": [(90, 98), (74, 97), (45, 87)],
    }
    for loss, figures in rows.items():
        for rate, pair in zip((0.55, 0.6, 0.65), figures, strict=True):
            for method, value in zip(("ERM", "RRM"), pair, strict=True):
                yield Figure({"loss": loss, "method": method, "contamination": rate}, "test accuracy", value)


def _attacked(rows: dict[float, list[tuple[float, float]]]) -> Iterator[Figure]:
    """Yield by eps of the test attack: (AT, A-RRM) at 0, 5, 10, 20 and 30 % contamination."""
    for eps, figures in rows.items():
        for rate, pair in zip((0.0, 0.05, 0.1, 0.2, 0.3), figures, strict=True):
            for method, value in zip(("AT", "A-RRM"), pair, strict=True):
                yield Figure({"method": method, "contamination": rate}, f"eps {eps:g}", value)


def _table_4() -> Iterator[Figure]:
    return _attacked(
        {
            0.00: [(97, 96), (63, 95), (57, 97), (58, 96), (26, 86)],
            0.10: [(95, 93), (64, 92), (71, 94), (61, 93), (20, 82)],
            0.25: [(93, 90), (83, 91), (88, 92), (84, 90), (74, 81)],
            0.50: [(91, 88), (94, 91), (94, 90), (90, 88), (97, 80)],
            1.00: [(86, 83), (95, 90), (94, 86), (88, 83), (98, 77)],
        }
    )


def _table_7() -> Iterator[Figure]:
    return _attacked(
        {
            0.00: [(96.5, 97.3), (93.6, 95.6), (60.4, 87.8), (32.2, 92.4), (58.3, 89.2)],
            0.10: [(93.4, 95.2), (89.3, 92.4), (63.2, 84.7), (42.5, 89.5), (56.1, 81.7)],
            0.25: [(92.4, 93.1), (87.9, 90.6), (86.9, 86.3), (80.6, 89.3), (69.0, 79.8)],
            0.50: [(92.0, 90.9), (90.3, 89.8), (94.4, 91.2), (92.9, 89.2), (85.2, 81.6)],
            1.00: [(89.4, 85.5), (90.3, 86.8), (94.9, 92.6), (93.9, 86.6), (81.8, 77.8)],
        }
    )


#: Bins of u_i in units of 1/N, by their names in Table 5.
BINS = ("well above 0", "about 0", "(-1/4, 0)", "(-1/2, -1/4]", "(-3/4, -1/2]", "[-1, -3/4]")
#: Table 5: after this many updates, the mislabeled and the clean rows in each bin. 9,600 and 38,400 rows.
TABLE_5 = {
    1: ((0, 8844, 0, 0, 756, 0), (1, 38385, 0, 0, 14, 0)),
    10: ((0, 2058, 7, 41, 415, 7079), (4, 37524, 36, 45, 174, 617)),
    49: ((0, 91, 146, 43, 34, 9286), (25, 35246, 1655, 155, 168, 1151)),
}


def _table_8() -> Iterator[Figure]:
    """Yield by method and part of the data: the area under the precision-recall curve at 1 to 20 % contamination."""
    rows = {
        ("ERM", "train"): (0.2904, 0.2006, 0.1589, 0.1302, 0.1073, 0.0920),
        ("RRM", "train"): (0.6875, 0.4458, 0.3805, 0.3087, 0.2438, 0.1966),
        ("ERM", "test"): (0.5861, 0.3970, 0.3246, 0.2550, 0.2013, 0.1717),
        ("RRM", "test"): (0.6705, 0.4338, 0.3619, 0.2824, 0.2208, 0.1861),
    }
    for (method, part), figures in rows.items():
        for rate, value in zip((0.01, 0.05, 0.07, 0.1, 0.15, 0.2), figures, strict=True):
            yield Figure({"method": method, "contamination": rate}, f"PR-AUC, {part}", value)


def _peaks(rows: dict[str, list[tuple[float, float]]], rates: tuple[float, ...]) -> Iterator[Figure]:
    """Yield by method: test accuracy (at the best validation accuracy, and the best on test) for each contamination."""
    for method, figures in rows.items():
        for rate, pair in zip(rates, figures, strict=True):
            for measure, value in zip(("at best validation", "best on test"), pair, strict=True):
                yield Figure({"method": method, "contamination": rate}, measure, value)


def _table_9() -> Iterator[Figure]:
    rows = {
        "ERM": [(90.2, 90.2), (89.5, 89.6), (86.4, 86.6), (80.7, 81.1)],
        "RRM": [(90.1, 90.4), (90.2, 90.4), (88.4, 88.7), (76.9, 82.6)],
    }
    return _peaks(rows, (0.25, 0.3, 0.4, 0.45))


def _tissue() -> Iterator[Figure]:
    """Return the figures of the appendix, "Tissue Necrosis": 75 % of the positives are really negative."""
    return _peaks({"ERM": [(71.7, 73.2)], "RRM": [(74.6, 77.2)]}, (0.75,))


#: By table. Table 5 counts rows (`TABLE_5`), Table 6 is `kernel.KERNEL`; 10 is the tissue paragraph.
PUBLISHED: dict[int, tuple[Figure, ...]] = {
    1: tuple(_table_1()),
    2: tuple(_table_2()),
    3: tuple(_table_3()),
    4: tuple(_table_4()),
    7: tuple(_table_7()),
    8: tuple(_table_8()),
    9: tuple(_table_9()),
    10: tuple(_tissue()),
}
#: Seconds of one re-weighting by CPLEX, by number of rows: section 6.2 (MNIST-3) and 6.1 (CIFAR-10).
CPLEX_SECONDS = {18_623: 2.86, 50_000: 3.88}
