"""Train classifiers on data with wrong labels, by the Rockafellian Relaxation Method."""

from importlib.metadata import version

from rockafellian import attacks, contamination, losses
from rockafellian.attacks import ATTACKS
from rockafellian.audit.entry import Audited, audit
from rockafellian.data import Indexed
from rockafellian.distributed import shard
from rockafellian.estimate import Estimate, estimate_contamination
from rockafellian.evaluation import Evaluation, evaluate
from rockafellian.findings import Findings, findings
from rockafellian.history import Best, Epoch, History, Round
from rockafellian.losses import LOSSES
from rockafellian.notes import Notes
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
from rockafellian.shards import resharded
from rockafellian.streams import StreamWeights
from rockafellian.training import fit
from rockafellian.weights import Reweighting, SampleWeights

__version__ = version("rockafellian")

__all__ = [
    "ATTACKS",
    "LOSSES",
    "RRM",
    "Audited",
    "Best",
    "Epoch",
    "Estimate",
    "Evaluation",
    "Findings",
    "History",
    "Indexed",
    "Notes",
    "Partition",
    "Reweighting",
    "Round",
    "SampleWeights",
    "StreamWeights",
    "WassersteinValue",
    "attacks",
    "audit",
    "contamination",
    "estimate_contamination",
    "evaluate",
    "findings",
    "fit",
    "is_optimal",
    "losses",
    "objective",
    "optimal_value",
    "optimal_weights",
    "optimality_gap",
    "partition",
    "resharded",
    "shard",
    "threshold_for",
    "wasserstein_value",
]
