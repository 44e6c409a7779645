"""Training in bfloat16 beside full precision, for a test that starts it in a process of its own."""

import torch
from torch import Tensor, nn

import rockafellian as rk
from toy import make_toy


class Spy(rk.SampleWeights):
    """Checks that losses and logits come in float32."""

    def reduce(self, losses: Tensor, index: Tensor, **predictions: Tensor) -> Tensor:
        assert {part.dtype for part in (losses, predictions["logits"])} == {torch.float32}
        return super().reduce(losses, index, **predictions)


def train(amp: str | None, toy, loss: str) -> tuple[rk.History, Tensor, Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 3))
    weights = Spy(300, rk.RRM(contamination=0.4))
    history = rk.fit(
        model,
        (toy.x, toy.y),
        loss=loss,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        epochs=6,
        weights=weights,
        amp=amp,
        batch_size=50,
        progress="quiet",
    )
    return history, weights.removed, torch.cat([part.detach().flatten() for part in model.parameters()])


def main() -> None:
    torch.set_num_threads(1)
    toy = make_toy(n=300)
    for loss in ("cce", "gce", "elr"):
        (full, removed, exact), (half, also_removed, rounded) = (train(amp, toy, loss) for amp in (None, "bfloat16"))
        losses = half.epochs[-1].loss, full.epochs[-1].loss
        assert abs(losses[0] - losses[1]) < 0.05 * abs(losses[1]), (loss, losses)
        assert (removed & also_removed).sum() >= 0.95 * removed.sum(), loss
        assert 0 < (exact - rounded).abs().max() < 0.2, (loss, (exact - rounded).abs().max())


if __name__ == "__main__":
    main()
