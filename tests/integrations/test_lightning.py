import copy
import io
import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, RandomSampler, Sampler, Subset, TensorDataset

import rockafellian as rk
from rockafellian.integrations.lightning import Reweight
from toy import Toy, make_toy, precision_and_recall

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
GIVEN = rk.RRM(contamination=0.4)
BATCH = 50


class Classifier(LightningModule):
    def __init__(self, weights: rk.SampleWeights) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
        self.weights = weights

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        x, y, index = batch
        logits = self.model(x)
        return self.weights.reduce(cross_entropy(logits, y, reduction="none"), index, logits=logits, labels=y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Validated(Classifier):
    def validation_step(self, batch: list[Tensor], number: int) -> None:
        self.log("loss", cross_entropy(self.model(batch[0]), batch[1]))

    test_step = validation_step


class ByEpoch(Sampler[int]):
    """An order that depends on the epoch alone, which Lightning passes to `set_epoch`."""

    def __init__(self, n: int) -> None:
        self.n, self.epoch = n, 0

    def __len__(self) -> int:
        return self.n

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        yield from torch.randperm(self.n, generator=torch.Generator().manual_seed(self.epoch)).tolist()


class Resumable:
    """A loader that can resume in the middle of an epoch, as torchdata's StatefulDataLoader does."""

    def __init__(self, toy: Toy) -> None:
        self.loader, self.done = loader_of(toy), 0
        self.dataset, self.sampler = self.loader.dataset, self.loader.sampler

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        skip, self.done = self.done, 0
        for number, batch in enumerate(self.loader):
            if number >= skip:
                self.done = (number + 1) % len(self)
                yield batch

    def state_dict(self) -> dict[str, int]:
        return {"done": self.done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.done = state["done"]


def loader_of(toy: Toy) -> DataLoader[Any]:
    rows = rk.Indexed(TensorDataset(toy.x, toy.y))
    return DataLoader(rows, batch_size=BATCH, sampler=ByEpoch(len(rows)))


def valid_of(toy: Toy) -> DataLoader[Any]:
    return DataLoader(TensorDataset(toy.x[:60], toy.y[:60]), batch_size=30)


def make_trainer(weights: rk.SampleWeights, *, max_epochs: int = 2, **settings: Any) -> Trainer:
    settings = {"logger": False, "enable_checkpointing": False} | settings
    callbacks = [*settings.pop("callbacks", []), Reweight(weights)]
    return Trainer(
        max_epochs=max_epochs,
        accelerator="cpu",
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=callbacks,
        **settings,
    )


def run(toy: Toy, rule: rk.RRM = GIVEN, *, epochs: int = 2, **settings: Any) -> rk.SampleWeights:
    weights = rk.SampleWeights(len(toy.y), rule)
    make_trainer(weights, max_epochs=epochs, **settings).fit(Classifier(weights), loader_of(toy))
    return weights


def plain_loop(toy: Toy, rule: rk.RRM, *, epochs: int) -> rk.SampleWeights:
    weights = rk.SampleWeights(len(toy.y), rule)
    module, loader = Classifier(weights), loader_of(toy)
    optimizer = module.configure_optimizers()
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        for batch in loader:
            optimizer.zero_grad()
            module.training_step(batch, 0).backward()
            optimizer.step()
        weights.step()
    return weights


def assert_equal(one: rk.SampleWeights, other: rk.SampleWeights) -> None:
    states = one.state_dict(), other.state_dict()
    assert states[0].keys() == states[1].keys()
    for name, tensor in states[0].items():
        assert torch.equal(tensor.nan_to_num(), states[1][name].nan_to_num()), name


@pytest.mark.parametrize("rule", [rk.RRM(crisp=True), GIVEN], ids=["auto", "given"])
def test_it_finds_the_wrong_rows_and_equals_the_plain_loop(rule: rk.RRM) -> None:
    toy = make_toy()
    weights = run(toy, rule, epochs=10)
    precision, recall = precision_and_recall(weights.removed, toy.wrong)
    assert precision >= 0.9
    assert recall >= 0.8
    assert weights.epoch == 10
    assert_equal(weights, plain_loop(toy, rule, epochs=10))


def test_validation_before_and_during_training_changes_nothing() -> None:
    toy = make_toy(n=300)
    weights = rk.SampleWeights(300, rk.RRM(crisp=True))
    trainer = make_trainer(weights, val_check_interval=0.5)
    trainer.fit(Validated(weights), loader_of(toy), valid_of(toy))
    assert trainer.callback_metrics["loss"] > 0
    assert_equal(weights, run(toy, rk.RRM(crisp=True)))


def test_manual_optimization_gives_the_same_weights() -> None:
    class Manual(Classifier):
        def __init__(self, weights: rk.SampleWeights) -> None:
            super().__init__(weights)
            self.automatic_optimization = False

        def training_step(self, batch: list[Tensor], number: int) -> None:
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(super().training_step(batch, number))
            optimizer.step()

    toy = make_toy(n=300)
    weights = rk.SampleWeights(300, GIVEN)
    make_trainer(weights).fit(Manual(weights), loader_of(toy))
    assert_equal(weights, run(toy))


@pytest.mark.parametrize("rule", [rk.RRM(crisp=True), GIVEN], ids=["auto", "given"])
@pytest.mark.parametrize("moment", ["epoch end", "validation end", "last batch", "middle of an epoch"])
def test_a_resumed_run_equals_one_that_was_not_interrupted(moment: str, rule: rk.RRM, tmp_path: Path) -> None:
    toy = make_toy(n=300)  # 6 batches an epoch
    every = {"last batch": 18, "middle of an epoch": 15}.get(moment)
    valid = valid_of(toy) if moment == "validation end" else None

    def fit(path: Path | None = None) -> rk.SampleWeights:
        weights = rk.SampleWeights(300, rule)
        saving = ModelCheckpoint(tmp_path, "{epoch}-{step}", save_top_k=-1, every_n_train_steps=every)
        trainer = make_trainer(weights, max_epochs=6, enable_checkpointing=True, callbacks=[saving])
        module = Classifier(weights) if valid is None else Validated(weights)
        trainer.fit(module, Resumable(toy), valid, ckpt_path=path)
        return weights

    whole, step = fit(), every or 18
    resumed = fit(tmp_path / f"epoch=2-step={step}.ckpt")
    assert whole.epoch == 6
    assert resumed.reports == 36 - step
    assert_equal(resumed, whole)


def test_a_finished_run_that_is_extended_equals_one_long_run(tmp_path: Path) -> None:
    toy = make_toy(n=300)
    weights = rk.SampleWeights(300, rk.RRM(crisp=True))
    trainer = make_trainer(weights)
    trainer.fit(Classifier(weights), loader_of(toy))
    trainer.save_checkpoint(tmp_path / "end.ckpt")
    longer = rk.SampleWeights(300, rk.RRM(crisp=True))
    make_trainer(longer, max_epochs=4).fit(Classifier(longer), loader_of(toy), ckpt_path=tmp_path / "end.ckpt")
    assert_equal(longer, run(toy, rk.RRM(crisp=True), epochs=4))


def test_a_checkpoint_holds_tensors_that_are_loaded_without_unpickling(tmp_path: Path) -> None:
    weights = rk.SampleWeights(300, GIVEN)
    trainer = make_trainer(weights)
    trainer.fit(Classifier(weights), loader_of(make_toy(n=300)))
    trainer.save_checkpoint(tmp_path / "end.ckpt")
    state = torch.load(tmp_path / "end.ckpt", weights_only=True)["callbacks"]["Reweight"]
    assert torch.equal(state["values"], weights.values)


def test_an_epoch_that_ends_early_counts_as_one() -> None:
    weights = run(make_toy(n=300), max_steps=8)
    assert weights.epoch == 2


def test_it_logs_the_removed_fraction_and_the_estimate_once_known() -> None:
    toy = make_toy()
    weights = rk.SampleWeights(len(toy.y), rk.RRM(crisp=True))
    trainer = make_trainer(weights, max_epochs=6)
    trainer.fit(Classifier(weights), loader_of(toy))
    assert weights.estimate is not None
    for name, end in (("floor", weights.estimate.floor), ("ceiling", weights.estimate.ceiling)):
        assert float(trainer.callback_metrics[f"rrm_noise_rate_{name}"]) == pytest.approx(end.rate)
    assert float(trainer.callback_metrics["rrm_removed_fraction"]) == pytest.approx(weights.removed_fraction)


def test_modules_with_weights_are_copied_and_pickled() -> None:
    module = Classifier(run(make_toy(n=300)))
    buffer = io.BytesIO()
    torch.save(module, buffer)
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):  # noqa: S301
        assert_equal(copied.weights, module.weights)
    assert not any("weights" in name for name in module.state_dict())


def fit_badly(module: LightningModule, loader: Any, weights: rk.SampleWeights, **more: Any) -> str:
    with pytest.raises(ValueError, match="need") as caught:
        make_trainer(weights).fit(module, loader, **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_training_step_that_never_calls_reduce_is_refused() -> None:
    class Forgetful(Classifier):
        def training_step(self, batch: list[Tensor], _: int) -> Tensor:
            return cross_entropy(self.model(batch[0]), batch[1])

    weights = rk.SampleWeights(300, GIVEN)
    assert "need training_step to call reduce" in fit_badly(Forgetful(weights), loader_of(make_toy(n=300)), weights)
    others = Classifier(rk.SampleWeights(300, GIVEN))
    assert "of the weights passed to Reweight" in fit_badly(others, loader_of(make_toy(n=300)), weights)


def test_a_loss_that_is_already_reduced_is_refused() -> None:
    class Reduced(Classifier):
        def training_step(self, batch: list[Tensor], _: int) -> Tensor:
            x, y, index = batch
            return self.weights.reduce(cross_entropy(self.model(x), y), index)

    weights = rk.SampleWeights(300, GIVEN)
    assert "reduction='none'" in fit_badly(Reduced(weights), loader_of(make_toy(n=300)), weights)


def test_validation_and_test_steps_that_call_reduce_are_refused() -> None:
    class Mixed(Classifier):
        def validation_step(self, batch: list[Tensor], number: int) -> Tensor:
            return self.training_step(batch, number)

        test_step = validation_step

    weights, toy = rk.SampleWeights(300, GIVEN), make_toy(n=300)
    message = fit_badly(Mixed(weights), loader_of(toy), weights, val_dataloaders=loader_of(toy))
    assert "need reduce to see training rows only, got a validation_step that calls it" in message
    with pytest.raises(ValueError, match="got a test_step that calls it"):
        make_trainer(weights).test(Mixed(weights), loader_of(toy), verbose=False)
    make_trainer(weights).test(Validated(weights), valid_of(toy), verbose=False)


def test_another_number_of_rows_is_refused() -> None:
    weights, toy = rk.SampleWeights(400, GIVEN), make_toy(n=300)
    assert "got 400 weights and 300 rows" in fit_badly(Classifier(weights), loader_of(toy), weights)
    rows = rk.Indexed(Subset(TensorDataset(toy.x, toy.y), range(200)))
    weights = rk.SampleWeights(300, GIVEN)
    assert "got 300 weights and 200 rows" in fit_badly(Classifier(weights), DataLoader(rows), weights)


def test_a_subset_of_the_rows_keeps_their_index() -> None:
    toy, weights = make_toy(n=300), rk.SampleWeights(300, GIVEN)
    part = Subset(rk.Indexed(TensorDataset(toy.x, toy.y)), range(100, 300))
    make_trainer(weights).fit(Classifier(weights), DataLoader(part, batch_size=50, shuffle=True))
    assert weights.average_losses.isnan().nonzero()[:, 0].tolist() == list(range(100))


def test_batches_without_an_index_are_refused_before_they_are_unpacked() -> None:
    toy, weights = make_toy(n=300), rk.SampleWeights(300, GIVEN)
    loader = DataLoader(TensorDataset(toy.x, toy.y), batch_size=50, shuffle=True)
    message = fit_badly(Classifier(weights), loader, weights)
    assert "need the index of each row in a batch, got tensors (50, 2), (50,)" in message
    assert "rk.Indexed" in message


@pytest.mark.parametrize("kind", ["tensor", "dict", "drawn twice"])
def test_a_dataset_may_have_an_index_of_its_own(kind: str) -> None:
    class WithIndex(Dataset[Any]):
        def __len__(self) -> int:
            return 300

        def __getitem__(self, i: int) -> Any:
            row = toy.x[i], toy.y[i], i
            return dict(zip(("x", "y", "id"), row, strict=True)) if kind == "dict" else row

    class Named(Classifier):
        def training_step(self, batch: Any, number: int) -> Tensor:
            return super().training_step(list(batch.values()) if kind == "dict" else batch, number)

    toy, weights = make_toy(n=300), rk.SampleWeights(300, GIVEN)
    sampler = RandomSampler(WithIndex(), replacement=kind == "drawn twice")
    make_trainer(weights).fit(Named(weights), DataLoader(WithIndex(), batch_size=50, sampler=sampler))
    assert weights.epoch == 2


def test_rows_shuffled_without_their_index_are_refused() -> None:
    class Counting(Classifier):
        def training_step(self, batch: list[Tensor], number: int) -> Tensor:
            x, y, _ = batch
            return super().training_step([x, y, torch.arange(len(y)) + BATCH * number], number)

    weights = rk.SampleWeights(300, GIVEN)
    assert "Indexed" in fit_badly(Counting(weights), loader_of(make_toy(n=300)), weights)


def test_a_checkpoint_of_other_data_is_refused(tmp_path: Path) -> None:
    toy, weights = make_toy(n=300), rk.SampleWeights(300, GIVEN)
    trainer = make_trainer(weights)
    trainer.fit(Classifier(weights), loader_of(toy))
    trainer.save_checkpoint(tmp_path / "end.ckpt")
    more, larger = rk.SampleWeights(360, GIVEN), make_toy(n=360)
    message = fit_badly(Classifier(more), loader_of(larger), more, ckpt_path=tmp_path / "end.ckpt")
    assert "360" in message


def test_weights_among_the_hyperparameters_are_refused() -> None:
    class Saving(Classifier):
        def __init__(self, weights: rk.SampleWeights) -> None:
            super().__init__(weights)
            self.save_hyperparameters()

    weights = rk.SampleWeights(300, GIVEN)
    message = fit_badly(Saving(weights), loader_of(make_toy(n=300)), weights)
    assert "call save_hyperparameters(ignore=['weights'])" in message


def test_what_is_not_weights_is_refused() -> None:
    with pytest.raises(ValueError, match="need the SampleWeights whose reduce training_step calls, got Tensor"):
        Reweight(torch.ones(3))
