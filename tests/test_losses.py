from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from rockafellian import losses
from rockafellian.losses import ELR, LOSSES

N, K = 12, 4
ROWS = torch.arange(N)
LABELS = ROWS % K


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


LOGITS = 2 * random(N, K)
TARGETS = {"bce": random(N, K, seed=1) > 0, "squared": random(N, K, seed=2), "huber": random(N, K, seed=2)}


def softmax(logits: Tensor) -> Tensor:
    return logits.exp() / logits.exp().sum(1, keepdim=True)


def case(name: str) -> tuple[Callable[[Tensor, Tensor, Tensor], Tensor], Tensor]:
    if getattr(LOSSES[name], "takes_index", False):
        loss = LOSSES[name](N, K).eval()
        loss.memory.copy_(softmax(random(N, K, seed=3)))
        return loss, LABELS
    return lambda outputs, targets, index: LOSSES[name](outputs, targets), TARGETS.get(name, LABELS)


every_loss = pytest.mark.parametrize("name", LOSSES)


@every_loss
def test_every_loss_gives_one_finite_value_per_row(name: str) -> None:
    loss, targets = case(name)
    values = loss(LOGITS, targets, ROWS)
    assert values.shape == (N,)
    assert values.dtype == LOGITS.dtype
    assert values.isfinite().all()
    assert name == "elr" or values.min() >= 0


@every_loss
def test_a_batch_costs_what_its_rows_cost_one_by_one(name: str) -> None:
    loss, targets = case(name)
    one_by_one = [loss(LOGITS[i : i + 1], targets[i : i + 1], ROWS[i : i + 1]) for i in range(N)]
    torch.testing.assert_close(loss(LOGITS, targets, ROWS), torch.cat(one_by_one))


@every_loss
def test_the_gradient_is_the_slope(name: str) -> None:
    loss, targets = case(name)
    logits = LOGITS.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda outputs: loss(outputs, targets, ROWS), logits)
    assert torch.autograd.grad(loss(logits, targets, ROWS).sum(), logits)[0].abs().max() > 0.01


@every_loss
def test_single_precision_is_close_to_double(name: str) -> None:
    loss, targets = case(name)
    single = loss(LOGITS.float(), targets.float() if targets.is_floating_point() else targets, ROWS)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), loss(LOGITS, targets, ROWS), rtol=1e-5, atol=1e-6)


@every_loss
def test_huge_logits_in_single_precision_have_finite_losses_and_gradients(name: str) -> None:
    loss, targets = case(name)
    logits = (1e4 * LOGITS.sign()).float().requires_grad_()
    values = loss(logits, targets.float() if targets.is_floating_point() else targets, ROWS)
    values.sum().backward()
    assert values.isfinite().all()
    assert logits.grad.isfinite().all()


P = softmax(LOGITS)
P_Y = P[ROWS, LABELS]
ONE_HOT = torch.eye(K, dtype=torch.float64)[LABELS]


@pytest.mark.parametrize(
    ("loss", "formula"),
    [
        (losses.cce, -P_Y.log()),
        (losses.mae, (P - ONE_HOT).abs().mean(1)),
        (losses.mse, ((P - ONE_HOT) ** 2).mean(1)),
        (losses.gce, (1 - P_Y**0.7) / 0.7),
        *[(lambda x, y, q=q: losses.gce(x, y, q=q), (1 - P_Y**q) / q) for q in (0.01, 0.3, 1.0)],
        (LOSSES["truncated_gce"], (1 - P_Y.clamp(min=0.5) ** 0.7) / 0.7),
        (lambda x, y: losses.gce(x, y, q=0.3, k=0.2), (1 - P_Y.clamp(min=0.2) ** 0.3) / 0.3),
        (lambda x, y: losses.gce(x, y, q=1e-7), -P_Y.log()),
        (lambda x, y: losses.gce(x, y, q=1), K / 2 * losses.mae(LOGITS, LABELS)),
        (nn.CrossEntropyLoss(reduction="none"), losses.cce(LOGITS, LABELS)),
    ],
)
def test_classification_losses_are_their_formulas(loss: Callable[..., Tensor], formula: Tensor) -> None:
    torch.testing.assert_close(loss(LOGITS, LABELS), formula, rtol=1e-6, atol=1e-6)


