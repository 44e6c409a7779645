import ast
import json
import textwrap
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch

import adversarial
import ambiguous
import covered
import digits
import faults
import natural_errors
import noise_rate
import own_data
import own_data_page
import own_data_speed
import pages
import real_tables
import records
import review
import reweight as benchmark
import robustness
import rockafellian as rk
import together
import tweets


@pytest.mark.parametrize(
    "cell",
    ["12", "-0.5", "1,297", "1e+05", "0.0e+00", "98.22 %", "40%", "16.6 kB", "917 GB (too much)", "**95.0 ± 1.1**"],
)
def test_a_column_of_figures_is_aligned_right(cell: str) -> None:
    assert pages.table(["", "figures"], [["a", cell], ["b", "-"]]).splitlines()[1] == "| --- | ---: |"


@pytest.mark.parametrize(
    "cell", ["met", "at least 0.80", "1,297 and 500 of scikit-learn's digits", "<= 6", "-", "", "`x`"]
)
def test_a_column_with_words_is_aligned_left(cell: str) -> None:
    assert pages.table(["words", ""], [[cell, "1"]]).splitlines()[1] == "| --- | ---: |"


def test_a_spread_is_mean_and_deviation_of_what_is_known_in_per_cent() -> None:
    assert pages.spread([0.5, None, 0.7]) == "60.0 ± 14.1"
    assert pages.spread([0.5]) == "50.0"
    assert pages.spread([None]) == "-"


