"""The page to review label issues on: a function of its contents."""
