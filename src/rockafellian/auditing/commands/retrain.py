"""`rockafellian retrain`: training again with people's decisions, and what that gains on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from rockafellian.auditing.commands.audit import Audited
from rockafellian.auditing.commands.rereading import read_findings, read_plan, reread
from rockafellian.auditing.commands.run import check_out, run_prepared
from rockafellian.auditing.commands.run_folder import FRAME, HISTORY, FinishedRun, open_run, read_json
from rockafellian.auditing.data.settings import Settings
from rockafellian.auditing.model.comparison import Compared, compare
from rockafellian.auditing.model.problem import Review, prepare
from rockafellian.auditing.review.decisions import Decision, read_decisions
from rockafellian.auditing.review.estimate import Reviewed
from rockafellian.training.history import History
from rockafellian.training.progress import Progress

#: The noise rate of a review is used once it is known this well: the width of its 90 % interval.
MAX_WIDTH = 0.25


class Retrained(NamedTuple):
    """The new run, what it gains on held-out rows, and what the decisions tell of the noise rate."""

    audited: Audited
    compared: Compared
    reviewed: Reviewed
    notices: Sequence[str]


class Reweighted(msgspec.Struct, frozen=True):
    """A re-weighting in the history of a run: after which epoch it was made, and the fraction of rows it removed."""

    epoch: int
    removed_fraction: float


class Reweightings(msgspec.Struct, frozen=True):
    """What is read of the history of a run."""

    rounds: list[Reweighted]


def retrain(
    folder: Path,
    decisions: Sequence[Path],
    *,
    data: Path | None = None,
    out: Path | None = None,
    force: bool = False,
    resume: bool = False,
    progress: Progress = "auto",
    say: Callable[[str], object] = print,
) -> Retrained:
    """Train again on the data of a run, with labels as decided, rows that were decided never removed."""
    finished = open_run(folder)
    source = reread(finished, data)
    findings = read_findings(finished, source)
    joined = read_decisions(decisions, findings.column("id").to_pylist())
    reviewed = read_plan(finished, findings).reviewed(joined.agreed)
    where = data or (finished.path(FRAME) if finished.description.data is None else Path(finished.description.data))
    check_out(out, [where], force=force, resume=resume)
    before = prepare(where, read_settings(finished), progress=progress)
    history = read_json(finished.path(HISTORY), Reweightings)
    review = plan_review(joined.agreed, reviewed, history)
    after = before.with_review(review)
    compared = compare(before, after, progress)
    audited = run_prepared(after, out=out, force=force, resume=resume, progress=progress, say=say)
    return Retrained(audited, compared, reviewed, joined.notices)


def read_settings(finished: FinishedRun) -> Settings:
    """Return the settings of a run."""
    stored = finished.description.settings
    return Settings(**{**stored, "label": tuple(stored["label"])})


def plan_review(decided: Mapping[int, Decision], reviewed: Reviewed, history: Reweightings | History) -> Review:
    """Return what training again is told: its first re-weighting comes after as many epochs as in the run before.

    By then the network has learned what generalizes, and memorized little. The noise rate of the review is used if it
    is known well enough.
    """
    rounds = history.rounds
    _, low, high = reviewed.noise_rate
    noise_rate = reviewed.to_remove(rounds[-1].removed_fraction if rounds else 0.0) if high - low <= MAX_WIDTH else None
    return Review(decided, noise_rate, max(rounds[0].epoch - 1, 0) if rounds else 0)
