"""From prepared data to a trained classifier and its findings."""
