"""Files, folders and frames; their label column; what a user may set."""
