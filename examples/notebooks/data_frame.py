# %% [markdown]
# # A data frame
#
# From a frame with wrong labels to a corrected frame, in Python. The same with commands and a page to review on is
# [ten minutes with a CSV](../../docs/tutorial.md).
#
# The data come with scikit-learn: measurements of 569 tumors. 57 diagnoses are made wrong here.

# %%
import numpy as np
from sklearn.datasets import load_breast_cancer

import rockafellian as rk

data = load_breast_cancer(as_frame=True)
table = data.data.assign(diagnosis=np.array(["malignant", "benign"])[data.target])
truth = table["diagnosis"].copy()
wrong = np.random.default_rng(0).choice(len(table), 57, replace=False)
table.loc[wrong, "diagnosis"] = truth[wrong].map({"benign": "malignant", "malignant": "benign"})

# %% [markdown]
# ## Audit
#
# `crisp=True` says that a tumor has one right diagnosis. Leave it out where outcomes are uncertain, such as ratings
# or churn.

# %%
audited = rk.audit(table, "diagnosis", crisp=True, progress="quiet")
audited

# %%
print(audited.estimate.verdict)
print("what speaks against these findings:", audited.doubts or "nothing")

# %% [markdown]
# ## The label issues
#
# `findings` is a frame with one row per row of the data. The lowest `label_quality` is the most doubtful label.

# %%
worst = audited.findings.nsmallest(60, "label_quality")
worst[["index", "given_label", "predicted_label", "average_margin"]].head().round(1)

# %% [markdown]
# ## Decide, and apply
#
# Look at the doubtful rows and decide: `keep`, `relabel` or `drop`. Here the true labels decide about the 60 worst.

# %%
right = truth[worst["index"]].to_numpy()
is_wrong = right != table["diagnosis"][worst["index"]].to_numpy()
decisions = worst[["index", "id"]].assign(
    decision=np.where(is_wrong, "relabel", "keep"), label=np.where(is_wrong, right, "")
)
corrected = audited.apply(decisions)
before, after = (int((frame["diagnosis"] != truth).sum()) for frame in (table, corrected))
print(f"wrong labels: {before} before, {after} after")

# %% [markdown]
# ## Predict new rows
#
# The classifier was trained without the rows that it removed.

# %%
audited.predict(table.drop(columns="diagnosis").head(3)).round(2)

# %% [markdown]
# Without decisions, `audited.cleaned` is the data without the flagged rows, and `audited.relabeled` has the predicted
# label in them. All options: [your own data](../../docs/audit.md).
