import copy
import math
from dataclasses import replace

import foolbox
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from rockafellian.attacks import ATTACKS, FGSM, PGD
from rockafellian.losses import cce

EPS = 0.05
PER_CHANNEL = ([0.0, -0.5, 0.1], [1.0, 0.5, 0.8])


def network() -> nn.Sequential:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Tanh(), nn.Dropout(), nn.Flatten(), nn.Linear(144, 5)]
    layers.insert(3, nn.BatchNorm2d(4).eval())  # of the BatchNorms one is frozen, the other not
    return nn.Sequential(*layers)


def batch(n: int = 8) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(1)
    return torch.rand(n, 3, 8, 8, generator=random), torch.randint(5, (n,), generator=random)


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    with torch.no_grad():
        return cce(copy.deepcopy(model).eval()(x), y)


def gradient_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(cce(copy.deepcopy(model).eval()(x), y).sum(), x)[0]


def sizes(shift: Tensor, norm: str) -> Tensor:
    return shift.flatten(1).norm(dim=1, p=math.inf if norm == "linf" else 2)


@pytest.mark.parametrize("step", [None, "sign", "unit", "raw"])
@pytest.mark.parametrize("norm", ["linf", "l2"])
@settings(max_examples=6)
@given(
    steps=st.sampled_from([1, 7]),
    random_start=st.booleans(),
    bounds=st.sampled_from([None, (0.0, 1.0), PER_CHANNEL, (PER_CHANNEL[0], 0.9)]),
)
def test_an_attack_raises_every_loss_within_its_ball_and_bounds(norm, step, random_start, bounds, steps) -> None:
    model, (x, y) = network(), batch()
    low, high = (torch.tensor(bound).reshape(-1, 1, 1) for bound in bounds or (-math.inf, math.inf))
    x = x.clamp(low, high)
    before = x.clone()
    size = {"raw": 100.0, "unit": 1.0}.get(step)  # far enough to leave the ball, were it not for the projection
    attack = PGD(EPS, steps, size, norm=norm, step=step, random_start=random_start, bounds=bounds)
    seen = []
    model.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    torch.manual_seed(0)
    attacked = attack(model, cce, x, y)

    assert len(seen) == steps
    assert all(((inputs >= low) & (inputs <= high)).all() for inputs in [*seen, attacked])
    assert sizes(attacked - x, norm).max() <= EPS * (1 + 1e-4)
    assert sizes(attacked - x, norm).min() > EPS / 4
    assert (loss_of(model, attacked, y) > loss_of(model, x, y)).all()
    assert torch.equal(x, before)
    assert attacked.dtype == x.dtype
    assert not attacked.requires_grad


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_leaves_the_network_as_it_found_it(name: str, norm: str) -> None:
    model, (x, y) = network(), batch()
    model[0].weight.grad = torch.full_like(model[0].weight, 3.0)
    modes = [part.training for part in model.modules()]
    assert len(set(modes)) == 2
    state, attack = copy.deepcopy(model.state_dict()), ATTACKS[name](EPS, norm=norm)
    attacked = attack(model, cce, x.requires_grad_(), y)
    with pytest.raises(ValueError, match="one loss per row"):
        attack(model, nn.CrossEntropyLoss(), x, y)

    assert [part.training for part in model.modules()] == modes
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())
    assert model[0].weight.grad.eq(3.0).all()
    assert [key for key, value in model.named_parameters() if value.grad is not None] == ["0.weight"]
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert x.grad is None
    assert not attacked.requires_grad


@pytest.mark.parametrize("name", ATTACKS)
def test_modes_and_no_grad_make_no_difference_to_an_attack(name: str) -> None:
    model, (x, y) = network(), batch()
    attack = replace(ATTACKS[name](EPS), random_start=False)
    expected = attack(copy.deepcopy(model).eval(), cce, x, y)
    assert torch.equal(attack(model, cce, x, y), expected)
    with torch.no_grad():
        assert torch.equal(attack(model, cce, x, y), expected)
        assert not torch.is_grad_enabled()


@pytest.mark.parametrize("name", ATTACKS)
def test_no_eps_is_no_attack(name: str) -> None:
    x, y = batch()
    assert torch.equal(ATTACKS[name](0.0)(network(), cce, x, y), batch()[0])


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_random_start_follows_the_seed_of_torch(norm: str) -> None:
    model, (x, y) = network(), batch()
    results = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        results.append(PGD(EPS, steps=2, norm=norm)(model, cce, x, y))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


@pytest.mark.parametrize(("norm", "eps"), [("linf", 0.5), ("l2", 0.5), ("l2", 3.0)])
def test_a_random_start_is_uniform_in_the_ball(norm: str, eps: float) -> None:
    torch.manual_seed(0)
    x = torch.zeros(4000, 2, 3)
    attack = PGD(eps, steps=1, step_size=1e-9, norm=norm)  # the step is too small to see: this is the start
    start = attack(nn.Flatten(), cce, x, torch.zeros(4000, dtype=torch.int64))
    share = (sizes(start, norm) / eps) ** 6  # of the ball's volume that is nearer
    assert share.max() <= 1 + 1e-5
    assert share.sort().values.numpy() == pytest.approx(torch.linspace(0, 1, 4000).numpy(), abs=0.03)
    assert start.mean(0).abs().max() < 0.05 * eps