def test_truncated_rows_pull_no_more_and_the_others_as_before() -> None:
    gradients = []
    for loss in (losses.gce, LOSSES["truncated_gce"]):
        logits = LOGITS.clone().requires_grad_()
        loss(logits, LABELS).sum().backward()
        gradients.append(logits.grad)
    whole, truncated = gradients
    unlikely = P_Y < 0.5
    assert 0 < unlikely.sum() < N
    assert truncated[unlikely].eq(0).all()
    assert torch.equal(truncated[~unlikely], whole[~unlikely])
    assert whole.abs().sum(1).min() > 0


def test_a_row_at_the_very_edge_pulls_no_more() -> None:
    logits = torch.zeros(1, 2, requires_grad=True)
    losses.gce(logits, torch.tensor([0]), k=0.5).sum().backward()
    assert logits.grad.eq(0).all()


def bce_by_hand(outputs: Tensor, targets: Tensor) -> Tensor:
    p = 1 / (1 + (-outputs).exp())
    return -(targets * p.log() + (1 - targets) * (1 - p).log())


def huber_by_hand(outputs: Tensor, targets: Tensor, delta: float) -> Tensor:
    error = (outputs - targets).abs()
    return torch.where(error <= delta, error**2 / 2, delta * (error - delta / 2))


@pytest.mark.parametrize("outputs", [(N,), (N, 1), (N, 3), (N, 2, 3)])
@pytest.mark.parametrize(
    ("loss", "formula"),
    [
        (losses.bce, bce_by_hand),
        (losses.squared, lambda outputs, targets: (outputs - targets) ** 2),
        (losses.huber, lambda outputs, targets: huber_by_hand(outputs, targets, 1.0)),
        (lambda x, y: losses.huber(x, y, delta=0.3), lambda x, y: huber_by_hand(x, y, 0.3)),
    ],
)
def test_losses_by_output_are_their_formulas_averaged_over_a_row(loss, formula, outputs: tuple[int, ...]) -> None:
    x, y = random(*outputs), (random(*outputs, seed=1) > 0).double()
    expected = formula(x, y).reshape(N, -1).mean(1)
    torch.testing.assert_close(loss(x, y), expected)
    if x.numel() == N:  # one output a row: its axis may be left out on either side
        torch.testing.assert_close(loss(x, y.reshape(N)), expected)
        torch.testing.assert_close(loss(x, y.reshape(N, 1)), expected)


def test_bce_takes_whole_numbers_and_truth_values_as_labels() -> None:
    x, y = random(N), ROWS % 2
    torch.testing.assert_close(losses.bce(x, y), bce_by_hand(x, y))
    torch.testing.assert_close(losses.bce(x, y.bool()), bce_by_hand(x, y))


