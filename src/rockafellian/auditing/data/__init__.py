"""Data as they come and go: files, folders and frames, label columns, settings."""