def test_fgsm_is_one_step_along_the_gradient_by_hand() -> None:
    model, (x, y) = network(), batch()
    gradient = gradient_of(model, x, y)
    assert gradient.abs().max() < 1
    unit = gradient / sizes(gradient, "l2").reshape(-1, 1, 1, 1)
    by_hand = [
        (FGSM(EPS), x + EPS * gradient.sign()),
        (FGSM(EPS, bounds=(0.0, 1.0)), (x + EPS * gradient.sign()).clamp(0, 1)),
        (FGSM(EPS, norm="l2"), x + EPS * unit),
        (FGSM(EPS, step="raw"), x + EPS * gradient),
        (FGSM(EPS, step="unit"), x + EPS * unit),
    ]
    for attack, expected in by_hand:
        torch.testing.assert_close(attack(model, cce, x, y), expected, rtol=0, atol=1e-6)


def test_pgd_steps_two_and_a_half_times_eps_in_all_unless_told_otherwise() -> None:
    model, (x, y) = network(), batch()
    assert torch.equal(
        PGD(EPS, steps=5, random_start=False)(model, cce, x, y),
        PGD(EPS, steps=5, step_size=EPS / 2, random_start=False)(model, cce, x, y),
    )


def test_inputs_without_a_picture_may_have_bounds_too() -> None:
    torch.manual_seed(0)
    model, x, y = nn.Linear(3, 2), torch.zeros(5, 3), torch.tensor([0, 1, 0, 1, 0])
    attacked = PGD(1.0, bounds=([-0.1, -0.2, -0.3], [0.1, 0.2, 0.3]))(model, cce, x, y)
    assert attacked.abs().numpy() == pytest.approx(torch.tensor([[0.1, 0.2, 0.3]] * 5).numpy())
    assert FGSM(1.0, bounds=(-0.1, 0.1))(model, cce, x, y).abs().numpy() == pytest.approx(0.1)


PGD_8 = {"steps": 8, "random_start": False}


@pytest.mark.parametrize("eps", [0.03, 0.3, 2.0])
@pytest.mark.parametrize(
    ("attack", "reference"),
    [
        (FGSM(1.0), foolbox.attacks.LinfFastGradientAttack()),
        (FGSM(1.0, norm="l2"), foolbox.attacks.L2FastGradientAttack()),
        (PGD(1.0, step_size=0.02, **PGD_8), foolbox.attacks.LinfPGD(abs_stepsize=0.02, **PGD_8)),
        (PGD(1.0, step_size=0.1, norm="l2", **PGD_8), foolbox.attacks.L2PGD(abs_stepsize=0.1, **PGD_8)),
    ],
    ids=["FGSM", "FGM", "LinfPGD", "L2PGD"],
)
def test_attacks_are_those_of_foolbox(attack: PGD, reference: foolbox.Attack, eps: float) -> None:
    model, (x, y) = network().eval(), batch()
    step_size = eps if attack.steps == 1 else attack.step_size
    _, expected, _ = reference(foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu"), x, y, epsilons=eps)
    attacked = replace(attack, eps=eps, step_size=step_size, bounds=(0.0, 1.0))(model, cce, x, y)
    assert not torch.allclose(attacked, x, atol=1e-3)
    torch.testing.assert_close(attacked, expected, rtol=0, atol=1e-5)


X, Y = batch(2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PGD(-0.1), "finite eps >= 0.*got -0.1"),
        (lambda: FGSM(float("nan")), "finite eps >= 0.*got nan"),
        (lambda: PGD(math.inf), "finite eps >= 0.*got inf"),
        (lambda: PGD(0.1, steps=0), "at least one step, got 0"),
        (lambda: PGD(0.1, step_size=0.0), "step_size > 0, got 0.0; None means"),
        (lambda: PGD(0.1, step_size=float("nan")), "step_size > 0, got nan"),
        (lambda: PGD(0.1, bounds=(1.0, 0.0)), r"low <= high, got \(1.0, 0.0\)"),
        (lambda: PGD(0.1, norm="l1"), "norm to be one of linf, l2; got 'l1'"),
        (lambda: FGSM(0.1, step="signed"), "step to be one of sign, unit, raw; got 'signed'"),
        (lambda: FGSM(0.1)(network(), cce, X.long(), Y), "floating type.*got torch.int64"),
        (lambda: FGSM(0.1)(network(), nn.CrossEntropyLoss(), X, Y), r"shape \(\) for 2 rows.*reduction='none'"),
        (lambda: FGSM(0.1, bounds=([0.0, 0.0], 1.0))(network(), cce, X, Y), r"channel.*\(2, 3, 8, 8\); got 2"),
        (lambda: FGSM(0.1, bounds=(0.0, [1.0]))(network(), cce, X, Y), r"channel of inputs \(2, 3, 8, 8\); got 1"),
    ],
)
def test_bad_input_is_answered_with_what_was_wanted_and_what_came(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
