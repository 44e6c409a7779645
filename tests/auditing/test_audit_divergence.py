"""Training that diverges ends in one line, and no NaN is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from samples import command, table

import rockafellian as rk
from rockafellian.auditing.model import training
from rockafellian.training.checkpoints import load


@pytest.mark.parametrize("contamination", ["0.2", "auto"])
def test_divergence_is_one_line_and_leaves_no_nan(
    contamination: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(training, "LEARNING_RATE", 1e37)
    table(60)[0].to_csv(tmp_path / "data.csv", index=False)
    options = ["--label", "label", "--contamination", contamination, "--out", tmp_path / "run"]
    assert command(monkeypatch, "audit", tmp_path / "data.csv", *options) == 2
    [message] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
    assert "training has diverged" in message
    assert "diverges again" in message
    assert "learning rate" not in message  # which a user of the command cannot choose
    left = {path.name for path in (tmp_path / "run").glob("*")}
    assert left in (set(), {"settings.json", "checkpoint"})  # nothing, if no epoch was finished
    for checkpoint in (tmp_path / "run" / "checkpoint").glob("*"):
        assert all(part.isfinite().all() for part in load(checkpoint)["model"].values())


@pytest.mark.parametrize("attack", ["fgsm", "pgd"])
@pytest.mark.parametrize("eps", [0, 1e-300, 1e6])
def test_the_smallest_and_the_largest_eps_work_or_are_one_line(attack: str, eps: float) -> None:
    frame = table(40)[0]
    try:
        audited = rk.audit(frame, "label", contamination=0.2, epochs=10, attack=attack, eps=eps, progress="quiet")
    except (ValueError, FloatingPointError) as error:
        message = str(error)
    else:
        message = ""
        assert not audited.predict(frame).isna().any(axis=None)
    assert "\n" not in message
