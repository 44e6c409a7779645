"""Keras with RRM: three classes, 40 % label noise. Only the lines marked RRM differ from plain training."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
import numpy as np

import rockafellian as rk
from rockafellian.integrations.keras import Reweight, WeightedRows

keras.utils.set_random_seed(0)
random = np.random.default_rng(0)
truth = np.arange(1500) % 3
x = 3 * np.eye(3)[truth] + random.normal(size=(1500, 3))
wrong = random.random(1500) < 0.4
y = np.where(wrong, (truth + random.integers(1, 3, 1500)) % 3, truth)
model = keras.Sequential([keras.layers.Dense(64, "relu"), keras.layers.Dense(3, "softmax")])
model.compile("adam", "sparse_categorical_crossentropy")
weights = rk.SampleWeights(len(x), rk.RRM(crisp=True))  # RRM
rows = WeightedRows((x, y), weights, batch_size=50)  # RRM
model.fit(rows, epochs=10, verbose=0, callbacks=[Reweight(rows)])  # RRM
print(f"{wrong[weights.removed.numpy()].mean():.0%} of the {weights.n_removed} removed rows are mislabeled")
