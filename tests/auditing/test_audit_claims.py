"""What an audit claims where the network may be wrong instead of the labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from samples import command, image_folder, table

import rockafellian as rk
from rockafellian.auditing.commands.outputs import report
from rockafellian.auditing.data.settings import Settings
from rockafellian.auditing.model.claims import claim_limit, n_doubtful, reported_estimate
from rockafellian.auditing.model.problem import prepare
from rockafellian.auditing.report.contents import noise_rate_sentence

QUICK: dict[str, Any] = {"text": "review", "epochs": 12, "encoder": "none", "progress": "quiet"}


def vague_texts(n: int = 600, hint: float = 0.3, seed: int = 0) -> pd.DataFrame:
    """Reviews with right labels, of which only some contain a word that gives the label away."""
    random = np.random.default_rng(seed)
    label = random.integers(0, 2, n)
    filler = np.array(["the", "a", "film", "it", "was", "and", "with", "some", "people", "in", "many", "rooms"])
    words = random.choice(filler, (n, 9)).tolist()
    for row in np.flatnonzero(random.random(n) < hint):
        words[row].append(("awful", "lovely")[label[row]])
    return pd.DataFrame({"review": [" ".join(each) for each in words], "label": np.array(["bad", "good"])[label]})


def noise_rate(floor: float, ceiling: float, skill: float) -> rk.NoiseRate:
    ends = (rk.Estimate(rate, max(rate - 0.02, 0), rate + 0.02) for rate in (floor, ceiling))
    return rk.NoiseRate(*ends, skill)


def test_a_weak_network_claims_nothing_but_says_how_many_rows_are_in_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    vague_texts().to_csv(tmp_path / "data.csv", index=False)
    found = rk.audit(tmp_path / "data.csv", "label", out=tmp_path / "run", **QUICK)
    assert found.estimate is not None
    assert found.estimate.skill < 0.5
    assert found.estimate.ceiling.rate > 0.05
    assert not found.flagged.any()
    assert len(found.cleaned) == 600
    [weak] = [doubt.fix for doubt in found.doubts if doubt.check == "weak model"]
    assert "--encoder" in weak

    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["flagged_rows"], summary["noise_rate"]["limit"]) == (0, 0.0)
    assert summary["doubtful_rows"] == round(found.estimate.ceiling.rate * 600) > 30
    assert command(monkeypatch, "show", tmp_path / "run") == 0
    page, shown = (tmp_path / "run" / "report.html").read_text(), capsys.readouterr().out
    assert summary["noise_rate"]["floor"]["low"] == 0.0
    for said in (
        "too weak a model to tell",
        f"In doubt: {summary['doubtful_rows']} more rows",
        "so nothing is flagged; --crisp would flag up to",
    ):
        assert said in page
        assert said in " ".join(shown.split())
    assert "None of 600 rows looks mislabeled" in page


def test_who_says_that_every_row_has_one_right_answer_gets_what_training_removed() -> None:
    found = rk.audit(vague_texts(), "label", crisp=True, **QUICK)
    assert 0 < found.flagged.sum() <= (found.findings["weight"] == 0).sum()
    assert found.problem.crisp


def test_a_strong_network_claims_all_that_it_contradicts_and_leaves_few_in_doubt(tmp_path: Path) -> None:
    wrong = image_folder(tmp_path / "images", 200)
    found = rk.audit(tmp_path / "images", epochs=15, progress="quiet")
    assert found.estimate is not None
    assert found.estimate.skill > 0.8
    assert found.flagged.sum() >= 0.9 * sum(wrong.values())
    assert found.n_doubtful <= 10


@pytest.mark.parametrize(
    ("estimate", "limit"),
    [
        (noise_rate(0.05, 0.06, skill=0.9), 0.06),  # no more than the estimate says
        (noise_rate(0.05, 0.06, skill=0.4), 0.03),  # a weak network
        (noise_rate(0.05, 0.4, skill=0.9), 0.03),  # floor and ceiling far apart
        (None, None),
    ],
)
def test_the_limit_of_claims(estimate: rk.NoiseRate | None, limit: float | None) -> None:
    def found(**settings: Any) -> float | None:
        return claim_limit(prepare(vague_texts(60), Settings(("label",), text="review", **settings)), estimate)

    assert found(encoder="none") == pytest.approx(limit)
    assert found(encoder="none", crisp=True) is None
    assert found(encoder="none", crisp=False) is None  # the method itself stops at the floor
    assert claim_limit(prepare(table(60)[0], Settings(("label",))), estimate) is None


def test_rows_in_doubt_are_those_of_the_ceiling_that_are_not_flagged() -> None:
    estimate = noise_rate(0.1, 0.3, skill=0.4)
    assert [n_doubtful(estimate, 200, flagged) for flagged in (0, 20, 70)] == [60, 40, 0]
    assert n_doubtful(None, 200, 0) == 0


def test_with_a_weak_network_no_error_of_texts_and_images_is_sure() -> None:
    vague, rows = (
        prepare(frame, settings)
        for frame, settings in (
            (vague_texts(60), Settings(("label",), text="review", encoder="none")),
            (table(60)[0], Settings(("label",))),
        )
    )
    weak, strong = noise_rate(0.2, 0.4, skill=0.4), noise_rate(0.2, 0.4, skill=0.6)
    assert reported_estimate(vague, weak) == weak._replace(floor=rk.Estimate(0.0, 0.0, 0.22))
    assert reported_estimate(vague, strong) == strong
    assert reported_estimate(rows, weak) == weak  # labels of tables may be uncertain by nature: the floor allows for it
    assert reported_estimate(rows, None) is None


def test_after_a_review_no_more_is_flagged_than_it_leaves() -> None:
    first = rk.audit(vague_texts(400), "label", **QUICK)
    ids, rows = first.findings["id"], [int(first.plan.rows[drawn.place]) for drawn in first.plan.sample[:60]]
    decisions = pd.DataFrame({"index": rows, "id": ids[rows], "decision": "keep", "label": None})
    again = first.retrain(decisions, progress="quiet")
    left = first.review(decisions).remaining
    assert left.rate < 0.05
    assert (again.findings["weight"] == 0).mean() > left.rate  # training is less sure than the person
    assert again.flagged.mean() <= left.rate
    assert f"By the decisions {left.rate:.1%} are still mislabeled" in noise_rate_sentence(report(again, "key"))
