import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from rockafellian.attacks import FGSM, PGD
from rockafellian.losses import ELR, LOSSES, bce, cce, squared
from rockafellian.training.data import Rows
from rockafellian.training.evaluation import Evaluation, eval_pass, evaluate, read_task

ATTACK = FGSM(0.3)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(), nn.Linear(8, 4))
    model(3 * torch.randn(50, 6) + 1)  # BatchNorm now knows other rows than those of the tests
    model.append(nn.Dropout().eval())  # one part is frozen, the others are not
    return model


def data(n: int = 600) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(1)
    return torch.randn(600, 6, generator=random)[:n], torch.randint(4, (600,), generator=random)[:n]


def by_hand(model: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, float]:
    with torch.no_grad():
        outputs = copy.deepcopy(model).eval()(x)
    return cce(outputs, y), (outputs.argmax(1) == y).double().mean().item()


def remembering(n: int) -> ELR:
    elr = ELR(n, 4)
    elr.memory.copy_(torch.rand(n, 4, generator=torch.Generator().manual_seed(2)) / 4)
    return elr


@pytest.mark.parametrize("attack", [None, ATTACK], ids=["clean", "attacked"])
@pytest.mark.parametrize("kind", ["in memory", "by loader"])
@pytest.mark.parametrize("n", [1, 5, 256, 257, 600])
def test_evaluation_is_the_mean_over_all_rows_wherever_a_batch_ends(n: int, kind: str, attack) -> None:
    model, (x, y) = network(), data(n)
    rows = (x, y) if kind == "in memory" else list(zip(x, y, strict=True))
    losses, accuracy = by_hand(model, x if attack is None else attack(model, cce, x, y), y)
    found = evaluate(model, rows, loss=cce, attack=attack)
    assert isinstance(found, Evaluation)
    assert found.loss == pytest.approx(losses.double().mean().item(), rel=1e-5)
    assert found.accuracy == pytest.approx(accuracy, abs=1e-12)


def test_an_attack_lowers_the_accuracy() -> None:
    model, rows = network(), data()
    clean, attacked = evaluate(model, rows, loss=cce), evaluate(model, rows, loss=cce, attack=ATTACK)
    assert attacked.accuracy < clean.accuracy
    assert attacked.loss > clean.loss
    assert evaluate(model, rows, loss=cce, attack=FGSM(0.0)) == clean


def fails_under_attack(outputs: Tensor, y: Tensor) -> Tensor:
    if torch.is_grad_enabled():
        raise KeyError("a loss with a fault")
    return cce(outputs, y)


@pytest.mark.parametrize("attack", [None, ATTACK], ids=["clean", "attacked"])
@pytest.mark.parametrize("loss", [cce, remembering(600), fails_under_attack])
def test_a_pass_changes_neither_the_network_nor_the_loss(loss, attack) -> None:
    model, rows = network(), data()
    parts = [part for module in (model, loss) if isinstance(module, nn.Module) for part in module.modules()]
    modes = [part.training for part in parts]
    states = [copy.deepcopy(part.state_dict()) for part in parts]
    assert set(modes) == {True, False}
    calls = [
        lambda: evaluate(model, rows, loss=loss, attack=attack),
        lambda: list(eval_pass(model, Rows(rows), torch.arange(300), loss, attack)),
    ]
    for call in calls:
        if loss is fails_under_attack and attack is not None:
            with pytest.raises(KeyError):
                call()
        else:
            call()
        assert [part.training for part in parts] == modes
        for part, state in zip(parts, states, strict=True):
            assert all(torch.equal(state[name], value) for name, value in part.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


class Identity(nn.Module):
    """The inputs are the outputs."""

    def forward(self, x: Tensor) -> Tensor:
        return x


TWO_BY_TWO = torch.tensor([[1.0, -1.0], [2.0, 3.0]])
ACCURACIES = {
    "classes": (torch.tensor([[3.0, 1, 2], [0, 1, 5], [0, 7, 6]]), torch.tensor([0, 2, 2]), cce, 2 / 3),
    "binary (n,)": (torch.tensor([0.3, -0.2, 4.0, 0.1]), torch.tensor([1, 0, 1, 0]), bce, 3 / 4),
    "binary (n, 1)": (torch.tensor([[0.3], [-0.2], [4.0]]), torch.tensor([0, 0, 1]), bce, 2 / 3),
    "binary, both (n, 1)": (torch.tensor([[0.3], [-0.2]]), torch.tensor([[1.0], [1.0]]), bce, 1 / 2),
    "bool": (torch.tensor([0.3, -0.2, 4.0, 0.1]), torch.tensor([True, False, True, False]), bce, 3 / 4),
    "several labels": (TWO_BY_TWO, torch.tensor([[1.0, 0], [0, 1]]), bce, 3 / 4),
    "regression": (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]), squared, None),
    "regression of several": (TWO_BY_TWO, torch.tensor([[1.0, -1.0], [2.0, 3.0]]), squared, None),
    "float class labels": (
        TWO_BY_TWO,
        torch.tensor([0.0, 1.0]),
        lambda outputs, y: cce(outputs, y.long()),
        None,
    ),
}


@pytest.mark.parametrize("name", ACCURACIES)
def test_accuracy_is_the_share_of_labels_that_are_right_or_none(name: str) -> None:
    outputs, y, loss, accuracy = ACCURACIES[name]
    found = evaluate(Identity(), (outputs, y), loss=loss)
    assert found.accuracy == (accuracy if accuracy is None else pytest.approx(accuracy))
    assert found.loss == pytest.approx(loss(outputs, y).mean().item())


