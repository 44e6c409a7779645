"""A PyTorch loop with RRM: three classes, 40 % label noise. Only the lines marked RRM differ from plain training."""

import torch
from torch.utils.data import DataLoader, TensorDataset

import rockafellian as rk

torch.manual_seed(0)
truth = torch.arange(1500) % 3
x = 3 * torch.eye(3)[truth] + torch.randn(1500, 3)
wrong = torch.rand(1500) < 0.4
y = torch.where(wrong, (truth + torch.randint(1, 3, (1500,))) % 3, truth)
model = torch.nn.Sequential(torch.nn.Linear(3, 64), torch.nn.ReLU(), torch.nn.Linear(64, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = torch.nn.CrossEntropyLoss(reduction="none")  # RRM
weights = rk.SampleWeights(len(x), rk.RRM(crisp=True))  # RRM
loader = DataLoader(rk.Indexed(TensorDataset(x, y)), batch_size=50, shuffle=True)  # RRM
for _ in range(10):
    for inputs, labels, index in loader:  # RRM
        optimizer.zero_grad()
        logits = model(inputs)  # RRM
        weights.reduce(criterion(logits, labels), index, logits=logits, labels=labels).backward()  # RRM
        optimizer.step()
    weights.step()  # RRM
print(f"{wrong[weights.removed].float().mean():.0%} of the {weights.n_removed} removed rows are mislabeled")
