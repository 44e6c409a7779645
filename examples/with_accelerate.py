"""Accelerate with RRM: three classes, 40 % label noise. Only the lines marked RRM differ from plain training."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

import rockafellian as rk

torch.manual_seed(0)
truth = torch.arange(1500) % 3
x = 3 * torch.eye(3)[truth] + torch.randn(1500, 3)
wrong = torch.rand(1500) < 0.4
train = TensorDataset(x, torch.where(wrong, (truth + torch.randint(1, 3, (1500,))) % 3, truth))
accelerator = Accelerator(cpu=True)
network = torch.nn.Sequential(torch.nn.Linear(3, 64), torch.nn.ReLU(), torch.nn.Linear(64, 3))
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
criterion = torch.nn.CrossEntropyLoss(reduction="none")  # RRM
weights = rk.SampleWeights(len(train), rk.RRM(crisp=True))  # RRM
loader = DataLoader(rk.Indexed(train), batch_size=25, shuffle=True)  # RRM
model, optimizer, loader = accelerator.prepare(network, optimizer, loader)
for _ in range(10):
    for inputs, labels, index in loader:  # RRM
        optimizer.zero_grad()
        logits = model(inputs)
        accelerator.backward(weights.reduce(criterion(logits, labels), index, logits=logits, labels=labels))  # RRM
        optimizer.step()
    weights.step()  # RRM
precision = wrong[weights.removed].float().mean()
accelerator.print(f"{precision:.0%} of the {weights.n_removed} removed rows are mislabeled")
accelerator.wait_for_everyone()
model, optimizer, loader = accelerator.free_memory(model, optimizer, loader)
accelerator.end_training()
