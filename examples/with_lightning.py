"""Lightning with RRM: three classes, 40 % label noise. Only the lines marked RRM differ from plain training."""

import logging

import torch
from lightning import LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import rockafellian as rk
from rockafellian.integrations.lightning import Reweight

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
torch.manual_seed(0)
truth = torch.arange(1500) % 3
x = 3 * torch.eye(3)[truth] + torch.randn(1500, 3)
wrong = torch.rand(1500) < 0.4
train = TensorDataset(x, torch.where(wrong, (truth + torch.randint(1, 3, (1500,))) % 3, truth))


class Classifier(LightningModule):
    """A small network."""

    def __init__(self, weights: rk.SampleWeights) -> None:  # RRM
        super().__init__()
        self.weights = weights  # RRM
        self.model = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 3))

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        inputs, labels, index = batch  # RRM
        logits = self.model(inputs)
        losses = nn.functional.cross_entropy(logits, labels, reduction="none")  # RRM
        return self.weights.reduce(losses, index, logits=logits, labels=labels)  # RRM

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


weights = rk.SampleWeights(len(train), rk.RRM(crisp=True))  # RRM
loader = DataLoader(rk.Indexed(train), batch_size=50, shuffle=True)  # RRM
trainer = Trainer(max_epochs=10, callbacks=[Reweight(weights)], **quiet)  # RRM
trainer.fit(Classifier(weights), loader)  # RRM
print(f"{wrong[weights.removed].float().mean():.0%} of the {weights.n_removed} removed rows are mislabeled")
