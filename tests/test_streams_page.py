"""The results of the guide on streams are written from their record."""

import json

import pytest
import torch

import streams
from toy import make_toy


def record() -> dict:
    return json.loads(streams.RESULTS.read_text())


def test_the_page_on_streams_is_written_from_the_record() -> None:
    assert streams.render(record()) in streams.PAGE.read_text()


def test_every_run_is_on_record() -> None:
    found = record()
    assert found["settings"]["seeds"] == list(streams.SEEDS)
    n = len(streams.NOISE) * len(streams.SEEDS)
    assert len(found["runs"]) == n * (len(streams.METHODS) * (len(streams.PASSES) + 1) + 1)
    assert found["settings"]["rows"] == 60_000


def test_the_memory_of_a_stream_on_record_is_that_of_its_window_in_any_number_of_passes() -> None:
    kept = {run["state_bytes"] for run in record()["runs"] if run["method"].startswith("stream")}
    assert len(kept) == 1
    assert kept.pop() < 20 * record()["settings"]["window"] + 200


def made(noise: float, method: str, passes: int, rate: str, accuracy: float) -> dict:
    about = {"noise": noise, "method": method, "passes": passes, "rate": rate, "seed": 0}
    return {**about, "accuracy": accuracy, "precision": None, "recall": 0.5, "estimate": None}


@pytest.mark.parametrize(("accuracy", "met"), [(0.951, True), (0.94, True), (0.939, False)])
def test_a_target_is_met_or_not_by_the_figures(accuracy: float, met: bool) -> None:
    runs = [
        made(0.2, "plain", 2, "constant", 0.9),
        made(0.2, "stream, auto", 2, "constant", accuracy),
        made(0.2, "exact, auto", 2, "constant", 0.95),
        made(0.2, "exact, told", 10, "falling", 0.97),
    ]
    judged = streams.Case(0.2, "constant", 2, "auto").judge({"runs": runs, "settings": {"margin": 0.01, "long": 10}})
    assert judged.met is met
    assert judged.cells[5] == f"{100 * accuracy:.1f}"
    assert judged.cells[-1] == f"{100 * (accuracy - 0.97):+.2f}"


def some_rows() -> streams.Data:
    toy, test = make_toy(0, 600), make_toy(1, 90)
    return streams.Data(toy.x, toy.y, toy.wrong, test.x, torch.arange(90) % 3)


@pytest.mark.parametrize("method", streams.METHODS)
def test_a_run_is_measured(method: str) -> None:
    found = streams.run(some_rows(), 0.4, method, 2, 0, falling=True)
    assert json.loads(json.dumps(found)) == found
    assert found["accuracy"] > 0.5
    assert found["cpu_seconds"] > 0
    assert (found["state_bytes"] > 0) == (method != "plain")
    assert found == {**streams.run(some_rows(), 0.4, method, 2, 0, falling=True), "cpu_seconds": found["cpu_seconds"]}
