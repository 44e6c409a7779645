"""The same batches give the same weights in a plain loop, in Lightning and in Hugging Face's Trainer."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning import LightningModule
from lightning import Trainer as LightningTrainer
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, SequentialSampler, TensorDataset
from transformers import TrainingArguments

import rockafellian as rk
from rockafellian.integrations.huggingface import RRMTrainer
from rockafellian.integrations.lightning import Reweight
from toy import make_toy, precision_and_recall

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
TOY, BATCH, EPOCHS = make_toy(), 50, 8
RULES = {"auto": rk.RRM(crisp=True), "given": rk.RRM(contamination=0.4), "gamma": rk.RRM(gamma=1.0)}


class Network(nn.Sequential):
    """Returns a dict, as Trainer expects."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))

    def forward(self, x: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        return {"logits": super().forward(x)}


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def loader() -> DataLoader[Any]:
    return DataLoader(rk.Indexed(TensorDataset(TOY.x, TOY.y)), batch_size=BATCH)


def plain(weights: rk.SampleWeights, folder: Path) -> None:
    model = Network()
    optimizer = optimizer_of(model)
    for _ in range(EPOCHS):
        for x, y, index in loader():
            logits = model(x)["logits"]
            optimizer.zero_grad()
            weights.reduce(cross_entropy(logits, y, reduction="none"), index, logits=logits, labels=y).backward()
            optimizer.step()
        weights.step()


class Module(LightningModule):
    def __init__(self, weights: rk.SampleWeights) -> None:
        super().__init__()
        self.model, self.weights = Network(), weights

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        x, y, index = batch
        logits = self.model(x)["logits"]
        return self.weights.reduce(cross_entropy(logits, y, reduction="none"), index, logits=logits, labels=y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return optimizer_of(self)


def in_lightning(weights: rk.SampleWeights, folder: Path) -> None:
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = LightningTrainer(
        max_epochs=EPOCHS, accelerator="cpu", callbacks=[Reweight(weights)], enable_model_summary=False, **quiet
    )
    trainer.fit(Module(weights), loader())


class InOrder(RRMTrainer):
    def _get_train_sampler(self, train_dataset: Any = None) -> SequentialSampler:
        return SequentialSampler(self.train_dataset)


def in_huggingface(weights: rk.SampleWeights, folder: Path) -> None:
    model = Network()
    optimizer = optimizer_of(model)
    settings = TrainingArguments(
        str(folder),
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=BATCH,
        max_grad_norm=0,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    rows = [{"x": x, "labels": y} for x, y in zip(TOY.x, TOY.y, strict=True)]
    at_one_rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    InOrder(model, settings, train_dataset=rows, weights=weights, optimizers=(optimizer, at_one_rate)).train()


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_plain_loop_lightning_and_hugging_face_end_with_the_same_weights(rule: rk.RRM, tmp_path: Path) -> None:
    found = {}
    for train in (plain, in_lightning, in_huggingface):
        found[train] = rk.SampleWeights(len(TOY.y), rule)
        train(found[train], tmp_path)
    expected = found[plain]
    assert len(expected.history) >= EPOCHS - 5
    precision, recall = precision_and_recall(expected.removed, TOY.wrong)
    assert precision >= 0.9
    assert recall >= 0.8
    for weights in found.values():
        assert weights.epoch == EPOCHS
        torch.testing.assert_close(weights.values, expected.values, rtol=0, atol=1e-5)
        assert torch.equal(weights.last_removed, expected.last_removed)
        torch.testing.assert_close(weights.average_losses, expected.average_losses, rtol=1e-5, atol=1e-5)
