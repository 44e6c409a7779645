"""rockafellian beside its rivals: same networks, same wrong labels, same epochs.

make rivals        trains what is not recorded yet and writes docs/rivals.md
"""
