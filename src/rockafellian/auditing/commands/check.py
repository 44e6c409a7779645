"""`rockafellian check`: a gate for pipelines. Does the data have more wrong labels than allowed, or than before?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from rockafellian.auditing.commands.outputs import summary
from rockafellian.auditing.commands.run import audit_prepared
from rockafellian.auditing.commands.run_folder import SUMMARY, open_run, read_json
from rockafellian.auditing.commands.summary import Count, DoubtSummary, Fraction, NoiseRateSummary, Summary
from rockafellian.auditing.data.settings import Settings
from rockafellian.auditing.model.problem import prepare
from rockafellian.training.progress import Progress


class Checked(msgspec.Struct, frozen=True):
    """What a check found, as it is printed with --json; `passed` is False only if there are surely too many errors."""

    passed: bool
    max_noise: Fraction
    rows: Count
    flagged_rows: Count
    noise_rate: NoiseRateSummary
    worse_than_baseline: bool | None  # None without a baseline
    doubts: list[DoubtSummary]

    @property
    def sentence(self) -> str:
        """The result in words."""
        floor, above = self.noise_rate.floor, "surely above" if not self._within else "not surely above"
        parts = [
            f"at least {floor.low:.1%} of {self.rows:,} labels are wrong, {above} the {self.max_noise:.1%} allowed"
        ]
        if self.worse_than_baseline is not None:
            parts.append("more than in the baseline" if self.worse_than_baseline else "no more than in the baseline")
        return f"{'passed' if self.passed else 'failed'}: {'; '.join(parts)}"

    @property
    def _within(self) -> bool:
        return self.noise_rate.floor.low <= self.max_noise


def check(
    data: Any,
    settings: Settings,
    *,
    max_noise: float,
    baseline: Path | None = None,
    progress: Progress = "auto",
) -> Checked:
    """Audit the data, write nothing, and compare the floor of the noise rate with what is allowed.

    Args:
        data: as for `audit`.
        settings: as for `audit`, without a noise rate.
        max_noise: the largest noise rate that passes.
        baseline: the folder of a run; more errors than that one surely has do not pass.
        progress: as in `fit`.
    """
    if not 0 <= max_noise <= 1:
        raise ValueError(f"need --max-noise from 0 to 1, got {max_noise:g}; 0.05 allows five wrong labels in a hundred")
    if settings.contamination != "auto":
        raise ValueError("need a noise rate that is estimated, to check it; leave --contamination out")
    before = None if baseline is None else _rate_of(baseline)
    found = summary(audit_prepared(prepare(data, settings, progress=progress), progress=progress))
    if found.noise_rate is None:
        raise ValueError("need a noise rate to check, but training ended before it was estimated; raise --epochs")
    floor = found.noise_rate.floor
    worse = None if before is None else floor.low > before.floor.high
    return Checked(
        passed=floor.low <= max_noise and not worse,
        max_noise=max_noise,
        rows=found.labeled_rows,
        flagged_rows=found.flagged_rows,
        noise_rate=found.noise_rate,
        worse_than_baseline=worse,
        doubts=found.doubts,
    )


def _rate_of(folder: Path) -> NoiseRateSummary:
    before = read_json(open_run(folder).path(SUMMARY), Summary).noise_rate
    if before is None:
        raise ValueError(f"need a baseline with an estimated noise rate, but {folder} has none; name another run")
    return before
