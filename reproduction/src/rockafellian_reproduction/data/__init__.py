"""Data sets and encoders of the paper: where they come from, how they are fetched, checked and read."""
