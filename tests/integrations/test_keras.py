import os
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
import pytest
import torch

import rockafellian as rk
from rockafellian.integrations.keras import Reweight, WeightedRows
from toy import Toy, make_toy, precision_and_recall

GIVEN = rk.RRM(contamination=0.4)
SPARSE = "sparse_categorical_crossentropy"


def make_model(loss: Any = SPARSE, *, classes: int = 3, last: str | None = "softmax") -> keras.Model:
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(64, "relu"), keras.layers.Dense(64, "relu"), keras.layers.Dense(classes, last)]
    model = keras.Sequential([keras.Input((2,)), *layers])
    model.compile(keras.optimizers.SGD(0.1), loss)
    return model


def fit(
    model: keras.Model, rows: WeightedRows, *, epochs: int = 2, callbacks: tuple[Any, ...] = (), **more: Any
) -> dict[str, Any]:
    more = {"shuffle": False, "verbose": 0} | more
    history: dict[str, Any] = model.fit(rows, epochs=epochs, callbacks=[Reweight(rows), *callbacks], **more).history
    return history


def rows_of(toy: Toy, rule: rk.RRM = GIVEN, **more: Any) -> WeightedRows:
    return WeightedRows((toy.x.numpy(), toy.y.numpy()), rk.SampleWeights(len(toy.y), rule), batch_size=50, **more)


