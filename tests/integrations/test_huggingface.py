import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
import peft
import pytest
import torch
import transformers
from ranks import run_ranks
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import IterableDataset
from transformers import TrainerCallback, TrainingArguments

import rockafellian as rk
from rockafellian.integrations.huggingface import FILE, INDEX, RRMTrainer
from toy import make_toy, precision_and_recall

torch.set_num_threads(1)
SMALL = {
    "vocab_size": 24,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
}
LLAMA = {**SMALL, "bos_token_id": 1, "eos_token_id": 2}
T5 = {"vocab_size": 24, "d_model": 16, "d_ff": 16, "d_kv": 8, "num_layers": 1, "num_heads": 2, "dropout_rate": 0.0}
T5 |= {"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}


class Net(nn.Module):
    """The network of the toy problem, in the form that Trainer needs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))

    def forward(self, x: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        logits = self.layers(x)
        return (
            {"logits": logits}
            if labels is None
            else {"loss": functional.cross_entropy(logits, labels), "logits": logits}
        )


def arguments(folder: Path, **changes: Any) -> TrainingArguments:
    """SGD at a constant rate, and silence."""
    settings: dict[str, Any] = {
        "num_train_epochs": 2,
        "per_device_train_batch_size": 50,
        "learning_rate": 0.1,
        "optim": "sgd",
        "lr_scheduler_type": "constant",
        "max_grad_norm": 0,
        "report_to": "none",
        "save_strategy": "no",
        "logging_strategy": "no",
        "disable_tqdm": True,
        "use_cpu": True,
    }
    return TrainingArguments(str(folder), **settings | changes)


def toy_rows(n: int = 1500) -> list[dict[str, Any]]:
    problem = make_toy(n=n)
    return [{"x": x, "labels": y} for x, y in zip(problem.x, problem.y, strict=True)]


def bert(kind: str = "SequenceClassification", **changes: Any) -> Any:
    torch.manual_seed(0)
    config = transformers.BertConfig(**SMALL, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **changes)
    return getattr(transformers, f"BertFor{kind}")(config)


def llama() -> Any:
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA))


def t5() -> Any:
    torch.manual_seed(0)
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**T5))


def token_rows(n: int = 400, noise: float = 0.3) -> tuple[datasets.Dataset, Tensor]:
    """Sequences of tokens of two kinds, the class being the kind that prevails; some labels are flipped."""
    random = torch.Generator().manual_seed(0)
    truth = torch.arange(n) % 2
    low = torch.randint(4, 14, (n, 12), generator=random)
    tokens = torch.where(torch.rand(n, 12, generator=random) < 0.85, low + 10 * truth[:, None], low)
    wrong = torch.rand(n, generator=random) < noise
    labels = torch.where(wrong, 1 - truth, truth)
    return datasets.Dataset.from_dict({"input_ids": tokens.tolist(), "label": labels.tolist()}), wrong


def sequences(n: int = 300, noise: float = 0.2) -> tuple[datasets.Dataset, Tensor]:
    """Tokens that count upwards from anywhere, but for some sequences that are noise; lengths differ."""
    random = torch.Generator().manual_seed(0)
    starts = torch.randint(4, 20, (n, 1), generator=random)
    counting = 4 + (starts + torch.arange(12)) % 20
    wrong = torch.rand(n, generator=random) < noise
    others = torch.randint(4, 24, (n, 12), generator=random)
    lengths = torch.randint(6, 13, (n,), generator=random).tolist()
    rows = torch.where(wrong[:, None], others, counting).tolist()
    return datasets.Dataset.from_dict({"input_ids": [row[:k] for row, k in zip(rows, lengths, strict=True)]}), wrong


def pad(rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
    """A user's collator, which must not see another key."""
    assert all(set(row) == {"input_ids"} for row in rows)
    ids = nn.utils.rnn.pad_sequence([torch.tensor(row["input_ids"]) for row in rows], batch_first=True)
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": ids.masked_fill(ids == 0, -100)}


def assert_equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    """Bit for bit; NaN is an unknown value."""
    assert one.keys() == other.keys()
    for name, part in one.items():
        assert torch.equal(part.nan_to_num(), other[name].nan_to_num()), name


def flat(model: nn.Module) -> Tensor:
    return torch.cat([part.detach().flatten() for part in model.parameters()])


@pytest.mark.parametrize("rule", [rk.RRM(crisp=True), rk.RRM(contamination=0.4)])
def test_the_rows_it_removes_are_wrong_ones(tmp_path: Path, rule: rk.RRM) -> None:
    problem = make_toy()
    weights = rk.SampleWeights(1500, rule)
    trainer = RRMTrainer(Net(), arguments(tmp_path, num_train_epochs=10), train_dataset=toy_rows(), weights=weights)
    trainer.train()
    precision, recall = precision_and_recall(weights.removed, problem.wrong)
    assert precision >= 0.9
    assert recall >= 0.8
    assert trainer.weights is weights
    assert weights.epoch == 10


def test_replacing_trainer_is_the_whole_change(tmp_path: Path) -> None:
    rows, wrong = token_rows()
    settings = arguments(
        tmp_path, num_train_epochs=10, per_device_train_batch_size=16, learning_rate=3e-3, optim="adamw_torch"
    )
    trainer = RRMTrainer(model=bert(), args=settings, train_dataset=rows)
    trainer.train()
    assert trainer.weights.rule == rk.RRM()
    issues = rk.findings(trainer.weights).issues
    flags = torch.zeros(len(rows), dtype=torch.bool)
    flags[issues.index] = True
    assert int((flags & ~wrong).sum()) <= 0.02 * len(rows)  # of 120 held-out rows of two classes little is certain
    assert trainer.weights.estimate.floor.low <= float(wrong.float().mean()) <= trainer.weights.estimate.ceiling.high


def test_lora_finds_mislabeled_rows(tmp_path: Path) -> None:
    rows, wrong = token_rows()
    model = peft.get_peft_model(bert(), peft.LoraConfig(task_type="SEQ_CLS", r=8, target_modules="all-linear"))
    settings = arguments(
        tmp_path, num_train_epochs=10, per_device_train_batch_size=16, learning_rate=1e-2, optim="adamw_torch"
    )
    crisp = rk.SampleWeights(len(rows), rk.RRM(crisp=True))
    trainer = RRMTrainer(model, settings, train_dataset=rows.add_column("text", ["…"] * len(rows)), weights=crisp)
    trainer.train()
    precision, recall = precision_and_recall(trainer.weights.removed, wrong)
    assert precision >= 0.9
    assert recall >= 0.8


def test_a_language_model_finds_the_sequences_that_break_the_pattern(tmp_path: Path) -> None:
    rows, wrong = sequences()
    settings = arguments(
        tmp_path, num_train_epochs=6, per_device_train_batch_size=16, learning_rate=1e-2, optim="adamw_torch"
    )
    weights = rk.SampleWeights(len(rows), rk.RRM(contamination=0.2), warmup=2)
    RRMTrainer(llama(), settings, train_dataset=rows, data_collator=pad, weights=weights).train()
    precision, recall = precision_and_recall(weights.removed, wrong)
    assert precision >= 0.9
    assert recall >= 0.8


def batch_of(kind: str) -> tuple[Any, dict[str, Tensor]]:
    """A model and three rows for it."""
    random = torch.Generator().manual_seed(1)
    ids = torch.randint(4, 24, (3, 7), generator=random)
    tags = torch.randint(0, 3, (3, 7), generator=random)
    tags[0, :3] = tags[2, -2:] = -100
    labels: dict[str, tuple[Any, Tensor]] = {
        "classes": (bert(num_labels=3), torch.tensor([2, 0, 1])),
        "several labels": (bert(num_labels=3), torch.tensor([[1.0, 0, 1], [0, 0, 0], [0, 1, 0]])),
        "regression": (bert(num_labels=1), torch.tensor([0.3, -2.0, 5.0])),
        "several numbers": (
            bert(num_labels=2, problem_type="regression"),
            torch.tensor([[0.3, 1], [2.0, 0], [5.0, 1]]),
        ),
        "tags": (bert("TokenClassification", num_labels=3), tags),
        "masked words": (bert("MaskedLM"), tags),
        "language model": (llama(), tags),
        "encoder and decoder": (t5(), tags),
    }
    model, given = labels[kind]
    return model, {"input_ids": ids, "labels": given}


KINDS = ("classes", "several labels", "regression", "several numbers", "tags", "masked words", "language model")


@pytest.mark.parametrize("kind", [*KINDS, "encoder and decoder"])
def test_the_loss_of_a_row_is_the_model_s_own(tmp_path: Path, kind: str) -> None:
    model, batch = batch_of(kind)
    weights = rk.SampleWeights(3, rk.RRM(contamination=0.1))
    trainer = RRMTrainer(model, arguments(tmp_path), train_dataset=[{}] * 3, weights=weights)
    model.train()
    together = trainer.compute_loss(model, {**batch, INDEX: torch.arange(3)})
    weights.collect()
    own = [model(**{name: part[[row]] for name, part in batch.items()}).loss for row in range(3)]
    assert torch.allclose(weights.average_losses, torch.stack(own).detach(), atol=1e-6)
    assert torch.allclose(together, torch.stack(own).mean(), atol=1e-6)
    assert (weights.predictions is not None) == (kind == "classes")


@pytest.mark.parametrize("kind", ["classes", "language model"])
def test_labels_are_smoothed_as_trainer_smooths_them(tmp_path: Path, kind: str) -> None:
    model, batch = batch_of(kind)
    weights = rk.SampleWeights(3, rk.RRM(contamination=0.1))
    settings = arguments(tmp_path, label_smoothing_factor=0.2)
    trainer = RRMTrainer(model, settings, train_dataset=[{}] * 3, weights=weights)
    plain = transformers.Trainer(model, settings)
    for row in range(3):
        one = {name: part[[row]] for name, part in batch.items()}
        ours = trainer.compute_loss(model.train(), {**one, INDEX: torch.tensor([row])})
        assert torch.allclose(ours, plain.compute_loss(model, one), atol=1e-6)


def accumulated(folder: Path, size: int, steps: int, kind: str) -> tuple[Tensor, Tensor, list[float]]:
    """Parameters and losses by row after two epochs of 44 rows, the last batch of each being smaller."""
    prior = torch.linspace(0.1, 2, 44)
    weights = rk.SampleWeights(44, rk.RRM(contamination=0.2), prior=prior / prior.mean())
    settings = arguments(
        folder,
        per_device_train_batch_size=size,
        gradient_accumulation_steps=steps,
        logging_strategy="steps",
        logging_steps=1,
    )
    if kind == "classes":
        rows: Any = toy_rows(44)
        trainer = RRMTrainer(Net(), settings, train_dataset=rows, weights=weights)
    else:
        rows, _ = sequences(44)
        trainer = RRMTrainer(llama(), settings, train_dataset=rows, data_collator=pad, weights=weights)
    trainer.train()
    logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return flat(trainer.model), weights.average_losses, logged


@pytest.mark.parametrize("kind", ["classes", "language model"])
def test_accumulated_batches_equal_a_large_one(tmp_path: Path, kind: str) -> None:
    """44 rows are 16, 16 and 12; or 8 and 8, 8 and 8, 8 and 4; or, in fives, 15, 15 and 14."""
    whole = accumulated(tmp_path / "1", 16, 1, kind)
    halves = accumulated(tmp_path / "2", 8, 2, kind)
    for one, other in zip(whole[:2], halves[:2], strict=True):
        assert torch.allclose(one, other, atol=1e-6, rtol=0)
    assert halves[2] == pytest.approx(whole[2], abs=1e-4)
    thirds, fifteen = (accumulated(tmp_path / name, *how, kind) for name, how in (("3", (5, 3)), ("4", (15, 1))))
    assert torch.allclose(thirds[0], fifteen[0], atol=1e-6, rtol=0)
    assert not torch.allclose(whole[0], fifteen[0], atol=1e-6, rtol=0)


def test_with_weights_of_1_training_equals_that_of_trainer(tmp_path: Path) -> None:
    rows = toy_rows(120)
    plain = transformers.Trainer(Net(), arguments(tmp_path), train_dataset=rows)
    ours = RRMTrainer(
        Net(), arguments(tmp_path), train_dataset=rows, weights=rk.SampleWeights(120, lambda losses, w: (w, None))
    )
    plain.train()
    ours.train()
    assert torch.allclose(flat(plain.model), flat(ours.model), atol=1e-6)


def test_evaluation_equals_that_of_trainer_and_leaves_the_weights_alone(tmp_path: Path) -> None:
    rows, held = toy_rows(120), toy_rows(60)
    settings = arguments(tmp_path, eval_strategy="epoch", num_train_epochs=3)
    weights = rk.SampleWeights(120, rk.RRM(contamination=0.4))
    trainer = RRMTrainer(Net(), settings, train_dataset=rows, eval_dataset=held, weights=weights)
    trainer.train()
    n_calls, state = weights.reports, weights.state_dict()
    found = trainer.evaluate()["eval_loss"]
    assert trainer.evaluate(rows)["eval_loss"] > 0
    assert trainer.predict(rows).predictions.shape == (120, 3)
    assert weights.reports == n_calls == 3 * 3
    assert_equal(weights.state_dict(), state)
    plain = transformers.Trainer(trainer.model, arguments(tmp_path))
    assert found == pytest.approx(plain.evaluate(held)["eval_loss"], abs=1e-6)


class Stop(TrainerCallback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_training_stop = state.global_step == self.step


@pytest.mark.parametrize(("saves", "stop"), [("epoch", 12), ("steps", 12), ("steps", 14)])
def test_a_resumed_run_equals_one_that_was_not_interrupted(tmp_path: Path, saves: str, stop: int) -> None:
    """Six steps an epoch: at 12 two epochs are over, at 14 the third has begun."""
    rows = toy_rows(300)
    settings = arguments(tmp_path, num_train_epochs=6, save_strategy=saves, save_steps=2)

    def make(callbacks: Sequence[TrainerCallback] = ()) -> RRMTrainer:
        return RRMTrainer(Net(), settings, train_dataset=rows, callbacks=[*callbacks])

    make([Stop(stop)]).train()
    resumed, whole = make(), make()
    resumed.train(resume_from_checkpoint=True)
    assert resumed.state.global_step == 36
    whole.train()
    assert torch.equal(flat(whole.model), flat(resumed.model))
    state = resumed.weights.state_dict()
    assert int(state["epoch"]) == 6
    assert_equal(whole.weights.state_dict(), state)


def test_a_checkpoint_without_weights_or_of_other_rows_is_refused(tmp_path: Path) -> None:
    settings = arguments(tmp_path, save_strategy="epoch", num_train_epochs=1)
    RRMTrainer(Net(), settings, train_dataset=toy_rows(100)).train()
    folder = tmp_path / "checkpoint-2"
    longer = RRMTrainer(Net(), settings, train_dataset=toy_rows(120))
    with pytest.raises(ValueError, match="120"):
        longer.train(resume_from_checkpoint=str(folder))
    (folder / FILE).unlink()
    again = RRMTrainer(Net(), settings, train_dataset=toy_rows(100))
    with pytest.raises(ValueError, match=r"need the weights of the rows to resume, but there is no .*rrm.safetensors"):
        again.train(resume_from_checkpoint=True)
    assert longer.state.global_step == again.state.global_step == 0


def test_an_epoch_that_max_steps_ends_is_not_counted(tmp_path: Path) -> None:
    weights = rk.SampleWeights(200, rk.RRM(contamination=0.4))
    RRMTrainer(Net(), arguments(tmp_path, max_steps=7), train_dataset=toy_rows(200), weights=weights).train()
    assert weights.epoch == 1


def test_an_epoch_that_a_callback_ends_is_counted(tmp_path: Path) -> None:
    class Cut(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            control.should_epoch_stop = True

    weights = rk.SampleWeights(200, rk.RRM(contamination=0.4))
    settings = arguments(tmp_path, num_train_epochs=3)
    RRMTrainer(Net(), settings, train_dataset=toy_rows(200), weights=weights, callbacks=[Cut()]).train()
    assert weights.epoch == 3


def test_model_init_resets_the_weights(tmp_path: Path) -> None:
    trainer = RRMTrainer(model_init=Net, args=arguments(tmp_path, num_train_epochs=5), train_dataset=toy_rows(300))
    trainer.train()
    first = trainer.weights.state_dict()
    trainer.train()
    assert trainer.weights.epoch == 5
    assert_equal(trainer.weights.state_dict(), first)


def test_rows_without_a_target_are_left_out(tmp_path: Path) -> None:
    """A loss of 0 would be the least of all; the mean is over all rows nevertheless."""
    model, batch = batch_of("language model")
    weights = rk.SampleWeights(3, rk.RRM(contamination=0.1))
    trainer = RRMTrainer(model, arguments(tmp_path), train_dataset=[{}] * 3, weights=weights)
    model.train()
    batch["labels"][1, 1:] = -100
    loss = trainer.compute_loss(model, {**batch, INDEX: torch.arange(3)})
    weights.collect()
    assert weights.average_losses.isnan().tolist() == [False, True, False]
    assert torch.allclose(loss, weights.average_losses[[0, 2]].sum() / 3)
    none = trainer.compute_loss(model, {**batch, "labels": torch.full((3, 7), -100), INDEX: torch.arange(3)})
    none.backward()
    assert none.item() == 0


def test_unused_columns_are_dropped_and_rows_grouped_by_length(tmp_path: Path) -> None:
    rows, _ = sequences(60)
    rows = rows.add_column("text", ["…"] * 60)
    settings = arguments(tmp_path, train_sampling_strategy="group_by_length", per_device_train_batch_size=8)
    weights = rk.SampleWeights(60, rk.RRM(contamination=0.2))
    trainer = RRMTrainer(llama(), settings, train_dataset=rows, data_collator=pad, weights=weights)
    trainer.train()
    assert trainer.train_dataset is rows
    assert bool(weights.average_losses.isfinite().all())


def test_row_losses_replace_the_loss_of_the_model(tmp_path: Path) -> None:
    def generalized(outputs: dict[str, Tensor], labels: Tensor) -> Tensor:
        return 1 - outputs["logits"].softmax(1).gather(1, labels[:, None])[:, 0]

    problem = make_toy()
    settings = arguments(tmp_path, num_train_epochs=10, learning_rate=0.3)
    trainer = RRMTrainer(Net(), settings, train_dataset=toy_rows(), row_losses=generalized)
    trainer.train()
    assert precision_and_recall(trainer.weights.removed, problem.wrong)[0] >= 0.9
    assert float(trainer.weights.average_losses.max()) <= 1


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        yield from toy_rows(10)


ROWS = toy_rows(10)
PAIRS = [(row["x"], row["labels"]) for row in ROWS]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"train_dataset": Stream()}, "need a dataset"),
        ({"train_dataset": None}, "need a train_dataset"),
        ({"eval_dataset": ROWS}, "need an eval_dataset that is not trained on"),
        ({"eval_dataset": {"all": ROWS}}, "need an eval_dataset that is not trained on"),
        ({"compute_loss_func": lambda outputs, labels, **_: outputs["logits"].sum()}, "need one loss per row"),
        (
            {"weights": rk.SampleWeights(9, rk.RRM(crisp=True))},
            "need a weight for each of the 10 rows of train_dataset, got 9",
        ),
        ({"row_losses": lambda outputs, labels: outputs["logits"].mean()}, "need one loss per"),
        (
            {"train_dataset": PAIRS, "data_collator": lambda rows: {"x": torch.zeros(10, 2)}},
            "need rows that are dicts with their index",
        ),
        ({"train_dataset": [{**row, "labels": [0.0] * 4} for row in ROWS]}, "need a known loss per row, but Net"),
        ({"train_dataset": [{"x": row["x"]} for row in ROWS]}, "need a known loss per row, but Net"),
        (
            {"model": llama(), "train_dataset": sequences(10)[0], "data_collator": pad},
            "need one class per row",
        ),
        (
            {"model": bert(num_labels=1), "train_dataset": [{"input_ids": [4], "labels": 0.5}] * 10},
            "need one class per row",
        ),
    ],
)
def test_bad_input_is_an_error_of_one_line(tmp_path: Path, parts: dict[str, Any], message: str) -> None:
    usual = {"model": Net(), "args": arguments(tmp_path, max_steps=10), "train_dataset": ROWS}
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        RRMTrainer(**usual | parts).train()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert ";" in str(caught.value)


