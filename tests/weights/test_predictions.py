import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import rockafellian as rk
from rockafellian._internal.arrays import UNKNOWN
from rockafellian.weights.predictions import Predictions, check_labels, predict, read_logits


def add(predictions: Predictions, rows: np.ndarray, logits: Tensor, labels: Tensor) -> None:
    found = predict(logits, labels).numpy()
    predictions.check_labels(rows, found)
    predictions.add(rows, found)


def predictions_of(n_samples: int, *batches: tuple[list[int], Tensor, Tensor]) -> Predictions:
    predictions = Predictions(n_samples)
    for rows, logits, labels in batches:
        z, given = read_logits(logits, labels)
        check_labels(given, z.shape[1])
        add(predictions, np.array(rows), z, given)
    return predictions


def random_batch(n: int, n_classes: int, seed: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(n, n_classes, generator=random), torch.randint(n_classes, (n,), generator=random)


def margins(logits: Tensor, labels: Tensor) -> list[float]:
    """Row by row: the label's logit minus the largest other one."""
    return [
        row[label] - max(z for other, z in enumerate(row) if other != label)
        for row, label in zip(logits.double().tolist(), labels.tolist(), strict=True)
    ]


@given(
    st.integers(2, 6).flatmap(
        lambda n_classes: st.lists(
            st.tuples(
                st.lists(st.floats(-20, 20, width=32), min_size=n_classes, max_size=n_classes),
                st.integers(0, n_classes - 1),
            ),
            min_size=1,
            max_size=8,
        )
    )
)
def test_predictions_are_what_a_naive_computation_finds(said: list[tuple[list[float], int]]) -> None:
    logits, labels = torch.tensor([row for row, _ in said]), torch.tensor([label for _, label in said])
    predictions = predictions_of(len(said) + 1, (list(range(len(said))), logits, labels))
    z = logits.double().numpy()
    softmax = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    predicted = predictions.predicted[:-1].numpy()
    assert predictions.labels[:-1].tolist() == labels.tolist()
    np.testing.assert_array_equal(z[np.arange(len(z)), predicted], z.max(1))  # any of them, where there is a tie
    np.testing.assert_allclose(predictions.probability[:-1], softmax.max(1), rtol=1e-5)
    np.testing.assert_allclose(predictions.average_margin[:-1], margins(logits, labels), rtol=1e-5, atol=1e-5)
    assert predictions.disagrees[:-1].tolist() == (predicted != labels.numpy()).tolist()


def test_a_row_that_was_never_shown_is_unknown() -> None:
    predictions = predictions_of(3, ([1], torch.tensor([[0.0, 1.0]]), torch.tensor([0])))
    assert len(predictions) == 3
    assert predictions.seen.tolist() == [False, True, False]
    assert predictions.labels.tolist() == [UNKNOWN, 0, UNKNOWN]
    for part in (predictions.probability, predictions.average_margin, predictions.label_quality):
        assert part.isnan().tolist() == [True, False, True]
    assert predictions.disagrees.tolist() == [False, True, False]  # nothing was said of the others


def test_margins_are_averaged_over_batches_and_the_last_prediction_stands() -> None:
    labels = torch.tensor([0, 1])
    first, second = torch.tensor([[3.0, 1.0, 0.0], [0.0, 4.0, 1.0]]), torch.tensor([[0.0, 5.0, 1.0]])
    predictions = predictions_of(2, ([0, 1], first, labels), ([0], second, labels[:1]))
    assert predictions.average_margin.tolist() == [(2 - 5) / 2, 3]
    assert predictions.predicted.tolist() == [1, 1]
    assert predictions.probability[0].item() == pytest.approx(second.softmax(1).max().item())
    assert predictions.disagrees.tolist() == [True, False]


def test_of_a_row_twice_in_one_batch_the_last_prediction_stands_and_both_count() -> None:
    n = 1000  # enough that a parallel write would show
    logits, labels = random_batch(2 * n, 4, seed=0)
    rows, labels = torch.arange(n).repeat(2), labels[:n].repeat(2)
    together = predictions_of(n, (rows.tolist(), logits, labels))
    one_by_one = predictions_of(
        n, (rows[:n].tolist(), logits[:n], labels[:n]), (rows[n:].tolist(), logits[n:], labels[n:])
    )
    assert together.labels.tolist() == labels[n:].tolist()
    assert together.predicted.tolist() == logits[n:].argmax(1).tolist()
    for name, part in one_by_one.state_dict().items():
        torch.testing.assert_close(together.state_dict()[name], part, msg=name)


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_one_logit_a_row_is_two_classes_of_which_the_first_has_zero(shape: tuple[int, ...]) -> None:
    z, labels = torch.tensor([-2.0, 0.5, 3.0]), torch.tensor([0, 0, 1])
    rows = [0, 1, 2]
    one = predictions_of(3, (rows, z.reshape(shape), labels.float().reshape(shape)))  # as bce has them
    two = predictions_of(3, (rows, torch.stack([torch.zeros(3), z], dim=1), labels))
    for name, part in two.state_dict().items():
        assert torch.equal(one.state_dict()[name], part), name
    assert one.predicted.tolist() == [0, 1, 1]
    assert one.average_margin.tolist() == [2.0, -0.5, 3.0]


def test_half_precision_logits_that_need_a_gradient_are_read_in_float32() -> None:
    logits = torch.tensor([[1.0, 2.0]], dtype=torch.float16, requires_grad=True)
    z, _ = read_logits(logits, torch.tensor([0]))
    assert z.dtype == torch.float32
    assert not z.requires_grad


def test_a_state_is_a_copy_and_can_be_resumed() -> None:
    logits, labels = random_batch(10, 3, seed=0)
    later, _ = random_batch(10, 3, seed=1)
    rows = list(range(10))
    predictions = predictions_of(12, (rows, logits, labels))
    state = predictions.state_dict()
    resumed = Predictions(12)
    resumed.load_state_dict(state)
    for each in (predictions, resumed):
        add(each, np.array(rows), later, labels)
    for name, part in predictions.state_dict().items():
        assert torch.equal(resumed.state_dict()[name].nan_to_num(-7.0), part.nan_to_num(-7.0)), name
    assert state["predicted"][:10].tolist() == logits.argmax(1).tolist()
    assert sum(part.element_size() for part in state.values()) == 20  # bytes a row, as promised


@given(st.lists(st.integers(-96, 96).map(lambda i: i / 8), min_size=2, max_size=10, unique=True))
def test_label_quality_ranks_rows_as_the_average_margin_does(found: list[float]) -> None:
    logits = torch.tensor([[margin, 0.0] for margin in found])
    predictions = predictions_of(
        len(found), (list(range(len(found))), logits, torch.zeros(len(found), dtype=torch.long))
    )
    quality = predictions.label_quality
    assert quality.argsort().tolist() == predictions.average_margin.argsort().tolist() == np.argsort(found).tolist()
    assert quality.min() >= 0
    assert quality.max() <= 1


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (torch.zeros(4, 3), torch.zeros(3).long(), r"got \(4, 3\) and \(3,\)"),
        (torch.zeros(4, 3), torch.zeros(4, 3).long(), r"one label a row, got \(4, 3\) and \(4, 3\); .* several labels"),
        (torch.zeros(4, 3, 2), torch.zeros(4).long(), r"got \(4, 3, 2\) and \(4,\)"),
        (
            torch.zeros(4, 3),
            torch.tensor([0, 1, 2, 3]),
            "integers from 0 to 2, as there are 3 classes; got 0 to 3",
        ),
        (torch.zeros(4, 3), torch.tensor([0, -1, 2, 2]), "got -1 to 2"),
        (torch.zeros(4), torch.tensor([0.0, 0.5, 1.0, 1.0]), "integers from 0 to 1, .* got 0 to 1"),
        (torch.zeros(4), torch.tensor([0.0, 2.0, 1.0, 1.0]), "as there are 2 classes; got 0 to 2"),
    ],
)
def test_shapes_and_labels_that_do_not_fit_get_a_clear_error(logits: Tensor, labels: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        predictions_of(4, ([0, 1, 2, 3], logits, labels))


def test_sample_weights_have_the_predictions_of_a_loop() -> None:
    weights = rk.SampleWeights(6, rk.RRM(contamination=0.2))
    assert weights.predictions is None
    logits, labels = random_batch(6, 3, seed=0)
    weights.reduce(torch.rand(6), torch.arange(6), logits=logits, labels=labels)
    assert weights.predictions is None
    weights.collect()
    assert weights.predictions.average_margin.tolist() == pytest.approx(margins(logits, labels), rel=1e-5)


def test_a_row_whose_label_changes_is_refused_and_nothing_is_recorded() -> None:
    logits, labels = random_batch(6, 3, seed=0)
    predictions = predictions_of(6, (list(range(6)), logits, labels))
    before = predictions.state_dict()
    with pytest.raises(ValueError, match=r"row \d changed its label from \d to \d \(6 such rows\).*Indexed"):
        add(predictions, np.arange(6), logits, (labels + 1) % 3)
    for name, part in before.items():
        assert torch.equal(predictions.state_dict()[name], part), name


def test_rows_shuffled_without_their_index_are_noticed_in_the_loop() -> None:
    weights = rk.SampleWeights(60, rk.RRM(contamination=0.2))
    logits, labels = random_batch(60, 3, seed=0)
    weights.reduce(torch.rand(60), torch.arange(60), logits=logits, labels=labels)
    weights.step()
    order = torch.randperm(60, generator=torch.Generator().manual_seed(1))
    weights.reduce(
        torch.rand(60), torch.arange(60), logits=logits[order], labels=labels[order]
    )  # the place in the epoch, not the row
    values = weights.values.clone()
    with pytest.raises(ValueError, match="index and rows are misaligned"):
        weights.step()
    assert torch.equal(weights.values, values)
    assert weights.epoch == 1


def test_a_row_with_two_labels_in_one_epoch_is_noticed() -> None:
    weights = rk.SampleWeights(4, rk.RRM(contamination=0.25))
    for labels in ([0, 1, 2, 0], [0, 1, 1, 0]):
        weights.reduce(torch.rand(4), torch.arange(4), logits=torch.rand(4, 3), labels=torch.tensor(labels))
    with pytest.raises(ValueError, match=r"row 2 changed its label from 2 to 1 \(1 such rows\)"):
        weights.step()
    assert weights.epoch == 0
    assert weights.predictions is None
