"""Which rows of an audit are on its page."""

import numpy as np
import pytest
from samples import table

import rockafellian as rk
from rockafellian.auditing.commands import outputs
from rockafellian.auditing.commands.audit import Audited
from rockafellian.auditing.report.contents import Report
from rockafellian.auditing.report.page import render

N, N_WITHOUT_LABEL = 500, 3


@pytest.fixture(scope="module")
def audited() -> Audited:
    frame, _ = table(N)
    frame.loc[: N_WITHOUT_LABEL - 1, "label"] = None
    return rk.audit(frame, "label", contamination=0.1, epochs=10, progress="quiet")


def places(report: Report) -> list[int | None]:
    return [issue.place for issue in report.issues]


def test_flagged_rows_come_first_and_two_hundred_others_follow(audited: Audited) -> None:
    report, flagged = outputs.report(audited, "key"), int(audited.flagged.sum())
    assert flagged > 10
    assert places(report)[: flagged + 200] == list(range(flagged + 200))
    assert {*places(report)[flagged + 200 :]} <= {each.place for each in audited.plan.sample}
    assert [issue.flagged for issue in report.issues[: flagged + 200]] == [True] * flagged + [False] * 200
    for part in (report.issues[:flagged], report.issues[flagged:]):
        assert (np.diff([issue.quality for issue in part]) >= 0).all()
    assert min(issue.index for issue in report.issues) >= N_WITHOUT_LABEL
    assert report.flagged == flagged
    assert report.folder is None


def test_of_small_data_all_rows_are_listed_and_of_many_issues_the_worst(
    audited: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "N_NOT_FLAGGED", 10_000)
    assert len(outputs.report(audited, "key").issues) == N - N_WITHOUT_LABEL
    monkeypatch.setattr(outputs, "MAX_ISSUES", 5)
    monkeypatch.setattr(outputs, "N_NOT_FLAGGED", 2)
    flagged = int(audited.flagged.sum())
    drawn = {each.place for each in audited.plan.sample}
    assert set(places(outputs.report(audited, "key"))) - drawn == {*range(5), flagged, flagged + 1} - drawn


def test_rows_of_the_sample_are_on_the_page_however_full_it_is(
    audited: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = {each.place for each in audited.plan.sample}
    assert len(drawn) == 100
    monkeypatch.setattr(outputs, "N_NOT_FLAGGED", 0)
    monkeypatch.setattr(outputs, "MAX_BYTES", 300)
    full = outputs.report(audited, "key")
    assert drawn <= set(places(full))
    assert len(full.issues) < len(drawn) + 10
    assert all(issue.values for issue in full.issues)
    render(full)