def test_a_section_is_replaced_in_its_page_and_nothing_else_is(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    first, second = (pages.section(title, f"benchmarks/{title}.py from x", "old") for title in ("a", "b"))
    path.write_text(f"# Both\n\n{first}\n{second}\nthe end\n")
    new = pages.section("A", "benchmarks/a.py from x", "", "new")
    pages.write_section(path, new)
    assert path.read_text() == f"# Both\n\n{new}\n{second}\nthe end\n"
    assert "## A\n\nnew\n" in new
    with pytest.raises(ValueError, match="not enough values"):
        pages.write_section(path, pages.section("C", "benchmarks/c.py from x", "new"))


def test_a_record_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "record.json"
    assert records.load(path) == {}
    records.save(path, {"rows": 1})
    with pytest.raises(TypeError):
        records.save(path, {"rows": torch.zeros(1)})
    assert records.load(path) == {"rows": 1}
    assert list(path.parent.iterdir()) == [path]


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
    assert benchmark.render(results) in benchmark.PAGE.read_text()
    assert [row["rows"] for row in results["speed"]] == benchmark.SIZES
    assert [row["rows"] for row in results["highs"]] == benchmark.HIGHS_SIZES


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


def test_the_page_on_the_speed_of_training_is_written_from_the_record() -> None:
    import training

    results = json.loads(training.RESULTS.read_text())
    assert training.render(results) in training.PAGE.read_text()
    assert list(results["problems"]) == list(training.PROBLEMS)


def test_the_page_on_adversarial_training_is_written_from_the_records() -> None:
    found = adversarial.load_records()
    assert adversarial.PAGE.read_text() == adversarial.render(found)
    cells = {(each["method"], each["noise"], each["seed"]) for each in found}
    assert cells == set(product(adversarial.METHODS, adversarial.NOISE, adversarial.SEEDS))
    assert adversarial.PAGE.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_the_page_on_coverage_is_written_from_the_record_which_reaches_its_target() -> None:
    record = records.load(covered.RECORD)
    assert covered.PAGE.read_text() == covered.render(record)
    assert not record or covered.total(record)["lines_run"] >= covered.TARGET * covered.total(record)["lines"]


def test_coverage_is_summed_by_folder_and_judged() -> None:
    def found(lines: int, run: int) -> dict[str, object]:
        branches = {"num_branches": 0, "covered_branches": 0}
        return {"summary": {"num_statements": lines, "covered_lines": run, **branches}}

    names = {"losses.py": (10, 9), "weights/states.py": (1000, 980), "auditing/report/page.py": (90, 90)}
    report = {"files": {f"src/rockafellian/{name}": found(*counts) for name, counts in names.items()}}
    report["files"]["src/rockafellian/weights/states.py"]["summary"] |= {"num_branches": 4, "covered_branches": 3}
    page = covered.render({**records.about("make coverage", "coverage"), "folders": covered.by_folder(report)})
    assert "| weights/ | 1,000 | 98.0% | 4 | 75.0% |" in page
    assert "| the top folder | 10 | 90.0% | 0 | - |" in page
    assert "| all | 1,100 | 98.1% | 4 | 75.0% |" in page
    assert "| 95% of the lines | 98.1% | yes |" in page


def test_the_page_on_faults_is_written_from_the_record_and_no_fault_is_missed_that_was_caught_before() -> None:
    record = json.loads(faults.RECORD.read_text())
    assert faults.PAGE.read_text() == faults.render(record)
    assert len(record["faults"]) >= 60
    assert all(entry["caught"]["after"] or not entry["caught"]["before"] for entry in record["faults"])


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("if a < b:\n    pass", {"if a <= b:\n    pass", "if not a < b:\n    pass"}),
        ("x = a + 2", {"x = a - 2", "x = a + 3"}),
        ("return a and (not b)", {"return None", "return a or not b", "return a and b"}),
        ("f(a, key=True)", {"pass", "f(a, key=False)"}),
    ],
)
def test_a_fault_is_one_change_of_a_statement(line: str, wrong: set[str], tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("def g(a, b):\n" + textwrap.indent(line, "    "))
    found = [(fault, ast.unparse(tree)) for fault, tree, _ in faults.faults(path, "module.py")]
    assert {fault.after for fault, _ in found} == wrong
    assert {(fault.function, fault.before) for fault, _ in found} == {("g", line)}
    assert all(textwrap.indent(fault.after, "    ") in text for fault, text in found)


def test_a_fault_of_a_module_that_is_gone_is_neither_caught_nor_missed(tmp_path: Path) -> None:
    fault = faults.Fault("moved.py", "g", "x = 1", "x = 2")
    assert faults.caught_by(fault, tmp_path, tmp_path / ".coverage", set(), set()) is None


def test_faults_are_drawn_by_seed_from_the_library_and_the_reproduction() -> None:
    drawn = faults.draw(records.BENCHMARKS.parent, seed=0)
    assert drawn == faults.draw(records.BENCHMARKS.parent, seed=0)
    modules = {fault.module for fault in drawn}
    assert {"method/reweight.py", "losses.py", "cells.py"} & modules
    assert len(modules) > 50


def test_the_page_on_digits_is_written_from_the_record() -> None:
    record = json.loads(digits.RESULTS.read_text())
    assert digits.render(record) in digits.PAGE.read_text()
    assert all(len(summary["seeds"]) == digits.SEEDS for summary in record.values())
    assert all(row["rrm"] - row["plain"] >= 0.2 for row in record["standardized"]["seeds"])


def test_the_page_on_one_process_and_several_is_written_from_the_record() -> None:
    record = json.loads(together.RESULTS.read_text())
    assert together.render(record) in together.PAGE.read_text()
    in_double = [row for row in record["rows"] if row["precision of the network"] == "double"]
    assert {row["processes"] for row in in_double} == set(together.PROCESSES)
    assert all(row["same rows removed"] and row["weights differ by"] <= 1e-6 for row in in_double)


def test_the_page_on_the_noise_rate_is_written_from_the_record() -> None:
    record = json.loads(noise_rate.RESULTS.read_text())
    assert noise_rate.PAGE.read_text() == noise_rate.render(record)
    assert {cell["seed"] for cell in record["cells"]} == set(noise_rate.SEEDS)
    assert {cell["set"] for cell in record["cells"]} == set(noise_rate.SETS)
    clean, mean, _, held, narrow = (met for *_, met in noise_rate.targets(record["cells"]))
    assert all((clean, mean, held, narrow))


def test_the_page_on_right_labels_is_written_from_the_record() -> None:
    record = json.loads(ambiguous.RESULTS.read_text())
    assert ambiguous.PAGE.read_text() == ambiguous.render(record)
    assert list(record["sets"]) == ambiguous.names()
    runs = [run for seeds in record["sets"].values() for run in seeds.values()]
    assert all(run.keys() == ambiguous.METHODS.keys() for run in runs)
    assert {*map(str, ambiguous.SEEDS)} == {seed for seeds in record["sets"].values() for seed in seeds}


def test_right_labels_are_split_trained_on_and_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ambiguous, "ROWS", 400)
    monkeypatch.setattr(ambiguous, "EPOCHS", 20)
    split = ambiguous.load("rating of 3 classes", seed=5)
    assert (len(split.y), len(split.test_y), split.n_classes) == (280, 120, 3)
    plain, default = (ambiguous.run(split, rule, seed=5) for rule in (None, rk.RRM()))
    assert plain.keys() == {"accuracy", "log_loss", "macro_f1"}
    assert default["claimed"] <= default["removed"] <= default["of_class"]
    assert default["removed"] <= 0.05


