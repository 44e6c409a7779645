"""The page on scale is what was recorded, and the model behind it is what it says."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

import distributed
import rockafellian as rk
import scale_page
from scale_page import Network, replicated, sharded

RECORD: dict[str, Any] = json.loads(distributed.RESULTS.read_text())
STEPS: list[dict[str, Any]] = RECORD["steps"]


def test_the_page_is_written_from_the_record() -> None:
    assert scale_page.render(RECORD) in distributed.PAGE.read_text()


def test_every_case_is_on_record_with_every_number_of_processes() -> None:
    found = {
        (distributed.Case(*(step[name] for name in ("rows", "rule", "sharded", "fed"))), step["ranks"])
        for step in STEPS
    }
    assert found == {(case, ranks) for case in distributed.cases(distributed.SIZES) for ranks in distributed.RANKS}
    assert RECORD["training"].keys() == distributed.NETWORKS.keys()


@pytest.mark.parametrize("rule", ["contamination", "gamma"])
def test_sharded_rows_cost_the_same_few_bytes_whatever_their_number(rule: str) -> None:
    for fed in (False, True):
        alike = [step for step in STEPS if step["sharded"] and step["rule"] == rule and step["fed"] == fed]
        sent = {sum(step["bytes"].values()) for step in alike if step["ranks"] > 1}
        assert len(sent) == bool(alike)
        assert max(sent, default=0) < scale_page.MAX_SENT
    everything = [sharded(RECORD, rows, ranks, Network()) for rows in scale_page.ROWS for ranks in scale_page.RANKS]
    assert max(cost.sent for cost in everything) < scale_page.MAX_SENT


def test_replicated_rows_cost_a_report_each() -> None:
    exchanged = [step for step in STEPS if step["fed"] and not step["sharded"] and step["ranks"] > 1]
    assert exchanged
    for step in exchanged:
        reports = scale_page.REPORT * step["rows"] / step["ranks"]
        assert reports <= step["bytes"]["all_gather"] < reports + 100


def test_weights_with_predictions_take_the_bytes_that_the_page_says() -> None:
    weights = rk.SampleWeights(1000, rk.RRM(contamination=0.4))
    weights.remember(
        torch.rand(1000), torch.arange(1000), logits=torch.rand(1000, 3), labels=torch.zeros(1000, dtype=torch.int64)
    )
    state = weights.state_dict().values()
    assert sum(part.nbytes for part in state if part.shape[:1] == (1000,)) == 1000 * scale_page.STATE


def test_no_more_rows_are_held_out_than_the_page_says() -> None:
    held = rk.SampleWeights(10 * scale_page.HELD_OUT, rk.RRM(crisp=True)).held_out
    assert held is not None
    assert len(held) == scale_page.HELD_OUT


def test_what_is_passed_to_collectives_is_counted_and_only_within_the_block(tmp_path: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        with distributed.Sent().counting() as sent:
            dist.all_reduce(torch.zeros(10))
            dist.all_gather([torch.zeros(3, dtype=torch.float64)], torch.zeros(3, dtype=torch.float64))
        dist.all_reduce(torch.zeros(10))
    finally:
        dist.destroy_process_group()
    assert sent.bytes == {"all_gather": 24, "all_reduce": 40}
    assert sent.calls == {"all_gather": 1, "all_reduce": 1}


def test_a_ring_waits_for_each_process_and_sends_a_sum_twice() -> None:
    network = Network(bandwidth=1e9, latency=1e-3)
    assert network.all_gather(1e9, 1) == network.all_reduce(1e9, 1) == 0
    assert network.all_gather(0, 5) == pytest.approx(4e-3)
    assert network.all_gather(1e9, 3) == pytest.approx(2.002)
    assert network.all_reduce(1e9, 4) == pytest.approx(1.5 + 6e-3)


def test_more_processes_hold_fewer_sharded_rows_and_as_many_replicated_ones() -> None:
    network = Network()
    few, many = (sharded(RECORD, 10**9, ranks, network) for ranks in (2, 4))
    assert many.memory == pytest.approx(few.memory / 2)
    assert sharded(RECORD, 10**10, 4, network).sent == many.sent
    few, many = (replicated(RECORD, 10**9, ranks, network) for ranks in (2, 4))
    assert many.memory == few.memory
    assert few.sent == pytest.approx(scale_page.REPORT * 10**9 / 2)
    assert many.seconds > few.seconds


def test_the_model_of_two_processes_without_a_network_is_what_was_measured() -> None:
    nothing = Network(bandwidth=float("inf"), latency=0)
    fed = [step for step in STEPS if step["fed"] and step["rule"] == "contamination" and step["ranks"] == 2]
    for model, is_sharded in ((sharded, True), (replicated, False)):
        largest = max((step for step in fed if step["sharded"] == is_sharded), key=lambda step: step["rows"])
        cost = model(RECORD, largest["rows"], 2, nothing)
        assert (cost.seconds, cost.memory) == pytest.approx((largest["seconds"], largest["memory"]))


def test_a_target_is_met_or_not_by_the_figures() -> None:
    said = {row["what"]: row for row in scale_page.targets(RECORD)}
    assert all(row["met"] == (row["measured"] <= row["limit"]) for row in said.values())
    assert sum("DDP" in what for what in said) == len(distributed.NETWORKS)
    slow = {**RECORD, "training": {"MLP": {"ratio": 1.2}}}
    assert [row["met"] for row in scale_page.targets(slow) if "DDP" in row["what"]] == [False]


def test_the_benchmark_runs_in_two_processes() -> None:
    wanted = [distributed.Case(2000, rule, True, fed=True) for rule in ("contamination", "per class")]
    jobs = {"cases": wanted, "repeats": 1, "networks": [], "epochs": 0}
    found = distributed.run(2, jobs)
    assert json.loads(json.dumps(found)) == found
    assert all(step["seconds"][0] > 0 and step["bytes"]["all_reduce"] > 0 for each in found for step in each["steps"])
    assert found[0]["network"]["all_gather_8MB"] > 0
