"""Your own data: read, train, list label issues, review."""