def test_a_table_from_a_package_is_refused_if_it_is_not_the_one_that_was_checked(tmp_path: Path) -> None:
    archive = real_tables.SETS["titanic"].archive
    (tmp_path / archive.file).write_bytes(b"something else")
    with pytest.raises(ValueError, match=f"{archive.file} has SHA-256 .*, expected {archive.sha256}"):
        real_tables.SETS["titanic"].load(tmp_path)


def test_columns_of_a_table_become_numbers() -> None:
    frame = pd.DataFrame({"size": [1.0, 3.0, np.nan, 5.0], "kind": ["a", "b", "a", None], "flag": [0, 1, 1, 0]})
    found = real_tables.encode(frame)
    assert found.notna().all().all()
    assert set(found["flag"]) == {0, 1}
    assert found.shape[0] == 4


def test_a_set_of_data_is_drawn_mislabeled_and_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise_rate, "SETS", {"two": ("crisp", noise_rate.separated(2))})
    monkeypatch.setattr(noise_rate, "ROWS", (200,))
    found = list(noise_rate.cells(seed=7))
    assert [round(cell["rate"], 1) for cell in found] == [0.0, 0.1, 0.3, 0.4]
    assert all(cell["floor"][1] <= cell["rate"] <= cell["ceiling"][2] for cell in found)


def test_the_page_on_hostile_input_is_written_from_the_record() -> None:
    record = json.loads(robustness.RESULTS.read_text())
    assert robustness.PAGE.read_text() == robustness.render(record)
    assert record["fuzz"]["cases"] == robustness.CASES
    assert record["fuzz"]["problems"] == []


def test_the_page_on_own_data_is_written_from_the_records() -> None:
    paths = (own_data.RESULTS, own_data.MEMORY, own_data.SPEED, own_data.CLEAN)
    record, large, speed, clean = (json.loads(path.read_text()) for path in paths)
    assert own_data_page.render(record, large, speed, clean) in own_data.PAGE.read_text()
    assert list(clean) == list(own_data.CLEAN_CASES)
    assert list(speed) == [*own_data_speed.CASES, own_data_speed.TUTORIAL_CASE]


def test_every_set_of_own_data_is_on_record_with_all_seeds() -> None:
    record, large = (json.loads(path.read_text()) for path in (own_data.RESULTS, own_data.MEMORY))
    assert list(record) == list(own_data.CASES)
    assert all([run["seed"] for run in found["flipped"]] == list(own_data.SEEDS) for found in record.values())
    assert large["settings"]["rows"] == own_data.ROWS


def few_rows(seed: int) -> own_data.Data:
    """60 rows of a table."""
    whole = own_data.cancer(seed)

    def write(folder: Path, given: list[str]) -> Path:
        path = whole.write(folder, given + ["benign"] * (len(whole.truth) - len(given)))
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:61]))
        return path

    return own_data.Data(whole.truth[:60], whole.classes, write)


