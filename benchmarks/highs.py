"""The inner linear program of eq. (3) solved by scipy's HiGHS: the closed form is checked and timed against it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, linprog
from scipy.sparse import csr_array

Vector = NDArray[np.float64]


def solve(losses: Vector, gamma: float, prior: Vector | None = None) -> tuple[float, Vector]:
    """Return the optimum of the linear program and weights that attain it.

    Weights are q + given - taken, with one equation, sum(given) = sum(taken). HiGHS is several times slower on the
    form with a variable for each |u_i| and two inequalities per row. The costs are not divided by N: they would fall
    below the tolerances of HiGHS, which would stop short of the optimum.
    """
    n = len(losses)
    q = np.ones(n) if prior is None else prior / prior.mean()
    balance = csr_array(np.concatenate([np.ones(n), -np.ones(n)])[None])
    upper = np.concatenate([np.full(n, np.inf), q])
    cost = np.concatenate([gamma / 2 + losses, gamma / 2 - losses])
    result = _run(cost, A_eq=balance, b_eq=[0.0], bounds=np.column_stack([np.zeros(2 * n), upper]))
    return float(result.fun + losses @ q) / n, q + result.x[:n] - result.x[n:]


def solve_wasserstein(losses: Vector, budget: float) -> float:
    """Return v_MIX for a budget: the constrained problem in the proof of the Proposition."""
    n = len(losses)
    cost = np.concatenate([losses, -losses])
    upper = np.concatenate([np.full(n, np.inf), np.ones(n)])
    change = csr_array(np.ones((1, 2 * n)))
    result = _run(cost, A_ub=change, b_ub=[budget * n], bounds=np.column_stack([np.zeros(2 * n), upper]))
    return float(result.fun + losses.sum()) / n


def _run(cost: Vector, **constraints: object) -> OptimizeResult:
    result = linprog(cost, method="highs", **constraints)
    if not result.success:
        raise RuntimeError(f"HiGHS found no optimum: {result.message}")
    return result
