"""The library reports through `logging`, a logger per module, and prints nothing unless asked to show progress."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch

import rockafellian as rk
from toy import make_toy

TOY = make_toy(seed=0)


def train(checkpoint: Path, epochs: int, *, resume: bool = False) -> rk.SampleWeights:
    torch.manual_seed(0)
    model = torch.nn.Linear(TOY.x.shape[1], int(TOY.y.max()) + 1)
    weights = rk.SampleWeights(len(TOY.x), rk.RRM(crisp=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    settings: dict[str, Any] = {"loss": "cce", "optimizer": optimizer, "weights": weights, "progress": "quiet"}
    rk.fit(model, (TOY.x, TOY.y), epochs=epochs, checkpoint=checkpoint, resume=resume, **settings)
    return weights


def test_a_run_logs_its_noise_rate_its_re_weightings_and_from_where_it_resumed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, logger="rockafellian")
    weights = train(tmp_path, epochs=15)
    logged = caplog.messages
    assert weights.estimate is not None
    assert [line for line in logged if line.startswith("noise rate")] == [
        f"noise rate, estimated after epoch {weights.history[0].epoch}: {weights.estimate.verdict}"
    ]
    assert [line for line in logged if line.startswith("re-weighted")] == [
        f"re-weighted after epoch {made.epoch}: {made.n_removed} of {len(TOY.x)} rows removed, {made.n_changed} changed"
        for made in weights.history
    ]
    assert {record.name for record in caplog.records} == {"rockafellian.weights.sample_weights"}
    caplog.clear()
    train(tmp_path, epochs=15, resume=True)
    assert caplog.messages == [f"resumed {tmp_path / 'checkpoint.safetensors'}"]
    assert capsys.readouterr() == ("", "")


def test_a_stream_logs_its_noise_rate(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="rockafellian")
    weights = rk.StreamWeights(rk.RRM(crisp=True), window=200, warmup=0)
    labels = torch.arange(400) % 2
    logits = torch.nn.functional.one_hot(labels, 2) * 4.0
    wrong = labels.clone()
    wrong[::10] = 1 - wrong[::10]
    for part in (torch.zeros(400, 2), logits):  # first a network that knows nothing, then one that has learned
        for rows in torch.arange(400).split(50):
            losses = torch.nn.functional.cross_entropy(part[rows], wrong[rows], reduction="none")
            weights.reduce(losses, logits=part[rows], labels=wrong[rows])
    assert weights.estimate is not None
    assert caplog.messages[-1].endswith(f" rows: {weights.estimate.verdict}")
    assert {record.name for record in caplog.records} == {"rockafellian.weights.stream_weights"}


def test_by_default_nothing_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(tmp_path, epochs=15)
    assert capsys.readouterr() == ("", "")