def test_the_command_is_run_on_flipped_and_on_clean_labels_and_judged() -> None:
    case = own_data.Case(few_rows, ("--label", "diagnosis", "--crisp", "--epochs", "10"), 0.7)
    found = own_data.measure(case, seeds=(0,))
    assert json.loads(json.dumps(found)) == found
    flipped, clean = found["flipped"][0], found["clean"]
    assert (flipped["rows"], flipped["wrong"], clean["wrong"]) == (60, 12, 0)
    assert clean["f1"] is None
    assert min(flipped["seconds"], flipped["processor_seconds"]) > 0
    f1, seconds = own_data_page.targets({"cancer": found})
    assert f1.met == (flipped["f1"] >= 0.7)
    assert seconds.met
    assert "| cancer | 0 | 60 | 12 |" in own_data_page.render({"cancer": found})


def test_a_command_that_fails_is_no_figure() -> None:
    case = own_data.Case(few_rows, ("--label", "nothing"), 0.7)
    with pytest.raises(ValueError, match="'nothing'"):
        own_data.measure(case, seeds=(0,))


def test_of_clean_data_the_largest_fraction_flagged_is_judged() -> None:
    found = own_data.measure_clean(few_rows, ("--label", "diagnosis", "--epochs", "10"), seeds=(0,))
    assert [run["wrong"] for run in found["runs"]] == [0]
    one, other = ({**found["runs"][0], "flagged": flagged, "in_doubt": 0.2} for flagged in (0.01, 0.04))
    record = json.loads(own_data.RESULTS.read_text())
    for runs, row in (
        ([one, one], "| few | 3.0% | 1.0% | 1.0% | 20.0% | yes |"),
        ([one, other], "| few | 3.0% | 2.5% | 4.0% | 20.0% | **no** |"),
    ):
        assert row in own_data_page.render(record, clean={"few": {**found, "runs": runs}})


def test_findings_are_matched_to_flips_by_name_not_by_order(tmp_path: Path) -> None:
    flagged = pa.table({"id": ["0/0002.png", "1/0000.png", "1/0001.png"], "is_label_issue": [True, False, True]})
    pyarrow.parquet.write_table(flagged, tmp_path / "findings.parquet")
    (tmp_path / "summary.json").write_text('{"noise_rate": null, "doubtful_rows": 0, "seconds": 1.0}')
    found = own_data.judge(tmp_path, torch.tensor([False, False, True]))
    assert (found["precision"], found["recall"], found["flagged"]) == (0.5, 1.0, pytest.approx(2 / 3))


def test_an_image_folder_has_every_digit_under_the_label_given(tmp_path: Path) -> None:
    data = own_data.digits(0)
    given = [data.classes[(label + 1) % 10] for label in data.truth]
    files = sorted(data.write(tmp_path, given).rglob("*.png"), key=lambda file: file.stem)
    assert [file.parent.name for file in files] == given


def test_the_large_table_has_classes_that_its_numbers_tell_and_a_known_part_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_data, "BLOCK", 700)  # the last block is a short one
    wrong = own_data.write_large(tmp_path / "large.csv", 2_000, seed=0).numpy()
    written = pyarrow.csv.read_csv(tmp_path / "large.csv")
    assert written.shape == (2_000, own_data.NUMBERS + 1)
    assert wrong.mean() == own_data.SHARE
    from sklearn.linear_model import LogisticRegression

    x, y = written.drop(["label"]).to_pandas().to_numpy(), np.array(written["label"].to_pylist())
    predicted = LogisticRegression().fit(x[~wrong], y[~wrong]).predict(x)
    assert (predicted == y)[~wrong].mean() > 0.95
    assert (predicted == y)[wrong].mean() < 0.05


