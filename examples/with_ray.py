"""Ray Train with RRM in two workers. Only the lines marked RRM differ from plain training."""

import tempfile

import ray
import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_data_loader, prepare_model
from torch.utils.data import DataLoader, TensorDataset

import rockafellian as rk

torch.manual_seed(0)
truth = torch.arange(1500) % 3
x = 3 * torch.eye(3)[truth] + torch.randn(1500, 3)
wrong = torch.rand(1500) < 0.4
train = TensorDataset(x, torch.where(wrong, (truth + torch.randint(1, 3, (1500,))) % 3, truth))


def work() -> list[int]:
    torch.manual_seed(0)
    model = prepare_model(torch.nn.Sequential(torch.nn.Linear(3, 64), torch.nn.ReLU(), torch.nn.Linear(64, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = torch.nn.CrossEntropyLoss(reduction="none")  # RRM
    weights = rk.SampleWeights(len(train), rk.RRM(crisp=True))  # RRM
    loader = prepare_data_loader(DataLoader(rk.Indexed(train), batch_size=25, shuffle=True))  # RRM
    for epoch in range(10):
        loader.sampler.set_epoch(epoch)
        for inputs, labels, index in loader:  # RRM
            optimizer.zero_grad()
            logits = model(inputs)
            weights.reduce(criterion(logits, labels), index, logits=logits, labels=labels).backward()  # RRM
            optimizer.step()
        weights.step()  # RRM
    return weights.removed.nonzero()[:, 0].tolist()


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    with tempfile.TemporaryDirectory() as folder:
        scaling, run = ScalingConfig(num_workers=2), RunConfig(storage_path=folder)
        removed = TorchTrainer(work, scaling_config=scaling, run_config=run).fit().return_value
    ray.shutdown()
    print(f"{wrong[removed].float().mean():.0%} of the {len(removed)} removed rows are mislabeled")
