"""The paper's method: pure functions of one vector of losses, and of predictions."""
