"""The optimizer of an audit: torch's own steps, without importing torch's compiler."""

import subprocess
import sys

import torch

from rockafellian.auditing.model.training import AdamW

AUDIT = """
import sys, numpy as np, pandas as pd, rockafellian as rk
x = np.random.default_rng(0).normal(size=(60, 3))
rk.audit(pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": np.where(x[:, 0] > 0, "up", "down")}), label="y", epochs=10)
print("torch._dynamo" in sys.modules)
"""


def test_the_optimizer_makes_the_steps_of_torch() -> None:
    networks = []
    for kind in (torch.optim.AdamW, AdamW):
        torch.manual_seed(0)
        network = torch.nn.Linear(4, 3)
        optimizer = kind(network.parameters(), lr=0.1, weight_decay=0.1, fused=True)
        for _ in range(3):
            optimizer.zero_grad()
            network(torch.ones(5, 4)).square().mean().backward()
            optimizer.step()
        again = kind(network.parameters(), lr=0.1)
        again.load_state_dict(optimizer.state_dict())
        assert again.state_dict()["state"][0]["step"] == 3
        networks.append(network)
    assert torch.equal(networks[0].weight, networks[1].weight)


def test_an_audit_does_not_import_the_compiler_of_torch() -> None:
    done = subprocess.run([sys.executable, "-c", AUDIT], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "False"
