"""LoRA through RRMTrainer on 500 IMDb reviews with 30 % label noise: what it finds, compared with the plain Trainer.

make lora        trains what is not on record yet and writes benchmarks/results/lora.json and docs/results.md
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import datasets as hub
import numpy as np
import peft
import torch
import transformers
from torch import Tensor, nn

import records
from pages import met, ran, section, table, write_section
from records import Record
from rivals.measures import of_flags, of_ranking
from rockafellian import RRM, SampleWeights, contamination
from rockafellian.auditing.features.embedding import tokenizer
from rockafellian.integrations.huggingface import RRMTrainer
from rockafellian_reproduction import datasets

RESULTS, PAGE = records.RESULTS / "lora.json", records.DOCS / "results.md"
SEEDS = (0, 1, 2)
#: The target for the precision of the removed rows.
MIN_PRECISION = 0.8
#: Rules by the names of the record; None is transformers' own Trainer.
METHODS = {
    "plain": None,
    "told nothing": RRM(crisp=True),
    "told 0.30": RRM(contamination=0.3),
    "told 0.10": RRM(contamination=0.1),
}
#: The same on the page.
NAMES = {
    "plain": "plain Trainer",
    "told nothing": "`RRM(crisp=True)`",
    "told 0.30": "`RRM(contamination=0.3)`",
    "told 0.10": "`RRM(contamination=0.1)`",
}
#: What the head starts from: negative and positive opinions, written for this.
OPINIONS = (
    ("I hated this film, it was terrible", "One of the worst movies, awful acting", "Bad and boring, a waste of time"),
    ("I loved this film, it was wonderful", "One of the best movies, great acting", "Good and moving, see it"),
)


@dataclass(frozen=True)
class Settings:
    """Settings of all runs, chosen on seed 100, which the record does not use."""

    reviews: int = 500
    share: float = 0.3
    test_reviews: int = 500
    tokens: int = 256
    rank: int = 8
    epochs: int = 3
    batch_size: int = 16
    learning_rate: float = 3e-4
    spread: float = 1.5  # of the first logits, as a standard deviation


class Classifier(nn.Module):
    """An encoder with LoRA, the mean over a text's tokens as a vector of length 1, and a linear head."""

    def __init__(self, encoder: nn.Module, rank: int) -> None:
        super().__init__()
        adapters = peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=["query", "value"])
        self.encoder = peft.get_peft_model(encoder, adapters)
        self.head = nn.Linear(encoder.config.hidden_size, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        """Return logits, and the loss if there are labels, as Trainer expects them."""
        logits = self.head(self.vectors(input_ids, attention_mask))
        loss = {} if labels is None else {"loss": nn.functional.cross_entropy(logits, labels)}
        return {**loss, "logits": logits}

    def vectors(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return one vector for each text."""
        words = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return nn.functional.normalize((words * attention_mask[..., None]).sum(1), dim=1)

    @torch.no_grad()
    def start(self, classes: Sequence[Tensor], texts: Tensor, spread: float) -> None:
        """Let the head predict the class whose vectors a text is nearer to, each class for half of the texts."""
        means = torch.stack([vectors.mean(0) for vectors in classes])
        self.head.weight.copy_(means * spread / (texts @ (means[1] - means[0])).std())
        self.head.bias.copy_(-(texts @ self.head.weight.T).mean(0))


@dataclass(frozen=True, eq=False)
class Problem:
    """Tokenized reviews with their given labels, which of these are wrong, clean test reviews, and opinions."""

    train: hub.Dataset
    wrong: Tensor
    test: hub.Dataset
    opinions: Sequence[hub.Dataset]
    collate: Callable[[Any], Any]


def load(seed: int, about: Settings) -> Problem:
    """Return reviews drawn and mislabeled by the seed."""
    found, words = datasets.reviews(), tokenizer(datasets.encoder_folder("minilm"))
    random = np.random.default_rng(seed)
    chosen = random.permutation(len(found.train))[: about.reviews].tolist()
    held = random.permutation(len(found.test))[: about.test_reviews].tolist()
    noisy = contamination.uniform(found.train_y[chosen], about.share, n_classes=2, seed=seed)

    def rows(texts: Iterable[str], **columns: Any) -> hub.Dataset:
        return hub.Dataset.from_dict({**words(list(texts), truncation=True, max_length=about.tokens), **columns})

    return Problem(
        rows((found.train[row] for row in chosen), labels=noisy.labels.tolist()),
        noisy.mask,
        rows((found.test[row] for row in held), labels=found.test_y[held].tolist()),
        [rows(opinions) for opinions in OPINIONS],
        transformers.DataCollatorWithPadding(words),
    )


def run(problem: Problem, model: nn.Module, rule: RRM | None, seed: int, about: Settings) -> Record:
    """Train once; return test accuracy and seconds and, with a rule, how well it found the mislabeled reviews."""
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(problem, model, rule, _arguments(folder, seed, about))
        trainer.train()
        said = trainer.predict(problem.test)
    accuracy = float((said.predictions.argmax(1) == said.label_ids).mean())
    result = {"accuracy": accuracy, "cpu_seconds": time.process_time() - start}
    return result if rule is None else {**result, **_found(trainer.weights, problem.wrong)}


def _trainer(
    problem: Problem, model: nn.Module, rule: RRM | None, arguments: transformers.TrainingArguments
) -> transformers.Trainer:
    parts = {"model": model, "args": arguments, "train_dataset": problem.train, "data_collator": problem.collate}
    if rule is None:
        return transformers.Trainer(**parts)
    return RRMTrainer(**parts, weights=SampleWeights(len(problem.train), rule))


def _arguments(folder: str, seed: int, about: Settings) -> transformers.TrainingArguments:
    return transformers.TrainingArguments(
        folder,
        seed=seed,
        num_train_epochs=about.epochs,
        per_device_train_batch_size=about.batch_size,
        per_device_eval_batch_size=64,
        learning_rate=about.learning_rate,
        lr_scheduler_type="constant",
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )


def _found(weights: SampleWeights, wrong: Tensor) -> Record:
    weights.collect()
    assert weights.predictions is not None
    estimate = None if weights.estimate is None else list(weights.estimate.ceiling)
    return {
        **of_flags(weights.removed, wrong),
        **of_ranking(weights.predictions.label_quality, wrong),
        "estimate": estimate,
    }


def started(encoder: nn.Module, problem: Problem, about: Settings) -> Classifier:
    """Return a classifier whose head knows the opinions and no label yet."""
    model = Classifier(encoder, about.rank).eval()

    def vectors(rows: hub.Dataset) -> Tensor:
        columns = rows.select_columns(["input_ids", "attention_mask"])
        batches = (problem.collate(columns.select([row]).to_list()) for row in range(len(rows)))
        with torch.no_grad():
            return torch.cat([model.vectors(**batch) for batch in batches])

    model.start([vectors(rows) for rows in problem.opinions], vectors(problem.train), about.spread)
    return model


def minilm(seed: int) -> nn.Module:
    """Return the encoder without dropout; the seed is for the adapters that are drawn next."""
    torch.manual_seed(seed)
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return transformers.BertModel.from_pretrained(
        datasets.encoder_folder("minilm"), add_pooling_layer=False, local_files_only=True, **dropout
    )


def render(record: Record) -> str:
    """Return the section of docs/results.md on LoRA."""
    head = ["method", "seed", "removed", "precision", "recall", "F1", "AUROC", "estimated noise rate", "test accuracy"]
    return section(
        "LoRA on reviews",
        "benchmarks/lora.py from benchmarks/results/lora.json",
        _summary(record),
        "How to use it: [guide](guide/huggingface.md).",
        "### Results",
        "Means over the seeds. Precision, recall and F1 are those of the removed rows.",
        _means(record["rows"]),
        "### Limits",
        f"The target, a precision above {MIN_PRECISION}, is {_reached(record['rows'])}. With 500 reviews and two "
        "classes the estimated noise rate is uncertain: look at `weights.estimate`, and give the rate if you know it.",
        "### All runs",
        "AUROC is that of `label_quality` as a ranking of the mislabeled rows; 0.5 is chance.",
        table([*head, "CPU seconds"], [_cells(row) for row in record["rows"]]),
        "### How it was measured",
        _settings(record),
    )


def _summary(record: Record) -> str:
    about, rows = record["settings"], record["rows"]
    accuracy = {method: _mean(_of(rows, method), "accuracy") for method in METHODS}
    best = max((name for name, rule in METHODS.items() if rule), key=lambda method: accuracy[method])
    estimated = _of(rows, "told nothing")
    return (
        f"On {about['reviews']} reviews with {about['share']:.0%} label noise the plain Trainer reaches a test "
        f"accuracy of {accuracy['plain']:.3f}, `RRMTrainer` with `RRM(crisp=True)` {accuracy['told nothing']:.3f} and "
        f"with {NAMES[best]} {accuracy[best]:.3f}. `RRM(crisp=True)` removes {_mean(estimated, 'recall'):.0%} of the "
        f"mislabeled rows, and {_mean(estimated, 'precision'):.0%} of what it removes is mislabeled."
    )


def _settings(record: Record) -> str:
    about = record["settings"]
    return (
        f"{ran([record], 'transformers', 'peft')}. {about['reviews']} of IMDb's training reviews with label noise of "
        f"{about['share']:.0%}, and {about['test_reviews']:,} clean ones to test on, drawn by seed. The first "
        f"{about['tokens']} tokens of each go through MiniLM with LoRA of rank {about['rank']} on queries and values, "
        f"their mean to a linear head; AdamW with learning rate {about['learning_rate']} without decay, batches of "
        f"{about['batch_size']}, {about['epochs']} epochs. Both trainers start with a head that predicts whether a "
        "review is nearer to three sentences of praise or of blame. Settings were chosen on seed 100."
    )


def _means(rows: Sequence[Record]) -> str:
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        own = _of(rows, method)
        found, reached = ["", "", ""], ""
        if METHODS[method] is not None:
            found = [f"{_mean(own, name):.3f}" for name in ("precision", "recall", "f1")]
            reached = met(_mean(own, "precision") > MIN_PRECISION)
        lines.append([NAMES[method], f"{_mean(own, 'accuracy'):.3f}", *found, reached])
    return table(["method", "test accuracy", "precision", "recall", "F1", f"precision above {MIN_PRECISION}"], lines)


def _reached(rows: Sequence[Record]) -> str:
    names = [
        NAMES[method]
        for method in METHODS
        if METHODS[method] is not None and _mean(_of(rows, method), "precision") > MIN_PRECISION
    ]
    return f"met by {', '.join(names)} only" if names else "met by none of the three"


def _of(rows: Sequence[Record], method: str) -> list[Record]:
    return [row for row in rows if row["method"] == method]


def _mean(rows: Sequence[Record], name: str) -> float:
    return sum(row[name] for row in rows) / len(rows)


def _cells(row: Record) -> list[str]:
    last = [f"{row['accuracy']:.3f}", f"{row['cpu_seconds']:.0f}"]
    if "precision" not in row:
        return [NAMES[row["method"]], str(row["seed"]), *[""] * 6, *last]
    names = ("flagged", "precision", "recall", "f1", "auroc")
    estimate = "" if row["estimate"] is None else "{:.2f} ({:.2f} to {:.2f})".format(*row["estimate"])
    return [NAMES[row["method"]], str(row["seed"]), *(f"{row[name]:.3f}" for name in names), estimate, *last]


def main() -> None:
    torch.set_num_threads(1)
    about = Settings()
    rows = records.load(RESULTS).get("rows", [])
    for seed in SEEDS:
        problem = load(seed, about)
        for method, rule in METHODS.items():
            if not any((row["method"], row["seed"]) == (method, seed) for row in rows):
                found = run(problem, started(minilm(seed), problem, about), rule, seed, about)
                rows.append({"method": method, "seed": seed, **found})
                _write(sorted(rows, key=lambda row: (list(METHODS).index(row["method"]), row["seed"])), about)


def _write(rows: list[Record], about: Settings) -> None:
    packages = ("rockafellian", "transformers", "peft", "accelerate")
    record = {**records.about("make lora", *packages), "settings": asdict(about), "rows": rows}
    records.save(RESULTS, record)
    if all(_of(rows, method) for method in METHODS):
        write_section(PAGE, render(record))


if __name__ == "__main__":
    main()
