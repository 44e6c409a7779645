"""`rockafellian retrain`: training again with people's decisions, and what that gains on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rockafellian.auditing.commands.audit import Audited
from rockafellian.auditing.commands.rereading import read_findings, read_plan, reread
from rockafellian.auditing.commands.run import run
from rockafellian.auditing.commands.run_folder import FRAME, FinishedRun, open_run
from rockafellian.auditing.data.settings import Settings
from rockafellian.auditing.model.comparison import compare
from rockafellian.auditing.model.problem import prepare
from rockafellian.auditing.review.decisions import read_decisions
from rockafellian.auditing.review.estimate import Reviewed
from rockafellian.training.progress import Progress

#: The noise rate of a review is used once it is known this well: the width of its 90 % interval.
MAX_WIDTH = 0.25


class Retrained(NamedTuple):
    """The new run, accuracies on held-out rows before and after, and what the decisions tell of the noise rate."""

    audited: Audited
    before: float
    after: float
    reviewed: Reviewed
    notices: Sequence[str]


def retrain(
    folder: Path,
    decisions: Sequence[Path],
    *,
    data: Path | None = None,
    out: Path | None = None,
    force: bool = False,
    progress: Progress = "auto",
    say: Callable[[str], object] = print,
) -> Retrained:
    """Train again on the data of a run, with labels as decided, rows that were decided never removed."""
    finished = open_run(folder)
    source = reread(finished, data)
    findings = read_findings(finished, source)
    joined = read_decisions(decisions, findings.column("id").to_pylist())
    reviewed = read_plan(finished, findings).reviewed(joined.agreed)
    old = read_settings(finished)
    new = with_reviewed_rate(old, reviewed, len(findings))
    where = data or (finished.path(FRAME) if finished.description.data is None else Path(finished.description.data))
    first = prepare(where, old, progress=progress)
    accuracies = compare(first, prepare(where, new, progress="quiet", decisions=joined.agreed), progress)
    audited = run(where, new, out=out, force=force, progress=progress, say=say, decisions=joined.agreed)
    return Retrained(audited, *accuracies, reviewed, joined.notices)


def read_settings(finished: FinishedRun) -> Settings:
    """Return the settings of a run."""
    stored = finished.description.settings
    return Settings(**{**stored, "label": tuple(stored["label"])})


def with_reviewed_rate(settings: Settings, reviewed: Reviewed, rows: int) -> Settings:
    """Return settings that remove as many rows as the review still expects to be wrong, if it is sure enough."""
    rate, low, high = reviewed.noise_rate
    if high - low > MAX_WIDTH:
        return settings
    return replace(settings, contamination=min(reviewed.still_expected / max(rows, 1), rate))
