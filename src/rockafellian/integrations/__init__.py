"""RRM in the frameworks people already use, one file each; each needs the extra of its name."""
