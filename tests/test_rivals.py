import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from rivals import cells, coteaching, losses, measures, memory, neighbors, noise, page, recent, self_confidence
from rivals.__main__ import main, read_options
from rivals.cells import Cell
from rivals.data import DATA, Clean
from rivals.methods import METHODS
from rivals.outcome import Outcome
from rivals.problem import Problem, with_noise

DIGITS = DATA["digits"]
SMALL = replace(DIGITS, epochs=8, noises=("none", "uniform-0.2"))


@pytest.fixture
def small_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data set digits with 400 rows and four epochs."""

    def load(seed: int) -> Clean:
        found = DIGITS.load(seed)
        return Clean(found.x[:400], found.y[:400], found.test_x[:100], found.test_y[:100])

    monkeypatch.setitem(DATA, "digits", replace(SMALL, load=load))


def run_small(results: Path, *methods: str) -> None:
    for noise_name in SMALL.noises:
        cells.run(Cell("digits", noise_name, 0), results, methods or None)


@pytest.mark.filterwarnings("ignore:the run ended before the noise rate")  # eight epochs are few
@pytest.mark.usefixtures("small_digits")
def test_every_method_runs_and_the_page_is_written_from_its_record(tmp_path: Path) -> None:
    run_small(tmp_path)
    records = cells.load(tmp_path)
    assert [record["about"]["noise"] for record in records] == ["none", "uniform-0.2"]
    assert all(record["methods"].keys() == METHODS.keys() for record in records)
    noisy = records[1]["methods"]
    assert records[1]["about"]["true_rate"] == 0.2
    assert all(0.2 < found["accuracy"] <= 1 and found["cpu_seconds"] > 0 for found in noisy.values())
    assert all(found["auprc"] > 0.25 for name, found in noisy.items() if name != "ce")
    assert noisy["aum"]["accuracy"] == noisy["ce"]["accuracy"]
    assert noisy["rrm"]["rate_low"] <= noisy["rrm"]["rate"] <= noisy["rrm"]["rate_high"]
    text = page.render(records)
    chosen = page.Summary(records).chosen
    assert (
        f"noise rate: mean absolute error of `{chosen}`, clean labels and uniform noise up to 40 % | at most 2.0 |"
        in text
    )
    assert "## Limits" in text
    for draw in page.PICTURES.values():
        draw(page.Summary(records)).savefig(tmp_path / "picture.png")


@pytest.mark.usefixtures("small_digits")
def test_a_run_that_was_interrupted_runs_what_is_missing_and_nothing_else(tmp_path: Path) -> None:
    run_small(tmp_path, "ce", "aum")
    path = Cell("digits", "none", 0).path(tmp_path)
    record = json.loads(path.read_text())
    assert list(record["methods"]) == ["ce", "aum"]
    record["methods"]["ce"]["accuracy"] = "as it was"
    path.write_text(json.dumps(record))
    run_small(tmp_path, "ce", "mae")
    found = json.loads(path.read_text())["methods"]
    assert list(found) == ["ce", "aum", "mae"]
    assert found["ce"]["accuracy"] == "as it was"
    assert not list(tmp_path.glob("*.partial"))
    assert cells.run(Cell("digits", "none", 0), tmp_path, ("ce", "mae")) == {}
    cells.forget(Cell("digits", "none", 0), tmp_path, ["ce"])
    assert cells.missing(Cell("digits", "none", 0), tmp_path, ("ce", "mae")) == ["ce"]


@pytest.mark.usefixtures("small_digits")
def test_records_of_other_settings_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_small(tmp_path, "ce")
    monkeypatch.setitem(DATA, "digits", replace(DATA["digits"], lr=0.01))
    with pytest.raises(ValueError, match="has others; remove it"):
        run_small(tmp_path, "mae")


def test_the_command_reads_names_and_refuses_unknown_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert read_options(["--only", "digits,imdb", "--methods", "ce,rrm"]).methods == ["ce", "rrm"]
    with pytest.raises(SystemExit):
        main(["--only", "letters"])
    assert "expected some of digits, cancer" in capsys.readouterr().err


def test_the_page_is_written_from_the_records() -> None:
    records = cells.load()
    assert page.PAGE.read_text() == page.render(records, memory.load())
    for name in page.PICTURES:
        assert (page.PAGE.parent / name).read_bytes().startswith(b"\x89PNG")


def test_a_ranking_is_measured_against_the_wrong_rows() -> None:
    wrong = torch.tensor([True, False, True, False])
    best = measures.of_ranking(torch.tensor([0.1, 0.8, 0.2, 0.9]), wrong)
    assert best == {"auprc": 1.0, "auroc": 1.0, "missed_at_true_rate": 0.0}
    half = measures.of_ranking(torch.tensor([0.1, 0.2, 0.8, 0.9]), wrong)
    assert half == pytest.approx({"auprc": (1 + 2 / 3) / 2, "auroc": 0.75, "missed_at_true_rate": 0.5})
    assert set(measures.of_ranking(torch.rand(4), torch.zeros(4).bool()).values()) == {None}
    assert set(measures.of_ranking(None, wrong).values()) == {None}


def test_flags_are_measured_against_the_wrong_rows() -> None:
    wrong = torch.tensor([True, True, True, False, False])
    flags = torch.tensor([True, False, False, True, False])
    assert measures.of_flags(flags, wrong) == pytest.approx(
        {"flagged": 0.4, "precision": 0.5, "recall": 1 / 3, "f1": 0.4}
    )
    assert measures.of_flags(~wrong & wrong, wrong)["precision"] == 0
    clean: dict[str, Any] = measures.of_flags(flags, torch.zeros(5).bool())
    assert clean == {"flagged": 0.4, "precision": None, "recall": None, "f1": None}


def test_flags_are_counted_by_given_class() -> None:
    problem = Problem(
        x=torch.zeros(5, 1),
        y=torch.tensor([0, 0, 0, 1, 1]),
        wrong=torch.tensor([True, False, False, True, True]),
        test_x=torch.zeros(2, 1),
        test_y=torch.tensor([0, 1]),
        n_classes=2,
        setting=SMALL,
    )
    found = measures.by_class(torch.tensor([True, True, False, True, False]), problem)
    assert found == {
        "flagged_by_class": [pytest.approx(2 / 3), 0.5],
        "right_flagged_by_class": [0.5, None],
        "wrong_by_class": [pytest.approx(1 / 3), 1.0],
    }


def test_rates_and_tests_are_measured() -> None:
    guess = Outcome(nn.Identity(), 1.0, rate=0.3, low=0.2, high=0.4, floor=0.1)
    found = measures.of_rate(guess, 0.25)
    assert found == {"rate": 0.3, "rate_error": pytest.approx(0.05), "rate_low": 0.2, "rate_high": 0.4, "floor": 0.1}
    logits = torch.tensor([[2.0, 1.0], [0.0, 1.0], [3.0, 0.0]])
    tested = measures.on_the_test(logits, torch.tensor([1, 1, 0]))
    assert tested == {"accuracy": pytest.approx(2 / 3), "test_auprc": 1.0}


def test_margins_are_those_of_the_given_label_and_add_up_in_training_only() -> None:
    logits, labels = torch.tensor([[3.0, 1.0, 0.0], [0.0, 5.0, 1.0]]), torch.tensor([0, 2])
    assert losses.margins(logits, labels).tolist() == [2, -4]
    kept = losses.Recorded(nn.CrossEntropyLoss(reduction="none"), 3)
    for _ in range(2):
        kept(logits, labels, index=torch.tensor([2, 0]))
    kept.eval()(logits, labels, index=torch.tensor([2, 0]))
    assert kept.total.tolist() == [-8, 0, 4]


@pytest.mark.parametrize("name", ["none", "uniform-0.4", "kernel-0.3", "one-sided-0.3", "feature-0.2"])
def test_noise_marks_what_it_changes(name: str) -> None:
    y = torch.arange(2_000) % 10
    x = nn.functional.one_hot(y).float() + 0.3 * torch.randn(2_000, 10, generator=torch.Generator().manual_seed(0))
    given = noise.mislabel(name, x, y, seed=1)
    assert torch.equal(given.mask, given.labels != y)
    assert torch.equal(given.labels, noise.mislabel(name, x, y, seed=1).labels)
    if noise.kind_of(name) == "one-sided":
        assert set((given.labels - y)[given.mask & (y < 9)].tolist()) == {1}
        assert set((y[given.mask] % 2).tolist()) == {1}


def test_one_sided_noise_of_two_classes_makes_a_share_of_the_positives_wrong() -> None:
    y = torch.arange(1_000) % 2
    given = noise.mislabel("one-sided-0.3", torch.zeros(1_000, 1), y, seed=0)
    assert float(given.mask[given.labels == 1].float().mean()) == pytest.approx(0.3, abs=1e-3)
    assert not given.mask[given.labels == 0].any()


def test_coteaching_learns_from_fewer_rows_as_its_ramp_rises() -> None:
    shares = [coteaching.kept_share(epoch, 0.4) for epoch in (0, 5, 10, 20)]
    assert shares == pytest.approx([1, 0.8, 0.6, 0.6])


def test_networks_of_one_seed_are_one_network_and_leave_the_users_stream_alone() -> None:
    rows = Clean(torch.zeros(4, 3), torch.tensor([0, 1, 0, 1]), torch.zeros(2, 3), torch.tensor([0, 1]))
    problem = with_noise(rows, "none", 0, SMALL)
    before = torch.random.get_rng_state()
    first, again, other = (problem.network(seed)[0].weight for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.random.get_rng_state())


def test_neighbors_vote_without_the_row_itself() -> None:
    x = torch.tensor([[1.0, 0.0], [1.0, 0.1], [1.0, -0.1], [0.0, 1.0], [0.1, 1.0], [-0.1, 1.0]])
    labels = torch.tensor([1, 0, 0, 1, 1, 1])
    quality, flags = neighbors.judged(neighbors.votes(x, labels, 2, k=2), labels)
    assert flags.tolist() == [True, False, False, False, False, False]
    assert quality.argmin() == 0
    assert quality[3] == 1


def test_self_confidence_flags_unlikely_labels_that_are_not_predicted() -> None:
    probabilities = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.45, 0.55], [0.6, 0.4]])
    quality, flags = self_confidence.judged(probabilities, torch.tensor([0, 0, 1, 1]))
    assert quality.tolist() == pytest.approx([0.9, 0.2, 0.55, 0.4])
    assert flags.tolist() == [False, True, False, True]
    _, of_likely = self_confidence.judged(torch.tensor([[0.4, 0.6], [0.3, 0.7]]), torch.tensor([0, 0]))
    assert of_likely.tolist() == [False, True]  # the first is likelier than the mean of its label


def test_gaussians_find_rows_of_another_cluster() -> None:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(200, 3, generator=random)
    x[100:, 0] += 12
    labels = torch.arange(200) // 100
    labels[:5] = 1
    found = recent.log_posteriors(x.double().numpy(), labels.numpy(), 0)
    quality, flags = recent.judged(found, labels)
    assert flags.nonzero().flatten().tolist() == [0, 1, 2, 3, 4]
    assert quality.topk(5, largest=False).indices.sort().values.tolist() == [0, 1, 2, 3, 4]
