"""Train classifiers on data with wrong labels, by the Rockafellian Relaxation Method."""

from importlib.metadata import version

from rockafellian.data import Indexed
from rockafellian.reweight import (
    RRM,
    Partition,
    WassersteinValue,
    is_optimal,
    objective,
    optimal_value,
    optimal_weights,
    optimality_gap,
    partition,
    threshold_for,
    wasserstein_value,
)
from rockafellian.weights import Reweighting, SampleWeights

__version__ = version("rockafellian")

__all__ = [
    "RRM",
    "Indexed",
    "Partition",
    "Reweighting",
    "SampleWeights",
    "WassersteinValue",
    "is_optimal",
    "objective",
    "optimal_value",
    "optimal_weights",
    "optimality_gap",
    "partition",
    "threshold_for",
    "wasserstein_value",
]
