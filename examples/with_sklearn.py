"""A scikit-learn classifier with RRM: three classes, 40 % label noise. Only the lines marked RRM are new."""

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from rockafellian.integrations.sklearn import RRMClassifier  # RRM

random = np.random.default_rng(0)
truth = np.arange(1500) % 3
x = 3 * np.eye(3)[truth] + random.normal(size=(1500, 3))
wrong = random.random(1500) < 0.4
y = np.where(wrong, (truth + random.integers(1, 3, 1500)) % 3, truth)
model = RRMClassifier(RandomForestClassifier(50, random_state=0), crisp=True)  # RRM
model.fit(x, y)
print(f"{wrong[model.removed_].mean():.0%} of the {model.removed_.sum()} removed rows are mislabeled")
