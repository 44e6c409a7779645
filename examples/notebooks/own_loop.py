# %% [markdown]
# # Your own torch loop
#
# You have a training loop, and labels that you do not quite trust. Change six lines of the loop: the network learns
# as if most of the wrong labels were not there, and you get a list of them.
#
# The data come with scikit-learn: 1,797 handwritten digits of 8 by 8 pixels. To see at the end what was found, 40 %
# of the training labels are made wrong here. The loop does not know which, or how many.

# %%
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import rockafellian as rk

digits = load_digits()
x, truth = torch.tensor(digits.data).float() / 16, torch.tensor(digits.target)
order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
train, test = order[:1300], order[1300:]
noisy = rk.contamination.uniform(truth[train], 0.4, seed=0)
mean, deviation = x[train].mean(0), x[train].std(0).clamp(min=0.01)
inputs, labels = (x - mean) / deviation, noisy.labels


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


def accuracy(model):
    with torch.no_grad():
        return (model(inputs[test]).argmax(1) == truth[test]).float().mean().item()


# %% [markdown]
# ## The loop as it is
#
# Given enough epochs, the network memorizes the wrong labels too.

# %%
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
criterion = nn.CrossEntropyLoss()
loader = DataLoader(TensorDataset(inputs[train], labels), batch_size=50, shuffle=True)
for _ in range(30):
    for batch, given in loader:
        optimizer.zero_grad()
        criterion(model(batch), given).backward()
        optimizer.step()
print(f"plain training: {accuracy(model):.1%} on clean test rows")

# %% [markdown]
# ## The lines that change
#
# 1. The criterion returns one loss per row: `reduction="none"`.
# 2. `SampleWeights` holds one weight per row. `crisp=True` says that each image shows one digit.
# 3. `Indexed` adds the index of each row to the batches, which the loop unpacks as a third value.
# 4. The logits get a name.
# 5. `reduce` takes the weighted mean of the losses, and remembers what it saw.
# 6. `step`, once per epoch, re-weights the rows.

# %%
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
criterion = nn.CrossEntropyLoss(reduction="none")
weights = rk.SampleWeights(len(train), rk.RRM(crisp=True))
loader = DataLoader(rk.Indexed(TensorDataset(inputs[train], labels)), batch_size=50, shuffle=True)
for _ in range(30):
    for batch, given, index in loader:
        optimizer.zero_grad()
        logits = model(batch)
        weights.reduce(criterion(logits, given), index, logits=logits, labels=given).backward()
        optimizer.step()
    weights.step()
print(f"RRM: {accuracy(model):.1%} on clean test rows")

# %% [markdown]
# ## The noise rate
#
# During the first epochs some rows are held out. How often the network disagrees with their labels, and how surely,
# gives the noise rate, with a 90 % interval. We made 40 %.

# %%
print(weights.estimate.verdict)
print(f"removed: {weights.n_removed} rows, {noisy.mask[weights.removed].float().mean():.0%} of them mislabeled")
print(f"found:   {weights.removed[noisy.mask].float().mean():.0%} of the mislabeled rows")

# %% [markdown]
# ## The label issues
#
# `findings` is a table with one row per training row, in the order of your data. `worst` puts the most doubtful
# labels first.

# %%
found = rk.findings(weights, names=list("0123456789"))
for row in found.worst(5):
    print(f"row {row['index']}: {row['reason']}")

# %% [markdown]
# The ten worst as pictures, with the given label, and the predicted one behind the arrow:

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 10, figsize=(8, 1.2), layout="tight")
for axis, row in zip(axes, found.worst(10), strict=True):
    axis.imshow(x[train][row["index"]].reshape(8, 8), cmap="gray_r")
    axis.set_title(f"{row['given_label']} → {row['predicted_label']}", fontsize=9)
    axis.axis("off")
plt.show()

# %% [markdown]
# `found.issues.to_csv("label-issues.csv")` saves them. The classifier is ready as it is; correct the labels if the
# data will be used again.
#
# Next: [choosing rule and loss](../../docs/choosing.md), [all columns of the table](../../docs/findings.md).