def test_a_target_is_met_or_not_by_the_figures() -> None:
    run = {"f1": 0.9, "seconds": 10.0}
    found = {"targets": {"f1": 0.8, "seconds": 120}, "flipped": [run, {**run, "f1": 0.6}], "clean": run}
    large = {"targets": {"bytes": 6e9}, "peak_bytes": 7e9}
    judged = own_data_page.targets({"digits": found}, large)
    assert [(each.what, each.met) for each in judged] == [("F1", False), ("seconds", True), ("memory", False)]
    slow = {"digits": {**found, "clean": {**run, "seconds": 120.0}}}
    assert not own_data_page.targets(slow)[1].met


def test_the_page_on_reviews_is_written_from_its_record() -> None:
    record = json.loads(review.RESULTS.read_text())
    assert review.PAGE.read_text() == review.render(record)
    assert list(record["cases"]) == list(review.CASES)


def test_a_review_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review, "ROWS", 600)
    monkeypatch.setattr(review, "RUNS", 20)
    found = review.run(review.CASES["rating of 5 classes, 10 %"])
    assert found["rate"] == pytest.approx(0.1, abs=0.01)
    assert sum(band[0] for band in found["bands"]) == 600
    widths = [found["reviews"][str(clicks)]["width"] for clicks in review.CLICKS]
    assert 1 > widths[0] > widths[1] > widths[2] > 0
    assert all(0 < accuracy < 1 for accuracy in found["accuracies"][0])


def test_the_page_on_tweets_is_written_from_its_record() -> None:
    record = json.loads(tweets.RESULTS.read_text())
    assert tweets.PAGE.read_text() == tweets.render(record)
    assert list(record["seeds"]) == list(map(str, tweets.SEEDS))


def test_a_tweet_gets_the_label_of_one_of_those_who_judged_it(tmp_path: Path) -> None:
    votes = [(3, 0, 0, 0), (0, 2, 1, 1), (0, 0, 4, 2)] * 200
    lines = [
        f'{i},{sum(each[:3])},{",".join(map(str, each))},"word{i % 3} word{i % 5}"' for i, each in enumerate(votes)
    ]
    header = ",count,hate_speech,offensive_language,neither,class,tweet"
    (tmp_path / tweets.FILE).write_text("\n".join([header, *lines]))
    rows = tweets.draw(tweets.read(tmp_path), seed=0)
    counts = np.bincount(rows.y, minlength=3)
    assert len(rows.y) == 480
    assert rows.wrong.sum() == pytest.approx(480 / 9, abs=25)  # a third of the tweets has one vote of three against it
    assert counts[0] == pytest.approx(160, abs=25)
    assert not rows.wrong[rows.y == 0].any()
    with pytest.raises(FileNotFoundError, match=r"need .*labeled_data"):
        tweets.read(tmp_path / "elsewhere")


def test_the_page_on_natural_errors_is_written_from_its_record() -> None:
    record = json.loads(natural_errors.RESULTS.read_text())
    assert natural_errors.PAGE.read_text() == natural_errors.render(record)
    assert list(record["seeds"]) == list(map(str, natural_errors.SEEDS))


def test_confirmed_errors_are_those_that_most_people_call_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    votes = {"test/neg/10000_4": 2, "test/neg/0_2": 3, "test/pos/1_9": 0}
    content = [{"id": name, "mturk": {"given": given}} for name, given in votes.items()]
    (tmp_path / "imdb_mturk.json").write_text(json.dumps(content))
    monkeypatch.setattr(
        natural_errors.fetch, "find", lambda *_: SimpleNamespace(form=SimpleNamespace(kind="acl folder"))
    )
    confirmed, judged = natural_errors.confirmed_errors(tmp_path), natural_errors.judged(tmp_path)
    assert judged.nonzero().flatten().tolist() == [0, 10_000, 12_501]
    assert confirmed.nonzero().flatten().tolist() == [10_000, 12_501]
    with pytest.raises(FileNotFoundError, match="need imdb_mturk"):
        natural_errors.confirmed_errors(tmp_path / "elsewhere")
