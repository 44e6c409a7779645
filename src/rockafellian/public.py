"""The public names, which `rockafellian` loads when one of them is first used."""

from rockafellian import attacks, contamination, losses
from rockafellian._internal.comm import shard
from rockafellian.attacks import ATTACKS
from rockafellian.auditing.commands.audit import Audited, audit
from rockafellian.label_issues import Findings, findings
from rockafellian.losses import LOSSES
from rockafellian.method.noise_rate import NoiseRate, estimate_noise_rate
from rockafellian.method.out_of_sample import Estimate
from rockafellian.method.reweight import (
    RRM,
    Partition,
    RuleResult,
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
from rockafellian.training.data import Indexed
from rockafellian.training.evaluation import Evaluation, evaluate
from rockafellian.training.fit import fit
from rockafellian.training.history import Best, Epoch, History
from rockafellian.weights.predictions import Predictions
from rockafellian.weights.reweighting import Reweighting
from rockafellian.weights.sample_weights import SampleWeights
from rockafellian.weights.sharding import resharded
from rockafellian.weights.stream_weights import StreamWeights

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
    "NoiseRate",
    "Partition",
    "Predictions",
    "Reweighting",
    "RuleResult",
    "SampleWeights",
    "StreamWeights",
    "WassersteinValue",
    "attacks",
    "audit",
    "contamination",
    "estimate_noise_rate",
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
