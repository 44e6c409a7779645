import json

import pytest
import torch

import rockafellian as rk
from rockafellian.auditing.model.networks import Dropout, SmallCnn, build, mlp


@pytest.mark.parametrize(
    ("description", "shape"),
    [
        ({"network": "mlp", "inputs": 30, "classes": 3}, (30,)),
        ({"network": "mlp", "inputs": 1, "classes": 2, "hidden": 8, "dropout": 0.5}, (1,)),
        ({"network": "cnn", "channels": 1, "side": 8, "classes": 10}, (1, 8, 8)),
        ({"network": "cnn", "channels": 3, "side": 33, "classes": 2, "width": 8}, (3, 33, 33)),
        ({"network": "cnn", "channels": 3, "side": 64, "classes": 5, "width": 8, "dropout": 0.3}, (3, 64, 64)),
    ],
)
def test_a_description_of_json_builds_a_network_for_its_inputs(description: dict, shape: tuple[int, ...]) -> None:
    network = build(json.loads(json.dumps(description)))
    assert network(torch.randn(5, *shape)).shape == (5, description["classes"])
    again = build(description)
    again.load_state_dict(network.state_dict())


def test_a_description_is_left_as_it_was() -> None:
    description = {"network": "mlp", "inputs": 2, "classes": 2}
    build(description)
    assert description == {"network": "mlp", "inputs": 2, "classes": 2}


@pytest.mark.parametrize("side", range(8, 65, 7))
def test_small_images_of_every_size_reach_the_head(side: int) -> None:
    network = SmallCnn(1, side, 2, width=8)
    images = torch.randn(3, 1, side, side, requires_grad=True)
    network(images).sum().backward()
    assert images.grad is not None
    middle = images.grad[:, :, side // 4 : -side // 4]
    assert middle.abs().amax((1, 2, 3)).gt(0).all()


def test_there_is_dropout_only_if_asked_for() -> None:
    assert not any(isinstance(layer, Dropout) for layer in mlp(4, 2))
    assert sum(isinstance(layer, Dropout) for layer in mlp(4, 2, dropout=0.2)) == 2


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 0.999])
def test_dropout_drops_its_part_keeps_the_mean_and_ends_with_training(rate: float) -> None:
    x, layer = torch.ones(500, 257, requires_grad=True), Dropout(rate)
    torch.manual_seed(0)
    y = layer(x)
    kept = (y > 0).float()
    assert float(kept.mean()) == pytest.approx(1 - rate, abs=0.005)
    assert float(y.detach().mean()) == pytest.approx(1, abs=0.1)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(gradient, y)
    assert abs(float(torch.corrcoef(torch.stack([kept[:, 0], kept[:, 1]]))[0, 1])) < 0.2 or rate in (0, 0.999)
    torch.manual_seed(0)
    assert torch.equal(layer(x), y)
    assert layer.eval()(x) is x


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"network": "tree"}, "need a network that is mlp or cnn, got 'tree'"),
        ({}, "need a network that is mlp or cnn, got None"),
        ({"network": "mlp", "inputs": 3}, "need the settings of mlp, got inputs: missing .*classes"),
        ({"network": "mlp", "inputs": 3, "classes": 2, "depth": 9}, "need the settings of mlp, .*depth"),
        ({"network": "mlp", "inputs": 0, "classes": 2}, "need integers >= 1, got inputs=0"),
        ({"network": "mlp", "inputs": 2.5, "classes": 2}, "need integers >= 1, got inputs=2.5"),
        ({"network": "cnn", "channels": 1, "side": 7, "classes": 2}, "need images of 8 to 64 pixels a side, got 7"),
    ],
)
def test_what_describes_no_network_is_refused(description: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(description)


def test_wrong_labels_of_small_images_are_found() -> None:
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = torch.tensor(digits.images[:900, None] / 16, dtype=torch.float32)
    noisy = rk.contamination.uniform(digits.target[:900], 0.2, n_classes=10, seed=0)
    torch.manual_seed(0)
    network = build({"network": "cnn", "channels": 1, "side": 8, "classes": 10, "width": 16})
    weights = rk.SampleWeights(900, rk.RRM(crisp=True))
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    data = images, noisy.labels
    rk.fit(
        network,
        data,
        loss=rk.losses.cce,
        optimizer=optimizer,
        epochs=12,
        weights=weights,
        batch_size=32,
        progress="quiet",
    )
    both = int((weights.removed & noisy.mask).sum())
    assert 2 * both / int(weights.removed.sum() + noisy.mask.sum()) > 0.85
