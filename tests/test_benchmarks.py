import json
from itertools import product

import pytest

import adversarial
import digits
import reweight as benchmark


def test_the_benchmark_measures_and_judges_what_it_measured() -> None:
    results = benchmark.measure([10_000, 100_000, 300_000], [500], repeats=1)
    assert json.loads(json.dumps(results)) == results
    assert [row["rows"] for row in results["speed"]] == [10_000, 100_000, 300_000]
    assert all(row["gamma_s"] > 0 and row["contamination_s"] > 0 and row["clone_s"] > 0 for row in results["speed"])
    assert abs(results["highs"][0]["highs_objective_minus_ours"]) < 1e-9
    assert results["highs"][0]["highs_s"] > results["highs"][0]["gamma_s"]
    exponents = [row for row in results["targets"] if "exponent" in row["what"]]
    assert len(exponents) == 2
    assert all(row["met"] == (row["measured"] <= 1.1) for row in exponents)


def test_the_page_on_speed_is_written_from_the_record() -> None:
    results = json.loads(benchmark.RESULTS.read_text())
    assert benchmark.PAGE.read_text() == benchmark.render(results)
    assert [row["rows"] for row in results["speed"]] == benchmark.SIZES
    assert [row["rows"] for row in results["highs"]] == benchmark.HIGHS_SIZES


@pytest.mark.filterwarnings("ignore")  # Lightning's advice, and what it imports
def test_the_benchmark_of_training_runs_every_loop_and_judges_it() -> None:
    import training

    results = training.measure(["MNIST-3 MLP"], repeats=1, rows=200)
    assert json.loads(json.dumps(results)) == results
    found = results["problems"]["MNIST-3 MLP"]
    assert found["epoch_s"].keys() == training.JOBS.keys()
    assert all(took > 0 for took in found["epoch_s"].values())
    assert len(results["targets"]) == len(training.LIMITS) + 1
    assert all(row["met"] == (row["measured"] <= row["limit"]) for row in results["targets"])
    assert "| skorch |" in training.render(results)


@pytest.mark.filterwarnings("ignore")
def test_the_page_on_the_speed_of_training_is_written_from_the_record() -> None:
    import training

    results = json.loads(training.RESULTS.read_text())
    assert training.PAGE.read_text() == training.render(results)
    assert list(results["problems"]) == list(training.PROBLEMS)


def test_the_page_on_adversarial_training_is_written_from_the_records() -> None:
    records = adversarial.load_records()
    assert adversarial.PAGE.read_text() == adversarial.render(records)
    cells = {(found["method"], found["noise"], found["seed"]) for found in records}
    assert cells == set(product(adversarial.METHODS, adversarial.NOISE, adversarial.SEEDS))
    assert adversarial.PAGE.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_the_page_on_digits_is_written_from_the_record() -> None:
    record = json.loads(digits.RESULTS.read_text())
    assert digits.PAGE.read_text() == digits.render(record)
    assert all(len(summary["seeds"]) == digits.SEEDS for summary in record.values())
    assert all(row["rrm"] - row["plain"] >= 0.2 for row in record["standardised"]["seeds"])
