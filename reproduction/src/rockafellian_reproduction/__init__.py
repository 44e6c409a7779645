"""The paper's own settings and data."""