class Batches(keras.utils.PyDataset):
    """Batches made by a user."""

    def __init__(self, toy: Toy, *, parts: int = 2, size: int = 64, moves: bool = False, **more: Any) -> None:
        super().__init__(**more)
        self.toy, self.parts, self.size, self.moves, self.reads = toy, parts, size, moves, 0

    def __len__(self) -> int:
        return -(-len(self.toy.y) // self.size)

    def __getitem__(self, i: int) -> Any:
        self.reads += 1
        rows = slice(i * self.size, (i + 1) * self.size)
        y = self.toy.y.roll(self.reads) if self.moves else self.toy.y
        return (self.toy.x[rows].numpy(), y[rows].numpy(), np.ones(1))[: self.parts]


@pytest.mark.parametrize("rule", [rk.RRM(crisp=True), GIVEN], ids=["auto", "given"])
def test_it_finds_the_wrong_rows(rule: rk.RRM) -> None:
    toy = make_toy()
    rows = rows_of(toy, rule)
    history = fit(make_model(), rows, epochs=10)
    precision, recall = precision_and_recall(rows.weights.removed, toy.wrong)
    assert precision >= 0.9
    assert recall >= 0.8
    assert history["rrm_removed_fraction"][-1] == pytest.approx(rows.weights.removed_fraction)
    assert rows.weights.predictions is not None


def test_a_training_step_of_keras_equals_one_with_reduce() -> None:
    """Its loss with sample weights is a mean over the batch size."""
    toy = make_toy(n=300)
    rows = rows_of(toy, rk.RRM(crisp=True), shuffle=False)
    model, copied = make_model(), make_model()
    weights = rk.SampleWeights(300, rk.RRM(crisp=True))
    model.fit(rows, epochs=1, shuffle=False, verbose=0)
    for index in torch.arange(300).split(50):
        copied.zero_grad()
        log_p = copied(toy.x[index]).log()
        weights.reduce(torch.nn.functional.nll_loss(log_p, toy.y[index], reduction="none"), index).backward()
        with torch.no_grad():
            for part in copied.parameters():
                part -= 0.1 * part.grad
    for one, other in zip(model.get_weights(), copied.get_weights(), strict=True):
        assert one == pytest.approx(other, abs=1e-5)


def test_the_losses_are_those_of_evaluation_mode() -> None:
    toy = make_toy(n=300)
    rows, model = rows_of(toy), make_model()
    fit(model, rows, epochs=1)
    expected = -np.log(model.predict(toy.x.numpy(), verbose=0)[np.arange(300), toy.y])
    assert rows.weights.average_losses.numpy() == pytest.approx(expected, abs=1e-5)
    probabilities = model.predict(toy.x.numpy(), verbose=0)
    found = rk.findings(rows.weights)
    assert found.predicted.tolist() == probabilities.argmax(1).tolist()
    assert found.predicted_probability == pytest.approx(probabilities.max(1), abs=1e-4)


def test_each_epoch_has_its_own_order_and_every_row_its_weight() -> None:
    toy = make_toy(n=110)
    weights = rk.SampleWeights(110, GIVEN, prior=torch.arange(1.0, 111))
    rows = WeightedRows((torch.arange(110), toy.y), weights, batch_size=20, seed=3)
    orders = []
    for _ in range(2):
        x, y, w = (np.concatenate(part) for part in zip(*rows, strict=True))
        assert w == pytest.approx(weights.values[x].numpy())
        assert np.array_equal(y, toy.y[x])
        assert sorted(x.tolist()) == list(range(110))
        orders.append(x.tolist())
        weights.step(torch.rand(110, generator=torch.Generator().manual_seed(0)))
    assert orders[0] != orders[1]
    assert [len(batch[1]) for batch in rows] == [20] * 5 + [10]
    with pytest.raises(IndexError, match="need a batch from 0 to 5, got 6"):
        rows[6]


def one_hot(y: torch.Tensor) -> Any:
    return np.eye(3, dtype=np.float32)[y.numpy()]


@pytest.mark.parametrize(
    ("loss", "last", "hot"),
    [
        (SPARSE, "softmax", False),
        (keras.losses.SparseCategoricalCrossentropy(from_logits=True), None, False),
        (keras.losses.CategoricalCrossentropy(), "softmax", True),
        (keras.losses.CategoricalCrossentropy(from_logits=True), None, True),
        (lambda y, p: keras.losses.categorical_crossentropy(y, p), "softmax", True),
    ],
    ids=["name", "logits", "one-hot", "one-hot logits", "function"],
)
def test_classes_are_read_from_every_kind_of_output_and_label(loss: Any, last: str | None, hot: bool) -> None:
    toy = make_toy(n=300)
    model = make_model(loss, last=last)
    y = one_hot(toy.y) if hot else toy.y.numpy()[:, None]
    rows = WeightedRows((toy.x.numpy(), y), rk.SampleWeights(300, rk.RRM(crisp=True)))
    fit(model, rows, epochs=1)
    predictions, outputs = rows.weights.predictions, model.predict(toy.x.numpy(), verbose=0)
    assert predictions is not None
    assert torch.equal(predictions.labels.long(), toy.y)
    assert predictions.predicted.tolist() == outputs.argmax(1).tolist()
    p = torch.tensor(outputs).softmax(1) if last is None else torch.tensor(outputs)
    assert predictions.probability.numpy() == pytest.approx(p.amax(1).numpy(), abs=1e-4)


@pytest.mark.parametrize("last", ["sigmoid", None])
def test_one_output_means_two_classes(last: str | None) -> None:
    toy = make_toy(n=300)
    y = (toy.y > 0).numpy().astype(np.float32)
    model = make_model(keras.losses.BinaryCrossentropy(from_logits=last is None), classes=1, last=last)
    rows = WeightedRows((toy.x.numpy(), y), rk.SampleWeights(300, rk.RRM(crisp=True)))
    fit(model, rows, epochs=1)
    outputs = model.predict(toy.x.numpy(), verbose=0)[:, 0]
    assert rows.weights.predictions is not None
    assert rows.weights.predictions.predicted.tolist() == (outputs > (0 if last is None else 0.5)).astype(int).tolist()


def test_two_probabilities_may_have_a_binary_loss() -> None:
    toy = make_toy(n=300)
    y = np.eye(2, dtype=np.float32)[(toy.y > 0).long().numpy()]
    rows = WeightedRows((toy.x.numpy(), y), rk.SampleWeights(300, rk.RRM(crisp=True)))
    fit(make_model("binary_crossentropy", classes=2), rows, epochs=1)
    assert rows.weights.predictions is not None
    assert torch.equal(rows.weights.predictions.labels.long(), (toy.y > 0).long())


@pytest.mark.parametrize(("loss", "classes"), [("mse", 1), ("binary_crossentropy", 3)])
def test_rows_without_one_class_are_re_weighted_by_their_losses_alone(loss: str, classes: int) -> None:
    toy = make_toy(n=300)
    y = toy.x.numpy()[:, 0] if classes == 1 else one_hot(toy.y)
    rows = WeightedRows((toy.x.numpy(), y), rk.SampleWeights(300, GIVEN))
    fit(make_model(loss, classes=classes, last=None if classes == 1 else "sigmoid"), rows)
    assert rows.weights.predictions is None
    assert int(rows.weights.removed.sum()) == 120


def test_several_inputs_work() -> None:
    toy = make_toy(n=300)
    inputs = {"a": keras.Input((1,), name="a"), "b": keras.Input((1,), name="b")}
    both = keras.layers.Concatenate()([inputs["a"], inputs["b"]])
    model = keras.Model(inputs, keras.layers.Dense(3, "softmax")(both))
    model.compile("sgd", SPARSE)
    x = {"a": toy.x[:, :1], "b": toy.x[:, 1:].numpy()}
    rows = WeightedRows((x, toy.y), rk.SampleWeights(300, GIVEN))
    fit(model, rows)
    assert rows.weights.epoch == 2


def test_batches_of_a_user_give_the_same_weights() -> None:
    toy = make_toy(n=300)
    mine = WeightedRows(Batches(toy, size=50), rk.SampleWeights(300, GIVEN))
    theirs = rows_of(toy, shuffle=False)
    fit(make_model(), mine)
    fit(make_model(), theirs)
    assert len(mine) == 6
    assert torch.equal(mine.weights.values, theirs.weights.values)


def test_a_resumed_run_equals_one_that_was_not_interrupted() -> None:
    toy = make_toy(n=300)
    whole = rows_of(toy, rk.RRM(crisp=True))
    fit(make_model(), whole, epochs=4)
    first, model = rows_of(toy, rk.RRM(crisp=True)), make_model()
    fit(model, first, epochs=2)
    second = rows_of(toy, rk.RRM(crisp=True))
    second.weights.load_state_dict(first.weights.state_dict())
    fit(model, second, epochs=4, initial_epoch=2)
    assert second.weights.epoch == 4
    for name, tensor in whole.weights.state_dict().items():
        assert torch.equal(tensor.nan_to_num(), second.weights.state_dict()[name].nan_to_num()), name


def test_validation_changes_nothing() -> None:
    toy = make_toy(n=300)
    rows, alone = rows_of(toy), rows_of(toy)
    history = fit(make_model(), rows, validation_data=(toy.x[:60].numpy(), toy.y[:60].numpy()))
    fit(make_model(), alone)
    assert len(history["val_loss"]) == 2
    assert torch.equal(rows.weights.values, alone.weights.values)


def refused(model: keras.Model, rows: WeightedRows, **more: Any) -> str:
    with pytest.raises(ValueError, match="need") as caught:
        fit(model, rows, **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_training_rows_are_refused_as_validation_data() -> None:
    rows = rows_of(make_toy(n=300))
    assert "need validation rows that are not trained on" in refused(make_model(), rows, validation_data=rows)


def test_training_on_other_rows_is_refused() -> None:
    rows, other = (rows_of(make_toy(n=300)) for _ in range(2))
    with pytest.raises(ValueError, match="got an epoch without them"):
        make_model().fit(other, callbacks=[Reweight(rows)], verbose=0)


def test_workers_are_refused() -> None:
    rows = rows_of(make_toy(n=300))
    rows.workers = 2
    assert "got workers=2" in refused(make_model(), rows)
    with pytest.raises(ValueError, match="use_multiprocessing=True"):
        WeightedRows(Batches(make_toy(n=300), use_multiprocessing=True), rk.SampleWeights(300, GIVEN))


def averaged(y: Any, p: Any) -> Any:
    return keras.ops.mean(keras.losses.sparse_categorical_crossentropy(y, p))


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (averaged, r"need one loss for each of 200 rows, got shape \(\)"),
        (None, "need one loss by its full name, got None"),
        ("crossentropy", "need one loss by its full name"),
        ([SPARSE], "need one loss by its full name"),
        (
            keras.losses.SparseCategoricalCrossentropy(reduction="mean_with_sample_weight"),
            "need the mean over the batch size",
        ),
    ],
)
def test_a_loss_without_one_value_per_row_is_refused(loss: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(make_model(loss), rows_of(make_toy(n=300)))


def test_batches_in_another_order_are_refused() -> None:
    rows = WeightedRows(Batches(make_toy(n=300), moves=True), rk.SampleWeights(300, GIVEN))
    assert "Indexed" in refused(make_model(), rows)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((np.zeros((9, 2)), np.zeros(9)), "got 10 weights and 9 rows"),
        ((np.zeros((10, 2)), np.zeros(9)), "need arrays with the same number of rows"),
        ((np.zeros((10, 2)), [0] * 10), "convert lists to arrays"),
        ((np.zeros((10, 2)), np.zeros(10), np.ones(10)), "of 3; pass sample weights as"),
        (np.zeros((10, 2)), "need data as a pair"),
        (Batches(make_toy(n=12), size=4), "got 10 weights and 12 rows"),
        (Batches(make_toy(n=12), parts=3), "got 3 parts; pass sample weights as"),
    ],
)
def test_data_of_the_wrong_shape_are_refused(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WeightedRows(data, rk.SampleWeights(10, GIVEN))


def test_batches_of_uneven_size_are_refused() -> None:
    class Uneven(Batches):
        def __getitem__(self, i: int) -> Any:
            x, y = super().__getitem__(i)
            return (x[:-1], y[:-1]) if i == 1 else (x, y)

    rows = WeightedRows(Uneven(make_toy(n=12), size=4), rk.SampleWeights(12, GIVEN))
    with pytest.raises(ValueError, match="got 3 rows in batch 1"):
        rows[1]


def test_several_outputs_are_refused() -> None:
    toy, x = make_toy(n=300), keras.Input((2,))
    model = keras.Model(x, [keras.layers.Dense(3, "softmax")(x), keras.layers.Dense(3, "softmax")(x)])
    model.compile("sgd", SPARSE)
    rows = WeightedRows((toy.x, [toy.y, toy.y]), rk.SampleWeights(300, GIVEN))
    assert "need a model with one output" in refused(model, rows)


def test_what_is_neither_weights_nor_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="need SampleWeights, got list"):
        WeightedRows((np.zeros(2), np.zeros(2)), [1, 1])
    with pytest.raises(ValueError, match="need a batch_size >= 1, got 0"):
        WeightedRows((np.zeros(2), np.zeros(2)), rk.SampleWeights(2, GIVEN), batch_size=0)
    with pytest.raises(ValueError, match="need the WeightedRows that are passed to fit, got SampleWeights"):
        Reweight(rk.SampleWeights(3, GIVEN))
