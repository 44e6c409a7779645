import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import rockafellian as rk
from rockafellian_reproduction.datasets import Images, Texts
from rockafellian_reproduction.tables import TABLES, TRIAL
from rockafellian_reproduction.tables.recipes import Recipe
from rockafellian_reproduction.training import problems
from rockafellian_reproduction.training.cells import make_loss, make_optimizer, make_weights, train_cell
from rockafellian_reproduction.training.epoch_log import EpochLog, count_bins
from rockafellian_reproduction.training.measures import measure_ranking

ROBUST = {"method": "RRM", "contamination": 0.4}


def tiny(number: int, scale: str = "network", **changes: object):
    """A table of the paper at a scale of seconds."""
    table = TABLES[number]
    return replace(table, scales={scale: replace(table.scales[scale], **changes)})


@pytest.fixture
def mnist(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images in ten classes that a small network can tell apart: a bright bar at the class's place."""
    random = np.random.default_rng(0)

    def draw(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.arange(n) % 10
        images = torch.from_numpy(random.integers(0, 40, (n, 28, 28), dtype=np.uint8))
        for image, label in zip(images, labels, strict=True):
            image[2 * int(label) : 2 * int(label) + 6] = 250
        return images, labels

    images = Images(*draw(300), *draw(60))
    monkeypatch.setattr(problems.datasets, "images", lambda *_: images)


def test_a_cell_is_trained_and_recorded_on_embedded_data(tmp_path) -> None:
    record = train_cell(TRIAL, "paper", ROBUST, seed=1, work=tmp_path)
    assert json.loads(json.dumps(record)) == record
    assert record["rows"] == {"train": 1198, "wrong": 479, "validation": 0, "test": 599}
    assert record["results"]["test accuracy"] > 60
    assert list(record["tested"]) == ["3", "6", "9", "12"]
    assert record["tested"]["12"] == record["results"]["test accuracy"]
    assert [made["epoch"] for made in record["rounds"]] == [3, 6, 9]
    assert all(0 < made["rule_seconds"] <= made["seconds"] for made in record["rounds"])
    assert [list(map(sum, counts)) for counts in record["bins"]] == [[479, 719]] * 3
    assert sum(record["bins"][-1][0][5:]) / 479 == pytest.approx(record["rounds"][-1]["recall"], abs=1e-3)


def test_a_cell_that_is_interrupted_ends_as_if_it_had_not_been(tmp_path, monkeypatch) -> None:
    whole = train_cell(TRIAL, "paper", ROBUST, seed=0, work=tmp_path / "whole")
    add_line = EpochLog.__call__

    def killed(self: EpochLog, epoch: rk.Epoch) -> None:
        add_line(self, epoch)
        if epoch.epoch == 7:
            raise KeyboardInterrupt

    monkeypatch.setattr(EpochLog, "__call__", killed)
    with pytest.raises(KeyboardInterrupt):
        train_cell(TRIAL, "paper", ROBUST, seed=0, work=tmp_path / "killed")
    monkeypatch.undo()
    resumed = train_cell(TRIAL, "paper", ROBUST, seed=0, work=tmp_path / "killed")
    for part in ("results", "tested", "bins"):
        assert resumed[part] == whole[part]
    assert len(resumed["rounds"]) == len(whole["rounds"])


def test_batches_as_in_the_authors_script_change_the_training_and_not_its_quality(tmp_path) -> None:
    as_script = replace(TRIAL, scales={"paper": replace(TRIAL.paper, batches="script")})
    usual, script = (
        train_cell(table, "paper", ROBUST, seed=0, work=tmp_path / name)
        for name, table in (("usual", TRIAL), ("script", as_script))
    )
    assert usual["bins"] != script["bins"]
    assert abs(usual["results"]["test accuracy"] - script["results"]["test accuracy"]) < 5


def test_a_training_that_diverges_is_recorded_as_such(tmp_path) -> None:
    table = replace(TRIAL, scales={"paper": replace(TRIAL.paper, learning_rate=1e30)})
    record = train_cell(table, "paper", ROBUST, seed=0, work=tmp_path)
    assert record["results"] == {}
    assert "diverged" in record["diverged"]


@pytest.mark.usefixtures("mnist")
def test_the_attacked_table_measures_every_eps_in_both_readings(tmp_path) -> None:
    table = tiny(4, epochs=2, every=1, train_rows=200, test_rows=40)
    record = train_cell(table, "network", {"method": "A-RRM", "contamination": 0.2}, seed=0, work=tmp_path)
    results = record["results"]
    published = {figure.measure for figure in table.published}
    assert results.keys() == {
        *(
            f"{validation}{attack}{name}"
            for name in published
            for validation in ("", "attacked validation, ")
            for attack in ("", "summed ")
        ),
        *(f"last, {name}" for name in published),
    }
    assert results["eps 0"] == results["summed eps 0"]
    assert results["eps 0.1"] == results["summed eps 0.1"]
    assert record["rows"] == {"train": 160, "wrong": 32, "validation": 40, "test": 40}
    assert len(record["validation"]) == 2


@pytest.mark.usefixtures("mnist")
def test_both_validations_are_recorded_and_an_interruption_changes_nothing(tmp_path, monkeypatch) -> None:
    table = tiny(4, "network", epochs=4, every=1, train_rows=200, test_rows=40, tested_every=1, learning_rate=0.05)
    cell = {"method": "A-RRM", "contamination": 0.2}
    whole = train_cell(table, "network", cell, seed=0, work=tmp_path / "whole")
    published = {figure.measure for figure in table.published}
    assert {f"attacked validation, {name}" for name in published} < whole["results"].keys()
    add_line = EpochLog.__call__

    def killed(self: EpochLog, epoch: rk.Epoch) -> None:
        add_line(self, epoch)
        if epoch.epoch == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(EpochLog, "__call__", killed)
        with pytest.raises(KeyboardInterrupt):
            train_cell(table, "network", cell, seed=0, work=tmp_path / "killed")
    assert train_cell(table, "network", cell, seed=0, work=tmp_path / "killed")["results"] == whole["results"]


def test_of_several_rows_with_the_least_loss_one_takes_the_freed_weight() -> None:
    losses = torch.tensor([1e-7, 0.5, 1e-7, 9.0])
    weights = make_weights(TABLES[4].paper, {"method": "A-RRM", "contamination": 0.2}, 4)
    assert weights is not None
    one, threshold = weights.rule(losses, torch.ones(4))
    assert one.tolist() == pytest.approx([1.5, 1, 1, 0.5])
    assert threshold == pytest.approx(4, abs=1e-6)
    shared, same = rk.RRM(gamma=2.0, penalty="l1", spread="argmin", mu=0.5)(losses, torch.ones(4))
    assert shared.tolist() == pytest.approx([1.25, 1, 1.25, 0.5])
    assert same == threshold


def test_clipped_losses_are_for_re_weighting_and_keep_the_gradient_of_an_attack() -> None:
    problem = problems.Problem((torch.zeros(2, 1), torch.zeros(2)), torch.zeros(2, dtype=bool), None, None, 3, None)
    logits = torch.tensor([[40.0, 0.0, 0.0], [0.0, 90.0, 0.0]], requires_grad=True)
    labels = torch.tensor([0, 0])
    recipe = TABLES[3].recipe("paper", {"reweighted-by": "cce", "elr-beta": "0.9"})
    for name in ("cce", "mae", "mse", "elr"):
        loss = make_loss(recipe, {"loss": name, "method": "RRM", "contamination": 0.6}, problem)
        clipped = loss.eval()(logits, labels)
        assert clipped.tolist() == pytest.approx([1e-7, 16.118], rel=1e-3)
        (gradient,) = torch.autograd.grad(clipped.sum(), logits)
        assert gradient[1].abs().sum() > 1
    assert loss.beta == 0.9
    mae = make_loss(recipe, {"loss": "mae", "method": "RRM", "contamination": 0.6}, problem).train()
    assert mae(logits, labels).tolist() == pytest.approx([0, 2])


def test_ours_estimates_the_noise_rate_and_limits_what_a_class_can_lose(tmp_path) -> None:
    record = train_cell(TRIAL, "paper", ROBUST, seed=1, work=tmp_path, variant={"ours": "yes"})
    assert record["variant"] == {"ours": "yes"}
    assert record["command"] == "rockafellian reproduce 0 --scale paper --ours"
    assert record["recipe"]["ours"]
    weights = make_weights(TRIAL.recipe("paper", {"ours": "yes"}), ROBUST, 100, seed=1)
    assert weights is not None
    assert weights.rule == rk.RRM(crisp=True)
    assert weights.held_out is not None
    assert (weights.class_limit, weights.every, weights.per_class) == (0.9, 1, True)


@pytest.mark.usefixtures("mnist")
def test_images_become_features_of_a_frozen_encoder(monkeypatch) -> None:
    class Means(torch.nn.Module):
        def extract_features(self, images: torch.Tensor) -> torch.Tensor:
            assert images.shape[1:] == (3, 112, 112)
            return images

    colored = problems.datasets.images("cifar-10")
    colored = Images(*(part[..., None].expand(-1, -1, -1, 3) if part.ndim == 3 else part for part in colored))
    monkeypatch.setattr(problems.datasets, "images", lambda *_: colored)
    monkeypatch.setattr(problems, "cached", lambda _, compute: compute())
    monkeypatch.setattr(problems.efficientnet, "load", Means)
    problem = problems.make(TABLES[1].scales["features"], 0.2, seed=0)
    assert problem.train[0].shape == (300, 3)
    assert problem.test[0].shape == (60, 3)
    assert int(problem.wrong.sum()) == 60
    assert float(problem.train[0].mean()) == pytest.approx(0, abs=1e-5)
    assert float(problem.train[0].std()) == pytest.approx(1, abs=1e-3)
    assert problem.network()(problem.test[0]).shape == (60, 10)


@pytest.mark.usefixtures("mnist")
def test_training_and_validation_rows_are_mislabeled_alike_and_by_the_kernel() -> None:
    recipe = replace(TABLES[7].scales["network"], train_rows=200, test_rows=40)
    problem = problems.make(recipe, 0.25, seed=3)
    assert (len(problem.wrong), int(problem.wrong.sum())) == (160, 40)
    assert problem.valid is not None
    clean = problems.make(recipe, 0.0, seed=3)
    assert clean.valid is not None
    assert int((problem.valid[1] != clean.valid[1]).sum()) == 10
    assert torch.equal(problem.train[0], clean.train[0])
    changed = problem.train[1] != clean.train[1]
    assert torch.equal(changed, problem.wrong)
    pairs = zip(clean.train[1][changed].tolist(), problem.train[1][changed].tolist(), strict=True)
    assert all(problems.KERNEL[true][given] > 0 for true, given in pairs)
    assert clean.train[0].mean().abs() < 0.2
    assert clean.train[0].std() == pytest.approx(1, abs=0.1)


def test_all_reviews_keep_their_official_split(monkeypatch) -> None:
    texts = Texts([f"train {i}" for i in range(6)], torch.arange(6) % 2, ["a", "b"], torch.tensor([0, 1]))
    monkeypatch.setattr(problems.datasets, "encoder_folder", lambda _: "folder")
    monkeypatch.setattr(problems.datasets, "reviews", lambda _: texts)
    names = []

    def cached(name: str, compute) -> torch.Tensor:
        names.append(name)
        return torch.arange(8.0)[:, None]

    monkeypatch.setattr(problems, "cached", cached)
    recipe = replace(TABLES[9].scales["features"], valid_share=None)
    first, second = (problems.make(recipe, 0.0, seed) for seed in (0, 1))
    assert names == ["imdb-official-minilm-256"] * 2
    for made in (first, second):
        assert sorted(made.train[0].flatten().tolist()) == list(range(6))
        assert torch.equal(made.train[1], made.train[0].flatten().long() % 2)
        assert made.test[0].flatten().tolist() == [6, 7]
    assert not torch.equal(first.train[0], second.train[0])


def test_more_rows_than_there_are_is_an_error() -> None:
    with pytest.raises(ValueError, match="need 9 rows, got a data set of 8"):
        problems._draw(8, 9, seed=0)


def test_positive_comments_are_reduced_to_the_prevalence(monkeypatch) -> None:
    class Vectors:
        table = torch.eye(4)

        def rows(self, words):
            return [len(word) % 4 for word in words]

    texts = [f"{'bad' if i % 2 else 'good'} words number {i}" for i in range(400)]
    labels = torch.arange(400) % 2
    monkeypatch.setattr(problems.datasets, "comments", lambda _: (texts, labels))
    monkeypatch.setattr(problems.datasets, "word_vectors", Vectors)
    recipe = replace(TABLES[8].scales["paper"], train_rows=200, prevalence=0.1, tokens=3)
    problem = problems.make(recipe, 0.0, seed=0)
    given = torch.cat([problem.train[1], problem.test[1]])
    assert given.shape == (200, 6)
    assert int(given[:, 0].sum()) == 20
    assert torch.equal(given[:, 0], given[:, 5])
    assert problem.train[0].shape == (160, 3)
    toxic = problem.train[1][:, 0] == 1
    assert set(problem.train[0][toxic, 0].tolist()) == {3}  # "bad"
    assert set(problem.train[0][~toxic, 0].tolist()) == {0}  # "good"
    assert problem.network()(problem.train[0]).shape == (160, 6)


def test_reviews_are_split_by_seed_from_a_fixed_selection(monkeypatch, tmp_path) -> None:
    reviews = Texts(
        [f"t{i}" for i in range(50)], torch.arange(50) % 2, [f"u{i}" for i in range(50)], torch.arange(50) % 2
    )
    monkeypatch.setenv("ROCKAFELLIAN_CACHE", str(tmp_path))
    monkeypatch.setattr(problems.datasets, "reviews", lambda _: reviews)
    monkeypatch.setattr(problems.datasets, "encoder_folder", lambda name: tmp_path / name)
    number = lambda text: float(text[1:]) + (100 if text[0] == "u" else 0)  # noqa: E731
    monkeypatch.setattr(
        problems.encoders,
        "embed",
        lambda folder, texts, length, dtype: torch.tensor([[number(text), 1.0] for text in texts]),
    )
    recipe = replace(TABLES[9].scales["features"], train_rows=40, test_rows=20, valid_share=None)
    made = [problems.make(recipe, 0.0, seed) for seed in (0, 1)]
    pools = [set(torch.cat([one.train[0], one.test[0]])[:, 0].tolist()) for one in made]
    assert pools[0] == pools[1]
    assert len(pools[0]) == 60
    assert not torch.equal(made[0].train[0], made[1].train[0])
    for one in made:
        assert torch.equal(one.train[0][:, 0] % 2, one.train[1].float())


def test_reviews_are_token_ids_for_lora(monkeypatch, tmp_path) -> None:
    reviews = Texts(["a"] * 20, torch.arange(20) % 2, ["b"] * 20, torch.arange(20) % 2)
    monkeypatch.setattr(problems.datasets, "reviews", lambda _: reviews)
    monkeypatch.setattr(problems.datasets, "encoder_folder", lambda name: tmp_path / name)
    monkeypatch.setattr(
        problems.encoders, "token_ids", lambda folder, texts, length: torch.ones(len(texts), length).long()
    )
    monkeypatch.setattr(problems.encoders, "lora", lambda folder: folder)
    problem = problems.make(TABLES[9].paper, 0.25, seed=0)
    assert problem.train[0].shape == (16, 512)
    assert problem.valid is not None
    assert problem.valid[0].shape == (4, 512)
    assert problem.test[0].shape == (20, 512)
    assert problem.network() == tmp_path / "distilbert"


def test_weak_labels_leave_a_quarter_of_the_positives_true(monkeypatch, tmp_path) -> None:
    labels = torch.arange(4000) % 10
    pixels = torch.zeros(4000, 2, 2, 3, dtype=torch.uint8) + labels[:, None, None, None].to(torch.uint8)
    monkeypatch.setenv("ROCKAFELLIAN_CACHE", str(tmp_path))
    monkeypatch.setattr(problems.datasets, "images", lambda *_: Images(pixels, labels, pixels, labels))
    monkeypatch.setattr(problems.datasets, "encoder_folder", lambda name: tmp_path)
    monkeypatch.setattr(problems.resnet50, "load", lambda folder: None)
    monkeypatch.setattr(
        problems.resnet50,
        "features",
        lambda network, images, size: images.float().mean((1, 2)).repeat(1, 683)[:, :2048],
    )
    monkeypatch.setattr(problems, "TISSUE_ROWS", {"train": (100, 700), "test": (80, 80)})
    problem = problems.make(TABLES[10].scales["features"], 0.75, seed=0)
    given, wrong = problem.train[1], problem.wrong
    assert float(wrong[given == 1].float().mean()) == pytest.approx(0.75, abs=0.01)
    assert not wrong[given == 0].any()
    assert len(given) == 640
    assert problem.test[1].tolist().count(1) == 80


def test_rules_and_rates_are_those_of_the_recipe() -> None:
    recipe = Recipe(
        data="digits", network="x", epochs=1, every=3, learning_rate=0.2, plain_learning_rate=0.5, gamma=0.4, mu=0.25
    )
    weights = make_weights(recipe, {"method": "RRM", "contamination": 0.3}, 10)
    assert weights is not None
    assert weights.every == 3
    assert weights.rule == rk.RRM(gamma=0.4, mu=0.25, spread="argmin", penalty="l1")
    assert weights.class_limit == 1
    given = make_weights(replace(recipe, gamma=None), {"method": "RRM", "contamination": 0.3, "excess": 0.1}, 10)
    assert given is not None
    assert given.rule == rk.RRM(contamination=0.4, spread="argmin")
    assert make_weights(recipe, {"method": "AT", "contamination": 0.3}, 10) is None
    model = torch.nn.Linear(2, 2)
    model.bias.requires_grad_(False)
    rates = [make_optimizer(recipe, model, plain=plain).param_groups[0] for plain in (True, False)]
    assert [group["lr"] for group in rates] == [0.5, 0.2]
    assert rates[0]["params"] == [model.weight]
    assert isinstance(make_optimizer(replace(recipe, optimizer="adam"), model, plain=True), torch.optim.Adam)
    moving = make_optimizer(replace(recipe, momentum=0.9, weight_decay=0.1), model, plain=False).param_groups[0]
    assert (moving["momentum"], moving["nesterov"], moving["weight_decay"]) == (0.9, True, 0.1)


def test_mae_and_mse_are_sums_over_the_classes_and_elr_reweights_by_cross_entropy() -> None:
    logits, labels = torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])
    problem = problems.Problem(
        (logits, labels), torch.zeros(5, dtype=torch.bool), None, (logits, labels), 3, torch.nn.Identity
    )
    recipe = TABLES[3].paper
    error = logits.softmax(1) - torch.nn.functional.one_hot(labels, 3)
    for name, wanted in (("mae", error.abs().sum(1)), ("mse", error.square().sum(1))):
        torch.testing.assert_close(make_loss(recipe, {"loss": name}, problem)(logits, labels), wanted)
    elr = make_loss(recipe, {"loss": "elr"}, problem)
    assert isinstance(elr, torch.nn.Module)
    index = torch.arange(5)
    assert not torch.allclose(elr(logits, labels, index=index), rk.losses.cce(logits, labels))
    torch.testing.assert_close(elr.eval()(logits, labels, index=index), rk.losses.cce(logits, labels))
    assert make_loss(TABLES[8].paper, {}, problem) is rk.losses.bce


