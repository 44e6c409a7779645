"""What to review and in which order: the ranking of the rows, its bands, and the rows drawn from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rockafellian.auditing.review.decisions import Decision
from rockafellian.auditing.review.estimate import Reviewed, estimate_from_decisions
from rockafellian.auditing.review.sample import Drawn, draw_sample
from rockafellian.method.bands import Band, split_into_bands
from rockafellian.method.noise_rate import NoiseRate

#: Qualities so near 0 and 1 count as these.
MIN_QUALITY = 1e-12


class Plan(NamedTuple):
    """The rows in the order of a review, what to expect of each band of them, and the rows to check first."""

    rows: NDArray[np.int64]
    bands: Sequence[Band]
    sample: Sequence[Drawn]

    def reviewed(self, decisions: Mapping[int, Decision]) -> Reviewed:
        """Return what decisions, by row, tell about the noise rate."""
        place = np.full(max(decisions, default=0) + 1, -1)
        known = self.rows < len(place)
        place[self.rows[known]] = np.flatnonzero(known)
        checked = {int(place[row]): decision.wrong for row, decision in decisions.items() if place[row] >= 0}
        return estimate_from_decisions([band.rows for band in self.bands], self.sample, checked)


def make_plan(findings: pa.Table, noise_rate: NoiseRate | None, seed: int) -> Plan:
    """Return the plan for the rows of an audit that have a label."""
    rows = ranking(findings)
    margins = np.sort(_margins(findings)[rows])
    bands = split_into_bands(margins, noise_rate)
    return Plan(rows, bands, draw_sample([band.rows for band in bands], seed))


def ranking(findings: pa.Table) -> NDArray[np.int64]:
    """Return the rows that have a label: flagged ones first, then by label quality, the worst first.

    Equal qualities are ranked by margin, or by loss where there is no margin, then by index.
    """
    flagged = findings.column("is_label_issue").to_numpy()
    margin, loss, quality = (
        findings.column(name).to_numpy() for name in ("average_margin", "average_loss", "label_quality")
    )
    order = np.lexsort((np.where(np.isnan(margin), -loss, margin), quality, ~flagged))
    known: NDArray[np.bool_] = findings.column("given_label").is_valid().to_numpy()
    return order[known[order]]


def _margins(findings: pa.Table) -> NDArray[np.float64]:
    """By row its margin, or the logit of its quality where there is none; 0 where nothing is known."""
    margin = findings.column("average_margin").to_numpy().astype(np.float64)
    quality = np.clip(findings.column("label_quality").to_numpy().astype(np.float64), MIN_QUALITY, 1 - MIN_QUALITY)
    found: NDArray[np.float64] = np.where(np.isnan(margin), np.log(quality) - np.log1p(-quality), margin)
    found[np.isnan(found)] = 0
    return found
