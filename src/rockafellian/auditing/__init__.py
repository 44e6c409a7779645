"""Your own data: read them, train on them, list the label issues, review them."""
