"""The classifier of an audit: prepared data, network, training, noise rate."""
