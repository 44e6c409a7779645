"""The commands, one a file, the folder of a run, and the files in it."""
