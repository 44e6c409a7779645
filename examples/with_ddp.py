"""Several processes with RRM: torchrun --nproc-per-node 2 with_ddp.py. Only the lines marked RRM are new."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import rockafellian as rk

dist.init_process_group("gloo")
torch.manual_seed(0)
truth = torch.arange(1500) % 3
x = 3 * torch.eye(3)[truth] + torch.randn(1500, 3)
wrong = torch.rand(1500) < 0.4
train = TensorDataset(x, torch.where(wrong, (truth + torch.randint(1, 3, (1500,))) % 3, truth))
network = torch.nn.Sequential(torch.nn.Linear(3, 64), torch.nn.ReLU(), torch.nn.Linear(64, 3))
model = DistributedDataParallel(network)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = torch.nn.CrossEntropyLoss(reduction="none")  # RRM
weights = rk.SampleWeights(len(train), rk.RRM(crisp=True))  # RRM
sampler = DistributedSampler(train)
loader = DataLoader(rk.Indexed(train), batch_size=25, sampler=sampler)  # RRM
for epoch in range(10):
    sampler.set_epoch(epoch)
    for inputs, labels, index in loader:  # RRM
        optimizer.zero_grad()
        logits = model(inputs)
        weights.reduce(criterion(logits, labels), index, logits=logits, labels=labels).backward()  # RRM
        optimizer.step()
    weights.step()  # RRM
if dist.get_rank() == 0:
    print(f"{wrong[weights.removed].float().mean():.0%} of the {weights.n_removed} removed rows are mislabeled")
dist.barrier()
del model
dist.destroy_process_group()
