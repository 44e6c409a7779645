import json

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
