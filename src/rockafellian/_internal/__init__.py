"""What the rest is built on, and what knows nothing of the method: validation, selection, communication, files."""