def train_on(folder: Path, size: int, *lengths: int) -> None:
    """Train on so many rows, with batches of this size in each process, and save parameters and weights."""
    for n in lengths:
        settings = arguments(
            folder, per_device_train_batch_size=size, gradient_accumulation_steps=2, num_train_epochs=6
        )
        settings.ddp_find_unused_parameters = False
        trainer = RRMTrainer(Net(), settings, train_dataset=toy_rows(n))
        trainer.train()
        state = {"parameters": flat(trainer.model), **trainer.weights.state_dict()}
        save_file(state, folder / f"{n} rows, process {settings.process_index}")
        trainer.accelerator.free_memory()  # nothing of it may outlive the process group
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        del trainer
        torch.distributed.destroy_process_group()


def test_two_processes_agree_with_each_other_and_with_one(tmp_path: Path) -> None:
    """250 rows are whole batches for two processes; of 245 some come twice, so that both have as many."""
    run_ranks(train_on, 2, tmp_path, 25, 250, 245, folder=tmp_path)
    for n in (250, 245):
        first, second = (load_file(tmp_path / f"{n} rows, process {rank}") for rank in (0, 1))
        assert_equal(first, second)
        assert int(first["epoch"]) == 6
        assert first["run_count"].min() >= 1
    shared = load_file(tmp_path / "250 rows, process 0")
    train_on(tmp_path, 50, 250)
    alone = load_file(tmp_path / "250 rows, process 0")
    assert torch.equal(shared["last_removed"], alone["last_removed"])
    for name in ("parameters", "values", "run_sum", "estimate"):
        assert torch.allclose(shared[name], alone[name], atol=1e-5)
