"""Points that the text of the paper leaves open: the alternatives of each, and the evidence for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

#: Readings other than the chosen ones, by the name of the point: `{"elr-beta": "0.9"}`; empty is "as printed".
Variant: TypeAlias = dict[str, str]


class Choice(NamedTuple):
    """One way to read a point: what supports it, and what it changes in the settings (nothing if it was chosen)."""

    name: str
    evidence: str
    changes: Mapping[str, Any] = {}


class Point(NamedTuple):
    """A point that the text leaves open. The first choice is the one that was made.

    Args:
        name: for `--reading NAME=VALUE`
        question: what is open
        choices: the alternatives
        cell: the values that a key of a cell must have for the point to matter
        robust: whether it matters only where rows are re-weighted
    """

    name: str
    question: str
    choices: tuple[Choice, ...]
    cell: Mapping[str, tuple[Any, ...]] = {}
    robust: bool = True

    def concerns(self, cell: Mapping[str, Any], *, robust: bool) -> bool:
        """Return whether the point changes the training of this cell."""
        return (robust or not self.robust) and all(cell.get(key) in values for key, values in self.cell.items())


def options(variant: Variant | None) -> str:
    """Return the options of the command that runs cells under these readings."""
    pairs = (variant or {}).items()
    return "".join(" --ours" if name == "ours" else f" --reading {name}={value}" for name, value in pairs)


#: Not a reading: the method as this library runs it, in the protocol of the table. `--ours` on the command line.
OURS = Point(
    "ours",
    "Is the method run as printed, or with what this library adds to it?",
    (
        Choice("no", "As printed."),
        Choice(
            "yes",
            "Kept rows share the freed weight, each class keeps its weight and at least a tenth of its rows, the noise "
            "rate is estimated instead of given, and re-weighting starts as soon as it is. By class since a trial with "
            "seed 0, MAE at 65 % of Table 3, in which without it a class was lost.",
            {"ours": True, "per_class": True},
        ),
    ),
)

ELR_BETA = Point(
    "elr-beta",
    "How much of its running average does ELR keep?",
    (
        Choice("0.7", "The paper does not say. The authors of ELR use 0.7 on CIFAR-10."),
        Choice("0.9", "ELR's authors use 0.9 on CIFAR-100. Fits the printed figures better.", {"elr_beta": 0.9}),
    ),
    cell={"loss": ("elr",)},
    robust=False,
)
REWEIGHTED_BY = Point(
    "reweighted-by",
    "By which loss are rows re-weighted?",
    (
        Choice("own", "The text: J is the loss of the training. ELR by its cross-entropy."),
        Choice(
            "cce",
            "The authors' script has cross-entropy only, of probabilities clipped to [1e-7, 1 - 1e-7]; no source says "
            "so for MAE and MSE. Fits the printed figures better.",
            {"reweighted_by": "clipped cce"},
        ),
    ),
)
BATCHES = Point(
    "batches",
    "How are rows shuffled, and how large a step does the last, smaller batch make?",
    (
        Choice("usual", "The text does not say. Batches are drawn from all rows, and the last one makes a whole step."),
        Choice(
            "script",
            "The authors' script: rows are shuffled within 1,024, and the last batch makes a smaller step.",
            {"batches": "script"},
        ),
    ),
    robust=False,
)
PADDING = Point(
    "network",
    "Which network has 159,254 parameters?",
    (
        Choice("valid", "The authors' script: 32, pool, 64, 64, pool, no padding, started as by He et al."),
        Choice("same", "The text reads like convolution and pooling three times, padded.", {"network": "mnist10"}),
    ),
    robust=False,
)
FREED_WEIGHT = Point(
    "freed-weight",
    "Where does the freed weight go if several rows have the least loss?",
    (
        Choice("one-row", "CPLEX returns a vertex: to one row."),
        Choice("all-least", "The Corollary splits it among them.", {"spread": "argmin"}),
        Choice("kept", "Equation (2): among all kept rows.", {"spread": "kept"}),
    ),
)
