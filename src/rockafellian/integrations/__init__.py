"""RRM in other frameworks; each file needs the extra of its name."""
