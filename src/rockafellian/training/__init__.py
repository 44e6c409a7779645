"""fit(): Algorithm 1 of the paper, and what it needs."""
