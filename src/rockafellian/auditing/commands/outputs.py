"""The files of a run: findings, cleaned and relabeled data, lists, a summary and the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from rockafellian._internal.arrays import blocks
from rockafellian._internal.files import atomic_write, write_csv, write_json
from rockafellian.auditing.commands.audit import Audited
from rockafellian.auditing.commands.summary import (
    BandSummary,
    ClassCounts,
    DoubtSummary,
    Interval,
    NoiseRateSummary,
    ReviewSummary,
    Summary,
)
from rockafellian.auditing.data.writing import suffix_for, write_rows
from rockafellian.auditing.features.decisive import Decisive
from rockafellian.auditing.model.claims import claim_limit
from rockafellian.auditing.model.decisive import find_decisive
from rockafellian.auditing.report.contents import Banner, LabelIssue, Report, Sample
from rockafellian.auditing.report.page import render
from rockafellian.auditing.review.plan import Plan

#: A page lists at most this number of label issues, with this number of bytes of images and texts: phones open it.
MAX_ISSUES, MAX_BYTES = 20_000, 40_000_000
#: So many rows that are not flagged follow below, the worst first.
N_NOT_FLAGGED = 200


def write_all(audited: Audited, folder: Path, key: str, banner: Banner | None = None) -> None:
    """Write all files but the mark that says that they are complete; the page begins with the banner, if any."""
    source, history = audited.problem.source, audited.history.state_dict()
    audited.model.save(folder / "model")
    with atomic_write(folder / "findings.parquet") as partial:
        pyarrow.parquet.write_table(audited.table, partial)
    _write_for_people(folder / "findings.csv", audited.table)
    suffix = suffix_for(source)
    write_rows(folder / f"cleaned{suffix}", source, source.table, ~audited.flagged)
    write_rows(folder / f"relabeled{suffix}", source, audited.relabeled_table(), np.ones(len(source), bool))
    _write_lists(audited, folder)
    write_json(folder / "history.json", {name: history[name] for name in ("epochs", "rounds")})
    write_json(folder / "summary.json", msgspec.to_builtins(summary(audited)))
    write_report(audited, folder / "report.html", key=key, folder=folder, banner=banner)


def write_report(
    audited: Audited, path: Path, *, key: str, folder: Path | None = None, banner: Banner | None = None
) -> None:
    """Write the page; browsers keep its decisions under the key, and it names the folder of the run in commands."""
    with atomic_write(path) as partial:
        partial.write_text(render(replace(report(audited, key, folder), banner=banner)), encoding="utf-8")


def summary(audited: Audited) -> Summary:
    """Return what `rockafellian show` prints."""
    problem, last = audited.problem, audited.history.epochs[-1]
    counts = zip(problem.labels.names, _count_classes(audited), strict=True)
    return Summary(
        doubts=[DoubtSummary(*doubt) for doubt in audited.doubts],
        kind=problem.kind.describe(),
        inputs=problem.features.describe(),
        rows=len(problem.source),
        labeled_rows=len(problem.rows),
        flagged_rows=int(audited.flagged.sum()),
        doubtful_rows=audited.n_doubtful,
        noise_rate=_noise_rate(audited),
        accuracy_on_given_labels=last.accuracy,
        validation_accuracy=last.valid_accuracy,
        epochs=last.epoch,
        classes=dict(counts),
        conflicting_groups=len(problem.conflicts),
        review=_review(audited.plan),
        notices=audited.notices,
        seconds=round(audited.seconds, 2),
        versions={name: version(name) for name in ("rockafellian", "torch", "numpy", "pyarrow")},
    )


def _noise_rate(audited: Audited) -> NoiseRateSummary | None:
    found = audited.estimate
    if found is None:
        return None
    limit, reviewed = claim_limit(audited.problem, found), audited.problem.reviewed_rate is not None
    ends = Interval(*found.floor), Interval(*found.ceiling)
    return NoiseRateSummary(*ends, found.skill, found.verdict, audited.problem.crisp, limit, reviewed)


def _review(plan: Plan) -> ReviewSummary:
    return ReviewSummary([BandSummary(*band) for band in plan.bands], _drawn_rows(plan))


def _drawn_rows(plan: Plan) -> list[tuple[int, int]]:
    """The rows to check first, by index, each with its band."""
    return [(int(plan.rows[drawn.place]), drawn.band) for drawn in plan.sample]


def report(audited: Audited, key: str, folder: Path | None = None) -> Report:
    """Return the contents of the page.

    Args:
        audited: what was found.
        key: browsers keep decisions under it.
        folder: of the run, for the commands that the page shows.
    """
    problem, weights = audited.problem, audited.weights
    counts, removed = _count_classes(audited), weights.removed.cpu().numpy()
    return Report(
        title="the frame" if problem.source.path is None else problem.source.path.name,
        key=key,
        kind=problem.kind.name,
        rows=len(problem.rows),
        flagged=int(audited.flagged.sum()),
        estimate=audited.estimate,
        doubtful=audited.n_doubtful,
        crisp=problem.crisp,
        limit=claim_limit(problem, audited.estimate),
        reviewed=problem.reviewed_rate is not None,
        classes=problem.labels.names,
        class_rows=[each.rows for each in counts],
        class_flagged=[each.flagged for each in counts],
        matrix=_count_pairs(audited).tolist(),
        history=audited.history,
        kept_losses=audited.losses[~removed],
        removed_losses=audited.losses[removed],
        threshold=weights.history[-1].threshold if weights.history else None,
        issues=list(_issues(audited)),
        facts=_facts(audited),
        why=problem.kind.why,
        doubts=[str(doubt) for doubt in audited.doubts],
        notices=audited.notices,
        multilabel=problem.labels.multilabel,
        separator=problem.labels.shown_separator,
        sample=_sample(audited),
        folder=None if folder is None else str(folder),
        corrected="corrected" if problem.source.format == "folder" else f"corrected{suffix_for(problem.source)}",
    )


def _sample(audited: Audited) -> Sample:
    bands = audited.plan.bands
    expected = [] if audited.estimate is None else [(band.low, band.high) for band in bands]
    return Sample([band.rows for band in bands], _drawn_rows(audited.plan), expected)


def _issues(audited: Audited) -> Iterator[LabelIssue]:
    """The flagged rows and the next worst, as many as a page can carry, and all rows of the sample."""
    ranking, n_flagged = audited.plan.rows, int(audited.flagged.sum())
    needed, bytes_left = {drawn.place for drawn in audited.plan.sample}, MAX_BYTES
    listed = np.r_[: min(n_flagged, MAX_ISSUES), n_flagged : min(n_flagged + N_NOT_FLAGGED, len(ranking))]
    places = np.union1d(listed, np.fromiter(needed, np.int64))
    rows = ranking[places]
    decisive = find_decisive(audited.problem, audited.model, rows, audited.predicted[rows])
    lines = audited.table.take(pa.array(rows)).to_pylist()
    for place, found, parts in zip(places.tolist(), lines, decisive, strict=True):
        if bytes_left < 0 and place not in needed:
            continue
        preview = audited.problem.kind.preview(audited.problem.source, found["index"], parts.names)
        bytes_left -= sum(len(str(part)) for part in preview.values())
        if bytes_left >= 0 or place in needed:
            yield _issue(found, place, preview, parts)


def _issue(found: Mapping[str, Any], place: int, preview: Mapping[str, Any], decisive: Decisive) -> LabelIssue:
    return LabelIssue(
        index=found["index"],
        id=found["id"],
        given=found["given_label"],
        suggested=found["predicted_label"],
        quality=found["label_quality"],
        probability=found["predicted_probability"],
        reason=found["reason"],
        flagged=found["is_label_issue"],
        place=place,
        decisive=decisive.names,
        spans=decisive.spans,
        **preview,
    )


def _write_lists(audited: Audited, folder: Path) -> None:
    """Write the rows without a label, and equal rows with different labels, if there are any."""
    problem, table = audited.problem, audited.table
    without_label = table.filter(pa.array(~problem.labels.known))
    if len(without_label):
        shown = without_label.select(["index", "id", "predicted_label", "predicted_probability"])
        _write_for_people(folder / "set_aside.csv", shown)
    if problem.conflicts:
        rows = np.concatenate(problem.conflicts)
        group = np.repeat(np.arange(1, len(problem.conflicts) + 1), [len(each) for each in problem.conflicts])
        chosen = table.select(["index", "id", "given_label", "predicted_label"]).take(pa.array(rows))
        _write_for_people(folder / "conflicts.csv", chosen.add_column(0, "group", pa.array(group)))


def _write_for_people(path: Path, table: pa.Table) -> None:
    """Write CSV in which a spreadsheet finds no formula to run."""
    parts = (table.slice(part.start, part.stop - part.start) for part in blocks(len(table)))
    write_csv(path, table.column_names, ([column.to_pylist() for column in part.columns] for part in parts))


def _count_classes(audited: Audited) -> list[ClassCounts]:
    """For each class, how many rows have it and how many of them are flagged."""
    labels = audited.problem.labels
    given = [labels.given[rows] for rows in (labels.known, audited.flagged)]
    if labels.multilabel:
        counts = [each.sum(0) for each in given]
    else:
        counts = [np.bincount(each, minlength=len(labels.names)) for each in given]
    return [ClassCounts(int(rows), int(flagged)) for rows, flagged in zip(*counts, strict=True)]


def _count_pairs(audited: Audited) -> NDArray[np.int64]:
    """Flagged rows by given and by suggested class; zeros where rows have several labels."""
    labels, n = audited.problem.labels, len(audited.problem.labels.names)
    if labels.multilabel:
        return np.zeros((n, n), np.int64)
    given, suggested = labels.given[audited.flagged], audited.predicted[audited.flagged]
    return np.bincount(given * n + suggested, minlength=n**2).reshape(n, n)


def _facts(audited: Audited) -> dict[str, str]:
    """How the audit was made, for the end of the page."""
    problem, last = audited.problem, audited.history.epochs[-1]
    used = {name: value for name, value in asdict(problem.settings).items() if value not in (None, (), "auto")}
    network = ", ".join(f"{name} {value}" for name, value in audited.model.description.items())
    facts = {
        "Data": f"{problem.kind.describe()}: {len(problem.source):,} rows, {len(problem.labels.names)} classes",
        "Inputs": problem.features.describe(),
        "Network": network.removeprefix("network "),
        "Training": f"{last.epoch} epochs in {audited.seconds:.0f} s",
        "Accuracy on the given labels": "" if last.accuracy is None else f"{last.accuracy:.1%} in the last epoch",
        "Validation accuracy": "" if last.valid_accuracy is None else f"{last.valid_accuracy:.1%} after the last epoch",
        "Settings": ", ".join(
            f"{name} {', '.join(value) if isinstance(value, tuple) else value}" for name, value in used.items()
        ),
        "Version": f"rockafellian {version('rockafellian')}",
    }
    return {name: value for name, value in facts.items() if value}
