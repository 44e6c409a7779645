"""RRM and other methods for label noise: the same networks, the same mislabeled rows, the same epochs.

make rivals        trains what has no record yet and writes docs/rivals.md
"""
