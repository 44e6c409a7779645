import json

import datasets
import pytest
import torch
import transformers

import lora
from rockafellian import RRM

ABOUT = lora.Settings(epochs=3, batch_size=8, learning_rate=1e-2)


def problem() -> lora.Problem:
    """Forty rows of tokens, low ones for one class and high ones for the other; every fifth label is wrong."""
    random = torch.Generator().manual_seed(0)

    def rows(truth: torch.Tensor, **columns: list[int]) -> datasets.Dataset:
        ids = torch.randint(4, 14, (len(truth), 9), generator=random) + 10 * truth[:, None]
        return datasets.Dataset.from_dict(
            {"input_ids": ids.tolist(), "attention_mask": torch.ones_like(ids).tolist(), **columns}
        )

    truth = torch.arange(40) % 2
    wrong = torch.arange(40) % 5 == 0
    given = torch.where(wrong, 1 - truth, truth).tolist()
    opinions = [rows(torch.full((3,), label)) for label in (0, 1)]
    collate = transformers.default_data_collator
    return lora.Problem(rows(truth, labels=given), wrong, rows(truth, labels=truth.tolist()), opinions, collate)


def classifier(about: lora.Problem) -> lora.Classifier:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=24, **sizes)
    return lora.started(transformers.BertModel(config, add_pooling_layer=False), about, ABOUT)


@pytest.mark.parametrize("rule", [None, RRM(crisp=True), RRM(contamination=0.2)])
def test_a_run_returns_what_was_found_and_how_well_it_predicts(rule: RRM | None) -> None:
    small = problem()
    found = lora.run(small, classifier(small), rule, 0, ABOUT)
    assert found["accuracy"] >= 0.8
    assert ("precision" in found) == (rule is not None)
    assert json.loads(json.dumps(found)) == found
    if rule == RRM(contamination=0.2):
        assert found["precision"] > 0.5


def test_a_classifier_starts_from_words_alone() -> None:
    small = problem()
    with torch.no_grad():
        logits = classifier(small)(torch.tensor(small.test["input_ids"]), torch.ones(40, 9, dtype=torch.long))["logits"]
    assert logits.mean(0).abs().max() < 0.5
    assert (logits.argmax(1) == torch.tensor(small.test["labels"])).float().mean() > 0.8
    assert (logits[:, 1] - logits[:, 0]).std() == pytest.approx(ABOUT.spread, rel=0.3)


def test_the_page_on_lora_is_written_from_the_record() -> None:
    record = json.loads(lora.RESULTS.read_text())
    assert lora.render(record) in lora.PAGE.read_text()
    assert [(row["method"], row["seed"]) for row in record["rows"]] == [
        (method, seed) for method in lora.METHODS for seed in lora.SEEDS
    ]
    assert record["settings"] == vars(lora.Settings())


def test_the_page_tells_a_target_that_is_met_from_one_that_is_not() -> None:
    rows = [
        {"method": method, "seed": 0, "precision": precision, "recall": 0.5, "f1": 0.5, "accuracy": 0.7}
        for method, precision in (("told nothing", 0.79), ("told 0.10", 0.81))
    ]
    _, _, first, second = lora._means(rows).splitlines()
    assert first.startswith("| `RRM(crisp=True)` |")
    assert first.endswith("| **no** |")
    assert second.endswith("| yes |")