def test_targets_that_begin_with_zeros_and_ones_are_still_a_regression() -> None:
    y = torch.tensor([0.0, 1.0, 0.0, 1.0, 5.3, -2.0])
    assert evaluate(Identity(), (y / 2, y), loss=squared).accuracy is None


@pytest.mark.parametrize("attack", [None, ATTACK], ids=["clean", "attacked"])
def test_elr_is_the_cross_entropy_where_rows_are_not_those_of_the_training(attack) -> None:
    model, elr = network(), remembering(3)  # it remembers 3 rows, and is asked of 600
    memory = elr.memory.clone()
    assert evaluate(model, data(), loss=elr, attack=attack) == evaluate(model, data(), loss=cce, attack=attack)
    assert torch.equal(elr.memory, memory)
    assert elr.training


def seen(model: nn.Module, rows: Rows, order: Tensor, loss, attack) -> list[Tensor]:
    """Indices, losses, outputs and labels of a whole pass."""
    return [torch.cat(part) for part in zip(*eval_pass(model, rows, order, loss, attack), strict=True)]


@given(st.lists(st.integers(0, 599), min_size=1, max_size=20), st.integers(1, 20), st.sampled_from([None, ATTACK]))
def test_the_losses_of_any_rows_in_any_order_are_those_by_hand(rows: list[int], times: int, attack) -> None:
    model, (x, y) = network(), data()
    order = torch.tensor(rows * times)  # up to 400 rows: more than one batch
    expected, _ = by_hand(model, x if attack is None else attack(model, cce, x, y), y)
    index, found, outputs, labels = seen(model, Rows((x, y)), order, cce, attack)
    assert torch.equal(index, order)
    assert torch.equal(labels, y[order])
    assert not found.requires_grad
    torch.testing.assert_close(found, cce(outputs, labels))
    torch.testing.assert_close(found, expected[order], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("attack", [None, PGD(0.3, steps=2, random_start=False)], ids=["clean", "attacked"])
def test_a_loss_that_takes_the_index_of_a_row_gets_it(attack) -> None:
    model, (x, y), elr = network(), data(), remembering(600).eval()
    order = torch.arange(599, 100, -2)
    x_seen = x[order] if attack is None else attack(model, lambda o, y: elr(o, y, order), x[order], y[order])
    with torch.no_grad():
        expected = elr(copy.deepcopy(model).eval()(x_seen), y[order], order)
    _, found, _, _ = seen(model, Rows(list(zip(x, y, strict=True))), order, elr.train(), attack)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(found, cce(copy.deepcopy(model).eval()(x_seen), y[order]), atol=0.1)


def with_label(label: int, row: int) -> tuple[Tensor, Tensor]:
    x, y = data()
    y[row] = label
    return x, y


@pytest.mark.parametrize(
    ("rows", "loss", "message"),
    [
        (with_label(4, 0), cce, "labels from 0 to 3, as the network has 4 outputs; got 0 to 4"),
        (with_label(9, 555), cce, "labels from 0 to 3, as the network has 4 outputs; got 0 to 9"),
        (with_label(-1, 555), cce, "got -1 to 3"),
        (with_label(-100, 555), cce, "got -100 to 3"),  # torch would pass it over
        (list(zip(*with_label(4, 3), strict=True)), cce, "got . to 4"),
        (data(), nn.CrossEntropyLoss(), r"one loss per row, got shape \(\) for 4 rows.*reduction='none'"),
        (data(2), nn.CrossEntropyLoss(), r"got shape \(\) for 2 rows"),
        (data(), lambda o, y: nn.functional.one_hot(y, 4) - o, r"got shape \(4, 4\) for 4 rows"),
        (data(0), cce, "at least one row"),
    ],
)
def test_what_does_not_fit_together_is_an_error_at_once(rows, loss, message: str) -> None:
    model = network()
    modes = [part.training for part in model.modules()]
    with pytest.raises(ValueError, match=message):
        read_task(model, Rows(rows), loss)
    with pytest.raises(ValueError, match=message):
        evaluate(model, rows, loss=loss)
    assert [part.training for part in model.modules()] == modes


def test_labels_that_fit_are_no_error_and_the_task_is_known() -> None:
    task = read_task(network(), Rows(data()), cce)
    assert task.n_classes == 4
    assert task.score(torch.eye(4), torch.tensor([0, 1, 3, 3])).tolist() == [True, True, False, True]


@pytest.mark.parametrize("name", ["cce", "mae", "gce"])
def test_a_loss_can_be_named(name: str) -> None:
    assert evaluate(network(), data(), loss=name) == evaluate(network(), data(), loss=LOSSES[name])


def test_elr_by_name_is_the_cross_entropy_on_rows_that_were_not_trained_on() -> None:
    assert evaluate(network(), data(), loss="elr") == evaluate(network(), data(), loss=cce)


@pytest.mark.parametrize(
    ("loss", "outputs", "message"),
    [
        ("crossentropy", 4, "need the name of a loss, one of cce, mae, .*got 'crossentropy'"),
        ("elr", 1, r"one output per class to make the loss 'elr' by its name.*pass ELR\(n_samples, n_classes\)"),
    ],
)
def test_a_name_without_a_loss_is_an_error(loss: str, outputs: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(nn.Linear(6, outputs), data(), loss=loss)


def test_labels_that_the_loss_cannot_take_are_one_line_of_error() -> None:
    rows = Rows((torch.rand(4, 3), torch.tensor([0.0, 1.0, 0.0, 1.0])))
    with pytest.raises(ValueError, match=r"need labels that fit the loss, got .* of torch\.float32") as caught:
        read_task(nn.Linear(3, 2), rows, cce)
    assert "\n" not in str(caught.value)