def test_elr_is_its_formula_over_two_updates() -> None:
    loss = ELR(10, K, beta=0.6, lam=2.0)
    index, labels = torch.tensor([7, 2, 5]), torch.tensor([0, 3, 1])
    memory = torch.zeros(10, K, dtype=torch.float64)
    for seed in (0, 1):
        logits = 2 * random(3, K, seed=seed)
        logits[0, 0] = 40.0  # the network is sure: p is kept 1e-4 away from 0 and 1
        p = softmax(logits).clip(1e-4, 1 - 1e-4)
        memory[index] = 0.6 * memory[index] + 0.4 * p / p.sum(1, keepdim=True)
        expected = losses.cce(logits, labels) + 2.0 * (1 - (memory[index] * p).sum(1)).log()
        torch.testing.assert_close(loss(logits, labels, index), expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(loss.memory.double(), memory, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_elr_stays_finite_when_the_network_is_sure_for_long(dtype: torch.dtype) -> None:
    loss = ELR(1, 2)
    for _ in range(100):
        value = loss(torch.tensor([[1e4, -1e4]], dtype=dtype), torch.tensor([0]), torch.tensor([0]))
    assert value.item() == pytest.approx(3 * torch.tensor(2e-4).log().item(), rel=1e-2)


def test_elr_remembers_in_training_mode_only() -> None:
    loss = ELR(N, K)
    first = loss(LOGITS, LABELS, ROWS)
    after = loss.memory.clone()
    assert after.sum(1).tolist() == pytest.approx([0.3] * N)
    loss.eval()
    torch.testing.assert_close(loss(LOGITS, LABELS, ROWS), first)
    assert not torch.allclose(loss(LOGITS.flip(0), LABELS, ROWS), losses.cce(LOGITS.flip(0), LABELS))
    assert torch.equal(loss(LOGITS, LABELS), losses.cce(LOGITS, LABELS))
    assert torch.equal(loss.memory, after)
    loss.train()(LOGITS, LABELS, ROWS)
    assert not torch.equal(loss.memory, after)


def test_no_gradient_flows_into_the_memory_of_elr() -> None:
    loss, slopes = ELR(N, K), []
    for mode in (True, False):  # in evaluation mode the memory that the training left is a constant
        logits = LOGITS.clone().requires_grad_()
        loss.train(mode)(logits, LABELS, ROWS).sum().backward()
        slopes.append(logits.grad)
    torch.testing.assert_close(*slopes)
    assert loss.memory.grad_fn is None
    assert not loss.memory.requires_grad
    assert list(loss.parameters()) == []


def test_the_memory_of_elr_is_part_of_its_state() -> None:
    loss, restored = ELR(N, K), ELR(N, K)
    loss(LOGITS, LABELS, ROWS)
    restored.load_state_dict(loss.state_dict())
    assert torch.equal(restored.memory, loss.memory)
    assert torch.equal(restored(LOGITS, LABELS, ROWS), loss(LOGITS, LABELS, ROWS))
    assert repr(loss) == "ELR(12, 4, beta=0.7, lam=3.0)"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: losses.gce(LOGITS, LABELS, q=0.0), r"q in \(0, 1\].*got q=0.0"),
        (lambda: losses.gce(LOGITS, LABELS, q=1.5), "got q=1.5"),
        (lambda: losses.gce(LOGITS, LABELS, q=float("nan")), "got q=nan"),
        (lambda: losses.gce(LOGITS, LABELS, k=0.0), r"k in \(0, 1\) or None.*k=0.0"),
        (lambda: losses.gce(LOGITS, LABELS, k=1.0), "k=1.0"),
        (lambda: losses.bce(LOGITS, LABELS), r"one shape, got \(12, 4\) and \(12,\)"),
        (lambda: losses.squared(LOGITS, LOGITS.T), r"one shape, got \(12, 4\) and \(4, 12\)"),
        (lambda: losses.huber(LOGITS[:, :1], LOGITS), r"one shape, got \(12, 1\) and \(12, 4\)"),
        (lambda: ELR(0, K), "n_samples >= 1.*got 0, 4"),
        (lambda: ELR(N, 1), "n_classes >= 2.*got 12, 1"),
        (lambda: ELR(N, K, beta=1.0), r"beta in \[0, 1\).* 1.0 and"),
        (lambda: ELR(N, K, lam=-1.0), "lam >= 0.*and -1.0"),
        (lambda: ELR(N, K)(LOGITS, LABELS), r"index of each row.*call loss\(logits, labels, index\)"),
        (lambda: ELR(N, 3)(LOGITS, LABELS, ROWS), r"logits of 3 classes.*got logits \(12, 4\)"),
        (lambda: ELR(N, K)(LOGITS, LABELS, ROWS[1:]), r"one index per row.*and index \(11,\)"),
        (lambda: ELR(N - 1, K)(LOGITS, LABELS, ROWS), "index from 0 to 10, got 11; n_samples must be"),
        (lambda: ELR(N, K)(LOGITS, LABELS, ROWS - 1), "index from 0 to 11, got -1"),
    ],
)
def test_bad_input_is_answered_with_what_was_wanted_and_what_came(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