def test_rows_are_counted_in_the_bins_of_table_5() -> None:
    values = torch.tensor([1.0, 1.5, 0.9, 0.75, 0.5, 0.25, 0.0, 1.0])
    wrong = torch.tensor([False] * 7 + [True])
    assert count_bins(values, wrong) == [[0, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 2]]


def test_ranking_counts_training_rows_by_weight(monkeypatch) -> None:
    scores = torch.tensor([[3.0], [2.0], [1.0], [0.0]])
    labels = torch.tensor([[1.0], [0.0], [1.0], [0.0]])
    problem = problems.Problem(
        (scores, labels), torch.zeros(4, dtype=torch.bool), None, (scores, labels), 2, torch.nn.Identity
    )
    weights = rk.SampleWeights(4, rk.RRM(contamination=0.2))
    weights.values = torch.tensor([1.0, 0.0, 1.0, 2.0])
    log = type("Log", (), {"weights": weights})()
    found = measure_ranking(torch.nn.Identity(), problem, rk.History(), log)
    assert found["PR-AUC, train"] == pytest.approx(1.0)
    assert found["PR-AUC, test"] == found["PR-AUC, train, all rows alike"] == pytest.approx((1 + 2 / 3) / 2)
    recall, precision = found["curve"]
    assert recall[0] == 1
    assert precision[-1] == 1
