# %% [markdown]
# # A-RRM against attacks
#
# An attack shifts every input a little, in the direction that raises the loss most. Adversarial training (AT) learns
# from attacked inputs and withstands them, but it memorizes wrong labels like any training. A-RRM is adversarial
# training with re-weighted rows, and withstands both.
#
# Four methods are two switches of `rk.fit`: `attack=` and `weights=`.

# %%
import torch
from sklearn.datasets import load_digits
from torch import nn

import rockafellian as rk

digits = load_digits()
x, truth = torch.tensor(digits.data).float() / 16, torch.tensor(digits.target)
order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
train, test = order[:1300], order[1300:]
noisy = rk.contamination.uniform(truth[train], 0.4, seed=0)  # 40 % of the training labels are wrong
eps = 0.05  # how far an attack may shift a pixel, which lies between 0 and 1


def learn(attack=None, weights=None):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data = (x[train], noisy.labels)
    rk.fit(
        model,
        data,
        loss="cce",
        optimizer=optimizer,
        epochs=50,
        batch_size=50,
        attack=attack,
        weights=weights,
        progress="quiet",
    )
    return model


def show(name, model):
    clean, attacked = (
        rk.evaluate(model, (x[test], truth[test]), loss="cce", attack=attack).accuracy
        for attack in (None, rk.attacks.PGD(eps, steps=10))
    )
    print(f"{name:6} {clean:.0%} of the clean test rows, {attacked:.0%} under attack")


# %% [markdown]
# ## Without attacks in training
#
# Plain training (ERM) memorizes wrong labels, and an attack defeats it. RRM removes most of them, estimates the noise
# rate, and is harder to attack.

# %%
show("ERM", learn())
weights = rk.SampleWeights(len(train), rk.RRM(crisp=True))
show("RRM", learn(weights=weights))
print(weights.estimate.verdict)

# %% [markdown]
# ## With attacks in training
#
# Training uses FGSM, one step; the test uses PGD, ten steps, which is stronger. Under attack the network predicts
# worse, so a noise rate estimated there is too high: give A-RRM the one that RRM has just estimated. `warmup` is the
# number of epochs before the first re-weighting.

# %%
attack = rk.attacks.FGSM(eps)
show("AT", learn(attack))
rate = weights.estimate.ceiling.rate
robust = rk.SampleWeights(len(train), rk.RRM(contamination=rate), warmup=5)
show("A-RRM", learn(attack, robust))
print(f"{noisy.mask[robust.removed].float().mean():.0%} of the {robust.n_removed} removed rows are mislabeled")

# %% [markdown]
# `rk.findings(robust)` is the table of label issues, as after any training with weights. Any callable `(model, loss,
# x, y) -> x` is an attack; [`PGD`](../../docs/training.md#attacks) has the usual options. On MNIST, over several
# seeds and strengths: [A-RRM compared with adversarial training](../../docs/adversarial.md).
